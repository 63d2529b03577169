"""What makes large tables fast changes no pick, and its cost grows as it should."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oort
from oort import kernels
from oort.clients import statistics, table
from oort.clients.columns import stored
from oort.kernels import arrays, draws
from oort.training import candidates, scoring
from oort.training.candidates import Yardstick, highest_possible
from oort.training.selector import GuidedSelector
from oort.training.utility import Scale, scaled_utility, slowness_penalty
from tests.support import new_selector

PACKAGE = str(Path(oort.__file__).parent)
FAST = {"many_rows": 1, "fewest": 64, "per_pick": 2}
PLAIN = {"many_rows": 10**9, "fewest": 64, "per_pick": 2}


def arrange(patch: pytest.MonkeyPatch, *, many_rows: int, fewest: int, per_pick: int) -> None:
    """Turn the memory of candidates on or off, for tables of any size."""
    patch.setattr(scoring, "MANY_ROWS", many_rows)
    patch.setattr(candidates, "_FEWEST", fewest)
    patch.setattr(candidates, "_PER_PICK", per_pick)


def play(selector: GuidedSelector, seed: int, clients: int, rounds: int) -> list[Any]:
    """A history with everything in it: late, failed and unused reports, leaving, coming back."""
    random = np.random.default_rng(seed)
    selector.register_clients(range(clients), expected_duration_s=random.lognormal(3, 1, clients))
    log: list[Any] = []
    for number in range(1, rounds + 1):
        wanted = int(random.integers(1, 40))
        mask = random.random(selector.num_rows) < random.choice([0.05, 0.6, 1.0])
        selection = selector.select(wanted, among=mask)
        log.append((selection.participants, selection.preferred_s, repr(selection.cutoff)))
        rows = selector.rows(selection.participants)
        selector.update_clients(
            rows,
            utility=random.lognormal(3 - number / 40, 1, len(rows)),
            duration_s=random.lognormal(3, 1, len(rows)),
            outcome=random.choice(["completed", "failed", "unused"], len(rows), p=[0.8, 0.1, 0.1]),
        )
        away = random.integers(0, clients, 3)
        if number % 5 == 0:
            selector.remove_clients(away)
        if number % 7 == 0:
            selector.mark_offline(away)
            selector.register_clients(random.integers(0, clients, 3))
        if number % 11 == 0:
            selector.forget(away[:1])
            selector.mark_online()
    return log


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), limit=st.sampled_from([None, 2]))
def test_remembered_candidates_change_no_pick(seed: int, limit: int | None) -> None:
    logs = []
    for arrangement in (PLAIN, FAST):
        with pytest.MonkeyPatch.context() as patch:
            arrange(patch, **arrangement)
            config = oort.TrainingConfig(seed=seed, max_participations=limit)
            logs.append(play(GuidedSelector(config), seed, clients=600, rounds=45))
    assert logs[0] == logs[1]


def test_remembered_candidates_spare_most_full_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    arrange(monkeypatch, many_rows=1, fewest=2048, per_pick=16)
    selector, random = GuidedSelector(), np.random.default_rng(1)
    clients = 50_000
    selector.register_clients(range(clients))
    selector.update_clients(
        range(clients), utility=random.lognormal(3, 1, clients), duration_s=20.0
    )
    for _ in range(60):
        picked = selector.select_participant(50)
        selector.update_clients(picked, utility=random.lognormal(2, 1, 50), duration_s=20.0)
    assert selector._candidates.full_passes <= 10


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nobody_whose_columns_did_not_change_rises_above_the_bound(seed: int) -> None:
    random = np.random.default_rng(seed)
    utility = random.lognormal(2, 1.5, 500).astype(np.float32)
    duration_s = random.lognormal(3, 1, 500).astype(np.float32)
    heard = random.integers(1, 50, 500)

    def yardstick() -> Yardstick:
        low = float(utility.min()) * float(random.choice([1.0, 0.9]))
        cap = float(np.quantile(utility, random.random()))
        preferred_s = float(random.choice([random.lognormal(3, 1), np.inf]))
        uncertainty = float(np.float32(random.choice([0.0, random.random()])))
        return Yardstick(Scale.between(low, max(cap, low)), uncertainty, preferred_s)

    def scores(by: Yardstick) -> Any:
        bonus = np.sqrt(np.float32(by.uncertainty) / heard.astype(np.float32))
        speed = slowness_penalty(duration_s, preferred_s=by.preferred_s, alpha=2.0)
        return (scaled_utility(utility, by.scale) + bonus) * speed

    then, now = yardstick(), yardstick()
    before, after = scores(then), scores(now)
    below = float(np.quantile(before, random.random()))
    others = before < below
    bound = highest_possible(below, then, now)
    assert not others.any() or np.isnan(bound) or float(after[others].max()) <= bound


@pytest.mark.parametrize("alpha", [2.0, 100.0, 1e3, 1e5])
def test_the_bound_allows_for_rounding_however_high_it_is_raised(alpha: float) -> None:
    scale, random = Scale.between(0.0, 1.0), np.random.default_rng(int(alpha))
    for _ in range(200):
        then_s = random.lognormal(3, 1)
        now_s = then_s * (1 + random.random() * 3 / alpha)
        duration_s = (now_s * (1 + random.random(500) * 3 / alpha)).astype(np.float32)
        before = slowness_penalty(duration_s, preferred_s=then_s, alpha=alpha)
        after = slowness_penalty(duration_s, preferred_s=now_s, alpha=alpha)
        below = float(np.quantile(before, 0.9))
        then, now = (Yardstick(scale, 0.0, s, alpha) for s in (then_s, now_s))
        assert float(after[before < below].max()) <= highest_possible(below, then, now)


@settings(max_examples=200, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    alpha=st.sampled_from([0.001, 0.01, 0.1, 0.5, 2.0]),
    uncertainty=st.sampled_from([0.0, 0.3, 1e20]),
    longer=st.sampled_from([1.0, 1.001, 10.0, 1e20]),
)
def test_the_bound_allows_for_speeds_that_were_too_small_for_a_float(
    seed: int, alpha: float, uncertainty: float, longer: float
) -> None:
    random = np.random.default_rng(seed)
    duration_s = stored(10.0 ** random.uniform(-30, 30, 300))
    bonus = np.sqrt(np.float32(uncertainty) / random.integers(1, 50, 300).astype(np.float32))
    then_s = float(10.0 ** random.uniform(-30, 10))

    def scores(preferred_s: float) -> Any:
        speed = slowness_penalty(duration_s, preferred_s=preferred_s, alpha=alpha)
        return (np.float32(1) + bonus) * speed

    before, after = scores(then_s), scores(then_s * longer)
    then, now = (
        Yardstick(Scale.between(0.0, 0.0), float(np.float32(uncertainty)), s, alpha)
        for s in (then_s, then_s * longer)
    )
    for below in np.unique(before)[1::20]:
        bound = highest_possible(float(below), then, now)
        assert float(after[before < below].max()) <= bound


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(0, 2.0**100, width=32), min_size=1, max_size=60),
    level=st.floats(0, 1),
    leave=st.integers(0, 59),
)
def test_a_histogram_answers_the_exact_order_statistic_rounded_by_its_bucket(
    values: list[float], level: float, leave: int
) -> None:
    array = stored(np.array(values))
    histogram = statistics.Histogram()
    histogram.change(array, +1)
    kept = np.delete(array, leave) if leave < array.size - 1 else array
    if kept.size < array.size:
        histogram.change(array[leave : leave + 1], -1)
    exact = arrays.lower_quantile(kept, level)
    assert histogram.quantile(level) == statistics.rounded_up(exact)
    assert histogram.lowest() == statistics.rounded_down(float(kept.min()))
    assert exact <= histogram.quantile(level) <= exact * 1.0005


def test_negative_zeros_are_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (statistics, table):
        monkeypatch.setattr(module, "EXACT_ROWS", 1)
    selector = GuidedSelector()
    selector.register_clients(range(5), expected_duration_s=-0.0)
    selector.select(2)
    selector.update_clients(range(5), utility=-0.0, duration_s=-0.0)
    assert len(selector.select_participant(5)) == 5
    assert selector._table.statistics.utility_range(0.95)[0] == 0.0


def test_statistics_kept_row_by_row_equal_those_taken_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (statistics, table):
        monkeypatch.setattr(module, "EXACT_ROWS", 10)
    selector = GuidedSelector({"seed": 3})
    play(selector, 3, clients=300, rounds=40)
    kept, anew = selector._table.statistics, table.Statistics(selector._table)
    assert kept.incremental
    assert kept is not anew
    for level in (0.0, 0.3, 0.95, 1.0):
        assert kept.utility_range(level) == anew.utility_range(level)
        assert kept.explored_duration_s(level) == anew.explored_duration_s(level)
    assert kept.expected_duration_s() == anew.expected_duration_s()
    assert kept.num_untried == anew.num_untried
    assert (kept._utility.fine == anew._utility.fine).all()


@pytest.mark.parametrize("clients", [9_000, 40_000])
def test_numpy_and_numba_pick_the_same_clients(
    clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="compiled kernels need the extra 'fast'")
    logs = []
    for fast in (None, kernels.fast_kernels()):
        monkeypatch.setattr(kernels, "compiled_for", lambda num_rows, fast=fast: fast)
        logs.append(play(GuidedSelector({"seed": 5}), 5, clients=clients, rounds=30))
    assert logs[0] == logs[1]


class Work:
    """Rows that one round looked at, by whatever way."""

    def __init__(self) -> None:
        self.rows = 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Count every row that is scored, proposed, raced or moved in a histogram."""
    counted = Work()

    def count(owner: Any, name: str, size: Any) -> None:
        original = getattr(owner, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            counted.rows += size(*arguments)
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, counting)

    monkeypatch.setattr(kernels, "compiled_for", lambda num_rows: None)
    count(scoring.Known, "parts", lambda known: known.worth.size)
    count(draws, "race", lambda names, *rest: names.size)
    count(draws, "_proposed", lambda weight, size, *rest: min(size, 1024))
    count(statistics.Histogram, "change", lambda histogram, values, by: values.size)
    count(arrays, "lower_quantile", lambda values, level: values.size)
    return counted


