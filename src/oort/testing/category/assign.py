"""The fastest assignment on a fixed set of clients: exact, without a MILP.

Within T seconds client n can do u_n(T) samples. A deadline is feasible if and only if for every
set A of categories the clients together can do Σ_n min(u_n(T), c_n(A)) ≥ p(A): a transportation
problem. So start with the deadline that all categories together and each alone ask for, run one
maximum flow, and where it falls short let the minimum cut say which set A is violated; the
deadline of that set is the next one to try. Each deadline tried is a lower bound, and the first
that is feasible is the optimum, to the sample and to the last bit of its float.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oort.testing.category.problem import Int64s, Problem, samples_within, sums_by_row
from oort.types import Floats, Mask, Rows

_ENUMERATE = 1 << 17
_BITS = 30  # of a flow: SciPy's are 32-bit, and so is a capacity plus what can be taken back


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Who does how many samples, and what proves that no deadline below is possible."""

    deadline_s: float
    rows: Rows  #: the clients that do anything, ascending
    samples: Int64s  #: one per entry of these clients; sums to the quota in each category
    cut: Mask  #: the categories that nobody can provide sooner, all together
    flows: int  #: maximum flows that it took


def earliest_deadline(
    need: int, fixed_s: Floats, speed: Floats, limit: Int64s, *, from_s: float = 0.0
) -> float:
    """The smallest deadline from ``from_s`` on within which these clients can do ``need`` samples.

    It is the ``need``-th smallest of all τ_n + k/s_n: the interval that holds it is narrowed until
    few enough of these lie inside to be listed. Infinite where the limits do not allow it at all.

    >>> earliest_deadline(3, np.array([0.0, 1.0]), np.array([1.0, 2.0]), np.array([2, 9]))
    2.0
    """
    if need <= 0:
        return from_s
    if int(limit.sum()) < need:
        return float("inf")
    first_s = fixed_s + 1.0 / speed
    low, high = from_s, max(from_s, float(first_s[limit > 0].min()))
    while True:
        known = first_s <= high
        if int(samples_within(high, fixed_s[known], speed[known], limit[known]).sum()) >= need:
            break
        low, high = high, high * 2.0
    if high == from_s:
        return from_s
    return _narrowed(need, fixed_s[known], speed[known], limit[known], low, high)


def _narrowed(
    need: int, fixed_s: Floats, speed: Floats, limit: Int64s, low: float, high: float
) -> float:
    """The deadline at which ``need`` is first met; it is at ``high`` and not at ``low``."""
    below = samples_within(low, fixed_s, speed, limit)
    above = samples_within(high, fixed_s, speed, limit)
    if int(below.sum()) >= need:
        return low
    while True:
        moving = above > below
        need -= int(below[~moving].sum())
        fixed_s, speed, limit = fixed_s[moving], speed[moving], limit[moving]
        below, above = below[moving], above[moving]
        if int((above - below).sum()) <= _ENUMERATE:
            return _listed(need, fixed_s, speed, below, above)
        middle = low + (high - low) / 2.0
        if not low < middle < high:
            return high
        reached = samples_within(middle, fixed_s, speed, limit)
        if int(reached.sum()) >= need:
            high, above = middle, reached
        else:
            low, below = middle, reached


def _listed(need: int, fixed_s: Floats, speed: Floats, below: Int64s, above: Int64s) -> float:
    """The deadline found by listing every finishing time between two deadlines."""
    steps = above - below
    starts = np.repeat(np.cumsum(steps) - steps, steps)
    k = np.repeat(below, steps) + np.arange(len(starts)) - starts + 1
    times = np.repeat(fixed_s, steps) + k / np.repeat(speed, steps)
    place = need - int(below.sum()) - 1
    return float(np.partition(times, place)[place])


def cut_deadline(problem: Problem, categories: Mask, *, from_s: float = 0.0) -> float:
    """The smallest deadline within which all clients can do what is wanted of these categories."""
    need = int(problem.quota[categories].sum())
    if categories.all():
        return earliest_deadline(
            need, problem.fixed_s, problem.speed, problem.limit, from_s=from_s
        )
    if int(categories.sum()) == 1:
        entries = np.flatnonzero(problem.category == np.flatnonzero(categories)[0])
        holders = np.searchsorted(problem.indptr, entries, side="right") - 1
        held = problem.count[entries].astype(np.int64)
    else:
        totals = sums_by_row(
            np.where(categories[problem.category], problem.count, 0), problem.indptr
        )
        holders = np.flatnonzero(totals)
        held = totals[holders]
    held = np.minimum(held, problem.limit[holders])
    return earliest_deadline(
        need, problem.fixed_s[holders], problem.speed[holders], held, from_s=from_s
    )


