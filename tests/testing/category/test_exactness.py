"""Plans against an independent checker and an independent MILP."""

from __future__ import annotations

import numpy as np
import pytest

from oort.config import TestingConfig
from oort.errors import BudgetTooSmallError
from oort.testing.category import milp
from tests.testing.category.checker import check_certificate, check_plan
from tests.testing.category.instances import milp_optimum, random_instance, selector_for

TRANSFER_MB = 4.0
CLOSE = 1e-6  # what the MILP solver's own tolerances allow


def budget_for(seed: int, most: int, least: int) -> int:
    """A budget between what is needed at all and what the fastest plan takes."""
    return int(np.random.default_rng([seed, 7]).integers(least, max(least, most) + 1))


@pytest.mark.parametrize("seed", range(200))
def test_without_a_budget_a_plan_is_the_optimum_to_the_sample(seed: int) -> None:
    clients, request = random_instance(seed)
    plan = selector_for(clients).select_by_category(request, {"transfer_mb": TRANSFER_MB})
    check_plan(plan, clients, request, transfer_mb=TRANSFER_MB)
    check_certificate(plan, clients, transfer_mb=TRANSFER_MB)
    assert plan.optimal
    best = milp_optimum(clients, request, TRANSFER_MB, None)
    assert best is not None
    assert plan.duration_s == pytest.approx(best, rel=CLOSE)


@pytest.mark.parametrize("seed", range(80))
def test_with_a_budget_the_optimum_lies_between_lower_bound_and_plan(seed: int) -> None:
    clients, request = random_instance(seed)
    tester = selector_for(clients)
    free = tester.select_by_category(request, {"transfer_mb": TRANSFER_MB})
    try:
        tester.select_by_category(request, {"budget": 1})
        least = 1
    except BudgetTooSmallError as error:
        least = error.proven_minimum
    budget = budget_for(seed, len(free), least)
    best = milp_optimum(clients, request, TRANSFER_MB, budget)
    assert best is not None
    for tolerance in (0.01, 0.0):
        config = TestingConfig(budget=budget, transfer_mb=TRANSFER_MB, tolerance=tolerance)
        try:
            plan = tester.select_by_category(request, config)
        except BudgetTooSmallError as error:
            refused = error
            assert best == float("inf")
            assert refused.proven_minimum > budget
            continue
        check_plan(plan, clients, request, budget=budget, transfer_mb=TRANSFER_MB)
        check_certificate(plan, clients, budget=budget, transfer_mb=TRANSFER_MB)
        assert plan.lower_bound_s <= best * (1 + CLOSE)
        assert plan.duration_s >= best * (1 - CLOSE)
        if tolerance == 0.0:
            assert plan.optimal
            assert plan.duration_s == pytest.approx(best, rel=CLOSE)
        else:
            assert plan.duration_s <= best * (1 + tolerance + CLOSE)


