"""Category requests as a user makes them."""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from oort.config import TestingConfig
from oort.errors import (
    BudgetTooSmallError,
    ConfigError,
    IncompleteClientWarning,
    InvalidRequestError,
    MissingExtraError,
    NotEnoughSamplesError,
    OutOfTimeError,
    UnknownCategoryError,
    UnknownClientError,
)
from oort.testing import LocalTestingSelector, create_testing_selector
from oort.testing.category import Balanced, Representative
from oort.types import ClientInfo, RowNumbers
from tests.testing.category.checker import check_certificate, check_plan
from tests.testing.category.instances import random_instance, selector_for

CAMERAS: dict[str, dict[str, Any]] = {
    "cam-1": {"samples": {"cat": 50, "dog": 50}, "samples_per_s": 10.0, "bandwidth_mbps": 8.0},
    "cam-2": {"samples": {"cat": 50, "dog": 10}, "samples_per_s": 5.0, "bandwidth_mbps": 80.0},
    "cam-3": {"samples": {"dog": 90}, "samples_per_s": 20.0, "bandwidth_mbps": 16.0},
    "cam-4": {"samples": {"emu": 5}, "samples_per_s": 1.0, "bandwidth_mbps": 1.0},
}


@pytest.fixture
def tester() -> LocalTestingSelector:
    """Four cameras."""
    return selector_for(CAMERAS)


def test_a_plan_says_everything_about_itself(tester: LocalTestingSelector) -> None:
    plan = tester.select_by_category(
        {"cat": 60, "dog": 60}, TestingConfig(budget=3, transfer_mb=2)
    )
    check_plan(plan, CAMERAS, {"cat": 60, "dog": 60}, budget=3, transfer_mb=2)
    check_certificate(plan, CAMERAS, budget=3, transfer_mb=2)
    assert list(plan) == plan.participants
    assert plan.gap == 0.0
    assert plan.optimal
    assert plan.solver_s > 0
    words = plan.explain()
    for text in (
        "120 samples",
        "60 of cat",
        "Everyone waits for",
        "No plan is faster",
        "3 allowed",
    ):
        assert text in words
    content = json.loads(plan.to_json())
    assert content["duration_s"] == plan.duration_s
    assert [c["client"] for c in content["participants"]] == plan.participants
    assert content["bottleneck"] == plan.bottleneck
    assert "participants" not in repr(plan)


def test_a_plan_is_a_data_frame_too(tester: LocalTestingSelector) -> None:
    pytest.importorskip("pandas", reason="data frames need pandas")
    plan = tester.select_by_category({"cat": 60, "dog": 60})
    frame = plan.to_frame()
    assert list(frame.columns) == ["client", "category", "samples", "client_duration_s"]
    sums = frame.groupby("category")["samples"].sum().to_dict()
    assert sums == {"cat": 60, "dog": 60}


def test_a_list_asks_in_the_order_of_the_categories(tester: LocalTestingSelector) -> None:
    plan = tester.select_by_category([10, 20, 0])
    assert plan.request == {"cat": 10, "dog": 20}


def test_representative_samples_follow_the_shares_of_all_the_data(
    tester: LocalTestingSelector,
) -> None:
    plan = tester.select_by_category(Representative(51))
    assert plan.request == {"cat": 20, "dog": 30, "emu": 1}
    only = tester.select_by_category(Representative(50, categories=["cat", "dog"]))
    assert only.request == {"cat": 20, "dog": 30}


def test_balanced_samples_are_the_same_of_each_category(tester: LocalTestingSelector) -> None:
    assert tester.select_by_category(Balanced(11)).request == {"cat": 4, "dog": 4, "emu": 3}
    assert tester.select_by_category(Balanced()).request == {"cat": 5, "dog": 5, "emu": 5}
    pets = Balanced(categories=["cat", "dog"])
    assert tester.select_by_category(pets).request == {"cat": 100, "dog": 100}


def test_only_clients_that_are_online_and_asked_for_take_part(
    tester: LocalTestingSelector,
) -> None:
    tester.mark_offline(["cam-3"])
    assert "cam-3" not in list(tester.select_by_category({"dog": 55}))
    tester.mark_online(["cam-3"])
    assert list(tester.select_by_category({"dog": 20}, among=["cam-1"])) == ["cam-1"]
    assert list(tester.select_by_category({"dog": 5}, among=RowNumbers([1]))) == ["cam-2"]
    mask = np.array([False, False, True, True])
    assert list(tester.select_by_category({"dog": 20}, among=mask)) == ["cam-3"]


