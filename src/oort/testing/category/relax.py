"""Few clients that can meet a request in time: a linear programme over the clients alone.

By the max-flow min-cut theorem a share y_n of each client can meet the request within T if and
only if

    Σ_n y_n · min(u_n(T), c_n(A)) ≥ p(A)   for every set A of categories.

Minimising Σ y over these rows needs no variable per sample. It starts with the single categories
and all together; whenever the clients that it chooses fall short, the minimum cut names the row
that was missing. Few rows are needed, the solutions are integral but for a handful of clients, and
the duals are prices for ``certify``. The same rows with whole y are the small MILP that closes the
last per cent. Where many cuts would be missing one after the other, because budgets are small and
categories many, a MILP that also has the samples of each client as variables needs none of them;
it serves among a few hundred clients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from oort.testing.category.problem import Int64s, Problem, sums_by_row
from oort.types import Floats, Mask, Rows

_SURELY = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """How much of each client a cover takes at least."""

    shares: Floats  #: y, one per client
    total: float  #: Σ y, with what is missing counted dearly
    prices: Floats  #: what a sample of each category is worth, in clients


def rows_of(problem: Problem, room: Int64s, cuts: list[Mask]) -> tuple[Any, Floats]:
    """The rows of the programme, each divided by what it asks for, and what that was.

    The single categories come first, then each of ``cuts``.
    """
    from scipy.sparse import csr_matrix, vstack

    entries = np.minimum(problem.count, room[problem.rows()]) / problem.quota[problem.category]
    single = csr_matrix(
        (entries, problem.category, problem.indptr),
        shape=(problem.num_clients, problem.num_categories),
    )
    asked = [problem.quota.astype(np.float64)]
    blocks = [single.T.tocsr()]
    for cut in cuts:
        need = float(problem.quota[cut].sum())
        held = np.minimum(
            sums_by_row(np.where(cut[problem.category], problem.count, 0), problem.indptr), room
        )
        blocks.append(csr_matrix(held / need))
        asked.append(np.array([need]))
    return vstack(blocks).tocsr(), np.concatenate(asked)


def relaxed_cover(
    problem: Problem,
    room: Int64s,
    cuts: list[Mask],
    *,
    required: Rows,
    penalty: float,
    time_limit_s: float,
) -> Relaxed | None:
    """The fewest shares of clients that satisfy every row; none where the time is over.

    A row may stay short at ``penalty`` clients for all of it, so that there always is a solution
    with prices.
    """
    from scipy.optimize import linprog
    from scipy.sparse import hstack, identity

    matrix, asked = rows_of(problem, room, cuts)
    cost = np.concatenate([np.ones(problem.num_clients), np.full(len(asked), penalty)])
    low = np.zeros(len(cost))
    low[required] = 1.0
    high = np.ones(len(cost))
    result: Any = cast(Any, linprog)(
        cost,
        A_ub=-hstack([matrix, identity(len(asked))]).tocsr(),
        b_ub=-np.ones(len(asked)),
        bounds=np.column_stack([low, high]),
        method="highs",
        options={"time_limit": time_limit_s},
    )
    if result.status != 0:
        return None
    worth = np.maximum(-result.ineqlin.marginals, 0.0) / asked
    prices = worth[: problem.num_categories].copy()
    for cut, price in zip(cuts, worth[problem.num_categories :], strict=True):
        prices[cut] += price
    return Relaxed(shares=result.x[: problem.num_clients], total=float(result.fun), prices=prices)


def whole_cover(
    problem: Problem,
    room: Int64s,
    cuts: list[Mask],
    *,
    budget: int,
    required: Rows,
    time_limit_s: float,
) -> tuple[Rows | None, bool]:
    """Whole clients, at most ``budget``, for every row; and whether there are proven to be none.

    Rows ask for half a sample less than they need: with whole clients that is the same, and safe
    from rounding.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    matrix, asked = rows_of(problem, room, cuts)
    low = np.zeros(problem.num_clients)
    low[required] = 1.0
    result = milp(
        np.ones(problem.num_clients),
        constraints=[LinearConstraint(matrix, 1.0 - 0.5 / asked, np.inf)],
        integrality=np.ones(problem.num_clients, np.int64),
        bounds=Bounds(low, np.ones(problem.num_clients)),
        options={"time_limit": time_limit_s},
    )
    proven = result.status == 2 or (
        result.mip_dual_bound is not None and result.mip_dual_bound > budget + _SURELY
    )
    chosen = None if result.x is None else np.flatnonzero(result.x > 0.5)
    return (None if chosen is None or len(chosen) > budget else chosen), bool(proven)


def whole_flow(
    problem: Problem,
    room: Int64s,
    cuts: list[Mask],
    *,
    budget: int,
    required: Rows,
    time_limit_s: float,
) -> tuple[Rows | None, bool]:
    """The same with the samples as variables, so that no row is missing; the first set will do.

    With whole clients the samples are a flow, for which whole numbers suffice: they need not be
    declared as such.
    """
    import scipy
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_matrix, diags, hstack, vstack

    n, m, k = problem.num_clients, problem.num_categories, len(problem.count)
    rows, entries = problem.rows(), np.arange(k)
    most = np.minimum(problem.count, room[rows]).astype(np.float64)
    given = csr_matrix(
        (1.0 / problem.quota[problem.category], (problem.category, entries)), (m, k)
    )
    own = csr_matrix((np.ones(k), (rows, entries)), (n, k))
    clients, asked = rows_of(problem, room, cuts)
    blocks = [
        hstack([given, csr_matrix((m, n))]),
        hstack([csr_matrix((len(asked), k)), clients]),
        hstack([own, diags(-room.astype(np.float64))]),
        csr_matrix(np.repeat([[0.0, 1.0]], [k, n], axis=1)),
    ]
    least = [np.ones(m), 1.0 - 0.5 / asked, np.full(n + 1, -np.inf)]
    at_most = [np.full(m + len(asked), np.inf), np.zeros(n), np.array([budget + 0.5])]
    options: dict[str, Any] = {"time_limit": time_limit_s}
    if not scipy.__version__.startswith("1.9."):  # which does not know the option
        options["mip_rel_gap"] = 1e9
    low = np.zeros(k + n)
    low[k + required] = 1.0
    result = cast(Any, milp)(
        np.repeat([0.0, 1.0], [k, n]),
        constraints=LinearConstraint(
            cast(Any, vstack(blocks)).tocsr(), np.concatenate(least), np.concatenate(at_most)
        ),
        integrality=np.repeat([0, 1], [k, n]),
        bounds=Bounds(low, np.concatenate([most, np.ones(n)])),
        options=options,
    )
    chosen = None if result.x is None else np.flatnonzero(result.x[k:] > 0.5)
    return (None if chosen is None or len(chosen) > budget else chosen), result.status == 2
