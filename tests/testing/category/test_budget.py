"""The search within a budget: what it asks of the solvers."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from oort.testing.category import budget
from oort.testing.category.assign import saturate
from oort.testing.category.problem import Problem
from oort.testing.category.relax import whole_flow


def test_a_solver_is_always_given_some_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, given = itertools.count(), []

    def whole_cover(*_: Any, time_limit_s: float, **__: Any) -> tuple[None, bool]:
        given.append(time_limit_s)
        return None, False

    monkeypatch.setattr(budget, "time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    monkeypatch.setattr(budget, "whole_cover", whole_cover)
    two = Problem(
        indptr=np.array([0, 1, 2]),
        category=np.array([0, 0]),
        count=np.array([3, 3]),
        fixed_s=np.zeros(2),
        speed=np.ones(2),
        limit=np.array([3, 3]),
        quota=np.array([4]),
    )
    search = budget.Search(problem=two, budget=2, required=np.zeros(0, np.int64))
    budget._whole_among(search, np.arange(2), two.limit, ends=0.5)
    assert given == [0.5]


def random_problem(g: np.random.Generator) -> Problem:
    """A few clients with room for less than they hold."""
    n, m = int(g.integers(2, 9)), int(g.integers(1, 5))
    table = g.integers(1, 9, (n, m)) * (g.random((n, m)) < 0.6)
    table[:, 0] += 1
    quota = np.maximum(1, (table.sum(axis=0) * g.uniform(0.1, 0.8)).astype(np.int64))
    table = np.minimum(table, quota)
    rows, category = np.nonzero(table)
    return Problem(
        indptr=np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]),
        category=category,
        count=table[rows, category],
        fixed_s=np.zeros(n),
        speed=np.ones(n),
        limit=table.sum(axis=1),
        quota=quota,
    )


@pytest.mark.parametrize("seed", range(60))
def test_a_flow_with_whole_clients_is_found_if_and_only_if_there_is_one(seed: int) -> None:
    g = np.random.default_rng([11, seed])
    problem = random_problem(g)
    n = problem.num_clients
    room = np.minimum(problem.limit, g.integers(0, 12, n))
    most, required = int(g.integers(1, n + 1)), np.arange(int(g.random() < 0.3))

    def suffices(rows: Any) -> bool:
        return not saturate(problem.take(rows), room[rows])[1].any()

    sets = [
        np.union1d(required, others).astype(np.int64)
        for others in itertools.combinations(range(n), most)
    ]
    exists = any(len(rows) <= most and suffices(rows) for rows in sets)
    everything = np.ones(problem.num_categories, np.bool_)
    found, proven = whole_flow(
        problem, room, [everything], budget=most, required=required, time_limit_s=60.0
    )
    assert (found is not None, proven) == (exists, not exists)
    if found is not None:
        assert len(found) <= most
        assert set(required) <= set(found.tolist())
        assert suffices(found)
