"""From results to a certified metric: forms, slices, silence, strata, and what is refused."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oort
from oort.testing.betting import Draws, anytime_interval, fixed_interval
from oort.testing.estimate import Design, estimate


def a_tester(count: int = 200) -> Any:
    tester = oort.create_testing_selector(seed=5)
    tester.register_clients(list(range(count)))
    return tester


def test_a_plan_turns_results_into_a_value_with_an_interval() -> None:
    plan = a_tester().select_by_deviation(20, 100)
    answer = plan.estimate(dict.fromkeys(plan, (50, 45)))
    assert answer.value == pytest.approx(0.9)
    assert answer.low < 0.9 < answer.high
    assert answer.confidence == 0.95
    assert answer.num_missing == 0
    assert answer.worst_case == (answer.low, answer.high)
    assert "0.9000" in str(answer)


def test_results_come_in_several_forms_that_mean_the_same() -> None:
    plan = oort.create_testing_selector().select_by_deviation(30, 100, 500)
    forms: list[Any] = [
        [(40, 36), (10, 4)] * 20,
        [{"num_samples": 40, "correct": 36}, {"num_samples": 10, "correct": 4}] * 20,
        [oort.ClientResult(num_samples=s, correct=c) for s, c in [(40, 36), (10, 4)] * 20],
        [{"num_samples": 40, "metric_sum": 36}, {"num_samples": 10, "metric_sum": 4}] * 20,
        np.array([(40, 36), (10, 4)] * 20),
    ]
    answers = [plan.estimate(form) for form in forms]
    assert len({(a.value, a.low, a.high) for a in answers}) == 1
    assert answers[0].value == pytest.approx(0.8)


def test_any_metric_with_a_range_can_be_estimated() -> None:
    plan = oort.create_testing_selector().select_by_deviation(30, 100, 500)
    accuracy = plan.estimate([(40, 36), (10, 4)] * 20)
    loss = plan.estimate(
        [
            {"num_samples": 40, "metric_sum": 36 * 6 - 40 * 2},
            {"num_samples": 10, "metric_sum": 4 * 6 - 10 * 2},
        ]
        * 20,
        metric_range=(-2, 4),
    )
    assert loss.value == pytest.approx(-2 + 6 * accuracy.value)
    assert loss.low == pytest.approx(-2 + 6 * accuracy.low)
    assert loss.high == pytest.approx(-2 + 6 * accuracy.high)


def test_when_everybody_answers_nothing_is_uncertain() -> None:
    plan = a_tester(30).select_by_deviation(0, 100)
    answer = plan.estimate({client: (10, client % 11) for client in plan})
    truth = sum(c % 11 for c in range(30)) / 300
    assert (answer.low, answer.value, answer.high) == pytest.approx((truth, truth, truth))


def test_silence_is_counted_said_and_bounded() -> None:
    plan = a_tester().select_by_deviation(20, 100, over_commit=0.5)
    answered = list(plan)[: plan.num_participants]
    answer = plan.estimate(dict.fromkeys(answered, (50, 45)))
    assert answer.num_missing == plan.num_invited - plan.num_participants
    assert "silent" in answer.notes[0]
    assert answer.worst_case[0] < answer.low
    assert answer.worst_case[1] > answer.high


def test_slices_have_their_own_value_and_clients_without_them_count_nothing() -> None:
    plan = a_tester().select_by_deviation(20, 100)
    results = {
        client: {"num_samples": 20, "correct": 18}
        if i % 2
        else {"num_samples": 20, "correct": 15, "slices": {"night": (8, 4)}}
        for i, client in enumerate(plan)
    }
    answer = plan.estimate(results)
    night = answer.slices["night"]
    assert night.value == pytest.approx(0.5)
    assert night.half_width > answer.half_width
    assert any("by itself" in note for note in answer.notes)
    joint = plan.estimate(results, joint=True)
    assert joint.half_width > answer.half_width
    assert joint.confidence == pytest.approx(0.975)
    assert any("together" in note for note in joint.notes)
    assert "night" in str(answer)


def test_nobody_or_no_samples_leaves_everything_open() -> None:
    plan = oort.create_testing_selector().select_by_deviation(30, 100, 500)
    for results in ([], [(0, 0)] * 5):
        answer = plan.estimate(results)
        assert math.isnan(answer.value)
        assert (answer.low, answer.high) == (0.0, 1.0)


def test_a_take_all_stratum_counts_once_and_the_others_for_all_they_stand_for() -> None:
    tester = a_tester(100)
    stratum = oort.TakeAll(clients=[0], range_of_rest=10)
    plan = tester.select_by_deviation(2, 1_000, take_all=stratum, bound="take-all", min_capacity=0)
    results = {c: (1_000, 0) if c == 0 else (10, 10) for c in plan}
    answer = plan.estimate(results)
    assert answer.value == pytest.approx(990 / 1_990)
    del results[0]
    without = plan.estimate(results)
    assert without.value == pytest.approx(1.0)
    assert any("take-all" in note for note in without.notes)
    assert without.worst_case[0] < 990 / 1_990
    with pytest.raises(oort.InvalidArgumentError, match="must name their clients"):
        plan.estimate([(10, 10)])


def test_a_stratum_without_names_plans_but_cannot_weight_results() -> None:
    planner = oort.create_testing_selector()
    stratum = oort.TakeAll(num_clients=5, range_of_rest=10)
    plan = planner.select_by_deviation(2, 1_000, 100, take_all=stratum)
    assert plan.bound.startswith("take-all+")
    with pytest.raises(oort.InvalidArgumentError, match=r"TakeAll\.clients must be named"):
        plan.estimate({"a": (10, 10)})
    with pytest.raises(oort.InvalidArgumentError, match=r"TakeAll\.clients must be named"):
        plan.confirm({"a": 10})


def test_a_named_stratum_works_without_a_roster() -> None:
    planner = oort.create_testing_selector()
    stratum = oort.TakeAll(clients=["giant"], range_of_rest=10)
    plan = planner.select_by_deviation(
        2, 1_000, 100, take_all=stratum, bound="take-all", min_capacity=0
    )
    results = {f"small-{i}": (10, 10) for i in range(plan.num_participants - 1)}
    answer = plan.estimate(results | {"giant": (1_000, 0)})
    assert answer.value == pytest.approx(990 / 1_990)
    assert answer.num_missing == 0


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ((10, 11), r"client 7: correct must be a number from 0 to 10; got 11"),
        ((-1, 0), r"client 7: num_samples must be a number from 0 up; got -1"),
        ((math.nan, 0), r"client 7: num_samples must be .*; got nan"),
        ((10, 1, 2), r"client 7: result must be \(samples, correct\)"),
        ("ten", r"client 7: result must be"),
        ({"num_samples": 10}, r"client 7: correct must be given, or metric_sum"),
        ({"correct": 10}, r"client 7: result must be made of num_samples"),
        ({"num_samples": 5, "right": 5}, r"client 7: result must be made of num_samples"),
        ({"num_samples": 5, "metric_sum": 6}, r"client 7: metric_sum must be a number from"),
        (
            {"num_samples": 5, "correct": 5, "slices": {"a": (6, 1)}},
            r"client 7: slices\['a'\].num_samples must be at most the client's 5; got 6",
        ),
        (
            {"num_samples": 5, "correct": 2, "slices": {"a": (4, 3)}},
            r"client 7: slices\['a'\].correct must be at most the client's 2; got 3",
        ),
        (
            {"num_samples": 5, "correct": 4, "slices": {"a": (4, 2)}},
            r"client 7: slices\['a'\].num_samples − correct must be at most the client's 1; got 2",
        ),
        ({"num_samples": 5, "correct": 5, "slices": [1]}, r"client 7: slices must be a mapping"),
        (oort.ClientResult(num_samples=5, correct=5, slices=cast(Any, None)), "slices must be a"),
        ((400, 1), r"num_samples must be at most .* pass max_samples .*; got 400"),
    ],
)
def test_a_result_that_cannot_be_is_refused_by_name(result: Any, says: str) -> None:
    plan = a_tester(10).select_by_deviation(0, 100)
    results = dict.fromkeys(plan, (10, 5)) | {7: result}
    with pytest.raises(oort.InvalidFeedbackError, match=says):
        plan.estimate(results)


def test_too_many_samples_for_max_samples_do_not_ask_for_max_samples() -> None:
    plan = a_tester(10).select_by_deviation(0, 100)
    with pytest.raises(oort.InvalidFeedbackError, match=r"at most 9 \(by max_samples\); got 10"):
        plan.estimate(dict.fromkeys(plan, (10, 5)), max_samples=9)


@pytest.mark.parametrize("wrong", [None, 5, "abc"])
def test_results_of_another_kind_are_refused(wrong: Any) -> None:
    plan = oort.create_testing_selector().select_by_deviation(30, 100, 500)
    with pytest.raises(oort.InvalidArgumentError, match="results must be a mapping"):
        plan.estimate(wrong)


def test_with_another_range_a_pair_is_samples_and_sum_and_correct_is_refused() -> None:
    plan = a_tester().select_by_deviation(20, 100)
    pairs = plan.estimate(dict.fromkeys(plan, (40, 30)), metric_range=(0, 5))
    assert pairs.value == pytest.approx(0.75)
    sums = {key: {"num_samples": 40, "metric_sum": 30} for key in plan}
    assert plan.estimate(sums, metric_range=(0, 5)) == pairs
    with pytest.raises(oort.InvalidFeedbackError, match=r"correct must be left out .*; got 30"):
        plan.estimate(
            {key: {"num_samples": 40, "correct": 30} for key in plan}, metric_range=(0, 5)
        )
    sliced = {"num_samples": 40, "metric_sum": 30, "slices": {"night": (8, 24)}}
    night = plan.estimate(dict.fromkeys(plan, sliced), metric_range=(0, 5)).slices["night"]
    assert night.value == pytest.approx(3)


def test_slices_settled_beforehand_share_the_confidence_whoever_reports_them() -> None:
    plan = a_tester().select_by_deviation(20, 100)
    results = {key: {"num_samples": 9, "correct": 8, "slices": {"night": (5, 4)}} for key in plan}
    named = plan.estimate(results, joint=True, slices=["day", "night", "noon"])
    assert list(named.slices) == ["day", "night", "noon"]
    assert named.confidence == pytest.approx(1 - 0.05 / 4)
    assert (named.slices["day"].low, named.slices["day"].high) == (0.0, 1.0)
    with pytest.raises(oort.InvalidArgumentError, match="slices must be a list of names"):
        plan.estimate(results, slices="night")


def test_what_the_draw_could_not_do_is_said_with_the_result() -> None:
    tester = a_tester(1_000)
    tester.mark_offline(list(range(900)))
    plan = tester.select_by_deviation(20, 100)
    answer = plan.estimate(dict.fromkeys(plan, (50, 45)))
    assert set(plan.notes) <= set(answer.notes)
    assert "100 of 1,000 clients" in " ".join(answer.notes)
    assert "100 of 1,000 clients" in str(answer)


def test_a_silent_giant_leaves_open_what_it_could_hold() -> None:
    """All small clients are right; the giant, which holds nearly everything, is wrong."""
    tester = a_tester(100)
    stratum = oort.TakeAll(clients=[0], range_of_rest=10)
    asked: dict[str, Any] = {"take_all": stratum, "bound": "take-all"}
    plan = tester.select_by_deviation(0, 1_000_000, min_capacity=0, **asked)
    results = {c: (10, 9) for c in plan if c != 0}
    answer = plan.estimate(results)
    truth = 99 * 9 / (99 * 10 + 1_000_000)
    assert answer.low <= truth < answer.value <= answer.high
    assert answer.high > 0.99
    blind = tester.select_by_deviation(0, 1_000_000, **asked)
    assert (blind.estimate(results).low, blind.estimate(results).high) == (0.0, 1.0)


def test_an_interval_extended_to_the_value_says_so() -> None:
    design = Design(num_clients=400, num_invited=10, most=10.0)
    results = [(10, 9)] * 10
    before: dict[str | None, tuple[float, float]] = {None: (0.5, 0.8)}
    answer = estimate(design, results, confidence=0.9, anytime=True, within=before)
    assert answer.high == answer.value == pytest.approx(0.9)
    assert any("extended" in note for note in answer.notes)
    plain = estimate(design, results, confidence=0.9, anytime=True)
    assert plain.notes == ()


def test_results_of_clients_that_were_not_drawn_are_refused() -> None:
    plan = a_tester().select_by_deviation(20, 100)
    with pytest.raises(oort.InvalidFeedbackError, match=r"client 'x' .* it is not"):
        plan.estimate({"x": (1, 1)})


def test_wrong_arguments_are_refused() -> None:
    plan = oort.create_testing_selector().select_by_deviation(30, 100, 5)
    for wrong in (
        {"confidence": 1},
        {"max_samples": 0},
        {"metric_range": (1, 1)},
        {"metric_range": 3},
    ):
        with pytest.raises(oort.InvalidArgumentError, match="must be"):
            plan.estimate([(10, 5)], **wrong)
    with pytest.raises(oort.InvalidArgumentError, match="at most 5"):
        plan.estimate([(10, 5)] * 6)


def test_a_known_largest_client_makes_the_interval_no_longer() -> None:
    plan = oort.create_testing_selector().select_by_deviation(5, 300, 5_000)
    results = [(20, 18), (40, 30)] * 400
    assert plan.estimate(results, max_samples=40).half_width < plan.estimate(results).half_width


sizes_and_answers = st.lists(
    st.tuples(st.integers(0, 30), st.floats(0, 1)), min_size=1, max_size=25
)


@settings(max_examples=100, deadline=None)
@given(clients=sizes_and_answers, extra=st.integers(0, 50), level=st.floats(0.5, 0.99))
def test_the_interval_is_around_the_value_and_inside_the_possible(
    clients: list[tuple[int, float]], extra: int, level: float
) -> None:
    results = [(s, math.floor(s * share)) for s, share in clients]
    design = Design(num_clients=len(clients) + extra, num_invited=len(clients), most=30.0)
    for anytime in (False, True):
        answer = estimate(design, results, confidence=level, anytime=anytime)
        assert 0.0 <= answer.low <= answer.high <= 1.0
        if not math.isnan(answer.value):
            assert answer.low <= answer.value <= answer.high
        # What was seen rules out what it rules out, whatever the bets.
        right, total = (sum(x) for x in zip(*results, strict=True))
        possible_low = right / (total + 30 * extra) if total + extra else 0.0
        assert answer.low >= possible_low - 1e-6 or answer.low <= possible_low


@settings(max_examples=50, deadline=None)
@given(clients=sizes_and_answers, extra=st.integers(1, 200))
def test_right_and_wrong_are_treated_alike(clients: list[tuple[int, float]], extra: int) -> None:
    samples = np.array([float(s) for s, _ in clients])
    right = np.floor(samples * np.array([share for _, share in clients]))
    draws = Draws(
        correct=right,
        samples=samples,
        most=np.full(len(samples) + 1, 30.0),
        num_clients=len(samples) + extra,
    )
    for method in (fixed_interval, anytime_interval):
        low, high = method(draws, 0.9)
        other_low, other_high = method(draws.swapped(), 0.9)
        assert low == pytest.approx(1 - other_high, abs=1e-8)
        assert high == pytest.approx(1 - other_low, abs=1e-8)


@settings(max_examples=50, deadline=None)
@given(clients=sizes_and_answers, extra=st.integers(1, 100))
def test_every_smaller_value_is_refuted_with_a_refuted_one(
    clients: list[tuple[int, float]], extra: int
) -> None:
    """Bisection is exact because wealth falls as the value grows."""
    from oort.testing.betting import _log_wealth, _planned_bets, _spread_bets

    samples = np.array([float(s) for s, _ in clients])
    right = np.floor(samples * np.array([share for _, share in clients]))
    draws = Draws(
        correct=right,
        samples=samples,
        most=np.full(len(samples) + 1, 30.0),
        num_clients=len(samples) + extra,
    )
    for bets in (_planned_bets(draws, 3.0), _spread_bets(draws, 3.0)):
        wealth = np.array([_log_wealth(draws, bets, a) for a in np.linspace(0.01, 0.99, 60)])
        finite = wealth[np.isfinite(wealth)]
        assert np.all(np.diff(finite) <= 1e-9)
        assert not np.any(np.isposinf(wealth[len(wealth) - len(finite) :]))