def assign(
    problem: Problem, *, from_s: float = 0.0, before_s: float = np.inf
) -> Assignment | None:
    """The fastest assignment of the request to the clients; none where they lack samples.

    Args:
        problem: The clients and the request.
        from_s: A deadline that must not be undercut.
        before_s: None as well where the assignment would take as long as this.
    """
    cut = np.ones(problem.num_categories, np.bool_)
    deadline_s, flows = cut_deadline(problem, cut, from_s=from_s), 0
    while deadline_s < before_s:
        room = problem.room(deadline_s)
        rows = np.flatnonzero(room)
        part = problem.take(rows)
        violated = _short_alone(part, room[rows])
        if not violated.any():
            samples, violated = saturate(part, room[rows])
            flows += 1
        if not violated.any():
            busy = sums_by_row(samples, part.indptr) > 0
            kept = np.repeat(busy, np.diff(part.indptr))
            return Assignment(
                deadline_s=deadline_s, rows=rows[busy], samples=samples[kept], cut=cut, flows=flows
            )
        cut, deadline_s = violated, cut_deadline(problem, violated, from_s=deadline_s)
    return None


def _short_alone(problem: Problem, room: Int64s) -> Mask:
    """One category that falls short even if every client serves it first, as a mask.

    The one that lacks the largest share; among equals the middle one, so that rare categories, of
    which many may lack all, are passed by halves.
    """
    most = np.minimum(problem.count, room[problem.rows()])
    supply = np.bincount(problem.category, most, minlength=problem.num_categories)
    lacking = np.zeros(problem.num_categories, np.bool_)
    if (supply < problem.quota).any():
        share = supply / problem.quota
        equals = np.flatnonzero(share == share.min())
        lacking[equals[len(equals) // 2]] = True
    return lacking


def saturate(problem: Problem, room: Int64s) -> tuple[Int64s, Mask]:
    """Samples per entry, as many as fit into each client's room, and categories that are short.

    Clients whose room exceeds what they hold need no decision: they are taken out first, and with
    them the categories that they satisfy alone. A maximum flow decides the rest.
    """
    rows = problem.rows()
    most = np.minimum(problem.count, room[rows]).astype(np.int64)
    samples, quota = _without_decision(problem, rows, most, room)
    if quota.any():
        inside = np.flatnonzero((samples < 0) & (quota[problem.category] > 0) & (most > 0))
        inner, category, bound = rows[inside], problem.category[inside], most[inside]
        decided = _flow(inner, category, bound, room, quota)
        samples[inside] = decided
        if int(decided.sum()) < int(quota.sum()):
            reached = _reached(inner, category, bound, decided, room, len(quota))
            return _trimmed(problem, np.maximum(samples, 0)), (quota > 0) & ~reached
    return _trimmed(problem, np.maximum(samples, 0)), np.zeros(problem.num_categories, np.bool_)


def _without_decision(
    problem: Problem, rows: npt.NDArray[np.int32], most: Int64s, room: Int64s
) -> tuple[Int64s, Int64s]:
    """What clients give that have room for all that is wanted of them, and what else is wanted.

    Entries of clients that remain to be decided are −1. Once such clients satisfy a category,
    others need not serve it, which may leave them with room enough for the rest: hence the rounds.
    """
    samples = np.full(len(most), -1, np.int64)
    decided = np.zeros(problem.num_clients, np.bool_)
    quota = problem.quota
    while True:
        open_ = quota[problem.category] > 0
        free = (sums_by_row(np.where(open_, most, 0), problem.indptr) <= room) & ~decided
        own = free[rows]
        samples[own] = np.where(open_[own], most[own], 0)
        decided |= free
        given = np.bincount(problem.category[own], samples[own], minlength=len(quota)).astype(
            np.int64
        )
        left = np.maximum(quota - given, 0)
        if np.array_equal(left > 0, quota > 0):
            return samples, left
        quota = left


def _trimmed(problem: Problem, samples: Int64s) -> Int64s:
    """The same without what exceeds the quotas; late rows give up first."""
    order = np.argsort(problem.category, kind="stable")
    by_category = samples[order]
    ends = np.cumsum(np.bincount(problem.category, minlength=problem.num_categories))
    running = np.cumsum(by_category)
    before = np.concatenate([[0], running])[np.concatenate([[0], ends[:-1]])]
    room = np.repeat(before + problem.quota, np.diff(np.concatenate([[0], ends]))) - (
        running - by_category
    )
    trimmed = np.empty_like(samples)
    trimmed[order] = np.clip(by_category, 0, np.maximum(room, 0))
    return trimmed


def _flow(
    rows: npt.NDArray[np.int32],
    category: npt.NDArray[Any],
    most: Int64s,
    room: Int64s,
    quota: Int64s,
) -> Int64s:
    """A maximum flow client → category, per entry; entries stand row by row.

    SciPy's flows are 32-bit: a larger request is sent in coarse units first, then in ever finer
    ones through what is left of the network. A flow that is maximal in units of 2^k leaves less
    than 2^k on every arc of some cut, so the next, finer flow is small again.
    """
    local = (
        np.cumsum(np.concatenate([[0], rows[1:] != rows[:-1]]))
        if len(rows)
        else np.zeros(0, np.int64)
    )
    clients = rows[np.concatenate([[True], rows[1:] != rows[:-1]])] if len(rows) else rows
    finer = max(1, _BITS - (len(rows) + len(clients) + len(quota)).bit_length())
    shift = -(-max(0, int(quota.sum()).bit_length() - _BITS) // finer) * finer
    samples = np.zeros(len(rows), np.int64)
    while True:
        to_clients = room[clients] - np.bincount(local, samples, minlength=len(clients)).astype(
            np.int64
        )
        to_sink = quota - np.bincount(category, samples, minlength=len(quota)).astype(np.int64)
        arcs = _Arcs(local, category, to_clients, most - samples, samples, to_sink)
        samples = samples + (_flow_in_units(arcs, shift) << shift)
        if shift == 0:
            return samples
        shift -= finer


class _Arcs(NamedTuple):
    """What is left of the network: source → client → category → sink, and back to the client."""

    client: Int64s
    category: npt.NDArray[Any]
    to_clients: Int64s
    to_categories: Int64s
    back: Int64s
    to_sink: Int64s


def _flow_in_units(arcs: _Arcs, shift: int) -> Int64s:
    """One flow in units of 2^shift, per entry; negative where samples are taken back."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import maximum_flow

    n, m = len(arcs.to_clients), len(arcs.to_sink)
    sink = n + m + 1
    tail = [np.zeros(n, np.int64), arcs.client + 1, np.arange(n + 1, sink)]
    head = [np.arange(1, n + 1), arcs.category + (n + 1), np.full(m, sink)]
    capacity = [arcs.to_clients, arcs.to_categories, arcs.to_sink]
    if arcs.back.any():
        tail, head, capacity = [*tail, head[1]], [*head, tail[1]], [*capacity, arcs.back]
    units = np.minimum(np.concatenate(capacity) >> shift, 2**_BITS - 1).astype(np.int32)
    places = (np.concatenate(tail).astype(np.int32), np.concatenate(head).astype(np.int32))
    graph: Any = coo_matrix((units, places), shape=(sink + 1, sink + 1)).tocsr()
    result: Any = maximum_flow(graph, 0, sink)
    flow = result.flow if hasattr(result, "flow") else result.residual
    between = flow[1 : n + 1, n + 1 : sink]
    between.sort_indices()
    samples: Int64s = between.data.astype(np.int64)
    return samples


def _reached(
    rows: npt.NDArray[np.int32],
    category: npt.NDArray[Any],
    most: Int64s,
    samples: Int64s,
    room: Int64s,
    m: int,
) -> Mask:
    """Categories that more could still flow to; the others are the cut that stops the flow."""
    used = np.bincount(rows, samples, minlength=len(room)).astype(np.int64)
    clients = used < room
    open_, given = samples < most, samples > 0
    categories = np.zeros(m, np.bool_)
    while True:
        found = np.zeros_like(categories)
        found[category[open_ & clients[rows]]] = True
        if np.array_equal(found, categories):
            return categories
        categories = found
        clients[rows[given & categories[category]]] = True
