"""Exchanging clients: sets that hold, with and without compiled code, and faster plans."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

import numpy as np
import pytest

from oort import kernels
from oort.errors import BudgetTooSmallError
from oort.testing import LocalTestingSelector, create_testing_selector
from oort.testing.category import Category, budget
from oort.testing.category import exchange as exchange_module
from oort.testing.category.assign import saturate
from oort.testing.category.exchange import Exchange
from oort.testing.category.problem import Problem
from tests.testing.category.test_cover import random_problem

CATEGORIES = 60


def many_categories() -> tuple[LocalTestingSelector, dict[Category, int]]:
    """Clients that hold seven to twenty of sixty categories, and a fiftieth of what they hold."""
    g, clients = np.random.default_rng(8), 400
    popularity = 1.0 / np.arange(1, CATEGORIES + 1) ** 0.8
    counts = np.zeros((clients, CATEGORIES), np.int64)
    for row in counts:
        held = g.choice(
            CATEGORIES, g.integers(7, 21), replace=False, p=popularity / popularity.sum()
        )
        row[held] = np.ceil(g.lognormal(1.8, 1.2, len(held)))
    tester = create_testing_selector()
    tester.update_clients_info(
        np.arange(clients),
        counts,
        samples_per_s=g.lognormal(2.0, 0.6, clients),
        bandwidth_mbps=g.lognormal(2.0, 0.8, clients),
    )
    return tester, {c: max(1, int(k) // 50) for c, k in enumerate(counts.sum(axis=0))}


def plain_loops(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A second copy of the loops, which nobody compiles."""
    origin = import_module("oort.testing.category.exchange_loops").__file__
    assert origin is not None
    spec = spec_from_file_location("plain_exchange_loops", origin)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "backend", lambda: "numpy")
        spec.loader.exec_module(module)
    return module


def exchanged(problem: Problem, steps: int) -> list[list[int]]:
    """The sets that the search passes on its way to few clients."""
    exchange = Exchange(problem, np.array([3]))
    exchange.begin(np.arange(problem.num_clients), problem.room(9.0))
    sets = []
    for size in range(problem.num_clients - 1, 0, -1):
        found = exchange.improved(budget=size, steps=steps)
        sets.append(exchange.rows.tolist())
        if found is None:
            break
    return sets


@pytest.mark.parametrize("seed", range(3))
def test_compiled_and_plain_loops_make_the_same_moves(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")
    problem = random_problem(seed, n=40)
    fast = exchanged(problem, 30)
    loops = plain_loops(monkeypatch)
    monkeypatch.setattr(exchange_module, "import_module", lambda _: loops)
    assert exchanged(problem, 30) == fast


@pytest.mark.parametrize("seed", range(20))
def test_a_set_that_is_said_to_lack_nothing_meets_the_request_within_the_budget(
    seed: int,
) -> None:
    problem = random_problem(seed, n=60, m=8)
    room, required = problem.room(9.0), np.array([5, 7])
    exchange = Exchange(problem, required)
    exchange.begin(np.arange(60), room)
    rows = np.arange(60)
    assert not saturate(problem, room)[1].any()
    for size in range(59, 1, -1):
        found = exchange.improved(budget=size, steps=100)
        if found is None:
            break
        rows = found
        assert len(rows) <= size
        assert set(required) <= set(rows.tolist())
        assert not saturate(problem.take(rows), room[rows])[1].any()
    assert len(rows) < 60


def test_a_search_ends_when_its_work_is_worth_as_many_seconds_as_it_may_cost() -> None:
    problem = random_problem(1, n=60, m=8)
    exchange = Exchange(problem)
    exchange.begin(np.arange(60), problem.room(9.0))
    assert exchange.improved(budget=1, steps=10**9, seconds=0.01) is None
    first = exchange.spent_s
    assert first >= 0.01
    assert exchange.improved(budget=1, steps=10**9, seconds=0.01) is None
    assert exchange.spent_s - first >= 0.01
    assert exchange.spent_s > exchange.steps * exchange.step_s(1), "searching the flow counts too"


@pytest.fixture
def without_milps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the tests five seconds each."""
    monkeypatch.setattr(budget, "polish", lambda _: None)


@pytest.mark.usefixtures("without_milps")
def test_few_clients_for_many_categories_get_a_plan_near_the_proven_bound() -> None:
    pytest.importorskip("numba", reason="without the extra 'fast' moves are few")
    tester, request = many_categories()
    plan = tester.select_by_category(request, {"budget": 13, "transfer_mb": 14.0})
    assert len(plan) <= 13
    assert plan.gap < 0.8


@pytest.mark.usefixtures("without_milps")
def test_as_many_clients_as_are_said_to_suffice_do() -> None:
    tester, request = many_categories()
    with pytest.raises(BudgetTooSmallError) as caught:
        tester.select_by_category(request, {"budget": 2, "transfer_mb": 14.0})
    least = caught.value.least_found
    assert least is not None
    assert least < 15  # as greedy sets need
    assert len(tester.select_by_category(request, {"budget": least, "transfer_mb": 14.0})) <= least
