"""A full disk refuses the call, keeps what was, and takes calls again when there is space."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oort
from oort.errors import StoreUnavailableError
from oort.training.bookkeeping import BookkeepingSelector
from tests.store import histories
from tests.store.test_durable import read_back


def _fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 4096, 1):
            try:
                while file.write(b"x" * size):
                    pass
            except OSError:
                continue
    return ballast


@pytest.mark.parametrize("seed", range(4))
def test_a_full_disk_refuses_calls_and_recovers(small_disk: Path, seed: int) -> None:
    url = f"sqlite:///{small_disk}/jobs.db"
    twin = oort.create_training_selector(histories.CONFIG)
    store = oort.StoreConfig(snapshot_entries=15)
    with oort.open_selector(url, config=histories.CONFIG, store=store) as selector:
        refused = 0
        for start in (0, 20, 40):
            for step in range(start, start + 12):
                assert histories.play(selector, seed, step) == histories.play(twin, seed, step)
            ballast = _fill(small_disk)
            refused += _refused(selector, twin, f"{seed}-{start}")
            ballast.unlink()
            for step in range(start + 12, start + 20):
                assert histories.play(selector, seed, step) == histories.play(twin, seed, step)
            assert histories.state_of(read_back(url)) == histories.state_of(twin)
        assert refused == 3
    assert histories.state_of(read_back(url)) == histories.state_of(twin)


def _refused(selector: oort.DurableSelector, twin: BookkeepingSelector, name: str) -> bool:
    """Large calls until one is refused; the selector stays the twin's equal throughout."""
    for number in range(200):
        ids = [f"large-{name}-{number}-{i}" for i in range(3000)]
        try:
            selector.register_clients(ids, expected_duration_s=np.arange(3000.0))
        except StoreUnavailableError:
            return histories.state_of(selector) == histories.state_of(twin)
        twin.register_clients(ids, expected_duration_s=np.arange(3000.0))
    return False


def test_a_batch_refused_by_a_full_disk_happened_nowhere(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/jobs.db"
    with oort.open_selector(url) as selector:
        selector.register_clients(range(100))
        before = histories.state_of(selector)
        ballast = _fill(small_disk)
        with pytest.raises(StoreUnavailableError), selector.batch():  # noqa: PT012
            selector.select(10)
            selector.register_clients([f"client-{i}" for i in range(20_000)])
        assert histories.state_of(selector) == before
        ballast.unlink()
        assert histories.state_of(selector) == before
        assert selector.select(10).round_number == 1
    assert read_back(url).round_number == 1


def test_a_store_can_be_read_on_a_full_disk(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/jobs.db"
    with oort.open_selector(url) as selector:
        selector.register_clients(range(100))
        _fill(small_disk)
        assert read_back(url).num_clients == 100
