"""Plans by deviation: what is asked, what is refused, who is drawn, and what is confirmed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oort
from oort.testing.bounds import BOUNDS, Question


def plan_for(*args: Any, **settings: Any) -> Any:
    return oort.create_testing_selector().select_by_deviation(*args, **settings)


def test_the_call_of_the_paper_gives_the_corrected_number() -> None:
    plan = plan_for(dev_target=15, range_of_capacity=300, total_num_clients=14_477)
    assert plan.num_participants == 703
    assert plan.bound == "serfling"
    assert "at least 0.95" in plan.guarantee
    assert "15 samples" in plan.guarantee
    assert "Serfling (1974)" in plan.source
    assert plan_for(15, 300, 14_477).num_participants == 703


def test_the_selector_keeps_its_protocol() -> None:
    tester = oort.create_testing_selector()
    assert isinstance(tester, oort.TestingSelector)
    assert tester.num_clients == 0


@pytest.mark.parametrize("bound", ["auto", "paper", "serfling"])
def test_no_deviation_takes_everybody(bound: str) -> None:
    assert plan_for(0, 300, 500, bound=bound).num_participants == 500
    assert plan_for(1e-9, 300, 500, bound=bound).num_participants == 500
    assert "exact" in plan_for(0, 300, 500, bound=bound).guarantee


@pytest.mark.parametrize("target", [0.0, 0.1, 5.0])
@pytest.mark.parametrize("bound", ["auto", "paper", "serfling"])
def test_one_client_is_one_participant(target: float, bound: str) -> None:
    assert plan_for(target, 10, 1, bound=bound).num_participants == 1


@pytest.mark.parametrize("bound", [*(b for b in BOUNDS if b != "l1-subsets"), "auto"])
def test_equal_clients_need_one_participant(bound: str) -> None:
    known = {"mean": 7, "std": 0, "expected_std": 0, "min_capacity": 7}
    for target in (0, 0.5):
        assert plan_for(target, 0, 10_000, bound=bound, **known).num_participants == 1


def test_a_target_as_long_as_the_range_needs_one_participant() -> None:
    assert plan_for(300, 300, 14_477).num_participants == 1


def test_categories_jointly_take_the_logarithm_of_twice_their_number() -> None:
    n, m, share = 14_477, 60, 0.05
    log_term = math.log(2 * m / 0.05)
    expected = math.ceil((n + 1) / (1 + 2 * n / log_term * share**2))
    assert plan_for(share, 1, n, categories=m).num_participants == expected
    assert (
        plan_for(share, np.full(m, 300.0), n, unit="share_of_range").num_participants == expected
    )
    assert f"{m} categories at once" in plan_for(share, 1, n, categories=m).guarantee


def test_categories_with_their_own_targets_need_what_the_hardest_one_needs_and_a_little() -> None:
    alone = plan_for(15, 300, 14_477).num_participants
    both = plan_for([15, 90], [300, 300], 14_477).num_participants
    assert alone <= both <= alone + 2
    names = plan_for(15, 300, 14_477, categories=["cat", "dog"])
    assert names.num_participants == plan_for([15, 15], 300, 14_477).num_participants


def test_units_say_the_same_in_other_words() -> None:
    samples = plan_for(15, 300, 14_477).num_participants
    assert plan_for(0.05, 300, 14_477, unit="share_of_range").num_participants == samples
    assert plan_for(0.05, None, 14_477, unit="share_of_range").num_participants == samples
    assert plan_for(0.25, 300, 14_477, unit="share_of_mean", mean=60).num_participants == samples


def test_l1_asks_each_category_for_its_share_of_half_the_mean_total() -> None:
    # ε·μ/2 = 0.5 · 60 / 2 = 15 samples over two equal categories: 7.5 each, jointly.
    l1 = plan_for(0.5, [300, 300], 14_477, unit="l1", mean_total=60)
    same = plan_for(7.5, [300, 300], 14_477)
    assert l1.num_participants == same.num_participants
    assert plan_for(0.5, [300, 300], 14_477, unit="l1", mean=[20, 40]).num_participants == (
        same.num_participants
    )
    better = plan_for(0.5, [300, 300], 14_477, unit="l1", mean_total=60, max_total=300)
    assert better.bound == "l1-subsets"
    assert better.num_participants < l1.num_participants


def test_the_more_is_known_the_fewer_it_takes() -> None:
    """Reddit-like figures: 20 % of the mean, a range 33 times the mean."""
    few = {"range_of_capacity": 47_422, "total_num_clients": 1_660_820, "unit": "share_of_mean"}
    basic = plan_for(0.2, mean=1_436, **few)
    kl = plan_for(0.2, mean=1_436, min_capacity=33, **few)
    std = plan_for(0.2, mean=1_436, std=2_568, **few)
    assert (basic.bound, kl.bound, std.bound) == ("serfling", "kl", "bennett")
    assert basic.num_participants > 6 * kl.num_participants > 30 * std.num_participants


def test_bernstein_serfling_wins_where_a_large_part_of_the_population_is_drawn() -> None:
    known = {"range_of_capacity": 316, "total_num_clients": 2_187, "std": 36.7}
    plan = plan_for(2.36, **known)
    assert plan.bound == "bernstein-serfling"
    assert plan.num_participants < plan_for(2.36, **known, bound="bennett").num_participants


def test_the_smallest_valid_bound_is_chosen_and_every_other_is_shown() -> None:
    plan = plan_for(15, 300, 14_477, mean=40, min_capacity=0, std=30)
    sizes = {s.name: s.num_participants for s in plan.sizes}
    automatic = {k: v for k, v in sizes.items() if v is not None and k != "paper"}
    assert plan.num_participants == min(automatic.values())
    lacks = {s.name: s.lacks for s in plan.sizes if s.num_participants is None}
    assert lacks == {"empirical-bernstein-serfling": ("expected_std",)}


@pytest.mark.parametrize("name", [b for b in BOUNDS if b != "l1-subsets"])
def test_every_bound_is_there_by_name_with_source_and_assumptions(name: str) -> None:
    known = {"mean": 40, "min_capacity": 0, "std": 30, "expected_std": 30}
    plan = plan_for(15, 300, 14_477, bound=name, **known)
    assert plan.bound == name
    assert any(year in plan.source for year in ("1962", "1963", "1974", "2015", "2021"))
    assert any("without replacement" in assumption for assumption in plan.assumptions)


def test_an_expected_std_promises_only_what_the_data_can_keep() -> None:
    assert plan_for(15, 300, 14_477, expected_std=10).bound == "serfling"
    plan = plan_for(15, 300, 14_477, expected_std=10, bound="empirical-bernstein-serfling")
    assert plan.bound == "empirical-bernstein-serfling"
    assert "comes out above expected_std" in plan.guarantee


def test_a_take_all_stratum_shortens_the_range_of_the_rest() -> None:
    stratum = oort.TakeAll(num_clients=50, range_of_rest=60)
    plan = plan_for(5, 300, 14_477, take_all=stratum)
    assert plan.bound == "take-all+serfling"
    rest = plan_for(5 * 14_477 / 14_427, 60, 14_427).num_participants
    assert plan.num_participants == 50 + rest
    assert plan.num_participants < plan_for(5, 300, 14_477).num_participants
    assert "weighted" in plan.guarantee
    several = [stratum, oort.TakeAll(num_clients=400, range_of_rest=30)]
    assert plan_for(5, 300, 14_477, take_all=several).num_participants <= plan.num_participants
    assert plan_for(5, 300, 14_477, take_all=stratum, bound="serfling").take_all is None


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"confidence": 0}, "confidence must be a number above 0 and below 1; got 0"),
        ({"confidence": 1}, "confidence must be a number above 0 and below 1; got 1"),
        ({"confidence": 95}, "confidence must be a number above 0 and below 1; got 95"),
        ({"confidence": math.nan}, "confidence must be .*; got nan"),
        ({"confidence": True}, "confidence must be .*; got True"),
        ({"confidence": "high"}, "confidence must be .*; got 'high'"),
        ({"dev_target": -1}, "dev_target must be a number, .* from 0 up; got -1"),
        ({"dev_target": [1, -2]}, "dev_target must be .* from 0 up; got -2"),
        ({"dev_target": math.inf}, "dev_target must be .*; got inf"),
        ({"dev_target": None}, "dev_target must be .*; got None"),
        ({"dev_target": []}, r"dev_target must be .*; got \[\]"),
        ({"range_of_capacity": -3}, "range_of_capacity must be .* from 0 up; got -3"),
        ({"range_of_capacity": None}, "range_of_capacity must be .*; got None"),
        ({"total_num_clients": 0}, "total_num_clients must be a whole number, 1 or more; got 0"),
        ({"total_num_clients": 2.5}, "total_num_clients must be a whole number.*; got 2.5"),
        ({"total_num_clients": None}, "total_num_clients must be given .*; got None"),
        ({"unit": "percent"}, "unit must be one of samples, share_of_range, .*; got 'percent'"),
        ({"unit": "share_of_range", "dev_target": 5}, "dev_target must be .* from 0 to 1; got 5"),
        ({"unit": "l1", "dev_target": 2.5}, "dev_target must be .* from 0 to 2; got 2.5"),
        ({"unit": "share_of_mean"}, "mean must be given and above 0 .*; got None"),
        ({"unit": "l1", "dev_target": 0.1}, r"mean_total \(or mean\) must be given .*; got None"),
        ({"bound": "hoeffding"}, "bound must be one of auto, .*; got 'hoeffding'"),
        ({"bound": "kl"}, "bound must be one that the inputs allow .*mean, min_capacity"),
        ({"bound": "take-all"}, "take_all must be given"),
        ({"std": 151}, "std must be at most half of range_of_capacity .*; got 151"),
        ({"mean": 400, "min_capacity": 0}, "mean must be between min_capacity and .*; got 400"),
        ({"mean": 10, "min_capacity": 0, "std": 100}, "std must be at most .*; got 100"),
        ({"categories": 0}, "categories must be a whole number, 1 or more; got 0"),
        ({"categories": 3, "std": [1, 2]}, "std must be one number, or one for each of the 3"),
        ({"over_commit": -0.1}, "over_commit must be .*; got -0.1"),
        ({"seed": -1}, "seed must be a whole number, 0 or more; got -1"),
    ],
)
def test_what_is_wrong_is_refused_with_field_range_and_value(
    change: dict[str, Any], says: str
) -> None:
    asked: dict[str, Any] = {"dev_target": 15, "range_of_capacity": 300, "total_num_clients": 1000}
    with pytest.raises(oort.InvalidArgumentError, match=says):
        plan_for(**{**asked, **change})


def test_a_stratum_that_cannot_be_is_refused() -> None:
    with pytest.raises(oort.InvalidArgumentError, match=r"below total_num_clients \(10\)"):
        plan_for(1, 10, 10, take_all=oort.TakeAll(num_clients=10, range_of_rest=1))
    with pytest.raises(oort.InvalidArgumentError, match="at most range_of_capacity"):
        plan_for(1, 10, 100, take_all=oort.TakeAll(num_clients=5, range_of_rest=11))
    with pytest.raises(oort.InvalidArgumentError, match="distinct"):
        oort.TakeAll(clients=["a", "a"], range_of_rest=1)
    with pytest.raises(oort.InvalidArgumentError, match="at least 1"):
        oort.TakeAll(range_of_rest=1)


def test_the_rest_beside_a_stratum_is_not_supposed_to_begin_where_all_clients_do() -> None:
    """One empty client and nine giants are taken; the other 990 hold 100 or 200 samples."""
    counts = np.r_[np.zeros(1), np.full(9, 1_000.0), np.full(500, 100.0), np.full(490, 200.0)]
    rest = counts[10:]
    stratum: dict[str, Any] = {
        "clients": range(10),
        "range_of_rest": 100,
        "mean_of_rest": rest.mean(),
        "std_of_rest": rest.std(),
    }
    tester = oort.create_testing_selector(seed=0)
    tester.register_clients(range(1_000))
    asked: dict[str, Any] = {"dev_target": 10, "range_of_capacity": 1_000, "min_capacity": 0}
    plan = tester.select_by_deviation(**asked, take_all=oort.TakeAll(**stratum))
    assert "kl" not in plan.bound
    assert plan.num_participants > 10 + 50
    told = tester.select_by_deviation(
        **asked, take_all=oort.TakeAll(**stratum, min_of_rest=100), bound="take-all+kl"
    )
    for good in (plan, told):
        missed = 0
        for seed in range(60):
            drawn = np.random.default_rng(seed).choice(rest, good.num_participants - 10, False)
            missed += abs(drawn.mean() - rest.mean()) * 990 / 1_000 > 10
        assert missed <= 6
    for wrong in ({"min_of_rest": 0}, {"min_of_rest": 150}, {"mean_of_rest": 90}):
        with pytest.raises(oort.InvalidArgumentError, match=r"TakeAll\.mean_of_rest must be betw"):
            tester.select_by_deviation(
                **asked, take_all=oort.TakeAll(**{**stratum, "min_of_rest": 100, **wrong})
            )
    with pytest.raises(oort.InvalidArgumentError, match=r"'take-all\+kl' needs min_of_rest"):
        tester.select_by_deviation(**asked, take_all=oort.TakeAll(**stratum), bound="take-all+kl")


@pytest.mark.parametrize("mean", [-40.0, 140.0, 400.0, 0.0, 100.0])
def test_no_bound_drops_a_direction_because_the_mean_contradicts_the_range(mean: float) -> None:
    question = Question(
        num_clients=1_000,
        deviation=np.array([10.0]),
        span=np.array([100.0]),
        allowed_failure=0.05,
        low=np.array([0.0]),
        mean=np.array([mean]),
        std=np.array([50.0]),
    )
    unknown = replace(question, mean=None, low=None)
    n = np.array([1.0, 10.0, 100.0])
    assert np.all(
        BOUNDS["bennett"].log_failure(n, question) == BOUNDS["bennett"].log_failure(n, unknown)
    )
    if not 0 <= mean <= 100:
        assert np.all(BOUNDS["kl"].log_failure(n, question) >= 0.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"mean": [5, 5], "max_total": 0.1}, r"max_total must be at least the mean total \(10\)"),
        ({"mean": [1, 1], "mean_total": 1_000, "max_total": 2_000}, "mean_total must be the sum"),
        ({"mean_total": 10, "max_total": 9}, "max_total must be at least the mean total"),
    ],
)
def test_totals_that_contradict_one_another_are_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(oort.InvalidArgumentError, match=says):
        plan_for(0.2, [10, 10], 1_000, unit="l1", **change)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"max_total_of_rest": -5}, r"TakeAll\.max_total_of_rest must be .*; got -5"),
        ({"max_total_of_rest": "x"}, r"TakeAll\.max_total_of_rest must be .*; got 'x'"),
        ({"mean_of_rest": 9, "max_total_of_rest": 3}, "max_total_of_rest must be at least"),
        ({"mean_of_rest": -1}, r"TakeAll\.mean_of_rest must be .*; got -1"),
        ({"std_of_rest": "x"}, r"TakeAll\.std_of_rest must be .*; got 'x'"),
        ({"std_of_rest": 6}, r"TakeAll\.std_of_rest must be at most half .*; got 6"),
        ({"min_of_rest": 200}, r"TakeAll\.min_of_rest must be in the range of all .*; got 200"),
        ({"mean_of_rest": 60}, r"TakeAll\.mean_of_rest must be what mean leaves .*; got 60"),
        ({"clients": "abcde"}, r"TakeAll\.clients must be a list .*; got 'abcde'"),
        ({"clients": 5}, r"TakeAll\.clients must be a list .*; got 5"),
        ({"clients": [["a"]]}, "client id must be"),
    ],
)
def test_what_cannot_be_true_of_the_rest_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(oort.InvalidArgumentError, match=says):
        plan_for(
            1,
            100,
            1_000,
            mean=50,
            min_capacity=0,
            take_all=oort.TakeAll(**{"num_clients": 5, "range_of_rest": 10, **change}),
        )


@pytest.mark.parametrize("wrong", [5, [5], "abc", None])
def test_a_stratum_of_another_kind_is_refused(wrong: Any) -> None:
    with pytest.raises(oort.InvalidArgumentError, match="take_all must be a TakeAll or several"):
        plan_for(1, 100, 1_000, take_all=wrong)


@pytest.mark.parametrize(
    "change",
    [
        {"dev_target": 10**400},
        {"dev_target": 10**5_000},
        {"dev_target": [1, [2, 3]]},
        {"total_num_clients": 10**400},
        {"range_of_capacity": 10**400},
    ],
)
def test_numbers_beyond_all_measure_are_refused(change: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"dev_target": 15, "range_of_capacity": 300, "total_num_clients": 1000}
    with pytest.raises(oort.InvalidArgumentError, match="must be"):
        plan_for(**{**asked, **change})


@pytest.mark.parametrize("target", [1e200, 1e308])
def test_a_target_far_beyond_the_range_takes_one_participant(target: float) -> None:
    known = {"mean": 40, "min_capacity": 0, "std": 30, "expected_std": 30}
    plan = plan_for(target, 300, 1_000, **known)
    assert {s.num_participants for s in plan.sizes} == {1}


def registered(count: int = 1_000, seed: int = 3) -> Any:
    tester = oort.create_testing_selector(seed=seed)
    tester.register_clients([f"phone-{i}" for i in range(count)])
    return tester


def test_known_clients_are_drawn_and_the_plan_iterates_over_them() -> None:
    plan = registered().select_by_deviation(50, 300)
    assert plan.request.total_num_clients == 1_000
    assert len(plan) == plan.num_participants == len(set(plan))
    assert list(plan) == list(plan.participants)
    assert plan.notes == ()
    assert sum(plan.weights.values()) == pytest.approx(1_000)


def test_the_same_seed_and_calls_draw_the_same_and_the_next_plan_draws_others() -> None:
    one, two = registered(), registered()
    first = one.select_by_deviation(50, 300).participants
    assert two.select_by_deviation(50, 300).participants == first
    assert one.select_by_deviation(50, 300).participants != first
    assert registered(seed=4).select_by_deviation(50, 300).participants != first
    again = one.select_by_deviation(50, 300, seed=11).participants
    assert registered(seed=9).select_by_deviation(50, 300, seed=11).participants == again


def test_every_client_is_drawn_equally_often() -> None:
    tester = registered(40)
    times = dict.fromkeys((f"phone-{i}" for i in range(40)), 0)
    for _ in range(600):
        for client in tester.select_by_deviation(0.6, 1):
            times[client] += 1
    n = tester.select_by_deviation(0.6, 1).num_participants
    expected = 600 * n / 40
    assert all(abs(t - expected) < 5 * math.sqrt(expected) for t in times.values())


def test_only_clients_online_are_drawn_and_the_plan_says_what_that_means() -> None:
    tester = registered(1_000)
    tester.mark_offline([f"phone-{i}" for i in range(500)])
    plan = tester.select_by_deviation(50, 300)
    assert all(int(client.split("-")[1]) >= 500 for client in plan)
    assert "500 of 1,000 clients" in plan.notes[0]
    tester.mark_offline()
    tester.mark_online(["phone-1"])
    plan = tester.select_by_deviation(50, 300)
    assert list(plan) == ["phone-1"]
    assert any("Only 1 of the" in note for note in plan.notes)
    with pytest.raises(oort.UnknownClientError, match="phone-9999"):
        tester.mark_online(["phone-9999"])


def test_over_commit_invites_more_but_never_more_than_there_are() -> None:
    tester = registered(1_000)
    plain = tester.select_by_deviation(50, 300)
    more = tester.select_by_deviation(50, 300, over_commit=0.3)
    assert more.num_participants == plain.num_participants
    assert len(more) == more.num_invited == math.ceil(1.3 * plain.num_participants)
    assert len(tester.select_by_deviation(50, 300, over_commit=100)) == 1_000
    assert plan_for(50, 300, 1_000, over_commit=0.3).num_invited == more.num_invited


@pytest.mark.parametrize(
    ("needed", "more", "invited"),
    [(110, 0.1, 121), (100, 0.1, 110), (50, 0.1, 55), (10, 0.25, 13)],
)
def test_over_commit_is_rounded_up_as_on_paper(needed: int, more: float, invited: int) -> None:
    assert plan_for(0, 300, needed).num_participants == needed
    sized = next(
        plan_for(target, 300, 100_000, over_commit=more)
        for target in np.geomspace(5, 200, 2_000)
        if plan_for(target, 300, 100_000).num_participants == needed
    )
    assert sized.num_invited == invited


def test_any_over_commit_invites_at_most_everybody() -> None:
    assert plan_for(50, 300, 1_000, over_commit=1e308).num_invited == 1_000


def test_forgotten_clients_are_not_drawn() -> None:
    tester = registered(10)
    assert tester.forget(["phone-1", "nobody"]) == 1
    assert tester.num_clients == 9
    assert "phone-1" not in tester.select_by_deviation(0, 10)


def test_fewer_clients_than_registered_are_refused() -> None:
    with pytest.raises(oort.InvalidArgumentError, match="at least the 10 clients registered"):
        registered(10).select_by_deviation(1, 10, 9)


def test_ids_are_strings_or_integers_and_one_is_not_the_other() -> None:
    tester = oort.create_testing_selector()
    tester.register_clients([1, "1"])
    tester.register_clients(np.array([2]))
    tester.register_client("1")
    assert tester.num_clients == 3
    assert set(tester.select_by_deviation(0, 10)) == {1, "1", 2}
    with pytest.raises(oort.InvalidClientIdError):
        tester.register_client(True)


def test_a_take_all_stratum_is_among_the_participants_first() -> None:
    tester = registered(1_000)
    giants = ["phone-7", "phone-8"]
    stratum = oort.TakeAll(clients=giants, range_of_rest=20)
    plan = tester.select_by_deviation(3, 300, take_all=stratum)
    assert list(plan)[:2] == giants
    assert len(set(plan)) == plan.num_participants
    assert plan.weights["phone-7"] == 1.0
    assert sum(plan.weights.values()) == pytest.approx(1_000)
    tester.mark_offline(["phone-8"])
    plan = tester.select_by_deviation(3, 300, take_all=stratum)
    assert "phone-8" not in plan.participants
    assert any("take-all stratum are offline" in note for note in plan.notes)
    with pytest.raises(oort.UnknownClientError):
        tester.select_by_deviation(
            3, 300, take_all=oort.TakeAll(clients=["nobody"], range_of_rest=20)
        )
    with pytest.raises(oort.InvalidArgumentError, match=r"TakeAll\.clients"):
        tester.select_by_deviation(3, 300, take_all=oort.TakeAll(num_clients=2, range_of_rest=20))


def test_confirm_tells_the_deviation_reached_where_the_mean_is_known() -> None:
    plan = plan_for(2, 10, 100, mean=4)
    held = plan.confirm([3, 6, 5, 4])
    assert held.held is True
    assert held.deviation == pytest.approx(0.5)
    missed = plan.confirm([9, 10, 8])
    assert missed.held is False
    assert missed.deviation == pytest.approx(5)
    assert "was missed" in str(missed)
    assert plan_for(2, 10, 100).confirm([3, 6, 5, 4], mean=4).held is True


def test_confirm_bounds_the_deviation_where_the_mean_is_not_known() -> None:
    plan = plan_for(2, 10, 100)
    enough = plan.confirm([5.0] * plan.num_participants)
    assert enough.held is True
    assert enough.deviation is None
    assert enough.deviation_bound <= 2
    few = plan.confirm([5.0] * 3)
    assert few.held is None
    assert few.deviation_bound > 2
    assert few.num_missing == plan.num_participants - 3
    assert "silent" in few.notes[0]
    everybody = plan.confirm([5.0] * 100)
    assert everybody.deviation_bound == 0


def test_confirm_in_every_unit() -> None:
    counts = np.array([[10.0, 0.0], [6.0, 4.0]])
    common = {"total_num_clients": 50, "range_of_capacity": [10, 10], "mean": [5, 5]}
    assert plan_for(5, **common).confirm(counts).deviation == pytest.approx(3)
    of_range = plan_for(0.5, unit="share_of_range", **common).confirm(counts)
    assert of_range.deviation == pytest.approx(0.3)
    of_mean = plan_for(0.7, unit="share_of_mean", **common).confirm(counts)
    assert of_mean.deviation == pytest.approx(0.6)
    l1 = plan_for(0.7, unit="l1", **common).confirm(counts)
    assert l1.deviation == pytest.approx(0.6)
    assert l1.held is True


def test_confirm_says_when_the_range_that_was_told_is_not_true() -> None:
    confirmation = plan_for(2, 10, 100).confirm([1, 50])
    assert confirmation.held is None
    assert math.isinf(confirmation.deviation_bound)
    assert any("guarantee does not hold" in note for note in confirmation.notes)


@pytest.mark.parametrize(
    ("told", "counts", "says"),
    [
        (
            {"range_of_capacity": 300, "min_capacity": 0},
            np.linspace(5_000, 5_100, 900),
            "not betw",
        ),
        ({"range_of_capacity": 300, "min_capacity": 50}, np.full(900, 49.0), "from 49 to 49, not"),
        (
            {"range_of_capacity": 300, "max_total": 20},
            np.full(900, 40.0),
            "holds 40 samples, more",
        ),
    ],
)
def test_confirm_says_when_counts_lie_elsewhere_than_the_plan_was_told(
    told: dict[str, Any], counts: Any, says: str
) -> None:
    confirmation = plan_for(15, total_num_clients=1_000, **told).confirm(counts)
    assert confirmation.held is None
    assert math.isinf(confirmation.deviation_bound)
    assert says in confirmation.notes[-1]
    assert "guarantee does not hold" in confirmation.notes[-1]


def test_confirm_says_when_the_rest_beside_a_stratum_is_not_what_was_told() -> None:
    tester = registered(100)
    stratum = oort.TakeAll(
        clients=["phone-0"], range_of_rest=5, min_of_rest=10, max_total_of_rest=12
    )
    plan = tester.select_by_deviation(1, 1_000, take_all=stratum, bound="take-all")
    assert plan.confirm({c: 900 if c == "phone-0" else 11 for c in plan}).notes == ()
    for wrong in (3, 13, 30):
        bad = {c: 900 if c == "phone-0" else wrong for c in plan}
        assert "guarantee does not hold" in plan.confirm(bad).notes[-1]


def test_an_l1_plan_is_void_where_a_client_holds_more_than_the_largest_told() -> None:
    plan = plan_for(0.4, [300, 300], 1_000, unit="l1", mean_total=15, max_total=20)
    assert plan.bound == "l1-subsets"
    assert plan.confirm(np.full((900, 2), 10.0)).held is True
    void = plan.confirm(np.full((900, 2), 200.0))
    assert void.held is None
    assert "holds 400 samples, more than the 20" in void.notes[-1]


def test_confirm_refuses_more_rows_than_clients() -> None:
    with pytest.raises(oort.InvalidArgumentError, match="at most 100 drawn"):
        plan_for(15, 300, 100).confirm(np.full(500, 10.0))
    stratum = oort.TakeAll(clients=["giant"], range_of_rest=5)
    plan = plan_for(1, 1_000, 10, take_all=stratum, bound="take-all")
    with pytest.raises(oort.InvalidArgumentError, match="at most 9 drawn"):
        plan.confirm({f"small-{i}": 3 for i in range(10)})


def test_confirm_refuses_a_category_that_nobody_asked_for() -> None:
    plan = plan_for(3, 10, 200, categories=["cat", "dog"])
    with pytest.raises(oort.InvalidArgumentError, match="categories cat, dog; got 'dgo'"):
        plan.confirm({1: {"cat": 4, "dgo": 1}})


def test_confirm_takes_single_numbers_and_lists_of_one_together() -> None:
    assert plan_for(15, 300, 100).confirm({1: 5, 2: [6], 3: [7]}).means == (6.0,)


def test_participants_without_samples_are_as_far_from_any_distribution_as_can_be() -> None:
    plan = plan_for(1.5, [10, 10], 1_000, unit="l1", mean=[5, 5])
    empty = plan.confirm(np.zeros((900, 2)))
    assert empty.deviation == 2.0
    assert empty.held is False
    assert any("no samples" in note for note in empty.notes)


def test_no_counts_at_all_tell_nothing() -> None:
    nothing = plan_for(15, 300, 100, mean=20).confirm([])
    assert nothing.deviation is None
    assert nothing.held is None
    assert "nan" not in str(nothing)


def test_everybodys_counts_are_exact_even_where_the_range_was_not() -> None:
    everybody = plan_for(2, 10, 100).confirm([1.0, 50.0] * 50)
    assert everybody.deviation_bound == 0.0
    assert everybody.held is True
    tester = registered(4)
    stratum = oort.TakeAll(clients=["phone-0"], range_of_rest=2)
    plan = tester.select_by_deviation(0, 10, take_all=stratum, bound="take-all")
    assert plan.confirm({c: i * 30 for i, c in enumerate(plan)}).deviation_bound == 0.0


def test_one_participant_is_not_said_in_the_plural() -> None:
    assert str(plan_for(300, 300, 100)).startswith("1 participant. ")
    assert "The only client takes part" in plan_for(1, 300, 1).guarantee


def test_confirm_takes_counts_by_client_and_category() -> None:
    tester = registered(200)
    plan = tester.select_by_deviation(3, 10, categories=["cat", "dog"], mean=[4, 1])
    counts = {client: {"cat": 4, "dog": 1} for client in plan}
    assert plan.confirm(counts).deviation == 0
    with pytest.raises(oort.InvalidFeedbackError, match="it is not"):
        plan.confirm({"phone-x": [1, 2]})
    with pytest.raises(
        oort.InvalidArgumentError, match=r"client 'phone-.*: counts must be 2 numbers"
    ):
        plan.confirm({plan.participants[0]: [1, -2]})
    with pytest.raises(oort.InvalidArgumentError, match="counts must be"):
        plan.confirm("many")


def test_confirm_weights_a_take_all_stratum() -> None:
    tester = registered(100)
    stratum = oort.TakeAll(clients=["phone-0"], range_of_rest=2)
    plan = tester.select_by_deviation(1, 1_000, take_all=stratum, mean=11, bound="take-all")
    counts = {c: 1_001 if c == "phone-0" else 1 for c in plan}
    assert plan.confirm(counts).deviation == pytest.approx(0)
    del counts["phone-0"]
    assert any("take-all stratum" in note for note in plan.confirm(counts).notes)


sane = st.floats(0.001, 1.0)


@settings(max_examples=150, deadline=None)
@given(
    target=sane,
    clients=st.integers(1, 2_000_000),
    confidence=st.floats(0.01, 0.999),
    std=st.floats(0.0, 0.5),
    mean=st.floats(0.0, 1.0),
    categories=st.integers(1, 50),
)
def test_any_question_has_an_answer_between_one_and_all(
    target: float, clients: int, confidence: float, std: float, mean: float, categories: int
) -> None:
    std = min(std, math.sqrt(mean * (1 - mean)))
    common = {"confidence": confidence, "categories": categories}
    known = {"std": std, "mean": mean, "min_capacity": 0.0, "expected_std": std}
    plan = plan_for(target, 1, clients, **common, **known)
    basic = plan_for(target, 1, clients, **common)
    assert 1 <= plan.num_participants <= basic.num_participants <= clients
    harder = plan_for(target / 2, 1, clients, **common, **known)
    assert harder.num_participants >= plan.num_participants
    surer = plan_for(target, 1, clients, **{**common, "confidence": (1 + confidence) / 2}, **known)
    assert surer.num_participants >= plan.num_participants


@settings(max_examples=60, deadline=None)
@given(clients=st.integers(2, 3_000), std=st.floats(0.001, 0.5), target=sane)
def test_more_participants_than_needed_never_weaken_a_bound(
    clients: int, std: float, target: float
) -> None:
    plan = plan_for(target, 1, clients, std=std, mean=0.5, min_capacity=0, expected_std=std)
    question = plan.request.question()
    sizes = np.arange(1.0, clients)
    for bound in BOUNDS.values():
        if not bound.lacks(question):
            chance = bound.log_failure(sizes, question)
            assert np.all(chance[1:] <= chance[:-1] + 1e-9), bound.name
