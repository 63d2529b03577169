"""What the published implementation gets wrong: one test for each flaw that docs/design.md lists.

The published code is SymbioticLab/Oort and FedScale's copy of it. Every test is named for what
happens there and shows that it does not happen here.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import oort
from oort.training.pacer import utility_fell
from tests.support import NO_EXPLORATION, heard_of, heavy_tailed, new_selector, scores_of


def test_the_first_round_with_no_feedback_at_all_does_not_crash() -> None:
    assert len(set(new_selector(10).select_participant(4))) == 4


@pytest.mark.parametrize("explored", [1, 2, 3, 10])
def test_fewer_explored_clients_than_the_exploitation_quota_do_not_crash(explored: int) -> None:
    selector = new_selector(40, exploration=NO_EXPLORATION)
    selector.update_clients(range(explored), utility=2.0, duration_s=1.0)
    selection = selector.select(10)
    assert len(set(selection.participants)) == 10
    assert sorted(map(int, selection.exploited)) == list(range(explored))
    assert len(selection.explored) == 10 - explored


def test_all_utilities_zero_do_not_crash() -> None:
    selector = heard_of(np.zeros(20), 1.0, exploration=NO_EXPLORATION)
    assert len(set(selector.select_participant(5))) == 5


def test_everybody_removed_does_not_crash() -> None:
    selector = heard_of(np.ones(6), 1.0, max_participations=1)
    for _ in range(5):
        assert len(set(selector.select_participant(4))) == 4


def test_an_empty_feasible_set_does_not_crash() -> None:
    selector = heard_of(np.ones(6), 1.0)
    nobody = np.zeros(selector.num_rows, np.bool_)
    assert selector.select_participant(3, among=nobody) == []
    assert selector.select_participant(3, among=[]) == []
    selector.mark_offline()
    assert selector.select_participant(3) == []
    assert selector.round_number == 0


@pytest.mark.parametrize("heard", [0, 3, 7])
def test_asking_for_more_than_there_are_ends_and_gives_everyone_once(heard: int) -> None:
    selector = new_selector(7)
    selector.update_clients(range(heard), utility=1.0, duration_s=1.0)
    assert sorted(map(int, selector.select_participant(1000))) == list(range(7))


def test_there_are_no_duplicates_and_no_short_lists_once_nothing_is_left_to_explore() -> None:
    selector = new_selector(30)
    for _ in range(20):
        picks = selector.select_participant(25)
        assert len(picks) == len(set(picks)) == 25
        selector.update_clients(picks, utility=1.0, duration_s=2.0)


def test_one_nan_costs_one_report_and_not_the_round() -> None:
    selector = new_selector(5, exploration=NO_EXPLORATION)
    result = selector.update_clients(
        range(5), utility=[1.0, 2.0, float("nan"), 4.0, 5.0], duration_s=1.0
    )
    assert result.applied == 4
    assert [r.client for r in result.rejected] == [2]
    selection = selector.select(5)
    assert set(selection.exploited) == {0, 1, 3, 4}
    assert all(np.isfinite(pick.score) for pick in selection.why)


def test_string_ids_are_selected_reported_and_removed_like_any_other() -> None:
    ids = [f"phone-{i}" for i in range(6)]
    selector = oort.create_training_selector({"max_participations": 2})
    selector.register_clients(ids)
    for _ in range(3):
        picks = selector.select_participant(6)
        assert sorted(map(str, picks)) == ids
        selector.update_clients(picks, utility=3.0, duration_s=1.0)
    worn_out = selector.select(6)
    assert sorted(map(str, worn_out.filled)) == ids, "selected 3 > 2 times: none is exploited"


def test_feedback_for_an_unknown_client_is_not_a_key_error_but_registers_it() -> None:
    selector = new_selector(2)
    selector.update_client_util("stranger", oort.Feedback(utility=5.0, duration_s=1.0))
    assert selector.num_clients == 3
    assert "stranger" in selector.select_participant(3)


def test_constructing_and_using_a_selector_leaves_global_random_state_alone() -> None:
    python, legacy = random.getstate(), _legacy_state()
    selector = heard_of(np.ones(50), 1.0, seed=233)
    selector.select_participant(10)
    assert random.getstate() == python
    assert _legacy_state() == legacy


def _legacy_state() -> tuple[Any, ...]:
    state: Any = np.random.get_state()  # noqa: NPY002
    return (state[0], state[1].tolist(), *state[2:])


def test_the_pacer_does_not_relax_when_utility_is_flat_but_when_it_falls() -> None:
    flat = dict.fromkeys(range(8), (10.0, 2))
    assert not utility_fell(flat, round_number=8, window=4)
    falling = {**flat, 7: (9.0, 2)}
    assert utility_fell(falling, round_number=8, window=4)

    def patience(last_utility: float) -> float:
        selector = new_selector(100, pacer={"window": 2}, exploration=NO_EXPLORATION)
        selector.update_clients(range(100), utility=5.0, duration_s=np.arange(1.0, 101.0))
        for _ in range(4):
            selection = selector.select(5)
            utility = last_utility if selection.round_number == 3 else 5.0
            selector.update_clients(selection, utility=utility)
        return selector.select(5).preferred_s

    assert patience(4.0) > patience(5.0) == patience(5.1)


def test_the_preferred_duration_is_a_quantile_of_explored_clients_not_of_all_registered() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(range(1000), expected_duration_s=1.0)
    selector.register_clients(range(1000, 1020))
    selector.update_clients(range(1000, 1020), utility=1.0, duration_s=np.arange(100.0, 120.0))
    assert 100.0 <= selector.select(10).preferred_s < 120.0


def test_the_cutoff_is_taken_at_the_kth_score_and_not_beside_it() -> None:
    # Scores are 0, 0.1, …, 1: the third best is 0.8, its neighbours 0.7 and 0.9.
    selector = heard_of(np.arange(11.0), 1.0, exploration=NO_EXPLORATION, clip_quantile=1.0)
    selection = selector.select(3)
    assert selection.cutoff == pytest.approx(0.95 * 0.8)
    assert selection.pool_size == 3
    assert set(selection.participants) == {8, 9, 10}


def test_the_range_is_taken_after_clipping_so_that_an_outlier_does_not_flatten_the_rest() -> None:
    utility, duration_s = heavy_tailed(100)
    honest = scores_of(heard_of(utility, duration_s, exploration=NO_EXPLORATION).select(100))
    utility[int(np.argmax(utility))] = 1e9
    fooled = scores_of(heard_of(utility, duration_s, exploration=NO_EXPLORATION).select(100))
    assert fooled == honest


def test_stragglers_get_no_invented_utility() -> None:
    selector = new_selector(4)
    selector.select_participant(4)
    selector.update_clients([0, 1], utility=2.0, duration_s=1.0)
    selector.update_clients([2], outcome="failed", duration_s=90.0)
    selector.update_clients([3], outcome="unused", duration_s=90.0)
    assert selector.columns([2, 3]).utility.tolist() == [0.0, 0.0]
    selection = selector.select(4)
    assert set(selection.exploited) == {0, 1}
    assert selection.filled == [2]
    assert selection.explored == [3]


def test_utility_covers_every_batch_and_not_only_the_last() -> None:
    batches = [[4.0, 4.0], [3.0, 5.0], [0.1]]
    meter = oort.LossMeter()
    for batch in batches:
        meter.update(batch)
    every = [loss for batch in batches for loss in batch]
    assert meter.utility == pytest.approx(oort.loss_utility(every))
    assert meter.utility == pytest.approx(5 * np.sqrt(np.mean(np.square(every))))
    assert meter.utility > oort.loss_utility(batches[-1])
