"""Requests of every kind: each gets a plan that the checker accepts, or a reason that holds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from oort.errors import (
    BudgetTooSmallError,
    InvalidRequestError,
    NotEnoughSamplesError,
    OutOfTimeError,
)
from oort.testing import LocalTestingSelector, create_testing_selector
from oort.testing.category import problem
from tests.testing.category.checker import check_certificate, check_plan

Clients = dict[str, dict[str, Any]]


def random_clients(g: np.random.Generator, names: list[Any], unit: int) -> Clients:
    """Up to sixty clients, some without anything, some capped, counts in multiples of a unit."""
    clients = {}
    for n in range(int(g.choice([1, 2, 3, 8, 20, 60]))):
        density, kind = g.uniform(0.2, 1.0), np.float32 if g.random() < 0.5 else np.float64
        held = {c: int(g.integers(0, 40)) * unit for c in names if g.random() < density}
        clients[f"k{n}"] = {
            "samples": held,
            "samples_per_s": float(kind(g.uniform(0.5, 100) * unit)),
            "bandwidth_mbps": float(kind(g.uniform(1, 50))),
            "transfer_mb": float(g.uniform(0, 9)) if g.random() < 0.3 else None,
            "max_samples": int(g.integers(0, 100)) * unit if g.random() < 0.2 else None,
        }
    return clients


def knowing(clients: Clients, categories: list[Any] | None) -> LocalTestingSelector:
    tester = create_testing_selector(categories=categories)
    for name, info in clients.items():
        tester.update_client_info(name, {k: v for k, v in info.items() if v is not None})
    return tester


@pytest.mark.parametrize("seed", range(120))
def test_any_request_gets_a_plan_that_holds_or_a_reason_that_does(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    g = np.random.default_rng([5, seed])
    monkeypatch.setattr(problem, "_COMPILED_FROM", 0 if seed % 2 else 10_000)
    unit = int(g.choice([1, 1, 1, 2**31, 2**40]))
    names = [f"c{i}" if g.random() < 0.7 else i for i in range(int(g.integers(1, 9)))]
    clients = random_clients(g, names, unit)
    tester = knowing(clients, names if g.random() < 0.5 else None)
    offline = tuple(i for i in clients if g.random() < 0.15)
    tester.mark_offline(offline)
    excluded = tuple(i for i in clients if g.random() < 0.1)
    required = tuple(i for i in clients if g.random() < 0.1 and i not in offline + excluded)
    among = [i for i in clients if g.random() < 0.8 or i in required]
    usable = set(among) - set(offline) - set(excluded)
    request = {
        c: int(sum(clients[i]["samples"].get(c, 0) for i in usable) * g.uniform(0, 0.9))
        for c in names
        if tester.information.column(c) is not None
    }
    budget = int(g.integers(1, len(clients) + 1)) if g.random() < 0.7 else None
    cap = int(g.integers(1, 80)) * unit if g.random() < 0.3 else None
    config = {
        "budget": budget,
        "transfer_mb": float(g.choice([0.0, 3.0])),
        "required": required,
        "excluded": excluded,
        "max_samples_per_client": cap,
        "tolerance": float(g.choice([0.0, 0.01, 0.2])),
        "time_limit_s": float(g.choice([1e-9, 1e-3, 5.0])) if g.random() < 0.4 else None,
        "method": str(g.choice(["oort", "oort", "paper"])),
    }
    try:
        plan = tester.select_by_category(request, config, among=among)
    except BudgetTooSmallError as error:
        least = error.least_found
        assert budget is not None
        if least is not None and config["method"] == "oort":
            assert least > budget
            again = {**config, "budget": least, "time_limit_s": None}
            assert len(tester.select_by_category(request, again, among=among)) <= least
        return
    except NotEnoughSamplesError:
        assert cap is not None or any(c["max_samples"] is not None for c in clients.values())
        return
    except (InvalidRequestError, OutOfTimeError):
        assert sum(request.values()) == 0 or config["method"] == "paper"
        return
    conditions: dict[str, Any] = {
        "budget": budget,
        "required": required,
        "transfer_mb": config["transfer_mb"],
        "cap": cap,
    }
    check_plan(plan, clients, request, excluded=excluded + offline, **conditions)
    if unit == 1:
        check_certificate(plan, {i: clients[i] for i in usable | set(required)}, **conditions)
    told = json.loads(plan.to_json())
    given = [(p["client"], c, k) for p in told["participants"] for c, k in p["samples"]]
    assert given == [(i, c, k) for i, own in plan.assignment.items() for c, k in own.items()]
    assert f"{plan.duration_s:.4g} seconds" in plan.explain()


def test_a_request_for_trillions_of_samples_ends() -> None:
    g = np.random.default_rng(3)
    clients: dict[Any, dict[str, Any]] = {
        n: {
            "samples": {c: int(k) for c, k in enumerate(g.integers(0, 2**45, 6))},
            "samples_per_s": float(g.uniform(1e12, 1e14)),
            "bandwidth_mbps": 5.0,
        }
        for n in range(40)
    }
    tester = create_testing_selector()
    for name, info in clients.items():
        tester.update_client_info(name, info)
    supply = np.sum([list(c["samples"].values()) for c in clients.values()], axis=0)
    request: dict[Any, int] = {c: int(k) // 2 for c, k in enumerate(supply)}
    for budget in (None, 30):
        plan = tester.select_by_category(request, {"budget": budget})
        check_plan(plan, clients, request, budget=budget)


def test_out_of_time_it_still_says_how_many_clients_suffice() -> None:
    tester = create_testing_selector()
    for n in range(30):
        tester.update_client_info(n, {"samples": {"cat": 10}, "samples_per_s": 5.0})
    with pytest.raises(BudgetTooSmallError) as caught:
        tester.select_by_category({"cat": 250}, {"budget": 7, "time_limit_s": 1e-9})
    assert caught.value.proven_minimum == 25
    assert caught.value.least_found is not None
    assert 25 <= caught.value.least_found <= 30