def test_required_clients_take_part_even_with_nothing_to_do(tester: LocalTestingSelector) -> None:
    config = TestingConfig(required=("cam-4",), transfer_mb=1, budget=3)
    plan = tester.select_by_category({"cat": 20}, config)
    check_plan(plan, CAMERAS, {"cat": 20}, required=("cam-4",), budget=3, transfer_mb=1)
    assert plan.assignment["cam-4"] == {}
    assert plan.duration_s == 8.0
    assert plan.certificate is not None
    assert plan.certificate.kind == "required"
    assert plan.optimal
    assert "required client" in plan.explain()
    assert sum(1 for record in plan.records() if record[0] == "cam-4") == 1


BAD_REQUESTS: list[tuple[Any, type[Exception], str]] = [
    ({}, InvalidRequestError, "at least one sample"),
    ({"cat": 0}, InvalidRequestError, "at least one sample"),
    ([], InvalidRequestError, r"one number per category \(3\); got 0"),
    ([1, 2], InvalidRequestError, r"one number per category \(3\); got 2"),
    ({"cat": -1}, InvalidRequestError, r"request\['cat'\] must be a whole number .*; got -1"),
    ({"cat": 1.5}, InvalidRequestError, r"request\['cat'\] must be .*; got 1.5"),
    ({"cat": float("nan")}, InvalidRequestError, "must be a whole number"),
    ({"cow": 5}, UnknownCategoryError, "must name known categories .*'cat'.*; got 'cow'"),
    ("cat", InvalidRequestError, "a mapping, a list"),
    (7, InvalidRequestError, "a mapping, a list"),
    (Representative(-5), InvalidRequestError, "Representative.samples must be"),
    (Representative(0), InvalidRequestError, "at least one sample"),
    (Balanced(5, categories=["cow"]), UnknownCategoryError, "got 'cow'"),
]


