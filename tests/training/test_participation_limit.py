"""The limit on participations that follows their mean (DESIGN §4, removal)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oort
from oort.clients.columns import REMOVED
from oort.errors import ConfigError


def play(selector: oort.training.selector.GuidedSelector, rounds: int, wanted: int) -> None:
    for _ in range(rounds):
        picked = selector.select_participant(wanted)
        numbers = np.array(picked, np.int64)
        utility = np.where(numbers % 100 == 0, 1000.0, 1.0 + numbers / 1000)
        selector.update_clients(picked, utility=utility, duration_s=1.0)


def job(clients: int, **settings: object) -> oort.training.selector.GuidedSelector:
    selector = oort.create_training_selector({"seed": 1, **settings})
    selector.register_clients(range(clients))
    return selector


def test_favourites_leave_exploitation_after_twenty_rounds_in_a_large_job() -> None:
    most = {}
    for limit in ("auto", None):
        selector = job(1_000, max_participations=limit, exploration={"start": 0.2})
        worth = np.arange(1_000.0)
        selector.update_clients(range(1_000), utility=worth, duration_s=1.0)
        for _ in range(60):
            picked = selector.select_participant(40)
            told = worth[np.array(picked, np.int64)]
            selector.update_clients(picked, utility=told, duration_s=1.0)
        most[limit] = int(selector.columns().participations.max())
    assert most["auto"] <= 21
    assert most[None] > 22


def test_in_a_long_job_the_limit_rises_with_the_mean_and_nobody_stays_out() -> None:
    selector = job(20)
    play(selector, 300, 10)
    counts = selector.columns().participations
    assert counts.mean() == pytest.approx(150)
    assert counts.max() <= 2 * counts.mean() + 1
    assert len(selector.select_participant(20)) == 20


def test_marks_are_undone_when_the_mean_catches_up_and_made_when_newcomers_lower_it() -> None:
    selector = job(10)
    play(selector, 60, 5)  # a mean of 30: nobody is above 60
    table = selector._table
    assert not (table.flags & REMOVED).any()
    selector.register_clients(range(10, 500))
    selector.preview(5)
    over = table.participations > 20
    assert np.array_equal((table.flags & REMOVED) != 0, over)
    assert over.any()


def test_a_loaded_selector_has_the_same_limit(tmp_path: Path) -> None:
    selector = job(30)
    play(selector, 80, 10)
    selector.remove_clients([3])
    selector.save(tmp_path / "job.oort")
    again = oort.load_selector(tmp_path / "job.oort")
    for _ in range(10):
        assert again.select_participant(10) == selector.select_participant(10)
    assert again._table._limit == selector._table._limit
    assert again._table._total_participations == selector._table._total_participations


@pytest.mark.parametrize("wrong", ["none", 0, -1, 2.5, True, "10"])
def test_another_limit_is_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match=r"TrainingConfig\.max_participations"):
        oort.TrainingConfig(max_participations=wrong)  # type: ignore[arg-type]
