"""Engines call back from many threads: eight of them, at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import oort
from oort.baselines import RoundRobinSelector, UniformSelector
from oort.training.bookkeeping import BookkeepingSelector
from tests.support import new_selector

THREADS = 8
Make = Callable[[dict[str, Any]], BookkeepingSelector]


@pytest.fixture(autouse=True)
def _switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], Any]) -> list[Any]:
    """Run the work of eight threads that start at the same moment; what each gave or raised."""
    barrier = Barrier(THREADS)

    def run(number: int) -> Any:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return [future.result() for future in [pool.submit(run, i) for i in range(THREADS)]]


@pytest.mark.parametrize(
    "make", [oort.create_training_selector, UniformSelector, RoundRobinSelector]
)
def test_every_call_of_eight_threads_counts_exactly_once(make: Make, tmp_path: Path) -> None:
    selector = make({"pacer": {"window": 1000}})  # however late a thread's report comes
    selector.register_clients(range(200))
    rounds = 25

    def work(number: int) -> int:
        picked = 0
        for step in range(rounds):
            selection = selector.select(5)
            assert len(set(selection.participants)) == 5
            picked += 5
            selector.update_clients(
                selection, utility=1.0, duration_s=1.0, round_number=selection.round_number
            )
            selector.register_client(f"{number}-{step}")
            selector.mark_offline([f"{number}-{step}"])
            assert len(selector.preview(3)) == 3
            if step % 10 == 0:
                selector.save(tmp_path / f"{number}.oort")
                assert type(selector).load(tmp_path / f"{number}.oort").num_clients >= 200
        return picked

    picked = together(work)
    assert selector.round_number == THREADS * rounds
    assert selector.num_clients == 200 + THREADS * rounds
    assert int(selector.columns().participations.sum()) == sum(picked)


def test_top_ups_from_eight_threads_never_repeat_a_client_of_the_round() -> None:
    selector = new_selector(400)
    opened = selector.select(8)
    more = together(
        lambda _: [c for _ in range(7) for c in selector.select(7, round_number=1).participants]
    )
    everyone = [*opened, *(client for part in more for client in part)]
    assert len(everyone) == len(set(everyone)) == 400
    assert selector.round_number == 1


def test_a_repeat_from_eight_threads_is_applied_once() -> None:
    selector = new_selector(500)
    selector.select_participant(500)
    results = together(lambda _: selector.update_clients(np.arange(500), utility=1.0))
    assert sum(result.applied for result in results) == 500
    assert sum(result.repeated for result in results) == 500 * 7


def test_clients_joining_from_eight_threads_get_one_row_each() -> None:
    selector = oort.create_training_selector()
    together(lambda _: [selector.register_clients([i]) for i in range(300)])
    assert selector.num_clients == selector.num_rows == 300
    assert selector.rows(range(300)).tolist() == list(range(300))
