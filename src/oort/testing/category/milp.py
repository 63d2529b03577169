"""The paper's own ways to answer a category request (§5.2), for comparison.

``straw_man`` is its MILP: a variable per client and category, one per client for whether it takes
part, and the duration. The paper prints the budget per category; its prose means participants in
all, and so do we. ``simplified`` is the same among a few clients and without the budget: what
follows the paper's greedy grouping. HiGHS solves them through SciPy; Gurobi does where it is
installed, licensed and asked for.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

import numpy as np

from oort.errors import ConfigError, MissingExtraError
from oort.testing.category.problem import Int64s, Problem, sums_by_row
from oort.types import Floats, Rows

_LOG = logging.getLogger(__name__)
_NOBODY: Rows = np.zeros(0, np.int64)

_TOLERANCE = 1e-6  # of solvers, for what is whole and what is met
_MOST_SPREAD = 1e9  # of seconds, the longest over the shortest
_TIGHT = 20_000  # pairs of client and category up to which each is tied to its client


@dataclass(frozen=True, slots=True, kw_only=True)
class MilpResult:
    """What a MILP solver came to."""

    samples: Int64s | None  #: one per entry; none where it found nothing
    lower_s: float  #: its bound on the duration
    infeasible: bool  #: proven to have no solution
    solver: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Model:
    """Minimise ``cost · z`` with ``low <= rows @ z <= high``, z in bounds, some of it whole."""

    cost: Floats
    rows: Any
    low: Floats
    high: Floats
    lower: Floats
    upper: Floats
    whole: Floats


def straw_man(
    problem: Problem,
    *,
    budget: int | None,
    required: Rows = _NOBODY,
    at_least_s: float = 0.0,
    time_limit_s: float | None = None,
    solver: str = "auto",
) -> MilpResult:
    """The paper's MILP over all clients, with the budget on participants."""
    return _solved(problem, _model(problem, budget, required, at_least_s), time_limit_s, solver)


def simplified(
    problem: Problem,
    *,
    required: Rows = _NOBODY,
    at_least_s: float = 0.0,
    time_limit_s: float | None = None,
    solver: str = "auto",
) -> MilpResult:
    """The paper's second step: the MILP among the clients that were grouped, without a budget."""
    return _solved(problem, _model(problem, None, required, at_least_s), time_limit_s, solver)


def _model(problem: Problem, budget: int | None, required: Rows, at_least_s: float) -> _Model:
    """Variables: samples per entry, then a switch per client, then the duration.

    A row per client ties its samples to its switch, and where these are not too many, a row per
    client and category too: the same plans and a tighter relaxation. With fifty thousand such rows
    HiGHS does not solve the first linear programme in a minute; without them it finds plans.
    """
    from scipy.sparse import csr_matrix, diags, hstack, identity, vstack

    rows, n, m, k = problem.rows(), problem.num_clients, problem.num_categories, len(problem.count)
    entries, count = np.arange(k), problem.count.astype(np.float64)
    ones = np.ones(k)
    of_category = csr_matrix((ones, (problem.category, entries)), shape=(m, k))
    of_client = csr_matrix((ones, (rows, entries)), shape=(n, k))
    times = csr_matrix((1.0 / problem.speed[rows], (rows, entries)), shape=(n, k))
    tight = k if k <= _TIGHT else 0
    blocks = [
        hstack([of_category, csr_matrix((m, n + 1))]),
        hstack([of_client, diags(-problem.limit.astype(np.float64)), csr_matrix((n, 1))]),
        hstack([times, diags(problem.fixed_s), csr_matrix(-np.ones((n, 1)))]),
    ]
    if tight:
        held = csr_matrix((-count, (entries, rows)), shape=(k, n + 1))
        blocks.append(hstack([identity(k), held]))
    low = [problem.quota.astype(np.float64), np.full(2 * n + tight, -np.inf)]
    high = [problem.quota.astype(np.float64), np.zeros(2 * n + tight)]
    if budget is not None:
        blocks.append(
            hstack([csr_matrix((1, k)), csr_matrix(np.ones((1, n))), csr_matrix((1, 1))])
        )
        low.append(np.array([-np.inf]))
        high.append(np.array([float(budget)]))
    lower = np.zeros(k + n + 1)
    lower[k + required] = 1.0
    lower[-1] = at_least_s
    return _Model(
        cost=np.concatenate([np.zeros(k + n), [1.0]]),
        rows=cast(Any, vstack(blocks)).tocsr(),
        low=np.concatenate(low),
        high=np.concatenate(high),
        lower=lower,
        upper=np.concatenate([count, np.ones(n), [np.inf]]),
        whole=np.concatenate([np.ones(k + n), [0.0]]),
    )