@pytest.mark.parametrize(("request_", "kind", "message"), BAD_REQUESTS)
def test_bad_requests_say_what_is_wrong(
    tester: LocalTestingSelector, request_: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        tester.select_by_category(request_)


def test_bad_settings_are_named() -> None:
    for settings, message in (
        ({"budget": 0}, "TestingConfig.budget must be a whole number, 1 or more; got 0"),
        ({"budget": 2.5}, "TestingConfig.budget must be"),
        ({"transfer_mb": -1}, "TestingConfig.transfer_mb must be"),
        ({"tolerance": float("nan")}, "TestingConfig.tolerance must be"),
        ({"time_limit_s": 0}, "TestingConfig.time_limit_s must be"),
        (
            {"method": "magic"},
            "TestingConfig.method must be one of oort, paper, milp; got 'magic'",
        ),
        ({"required": "cam-1"}, "TestingConfig.required must be a collection of client ids"),
        ({"required": ["a"], "excluded": ["a"]}, "TestingConfig.excluded must be"),
        ({"buget": 3}, "did you mean 'budget'"),
    ):
        with pytest.raises(ConfigError, match=message):
            TestingConfig.from_dict(settings)
    config = TestingConfig(budget=5, required=("a", 3), tolerance=0)
    assert TestingConfig.from_dict(config.to_dict()) == config


def test_unknown_required_and_offline_required_clients_are_refused(
    tester: LocalTestingSelector,
) -> None:
    with pytest.raises(UnknownClientError, match="cam-9"):
        tester.select_by_category({"cat": 1}, {"required": ["cam-9"]})
    tester.mark_offline(["cam-2"])
    with pytest.raises(InvalidRequestError, match="'cam-2'"):
        tester.select_by_category({"cat": 1}, {"required": ["cam-2"]})
    assert len(tester.select_by_category({"cat": 1}, {"excluded": ["cam-9"]})) == 1


def test_a_lack_of_samples_is_told_by_category(tester: LocalTestingSelector) -> None:
    with pytest.raises(NotEnoughSamplesError, match="'cat' has 100 of 130, 30 too few") as caught:
        tester.select_by_category({"cat": 130, "dog": 150, "emu": 9})
    assert caught.value.lacking == {"cat": 30, "emu": 4}
    assert not caught.value.together


def test_caps_that_stand_in_the_way_are_told(tester: LocalTestingSelector) -> None:
    with pytest.raises(NotEnoughSamplesError, match="together 40 samples are missing") as caught:
        tester.select_by_category({"cat": 50, "dog": 50}, {"max_samples_per_client": 20})
    assert caught.value.together
    assert sum(caught.value.lacking.values()) == 40


def test_a_budget_that_is_too_small_comes_with_one_that_works(
    tester: LocalTestingSelector,
) -> None:
    with pytest.raises(BudgetTooSmallError, match="at least 3 participants") as caught:
        tester.select_by_category({"cat": 60, "emu": 1}, {"budget": 2})
    assert (caught.value.budget, caught.value.proven_minimum) == (2, 3)
    assert caught.value.least_found == 3
    assert len(tester.select_by_category({"cat": 60, "emu": 1}, {"budget": 3})) == 3


def test_a_budget_below_the_required_clients_comes_with_one_that_works(
    tester: LocalTestingSelector,
) -> None:
    config: dict[str, Any] = {"budget": 1, "required": ["cam-1", "cam-2"]}
    with pytest.raises(BudgetTooSmallError, match="not cover the 2 required clients") as caught:
        tester.select_by_category({"cat": 60, "emu": 1}, config)
    least = caught.value.least_found
    assert (caught.value.proven_minimum, least) == (3, 3)
    assert len(tester.select_by_category({"cat": 60, "emu": 1}, config | {"budget": least})) == 3


@pytest.mark.parametrize("seed", range(25))
def test_the_budgets_named_in_the_error_hold(seed: int) -> None:
    clients, request = random_instance(seed)
    tester = selector_for(clients)
    try:
        tester.select_by_category(request, {"budget": 1})
    except BudgetTooSmallError as error:
        refused = error
    else:
        return
    assert refused.least_found is not None
    plan = tester.select_by_category(request, {"budget": refused.least_found})
    check_plan(plan, clients, request, budget=refused.least_found)
    with pytest.raises(BudgetTooSmallError):
        tester.select_by_category(request, {"budget": refused.proven_minimum - 1})


def test_clients_without_a_known_speed_are_left_out_with_a_warning(
    tester: LocalTestingSelector,
) -> None:
    tester.update_client_info("cam-5", ClientInfo(samples={"cat": 1000}))
    with pytest.warns(
        IncompleteClientWarning, match="1 client is left out .*'cam-5'.*samples_per_s"
    ) as caught:
        plan = tester.select_by_category({"cat": 60})
    assert caught[0].filename == __file__
    assert "cam-5" not in list(plan)


def test_a_time_limit_gives_the_best_plan_so_far_with_its_gap() -> None:
    g = np.random.default_rng(1)
    counts = g.integers(0, 30, (3_000, 40)) * (g.random((3_000, 40)) < 0.2)
    tester = create_testing_selector()
    speed, mbps = g.uniform(1, 50, 3_000), g.uniform(1, 50, 3_000)
    tester.update_clients_info(np.arange(3_000), counts, samples_per_s=speed, bandwidth_mbps=mbps)
    config = TestingConfig(budget=150, transfer_mb=10, tolerance=0, time_limit_s=0.01)
    plan = tester.select_by_category(Representative(20_000), config)
    assert len(plan) <= 150
    assert plan.lower_bound_s <= plan.duration_s
    moves: list[tuple[float, float]] = []
    better = tester.select_by_category(
        Representative(20_000),
        TestingConfig(budget=150, transfer_mb=10),
        progress=lambda low, best: moves.append((low, best)),
    )
    assert better.duration_s <= plan.duration_s
    assert moves[-1] == (better.lower_bound_s, better.duration_s)


def test_the_straw_man_says_when_it_found_nothing_in_time() -> None:
    g = np.random.default_rng(1)
    tester = create_testing_selector()
    counts = g.integers(0, 30, (2_000, 30))
    tester.update_clients_info(np.arange(2_000), counts, samples_per_s=g.uniform(1, 50, 2_000))
    config = TestingConfig(budget=50, method="milp", time_limit_s=0.05)
    with pytest.raises(OutOfTimeError, match="time limit"):
        tester.select_by_category(Representative(10_000), config)


@pytest.mark.parametrize("method", ["milp", "paper"])
@pytest.mark.parametrize("budget", [None, 4])
def test_a_plan_that_a_solver_does_not_see_is_not_called_impossible(
    method: str, budget: int | None
) -> None:
    tester = create_testing_selector()
    for n in range(6):
        tester.update_client_info(
            n, {"samples": {"cat": 9}, "samples_per_s": 1, "bandwidth_mbps": 10.0 ** (n - 3)}
        )
    config = TestingConfig(budget=budget, transfer_mb=1e12, method=method, solver="highs")
    with pytest.raises(OutOfTimeError, match="too far apart for its tolerances"):
        tester.select_by_category({"cat": 20}, config)


def test_gurobi_is_never_required(
    tester: LocalTestingSelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gurobipy", None)
    config = TestingConfig(method="milp", solver="auto")
    assert tester.select_by_category({"cat": 20}, config).request == {"cat": 20}
    with pytest.raises(MissingExtraError, match="pip install gurobipy"):
        tester.select_by_category({"cat": 20}, TestingConfig(method="milp", solver="gurobi"))


def test_a_gurobi_without_a_licence_is_done_without_unless_it_is_insisted_on(
    tester: LocalTestingSelector, monkeypatch: pytest.MonkeyPatch
) -> None:
    class UnlicensedError(Exception):
        def __str__(self) -> str:
            return "no licence was found"

    def no_licence(**_: object) -> None:
        raise UnlicensedError

    unlicensed = SimpleNamespace(GurobiError=UnlicensedError, Env=no_licence)
    monkeypatch.setitem(sys.modules, "gurobipy", cast(Any, unlicensed))
    config = TestingConfig(method="milp", solver="auto")
    assert tester.select_by_category({"cat": 20}, config).request == {"cat": 20}
    with pytest.raises(ConfigError, match=r"licensed .* no licence was found"):
        tester.select_by_category({"cat": 20}, TestingConfig(method="milp", solver="gurobi"))


def test_gurobi_is_used_where_it_is_installed(tester: LocalTestingSelector) -> None:
    gurobi = pytest.importorskip("gurobipy", reason="Gurobi is not installed")
    try:
        gurobi.Env(params={"OutputFlag": 0}).dispose()
    except gurobi.GurobiError as error:
        pytest.skip(f"Gurobi is not licensed: {error}")
    plans = [
        tester.select_by_category({"cat": 20}, TestingConfig(method="milp", solver=solver))
        for solver in ("highs", "gurobi")
    ]
    assert plans[0].duration_s == plans[1].duration_s


def test_the_same_request_gets_the_same_plan() -> None:
    clients, request = random_instance(8, most_clients=40)
    plans = [selector_for(clients).select_by_category(request, {"budget": 12}) for _ in range(2)]
    assert plans[0].assignment == plans[1].assignment


def test_several_threads_may_update_and_ask_at_once(tester: LocalTestingSelector) -> None:
    failures: list[BaseException] = []

    def work(place: int) -> None:
        try:
            for n in range(30):
                info = ClientInfo(
                    samples={"cat": 9, "dog": n}, samples_per_s=5.0, bandwidth_mbps=4
                )
                tester.update_client_info(f"new-{place}-{n}", info)
                plan = tester.select_by_category({"cat": 60, "dog": 30})
                assert sum(plan.samples) == 90
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.data
@pytest.mark.skipif(
    "OORT_DATA" not in os.environ, reason="OORT_DATA does not name the real counts"
)
@pytest.mark.parametrize(("samples", "budget"), [(4_000, 100), (20_000, 200), (100_000, 5_000)])
def test_plans_on_real_counts_are_close_to_the_proven_optimum(samples: int, budget: int) -> None:
    data = Path(os.environ["OORT_DATA"])
    counts = np.load(data / "counts" / "openimage_counts_12745x50.npz")["counts"]
    devices = np.load(data / "devices" / "fedscale_capacity_51496.npz")
    n = len(counts)
    speed = 1000.0 / devices["computation_ms"][:n].astype(np.float64)
    mbps = devices["communication_kbps"][:n] / 1000.0
    tester = create_testing_selector()
    tester.update_clients_info(np.arange(n), counts, samples_per_s=speed, bandwidth_mbps=mbps)
    config = TestingConfig(budget=budget, transfer_mb=14)
    plan = tester.select_by_category(Representative(samples), config)
    clients = {
        int(i): {
            "samples": {int(c): int(counts[i, c]) for c in np.flatnonzero(counts[i])},
            "samples_per_s": float(speed[i]),
            "bandwidth_mbps": float(mbps[i]),
        }
        for i in plan
    }
    check_plan(plan, clients, plan.request, budget=budget, transfer_mb=14)
    assert plan.gap <= 0.05
