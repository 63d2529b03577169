"""Sets of clients: greedy ones, the paper's, and with and without compiled code."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oort.testing.category import problem as problem_module
from oort.testing.category.cover import greedy_cover, most_samples_first
from oort.testing.category.prices import Priced
from oort.testing.category.problem import Problem, samples_within


def random_problem(seed: int, n: int = 300, m: int = 12) -> Problem:
    g = np.random.default_rng(seed)
    dense = g.integers(0, 30, (n, m)) * (g.random((n, m)) < 0.3)
    dense[:, 0] = np.maximum(dense[:, 0], 1)
    quota = np.maximum(1, dense.sum(axis=0) // 5)
    dense = np.minimum(dense, quota)
    rows, category = np.nonzero(dense)
    return Problem(
        indptr=np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64),
        category=category.astype(np.int32),
        count=dense[rows, category].astype(np.int32),
        fixed_s=g.uniform(0, 5, n),
        speed=g.uniform(1, 50, n),
        limit=dense.sum(axis=1).astype(np.int64),
        quota=quota.astype(np.int64),
    )


@pytest.mark.parametrize("seed", range(8))
def test_every_greedy_pick_is_the_best_there_is_at_that_moment(seed: int) -> None:
    problem = random_problem(seed, n=60, m=5)
    prices = np.random.default_rng(seed).integers(1, 20, 5)
    room = problem.room(4.0).tolist()
    picks, left = greedy_cover(Priced(problem, prices), problem.room(4.0), limit=60)
    wanted, chosen = problem.quota.tolist(), []
    held = []
    for n in range(60):
        part = slice(problem.indptr[n], problem.indptr[n + 1])
        pairs = zip(problem.category[part].tolist(), problem.count[part].tolist(), strict=True)
        held.append(dict(pairs))
    order = sorted(range(5), key=lambda c: -prices[c])

    def gives(n: int) -> dict[int, int]:
        own, out = room[n], {}
        for c in order:
            out[c] = min(held[n].get(c, 0), wanted[c], own)
            own -= out[c]
        return out

    def worth(n: int) -> int:
        return 0 if n in chosen else sum(int(prices[c]) * k for c, k in gives(n).items())

    for pick in picks.tolist():
        assert worth(pick) == max(worth(n) for n in range(60)) > 0
        for c, k in gives(pick).items():
            wanted[c] -= k
        chosen.append(pick)
    assert wanted == left.tolist()
    assert not any(wanted) or max(worth(n) for n in range(60)) == 0


@pytest.mark.parametrize("seed", range(4))
def test_compiled_and_plain_loops_pick_the_same_clients(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="the compiled loop needs the extra 'fast'")
    problem = random_problem(seed)
    priced = Priced(problem, np.random.default_rng(seed).integers(1, 1000, 12))
    plain = greedy_cover(priced, problem.room(5.0), limit=200)
    grouped = most_samples_first(problem, problem.count * 2, limit=300)
    monkeypatch.setattr(problem_module, "_COMPILED_FROM", 0)
    for one, other in (
        (plain, greedy_cover(priced, problem.room(5.0), limit=200)),
        (grouped, most_samples_first(problem, problem.count * 2, limit=300)),
    ):
        assert one[0].tolist() == other[0].tolist()
        assert one[1].tolist() == other[1].tolist()


@pytest.mark.parametrize("seed", range(4))
def test_compiled_and_plain_loops_value_clients_the_same(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="the compiled loop needs the extra 'fast'")
    problem = random_problem(seed)
    prices, ties = np.random.default_rng(seed).integers(0, 5, (2, 12))
    plain = Priced(problem, prices, ties=ties.astype(np.float64))
    order, values = plain.order(), plain.values(problem.room(3.0))
    monkeypatch.setattr(problem_module, "_COMPILED_FROM", 0)
    fast = Priced(problem, prices, ties=ties.astype(np.float64))
    assert fast.order().tolist() == order.tolist()
    assert fast.values(problem.room(3.0)).tolist() == values.tolist()


@given(
    deadline_s=st.floats(0.0, 1e7),
    clients=st.lists(
        st.tuples(
            st.floats(0.0, 1e6), st.floats(1e-6, 1e9), st.integers(0, 2**53), st.floats(0, 1.5)
        ),
        min_size=1,
        max_size=8,
    ),
)
def test_compiled_and_plain_loops_count_the_same_samples_within_a_deadline(
    deadline_s: float, clients: list[tuple[float, float, int, float]]
) -> None:
    pytest.importorskip("numba", reason="the compiled loop needs the extra 'fast'")
    fixed_s, speed = np.array([c[0] for c in clients]), np.array([c[1] for c in clients])
    limit = np.array([c[2] for c in clients], np.int64)
    share = np.array([c[3] for c in clients])
    breakpoints = fixed_s + np.minimum(np.floor(limit * share), limit) / speed
    for moment in (deadline_s, *breakpoints.tolist()):
        plain = samples_within(moment, fixed_s, speed, limit)
        compiled = import_module("oort.testing.category.compiled")
        fast = compiled.samples_within(moment, fixed_s, speed, limit)
        assert fast.tolist() == plain.tolist()


def test_the_paper_takes_the_client_with_most_samples_of_what_is_still_wanted() -> None:
    problem = random_problem(11, n=80, m=6)
    held = problem.count.astype(np.int64) * 3
    chosen, left = most_samples_first(problem, held, limit=80)
    wanted = problem.quota.copy()
    used: list[int] = []
    for row in chosen.tolist():
        sums = np.add.reduceat(
            np.where(wanted[problem.category] > 0, held, 0), problem.indptr[:-1]
        )
        sums[used] = -1
        assert sums[row] == sums.max()
        part = slice(problem.indptr[row], problem.indptr[row + 1])
        wanted[problem.category[part]] -= np.minimum(
            wanted[problem.category[part]], problem.count[part]
        )
        used.append(row)
    assert wanted.tolist() == left.tolist() == [0] * 6


def test_prices_value_a_client_as_a_knapsack_would() -> None:
    problem = random_problem(3, n=40, m=4)
    prices = np.array([5, 1, 9, 0])
    room = problem.room(3.0)
    values = Priced(problem, prices).values(room)
    for n in range(40):
        part = slice(problem.indptr[n], problem.indptr[n + 1])
        units = sorted(
            (
                int(prices[c])
                for c, k in zip(problem.category[part], problem.count[part], strict=True)
                for _ in range(k)
            ),
            reverse=True,
        )
        assert values[n] == sum(units[: int(room[n])])