def rows_per_round(work: Work, clients: int, rounds: int) -> list[int]:
    """Rows looked at in each round of a job in which everyone has reported once."""
    selector, random = GuidedSelector(), np.random.default_rng(clients)
    selector.register_clients(range(clients))
    selector.update_clients(
        range(clients), utility=random.lognormal(3, 1, clients), duration_s=20.0
    )
    selector.select(50)
    per_round = []
    for _ in range(rounds):
        work.rows = 0
        picked = selector.select_participant(50)
        selector.update_clients(picked, utility=random.lognormal(2, 1, 50), duration_s=20.0)
        per_round.append(work.rows)
    return per_round


def test_the_cost_of_a_round_grows_no_faster_than_the_number_of_clients(work: Work) -> None:
    cost = {n: max(rows_per_round(work, n, 5)) for n in (2_000, 16_000, 128_000)}
    for clients, rows in cost.items():
        assert rows <= 6 * clients, cost
    usual = np.median(rows_per_round(work, 128_000, 40))
    assert usual <= 0.25 * 128_000, "most rounds look at few rows"


def test_the_cost_of_a_round_does_not_grow_with_the_rounds_before_it(work: Work) -> None:
    rows = rows_per_round(work, 5_000, 250)
    assert np.mean(rows[-100:]) <= 1.1 * np.mean(rows[20:120])


