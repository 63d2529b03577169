"""Algorithm 1 through the public API, by the rows of the table in docs/design.md.

states, clipping, staleness, speed, fairness, cut-off, exploration, pacer, removal, kill switch,
any k: a test's name says what holds, the comments say which row it belongs to. The rows on
outcomes, rounds, bad input and erasure are in ``test_bookkeeping`` and ``test_feedback``.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import oort
from oort.types import ClientColumns, Floats
from tests.support import (
    NO_EXPLORATION,
    ONLY_EXPLORATION,
    exploring,
    heard_of,
    heavy_tailed,
    new_selector,
    participations,
    scores_of,
)

# Row "states"


def test_a_client_never_selected_and_never_heard_of_is_untried() -> None:
    selection = new_selector(5).select(5)
    assert set(selection.explored) == set(range(5))
    assert not selection.exploited
    assert not selection.filled


def test_a_client_with_a_utility_is_explored_even_if_it_was_never_selected() -> None:
    selection = heard_of(np.ones(4), 1.0).select(4)
    assert set(selection.exploited) == set(range(4))


def test_a_client_selected_but_not_heard_of_is_pending_and_only_fills_up() -> None:
    selector = new_selector(6)
    waiting = selector.select_participant(3)
    rest = [c for c in range(6) if c not in waiting]
    assert sorted(map(int, selector.select_participant(3))) == rest
    selector.update_clients(rest, utility=0.0, duration_s=1.0)
    selection = selector.select(5)
    assert set(selection.exploited) == set(rest)
    assert len(selection.filled) == 2
    assert set(selection.filled) <= set(waiting)


def test_participations_count_at_selection_and_a_report_adds_none() -> None:
    selector = new_selector(3)
    selector.select_participant(3)
    assert participations(selector, range(3)) == [1, 1, 1]
    selector.update_clients(range(3), utility=1.0, duration_s=1.0)
    assert participations(selector, range(3)) == [1, 1, 1]


def test_a_report_without_a_selection_counts_one_participation() -> None:
    selector = heard_of([1.0, 2.0], 1.0)
    assert participations(selector, [0, 1]) == [1, 1]


# Row "clipping"


def test_utility_is_capped_at_the_95th_percentile_and_scaled_to_between_0_and_1() -> None:
    utility = np.arange(101.0)  # the 95th percentile is 95 exactly
    selection = heard_of(utility, 1.0, exploration=NO_EXPLORATION).select(101)
    for pick in selection.why:
        assert pick.utility == pytest.approx(min(int(pick.client), 95) / 95, rel=1e-6)


def test_equal_utilities_are_all_worth_1() -> None:
    selection = heard_of(np.full(9, 7.25), 1.0, exploration=NO_EXPLORATION).select(9)
    assert {pick.utility for pick in selection.why} == {1.0}


def test_the_percentile_is_of_the_explored_and_not_of_who_is_online() -> None:
    utility = np.arange(101.0)
    selector = heard_of(utility, 1.0, exploration=NO_EXPLORATION)
    selector.mark_offline(range(50, 101))
    selection = selector.select(50)
    assert max(pick.utility for pick in selection.why) == pytest.approx(49 / 95)


def test_utilities_that_differ_by_next_to_nothing_give_finite_scores() -> None:
    utility = np.array([0.0, 1e-45, 1e-44, 1e-43, 1e-40, 1e-39])
    selection = heard_of(utility, 1.0, exploration=NO_EXPLORATION).select(6)
    assert all(math.isfinite(pick.score) for pick in selection.why)


# Row "staleness"


def test_the_staleness_bonus_is_the_root_of_a_tenth_of_ln_r_over_l() -> None:
    selector = new_selector(3, exploration=NO_EXPLORATION)
    for number in (1, 2, 3):
        selector.select(1, among=[number - 1])
        selector.update_clients([number - 1], utility=1.0, duration_s=1.0)
    bonus = {pick.client: pick.staleness for pick in selector.select(3).why}
    for client in range(3):
        assert bonus[client] == pytest.approx(math.sqrt(0.1 * math.log(4) / (client + 1)))


def test_a_client_heard_of_before_the_first_round_has_l_1() -> None:
    selector = heard_of(np.ones(2), 1.0, exploration=NO_EXPLORATION)
    selector.select_participant(1)
    bonus = [pick.staleness for pick in selector.select(2).why]
    assert bonus == pytest.approx([math.sqrt(0.1 * math.log(2))] * 2)


# Row "speed"


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0, 3.0])
def test_clients_slower_than_preferred_lose_by_the_ratio_to_the_power_alpha(alpha: float) -> None:
    duration_s = np.array([1.0, 9.9, 10.0, 10.1, 20.0, 1000.0])
    selector = heard_of(
        np.ones(6),
        duration_s,
        alpha=alpha,
        exploration=NO_EXPLORATION,
        pacer={"preferred_s": 10.0},
    )
    for pick in selector.select(6).why:
        expected = min(1.0, 10.0 / duration_s[int(pick.client)]) ** alpha
        assert pick.speed == pytest.approx(expected, rel=1e-5)
        assert pick.score == pytest.approx(expected, rel=1e-5)


def test_with_infinite_alpha_whoever_is_known_or_hinted_to_be_slower_than_t_is_out() -> None:
    selector = oort.create_training_selector({"alpha": "inf", "pacer": {"preferred_s": 10.0}})
    selector.register_clients(["hinted fast", "hinted slow"], expected_duration_s=[10.0, 10.1])
    selector.update_clients(["fast", "slow"], utility=1.0, duration_s=[5.0, 11.0])
    selector.register_client("unknown")
    picks = selector.select_participant(10)
    assert set(picks) == {"hinted fast", "fast", "unknown"}, "shorter than asked for"


def test_with_infinite_alpha_and_everybody_too_slow_no_round_opens() -> None:
    selector = heard_of(np.ones(3), 20.0, alpha="inf", pacer={"preferred_s": 10.0})
    assert selector.select_participant(3) == []
    assert selector.round_number == 0


def test_a_client_of_unknown_duration_loses_nothing() -> None:
    selector = heard_of(np.ones(3), [1.0, None, 50.0], exploration=NO_EXPLORATION)
    speed = {pick.client: pick.speed for pick in selector.select(3).why}
    assert speed[1] == 1.0


# Row "fairness"


def test_fairness_is_blended_with_the_score_divided_by_its_maximum() -> None:
    selector = heard_of(
        [0.0, 1.0, 2.0, 4.0],
        1.0,
        exploration=NO_EXPLORATION,
        fairness_weight=0.25,
        clip_quantile=1.0,
    )
    for fewer in range(4):  # after these, client i has taken part 5 − i times
        selector.select(4, among=range(4 - fewer))
    selection = selector.select(4)
    parts = {int(pick.client): pick for pick in selection.why}
    raw = {c: p.utility + p.staleness for c, p in parts.items()}
    for client, pick in parts.items():
        assert pick.fairness == pytest.approx(client / 3)
        expected = 0.75 * raw[client] / max(raw.values()) + 0.25 * client / 3
        assert pick.score == pytest.approx(expected, rel=1e-5)


def test_without_fairness_the_score_is_not_divided_and_fairness_is_not_a_number() -> None:
    selector = heard_of([0.0, 1.0, 2.0, 4.0], 1.0, exploration=NO_EXPLORATION)
    selector.select_participant(1)
    selection = selector.select(4)
    assert all(math.isnan(pick.fairness) for pick in selection.why)
    assert max(pick.score for pick in selection.why) > 1.0


def test_with_fairness_1_only_participations_count() -> None:
    selector = heard_of([100.0, 1.0, 1.0], 1.0, fairness_weight=1.0, exploration=NO_EXPLORATION)
    for _ in range(5):
        selector.select(1, among=[0])
    for _ in range(10):
        assert selector.preview(2).participants != [0]
        assert set(selector.preview(2).participants) == {1, 2}


def test_with_fairness_1_everybody_takes_part_equally_often() -> None:
    utility, duration_s = heavy_tailed(30)
    selector = heard_of(utility, duration_s, fairness_weight=1.0, exploration=NO_EXPLORATION)
    for _ in range(60):
        selector.select_participant(10)
    counts = participations(selector, range(30))
    assert max(counts) - min(counts) <= 2


def test_equal_fairness_is_1_for_everybody() -> None:
    selector = heard_of(np.arange(4.0), 1.0, fairness_weight=0.5, exploration=NO_EXPLORATION)
    assert {pick.fairness for pick in selector.select(4).why} == {1.0}


def test_a_fairness_of_ones_own_may_be_negative_and_is_scaled_from_least_to_greatest() -> None:
    @oort.register_fairness("test: minus participations")
    def minus_participations(clients: ClientColumns) -> Floats:
        return -clients.participations  # type: ignore[return-value]

    selector = heard_of(
        np.ones(3),
        1.0,
        fairness="test: minus participations",
        fairness_weight=0.5,
        exploration=NO_EXPLORATION,
    )
    selector.select(2, among=[0, 1])
    selector.select(1, among=[0])
    fairness = {pick.client: pick.fairness for pick in selector.select(3).why}
    assert fairness == {0: 0.0, 1: 0.5, 2: 1.0}


# Row "cut-off"


def test_the_pool_is_everyone_with_095_of_the_kth_utility() -> None:
    utility = np.array([0.0, 0.5, 0.94, 0.951, 0.97, 1.0])
    selector = heard_of(utility, 1.0, exploration=NO_EXPLORATION, clip_quantile=1.0, staleness=0.0)
    selection = selector.select(1)
    assert selection.cutoff == pytest.approx(0.95)
    assert selection.pool_size == 3
    seen = {client for _ in range(60) for client in selector.select_participant(1)}
    assert seen == {3, 4, 5}


def test_exploitation_fills_the_pool_bar_with_its_own_share_of_k() -> None:
    selector = heard_of(np.linspace(0, 1, 100), 1.0, exploration=exploring(0.5), clip_quantile=1.0)
    selector.register_clients(range(100, 200))
    selection = selector.select(20)
    assert len(selection.exploited) == 10
    assert selection.cutoff == pytest.approx(0.95 * (90 / 99), rel=1e-6)


# Row "exploration"


def test_exploration_starts_at_09_falls_by_2_percent_a_round_and_stops_at_02() -> None:
    selector = new_selector(300)
    rates = [selector.select(1).epsilon for _ in range(120)]
    expected = [max(0.2, 0.9 * 0.98**n) for n in range(120)]
    assert rates == pytest.approx(expected)
    assert rates[-1] == 0.2


def test_what_exploration_cannot_fill_exploitation_does_and_the_other_way_round() -> None:
    few_untried = heard_of(np.ones(20), 1.0, exploration=ONLY_EXPLORATION)
    few_untried.register_clients(range(20, 23))
    selection = few_untried.select(10)
    assert set(selection.explored) == {20, 21, 22}
    assert len(selection.exploited) == 7
    few_explored = new_selector(20, exploration=NO_EXPLORATION)
    few_explored.update_clients(range(3), utility=1.0, duration_s=1.0)
    selection = few_explored.select(10)
    assert set(selection.exploited) == {0, 1, 2}
    assert len(selection.explored) == 7


def test_an_explored_picks_score_is_the_speed_that_its_draw_was_weighted_with() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(["a", "b", "c", "?"], expected_duration_s=[2.0, 4.0, 10.0, None])  # type: ignore[arg-type]
    scores = scores_of(selector.select(4))
    assert scores == pytest.approx({"a": 0.5, "b": 0.25, "c": 0.1, "?": 0.25}), "? has the median"


def test_clients_that_fill_up_are_drawn_evenly_whatever_their_speed() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(["slow", "fast"], expected_duration_s=[100.0, 0.001])
    selector.select_participant(2)
    assert scores_of(selector.select(2)) == {"slow": 1.0, "fast": 1.0}


# Row "pacer"


def test_before_any_report_the_preferred_duration_is_infinite() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(range(10), expected_duration_s=5.0)
    assert selector.select(3).preferred_s == math.inf


@pytest.mark.parametrize(
    ("wanted", "quantile"),
    [(1, 0.05), (2, 0.05), (5, 0.125), (20, 0.5), (40, 1.0), (100, 1.0)],
    ids=["least", "least again", "W·k/N", "half", "all", "W·k > N"],
)
@pytest.mark.parametrize("limit", [0.2, 1.0])
def test_t_starts_at_the_quantile_w_k_over_n_up_to_a_limit(
    wanted: int, quantile: float, limit: float
) -> None:
    duration_s = np.arange(1.0, 802.0)
    selector = heard_of(np.ones(801), duration_s, pacer={"largest_step": limit})
    selector.remove_clients([800])  # 800 registered; the rest have durations 1 … 800
    expected = 1.0 + math.floor(min(quantile, limit) * 799)
    assert selector.select(wanted).preferred_s == expected


def test_in_a_job_of_few_clients_the_slowest_are_still_too_slow() -> None:
    selector = heard_of(np.ones(100), np.arange(1.0, 101.0), exploration=NO_EXPLORATION)
    first = selector.select(13)
    assert first.preferred_s == 20.0  # twenty rounds of 13 would be more than everyone
    assert max(selector.rows(first)) < 30


def test_t_grows_one_step_every_w_rounds_while_utility_falls_from_round_2w_on() -> None:
    window = 5
    selector = heard_of(
        np.full(1000, 100.0),
        np.arange(1.0, 1001.0),
        pacer={"window": window},
        exploration=NO_EXPLORATION,
    )
    steps = []
    for number in range(1, 32):
        selection = selector.select(10)
        steps.append(round(selection.preferred_s / 50))  # each step is a quantile of 0.05
        selector.update_clients(selection, utility=100.0 - number)
    changes = [n for n in range(2, 32) if steps[n - 1] != steps[n - 2]]
    assert steps[0] == 1
    assert changes == [10, 15, 20, 25, 30]
    assert steps[-1] == 6


def test_topping_up_a_round_in_which_t_grew_does_not_let_it_grow_again() -> None:
    selector = heard_of(
        np.full(1000, 100.0),
        np.arange(1.0, 1001.0),
        pacer={"window": 2},
        exploration=NO_EXPLORATION,
    )
    seen = []
    for number in range(1, 9):
        selection = selector.select(5)
        seen.append(selection.preferred_s)
        for _ in range(2):
            more = selector.select(5, round_number=number)
            assert more.preferred_s == selection.preferred_s
        selector.update_clients(selection, utility=100.0 - number)
    assert seen[-1] > seen[0]


def test_t_stays_while_utility_rises_or_is_flat_or_nobody_reports() -> None:
    for change in (0.0, 1.0, None):
        selector = heard_of(
            np.full(100, 100.0), np.arange(1.0, 101.0), pacer={"window": 2}, clip_quantile=1.0
        )
        patience = set()
        for number in range(1, 12):
            selection = selector.select(1)
            patience.add(selection.preferred_s)
            if change is not None:
                selector.update_clients(selection, utility=100.0 + change * number)
        assert len(patience) == 1, change


def test_a_late_report_counts_for_the_round_it_trained_in() -> None:
    def patience(late_round: int) -> float:
        selector = heard_of(
            np.full(100, 10.0),
            np.arange(1.0, 101.0),
            pacer={"window": 2},
            exploration=NO_EXPLORATION,
            clip_quantile=1.0,
        )
        for _ in range(3):
            picks = selector.select_participant(2)
            selector.update_clients(picks[:1], utility=10.0)
        selector.update_clients(["late"], utility=30.0, duration_s=1.0, round_number=late_round)
        return selector.select(2).preferred_s

    # Before round 4 the windows are rounds 0–1 and 2–3.
    assert patience(late_round=1) > patience(late_round=3)


def test_a_window_without_reports_changes_nothing() -> None:
    selector = heard_of(np.full(50, 10.0), np.arange(1.0, 51.0), pacer={"window": 2})
    first = selector.select(1)
    selector.update_clients(first, utility=10.0)
    others = [selector.select(1).preferred_s for _ in range(8)]
    assert set(others) == {first.preferred_s}


def test_the_pacer_clips_reports_before_it_compares_them() -> None:
    # One report of 1e9 in the earlier window would make any later window look like a fall.
    selector = heard_of(
        np.full(100, 10.0), np.arange(1.0, 101.0), pacer={"window": 2}, exploration=NO_EXPLORATION
    )
    start = selector.preview(2).preferred_s
    for number in range(1, 5):
        picks = selector.select_participant(2)
        selector.update_clients(picks, utility=[1e9 if number == 1 else 10.0, 10.0])
    assert selector.select(2).preferred_s == start


def test_the_pacer_sees_a_fall_of_reports_whatever_the_scale_of_a_utility_of_ones_own() -> None:
    @oort.register_utility("test: one thousandth")
    def one_thousandth(clients: ClientColumns) -> Floats:
        return clients.utility / 1000.0

    selector = heard_of(
        np.full(100, 100.0),
        np.arange(1.0, 101.0),
        utility="test: one thousandth",
        pacer={"window": 2},
        exploration=NO_EXPLORATION,
    )
    seen = []
    for number in range(1, 6):
        selection = selector.select(2)
        seen.append(selection.preferred_s)
        selector.update_clients(selection, utility=100.0 - 10 * number)
    assert seen[-1] > seen[0]


def test_reports_still_count_for_the_pacer_when_nobody_who_made_them_is_left() -> None:
    selector = heard_of(np.full(40, 10.0), 1.0, pacer={"window": 2}, exploration=NO_EXPLORATION)
    for _ in range(3):
        selector.update_clients(selector.select(2), utility=10.0, duration_s=1.0)
    selector.remove_clients(range(40))
    # Nobody present has a utility now; were the reports clipped to nothing, this would be a fall.
    selector.register_clients(range(100, 140))
    selector.select_participant(2)
    selector.update_clients(range(100, 140), utility=10.0, duration_s=np.arange(1.0, 41.0))
    assert selector.round_number == 4, "where the pacer looked back"
    assert selector.preview(1).preferred_s == 2.0, "a quantile of 0.05, one step: no fall was seen"


def test_a_step_in_seconds_grows_t_by_that_many_seconds() -> None:
    selector = heard_of(np.full(60, 100.0), 1.0, pacer={"window": 2, "step_s": 7.5})
    seen = []
    for number in range(1, 9):
        selection = selector.select(5)
        seen.append(selection.preferred_s)
        selector.update_clients(selection, utility=50.0 - number)
    assert seen == [7.5, 7.5, 7.5, 15.0, 15.0, 22.5, 22.5, 30.0]


def test_a_fixed_t_stays() -> None:
    selector = heard_of(np.full(60, 100.0), 1.0, pacer={"window": 1, "preferred_s": 42.0})
    for number in range(1, 9):
        selection = selector.select(5)
        assert selection.preferred_s == 42.0
        selector.update_clients(selection, utility=50.0 - number)


# Row "removal"


def test_a_client_selected_too_often_leaves_exploitation_until_nothing_else_fills_k() -> None:
    selector = heard_of([9.0, 1.0, 1.0], 1.0, max_participations=3, exploration=NO_EXPLORATION)
    for _ in range(3):  # the report was the first participation: 4 > 3 after these
        selector.select(1, among=[0])
    assert participations(selector, [0]) == [4]
    selection = selector.select(2)
    assert set(selection.exploited) == {1, 2}
    selection = selector.select(3)
    assert selection.filled == [0]
    assert len(selection) == 3


def test_at_the_limit_a_client_still_takes_part() -> None:
    selector = heard_of([9.0, 1.0], 1.0, max_participations=3, exploration=NO_EXPLORATION)
    for _ in range(2):
        selector.select(1, among=[0])
    assert 0 in selector.select(2).exploited


def test_removed_clients_come_back_evenly() -> None:
    selector = heard_of(
        [1000.0, 1.0, 1.0, 1.0], [0.1, 9, 9, 9], max_participations=1, exploration=NO_EXPLORATION
    )
    for _ in range(2):
        selector.select_participant(4)
    for _ in range(400):
        selection = selector.select(1)
        assert selection.filled == selection.participants
    counts = np.array(participations(selector, range(4))) - 3
    assert counts.sum() == 400
    assert counts.min() > 70, "four clients, 400 picks, evenly"


def test_pending_clients_fill_before_removed_ones() -> None:
    selector = heard_of(np.ones(2), 1.0, max_participations=1, exploration=NO_EXPLORATION)
    selector.select_participant(2)
    selector.register_clients(["p", "q"])
    selector.select(2, among=["p", "q"])
    assert set(selector.select(2).filled) == {"p", "q"}
    assert selector.select(4).filled


def test_without_a_limit_nobody_is_ever_removed() -> None:
    selector = heard_of(np.ones(1), 1.0)
    for _ in range(100):
        assert selector.select(1).exploited == [0]


def test_the_papers_preset_removes_after_more_than_ten_selections() -> None:
    selector = oort.create_training_selector(oort.TrainingConfig.paper())
    selector.update_clients([0], utility=1.0, duration_s=1.0)
    how = [selector.select(1).why[0].how for _ in range(12)]
    assert how == ["exploited"] * 10 + ["filled"] * 2


def test_settings_that_cannot_last_say_so_before_the_first_round_opens() -> None:
    settings = {"max_participations": 10, "planned_rounds": 500}
    selector = new_selector(100, **settings)
    with pytest.warns(oort.ConfigWarning, match="100 clients × 10 is below 10 picks × 500"):
        selector.select_participant(10)
    strict = new_selector(100, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(oort.ConfigWarning):
            strict.select_participant(10)
    assert strict.round_number == 0, "raised, so nothing has happened"
    assert participations(strict, range(100)) == [0] * 100


def test_settings_that_can_last_warn_of_nothing() -> None:
    selector = new_selector(500, max_participations=10, planned_rounds=500)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert len(selector.select_participant(10)) == 10
    assert caught == []


# Row "kill switch"


def test_the_kill_switch_picks_at_random_with_the_same_bookkeeping() -> None:
    selector = heard_of(np.array([1000.0] + [1.0] * 19), 1.0, exploration=NO_EXPLORATION)
    selector.mode = "uniform"
    counts = np.zeros(20)
    for number in range(1, 401):
        selection = selector.select(5)
        assert selection.round_number == number
        assert selection.mode == "uniform"
        assert {pick.how for pick in selection.why} == {"uniform"}
        counts[np.array(selection.participants)] += 1
    assert counts.min() > 60, "100 each, evenly"
    assert counts.max() < 140
    assert participations(selector, range(20)) == [int(c) + 1 for c in counts]
    selector.mode = "guided"
    assert selector.select(5).mode == "guided"
    assert selector.round_number == 401


def test_an_unknown_mode_is_refused_and_changes_nothing() -> None:
    selector = new_selector(3)
    with pytest.raises(oort.InvalidArgumentError, match="mode must be 'guided' or 'uniform'"):
        selector.mode = "random"
    assert selector.mode == "guided"


# Row "any k"


@pytest.mark.parametrize("heard", [0, 1, 4, 12])
@pytest.mark.parametrize("wanted", [0, 1, 2, 11, 12, 13, 10**6, 2**63, 10**400])
def test_any_k_gives_that_many_or_everyone_distinct(wanted: int, heard: int) -> None:
    selector = new_selector(12)
    selector.update_clients(range(heard), utility=1.0, duration_s=1.0)
    picks = selector.select_participant(wanted)
    assert len(picks) == len(set(picks)) == min(wanted, 12)
    assert selector.round_number == (wanted > 0)


@pytest.mark.parametrize("wrong", [-1, 1.0, 1.5, True, None, "3", [3], float("nan")])
def test_a_k_that_is_no_whole_number_is_refused(wrong: object) -> None:
    selector = new_selector(3)
    for call in (selector.select, selector.select_participant, selector.preview):
        with pytest.raises(oort.InvalidArgumentError, match=r"num_participants must be a whole"):
            call(wrong)  # type: ignore[arg-type]
    assert selector.round_number == 0


def test_a_numpy_integer_is_a_k() -> None:
    assert len(new_selector(5).select_participant(np.int64(3))) == 3  # type: ignore[arg-type]


def test_one_client_alone_is_picked_round_after_round() -> None:
    selector = new_selector(1)
    for _ in range(50):
        assert selector.select_participant(1) == [0]
        selector.update_clients([0], utility=1.0, duration_s=1.0)


@pytest.mark.parametrize("duration_s", [None, 0.0, 5.0, 1e30, 1e-30], ids=str)
def test_durations_all_unknown_zero_equal_or_extreme_are_no_trouble(
    duration_s: float | None,
) -> None:
    selector = oort.create_training_selector()
    selector.register_clients(range(20), expected_duration_s=duration_s)
    for _ in range(30):
        selection = selector.select(8)
        assert len(set(selection.participants)) == 8
        assert all(pick.score >= 0 and math.isfinite(pick.score) for pick in selection.why)
        selector.update_clients(selection, utility=1.0, duration_s=duration_s)


def test_durations_of_zero_among_others_are_within_any_t() -> None:
    selector = heard_of(np.ones(4), [0.0, 0.0, 0.0, 8.0], exploration=NO_EXPLORATION)
    selector.register_clients(range(4, 1000))  # so that four picks are a small share
    selection = selector.select(4)
    assert selection.preferred_s == 0.0
    assert scores_of(selection) == {0: 1.0, 1: 1.0, 2: 1.0, 3: 0.0}, "(0 / 8)²"


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("fairness", [0.0, 1.0])
def test_exploration_and_fairness_at_both_ends_work_together(
    share: float, fairness: float
) -> None:
    selector = new_selector(15, exploration=exploring(share), fairness_weight=fairness)
    for _ in range(40):
        picks = selector.select_participant(4)
        assert len(set(picks)) == 4
        selector.update_clients(picks, utility=np.arange(4.0), duration_s=1.0)


def test_a_thousand_rounds_on_three_clients() -> None:
    selector = oort.create_training_selector(oort.TrainingConfig.paper(seed=3))
    selector.register_clients(["a", "b", "c"])
    generator = np.random.default_rng(1)
    for number in range(1, 1001):
        selection = selector.select(2)
        assert selection.round_number == number
        assert len(set(selection.participants)) == 2
        selector.update_clients(
            selection, utility=generator.random(2), duration_s=generator.random(2)
        )
    assert sum(participations(selector, ["a", "b", "c"])) == 2000


def test_extreme_settings_give_no_warnings_and_finite_scores() -> None:
    settings = {"staleness": 1e300, "pacer": {"preferred_s": 1e300}, "exploration": NO_EXPLORATION}
    for alpha in (0.0, 1e300, "inf"):
        selector = heard_of(np.arange(6.0), np.arange(6.0), alpha=alpha, **settings)
        for _ in range(3):
            selection = selector.select(6)
            assert all(math.isfinite(pick.score) for pick in selection.why)


# Pluggable utility


def test_a_utility_of_ones_own_decides() -> None:
    @oort.register_utility("test: few samples")
    def few_samples(clients: ClientColumns) -> Floats:
        return 1.0 / np.maximum(clients.num_samples, 1)

    selector = new_selector(10, utility="test: few samples", exploration=NO_EXPLORATION)
    selector.update_clients(range(10), utility=1.0, num_samples=[100] * 9 + [1], duration_s=1.0)
    selector.update_clients(["also small"], utility=1.0, num_samples=1, duration_s=1.0)
    assert set(selector.select_participant(2)) == {9, "also small"}


@pytest.mark.parametrize(
    "wrong", [np.nan, np.inf, "x", None, [1.0]], ids=["nan", "inf", "text", "nothing", "short"]
)
def test_a_utility_of_ones_own_that_gives_no_numbers_is_named(wrong: object) -> None:
    @oort.register_utility("test: wrong")
    def gives_wrong(clients: ClientColumns) -> Floats:
        return np.array(wrong if isinstance(wrong, list) else [wrong] * len(clients))

    selector = heard_of(np.ones(3), 1.0, utility="test: wrong")
    with pytest.raises(oort.InvalidArgumentError, match="utility 'test: wrong' must give"):
        selector.select(2)
    assert selector.round_number == 0


def test_an_unregistered_utility_or_fairness_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(oort.ConfigError, match=r"utility must be one of .*loss.*; got 'nonsense'"):
        oort.create_training_selector({"utility": "nonsense"})
    with pytest.raises(oort.ConfigError, match=r"fairness must be one of .*participations"):
        oort.create_training_selector({"fairness": "nonsense"})


# Selections


def test_preview_shows_what_select_then_answers_and_changes_nothing() -> None:
    utility, duration_s = heavy_tailed(60)
    selector = heard_of(utility, duration_s)
    selector.register_clients(range(60, 120))
    for _ in range(15):
        before = (selector.round_number, participations(selector, range(120)))
        preview = selector.preview(10)
        assert (selector.round_number, participations(selector, range(120))) == before
        selection = selector.select(10)
        assert preview == selection
        assert repr(preview.why) == repr(selection.why)
        selector.update_clients(selection, utility=1.0)


def test_a_selection_says_why_each_was_picked() -> None:
    selector = heard_of(np.arange(10.0), np.arange(10.0) + 1)
    selector.register_clients(range(10, 20), expected_duration_s=2.0)
    selection = selector.select(20)
    assert [pick.client for pick in selection.why] == selection.participants == list(selection)
    assert len(selection) == 20
    assert [*selection.exploited, *selection.explored, *selection.filled] == selection.participants
    for pick in selection.why:
        known = pick.how == "exploited"
        assert math.isnan(pick.utility) != known
        assert pick.participations == (1 if known else 0), "before this round"
        assert pick.duration_s == (int(pick.client) + 1 if known else 2.0)


def test_selections_compare_by_value_without_raising() -> None:
    selector = heard_of(np.arange(30.0), 1.0)
    first = selector.preview(5)
    assert first == selector.preview(5)
    assert (first == selector.preview(6)) is False
    assert new_selector(5).preview(3) == new_selector(5).preview(3), "no cut-off: NaN"


def test_the_same_seed_and_calls_give_the_same_picks_and_another_seed_others() -> None:
    def play(seed: int) -> list[list[oort.ClientId]]:
        utility, duration_s = heavy_tailed(200)
        selector = heard_of(utility[:100], duration_s[:100], seed=seed)
        selector.register_clients(range(100, 200), expected_duration_s=duration_s[100:])
        played = []
        for _ in range(10):
            picks = selector.select_participant(10)
            selector.update_clients(picks, utility=utility[np.array(picks)])
            played.append([*picks, *selector.select(3, round_number=selector.round_number)])
        return played

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_the_order_of_among_does_not_matter() -> None:
    utility, duration_s = heavy_tailed(50)
    first, second = heard_of(utility, duration_s), heard_of(utility, duration_s)
    assert first.select_participant(9, among=range(40)) == second.select_participant(
        9, among=reversed(range(40))
    )