@pytest.mark.parametrize("seed", range(60))
def test_never_slower_than_the_paper_with_its_budget_or_with_the_clients_that_it_used(
    seed: int,
) -> None:
    clients, request = random_instance(seed, most_clients=60, most_categories=8)
    tester = selector_for(clients)
    budget = len(clients) if seed % 2 else max(3, len(clients) // 2)
    try:
        paper = tester.select_by_category(
            request, {"transfer_mb": TRANSFER_MB, "budget": budget, "method": "paper"}
        )
    except BudgetTooSmallError:
        return
    check_plan(paper, clients, request, budget=budget, transfer_mb=TRANSFER_MB)
    for allowed in (budget, len(paper)):
        ours = tester.select_by_category(request, {"transfer_mb": TRANSFER_MB, "budget": allowed})
        check_plan(ours, clients, request, budget=allowed, transfer_mb=TRANSFER_MB)
        assert ours.duration_s <= paper.duration_s
        assert paper.lower_bound_s <= ours.duration_s


@pytest.mark.parametrize("seed", range(30))
def test_the_straw_man_keeps_to_the_budget_and_is_never_faster_than_our_bound(seed: int) -> None:
    clients, request = random_instance(seed, most_clients=12, most_categories=3)
    tester = selector_for(clients)
    budget = max(2, len(clients) // 2)
    config = {"transfer_mb": TRANSFER_MB, "budget": budget}
    try:
        straw = tester.select_by_category(request, {**config, "method": "milp"})
    except BudgetTooSmallError as error:
        refused = error
        assert refused.proven_minimum > budget
        with pytest.raises(BudgetTooSmallError):
            tester.select_by_category(request, config)
        return
    check_plan(straw, clients, request, budget=budget, transfer_mb=TRANSFER_MB)
    ours = tester.select_by_category(request, {**config, "tolerance": 0})
    assert ours.duration_s <= straw.duration_s
    assert ours.lower_bound_s <= straw.duration_s
    assert straw.lower_bound_s <= ours.duration_s


def test_a_solvers_bound_is_not_taken_where_its_tolerances_are_worth_samples() -> None:
    """HiGHS takes one of these clients for the faster of two that could do it; it is not."""
    first = {"samples": {"cat": 138_968_796_056, "dog": 2**40}, "samples_per_s": 40.38807395170437}
    second = {
        "samples": {"cat": 2**40, "dog": 489_427_937_890},
        "samples_per_s": 45.79025963760581,
    }
    clients = {
        1: {**first, "bandwidth_mbps": 8.0, "transfer_mb": 0.0},
        2: {**second, "bandwidth_mbps": 40.80189105174403, "max_samples": 721_698_524_635},
    }
    request: dict[str | int, int] = {"cat": 123_848_042_383, "dog": 158_893_956_566}
    config = {"transfer_mb": 1, "budget": 1, "max_samples_per_client": 2**40, "tolerance": 0}
    tester = selector_for(clients)
    ours = tester.select_by_category(request, config)
    straw = tester.select_by_category(request, {**config, "method": "milp"})
    assert ours.optimal
    assert straw.lower_bound_s <= ours.duration_s <= straw.duration_s


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("budgeted", [True, False])
def test_the_straw_man_finds_the_same_optimum_with_few_rows_as_with_many(
    seed: int, budgeted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clients, request = random_instance(seed, most_clients=10, most_categories=3)
    tester = selector_for(clients)
    config = {"transfer_mb": TRANSFER_MB, "method": "milp"}
    if budgeted:
        config |= {"budget": max(3, len(clients) // 2)}
    durations = []
    for most in (20_000, 0):
        monkeypatch.setattr(milp, "_TIGHT", most)
        try:
            plan = tester.select_by_category(request, config)
        except BudgetTooSmallError:
            durations.append(np.inf)
            continue
        check_plan(plan, clients, request, budget=plan.budget, transfer_mb=TRANSFER_MB)
        durations.append(plan.duration_s)
    assert durations[0] == pytest.approx(durations[1], rel=CLOSE)


@pytest.mark.parametrize("seed", range(40))
def test_required_excluded_and_capped_clients_are_respected(seed: int) -> None:
    clients, request = random_instance(seed)
    g = np.random.default_rng([seed, 3])
    names = list(clients)
    for name in names:
        if g.random() < 0.3:
            clients[name]["max_samples"] = int(g.integers(0, 30))
    request = {c: max(1, k // 4) for c, k in request.items()}
    required, excluded = (names[0],), (names[1],)
    config = TestingConfig(
        transfer_mb=TRANSFER_MB,
        required=required,
        excluded=excluded,
        max_samples_per_client=40,
        budget=len(names) if seed % 2 else max(2, len(names) // 2),
    )
    try:
        plan = selector_for(clients).select_by_category(request, config)
    except ValueError as error:
        assert "lack" in str(error) or "suffice" in str(error) or "budget" in str(error)  # noqa: PT017
        return
    rules = {"required": required, "transfer_mb": TRANSFER_MB, "cap": 40, "budget": config.budget}
    check_plan(plan, clients, request, excluded=excluded, **rules)  # type: ignore[arg-type]
    allowed = {name: c for name, c in clients.items() if name not in excluded}
    check_certificate(plan, allowed, **rules)  # type: ignore[arg-type]