class Steps:
    """Lines of ours that are run: what a loop does shows, in whatever place it is."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Steps:
        self._before = sys.gettrace()
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        self.count += event == "line"
        return self._trace


def steps_and_bytes(clients: int, rounds: int) -> tuple[list[int], list[int]]:
    """Lines run, and the most memory taken besides, in each round of a job."""
    selector, random = GuidedSelector(), np.random.default_rng(clients)
    selector.register_clients(range(clients))
    selector.update_clients(range(clients), utility=random.lognormal(3, 1, clients))
    steps, memory = [], []
    for _ in range(rounds):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        with Steps() as counted:
            picked = selector.select_participant(20)
            selector.update_clients(picked, utility=random.lognormal(2, 1, 20), duration_s=20.0)
        steps.append(counted.count)
        memory.append(tracemalloc.get_traced_memory()[1] - before)
    return steps, memory


@pytest.mark.parametrize("clients", [500, 5_000])
def test_no_loop_and_no_array_of_a_round_grows_with_the_rounds_before_it(clients: int) -> None:
    tracemalloc.start()
    try:
        for counts in steps_and_bytes(clients, 320):
            assert np.median(counts[-60:]) <= 1.1 * np.median(counts[60:120])
    finally:
        tracemalloc.stop()


def test_the_work_of_compiled_code_grows_no_faster_than_the_number_of_clients() -> None:
    """Numba leaves its functions as they are where it is told to: so their lines count too."""
    pytest.importorskip("numba", reason="compiled kernels need the extra 'fast'")
    code = f"from {__name__} import print_steps; print_steps()"
    told = {**os.environ, "OORT_KERNELS": "numba", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    printed = subprocess.run(command, env=told, capture_output=True, text=True, check=True).stdout
    few, more, most = (steps for _, steps in json.loads(printed))
    per_client = [(more - few) / 5_000, (most - more) / 22_000]
    assert 5 < per_client[0] < 60, "the lines of compiled code were counted"
    assert per_client[1] <= 1.05 * per_client[0]


def print_steps() -> None:
    """The lines that a round takes, by the number of clients."""
    found = []
    for clients in (5_000, 10_000, 32_000):
        selector, random = GuidedSelector(), np.random.default_rng(clients)
        selector.register_clients(range(clients))
        known = 3 * clients // 4
        selector.update_clients(
            range(known), utility=random.lognormal(3, 1, known), duration_s=20.0
        )
        selector.select(50)
        rounds = []
        for _ in range(3):
            with Steps() as counted:
                picked = selector.select_participant(50)
                selector.update_clients(picked, utility=random.lognormal(2, 1, 50))
            rounds.append(counted.count)
        found.append((clients, sorted(rounds)[1]))
    print(json.dumps(found))  # noqa: T201


def test_what_is_remembered_of_rounds_does_not_grow() -> None:
    selector = GuidedSelector({"pacer": {"window": 5}})
    selector.register_clients(range(100))
    for _ in range(60):
        selector.update_clients(selector.select_participant(10), utility=1.0, duration_s=1.0)
    book = selector._book
    assert len(book.selected) <= 11
    assert len(book.received) <= 11
    assert len(book.history) <= 11
    assert len(book.unfolded) <= 1


def most_bytes(action: Callable[[], Any]) -> tuple[Any, int]:
    """What an action gives, and the most memory that it took."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    given = action()
    return given, tracemalloc.get_traced_memory()[1] - before