def _solved(
    problem: Problem, model: _Model, time_limit_s: float | None, solver: str
) -> MilpResult:
    """Hand the model to a solver, and take whole samples from what it says."""
    result = None if solver == "highs" else _gurobi(model, time_limit_s, must=solver == "gurobi")
    values, bound, infeasible, name = _highs(model, time_limit_s) if result is None else result
    samples = None if values is None else np.rint(values[: len(problem.count)]).astype(np.int64)
    if samples is not None and not _meets(problem, samples):
        _LOG.warning(
            "the MILP solver's answer does not meet the request once rounded; it is discarded"
        )
        samples = None
    # Solvers prove bounds up to a tolerance of about a millionth; what is claimed stays below.
    lower_s = bound * (1.0 - 2e-6) if _is_tame(problem) else float(model.lower[-1])
    return MilpResult(
        samples=samples, lower_s=max(0.0, lower_s), infeasible=infeasible, solver=name
    )


def _is_tame(problem: Problem) -> bool:
    """Whether a solver's word for a bound can be taken.

    A switch that is on by a millionth counts as off. Where that stands for a whole sample, or
    seconds differ by more than a solver's numbers resolve, plans better than its bound exist.
    """
    seconds = np.concatenate([1.0 / problem.speed, problem.fixed_s[problem.fixed_s > 0]])
    spread = float(seconds.max(initial=1.0) / seconds.min(initial=1.0))
    return bool(problem.limit.max(initial=0) <= 1 / _TOLERANCE and spread <= _MOST_SPREAD)


def _meets(problem: Problem, samples: Int64s) -> bool:
    """Whether whole samples keep to quotas, counts and limits."""
    given = np.bincount(problem.category, samples, minlength=problem.num_categories).astype(
        np.int64
    )
    inside = bool(((samples >= 0) & (samples <= problem.count)).all())
    return (
        inside
        and np.array_equal(given, problem.quota)
        and bool((sums_by_row(samples, problem.indptr) <= problem.limit).all())
    )


def _highs(model: _Model, time_limit_s: float | None) -> tuple[Floats | None, float, bool, str]:
    """Values, bound, whether there is proven to be no solution, and the solver's name."""
    import scipy
    from scipy.optimize import Bounds, LinearConstraint, milp

    # SciPy 1.9 does not know the option, and stops at its default of one in ten thousand.
    options: dict[str, Any] = {} if scipy.__version__.startswith("1.9.") else {"mip_rel_gap": 1e-6}
    if time_limit_s is not None:
        options["time_limit"] = max(time_limit_s, 1e-3)
    result = cast(Any, milp)(
        model.cost,
        constraints=LinearConstraint(model.rows, model.low, model.high),
        integrality=model.whole,
        bounds=Bounds(model.lower, model.upper),
        options=options,
    )
    bound = result.mip_dual_bound
    bound = float(bound) if bound is not None and np.isfinite(bound) else 0.0
    return result.x, bound, result.status == 2, "highs"


def _gurobi(
    model: _Model, time_limit_s: float | None, *, must: bool
) -> tuple[Floats | None, float, bool, str] | None:
    """The same with Gurobi; none where it cannot run and is not insisted on."""
    try:
        gurobi = import_module("gurobipy")
    except ImportError:
        if must:
            message = "solver='gurobi' needs 'gurobipy': pip install gurobipy"
            raise MissingExtraError(message) from None
        return None
    try:
        environment = gurobi.Env(params={"OutputFlag": 0})
    except gurobi.GurobiError as error:
        _do_without_gurobi(error, must=must)
        return None
    try:
        with environment, gurobi.Model(env=environment) as task:
            task.Params.MIPGap = 1e-6
            if time_limit_s is not None:
                task.Params.TimeLimit = max(time_limit_s, 1e-3)
            kinds = np.where(model.whole > 0, gurobi.GRB.INTEGER, gurobi.GRB.CONTINUOUS)
            z = task.addMVar(
                len(model.cost), lb=model.lower, ub=model.upper, vtype=kinds, obj=model.cost
            )
            above, below = np.isfinite(model.low), np.isfinite(model.high)
            task.addConstr(model.rows[above] @ z >= model.low[above])
            task.addConstr(model.rows[below] @ z <= model.high[below])
            task.optimize()
            found = z.X if task.SolCount > 0 else None
            bound = task.ObjBound if np.isfinite(task.ObjBound) else 0.0
            return found, float(bound), task.Status == gurobi.GRB.INFEASIBLE, "gurobi"
    except gurobi.GurobiError as error:
        _do_without_gurobi(error, must=must)
        return None


def _do_without_gurobi(error: Exception, *, must: bool) -> None:
    """Go on without Gurobi, unless it is insisted on."""
    if must:
        message = (
            "solver='gurobi' must be licensed for a request of this size (solver='auto' goes on "
            f"with HiGHS); Gurobi says: {error}"
        )
        raise ConfigError(message) from error
    _LOG.info("Gurobi is not used: %s", error)
