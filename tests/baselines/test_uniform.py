"""Uniform random selection."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

import oort
from oort.baselines import UniformSelector
from tests.support import fits


def test_everyone_is_picked_equally_often_whatever_they_report() -> None:
    selector = UniformSelector({"seed": 4})
    selector.register_clients(range(12))
    counts: Counter[oort.ClientId] = Counter()
    for _ in range(1500):
        picks = selector.select_participant(4)
        counts.update(picks)
        selector.update_clients(picks, utility=np.array(picks) ** 6.0, duration_s=1.0)
    assert fits([counts[c] for c in range(12)], np.ones(12))


def test_a_loaded_one_draws_what_the_saved_one_would_have(tmp_path: Path) -> None:
    selector = UniformSelector({"seed": 4})
    selector.register_clients(range(50))
    for _ in range(3):
        selector.update_clients(selector.select(5), utility=1.0)
    selector.save(tmp_path / "u.oort")
    again = UniformSelector.load(tmp_path / "u.oort")
    for _ in range(3):
        assert again.select_participant(9) == selector.select_participant(9)


def test_reports_are_not_kept_for_ever() -> None:
    selector = UniformSelector({"pacer": {"window": 1}})
    selector.register_clients(range(5))
    for _ in range(30):
        selector.update_clients(selector.select(2), utility=1.0)
    assert len(selector._book.unfolded) <= 3