@pytest.mark.parametrize("step", [1, 7919], ids=["consecutive", "others"])
def test_a_client_with_an_integer_id_takes_few_bytes_in_whatever_is_done(
    step: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_CHUNK", 1 << 14)  # small parts, as of a hundred million
    clients, fixed = 400_000, 8_000_000  # histograms, and what NumPy holds for itself
    ids, path = np.arange(clients) * step, tmp_path / "job.oort"
    selector = GuidedSelector()
    new_selector(40_000).select(100)  # so that whatever is imported is
    tracemalloc.start()
    try:
        rows, registered = most_bytes(lambda: selector.register_clients(ids))
        del rows
        _, selected = most_bytes(lambda: selector.select(100))
        held = tracemalloc.get_traced_memory()[0]
        _, saved = most_bytes(lambda: selector.save(path))
        _, loaded = most_bytes(lambda: oort.load_selector(path))
    finally:
        tracemalloc.stop()
    assert held <= 40 * clients + fixed, "columns of 19 bytes, an index of at most 20"
    for most in (registered, held + selected, held + saved, loaded):
        assert most <= 62 * clients + fixed


def test_the_index_takes_at_most_twenty_bytes_besides_the_ids_themselves() -> None:
    names = [f"device-{number:09d}" for number in range(200_000)]
    selector = GuidedSelector()
    tracemalloc.start()
    try:
        selector.register_clients(names)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    text = sum(map(len, names))
    assert held <= (19 + 20) * len(names) + text + 1_000_000
