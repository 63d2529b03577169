"""Few clients that can meet a request within a deadline: greedy, lazily evaluated.

A client is worth what it can still contribute. Worth only falls as others are chosen, so a client
whose worth of now exceeds what every other was worth before is the best, without asking the others
again. One loop does this, as plain Python or, where Numba is installed and the problem is large,
compiled; the picks are the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import cache

import numpy as np

from oort.testing.category.prices import Priced
from oort.testing.category.problem import Int64s, Problem, loops_for, sums_by_row
from oort.types import Integers, Rows

_NOBODY: Rows = np.zeros(0, np.int64)


def greedy_cover(
    priced: Priced, room: Int64s, limit: int, *, first: Rows = _NOBODY
) -> tuple[Rows, Int64s]:
    """Rows chosen one by one by what they add, at most ``limit``, and what is left after them.

    Args:
        priced: The problem, and what a sample of each category is worth; clients give their
            dearest samples first.
        room: Samples that each client can do.
        limit: Where to stop.
        first: Rows that are chosen before any other.

    >>> two = Problem(
    ...     indptr=np.array([0, 2, 3]), category=np.array([0, 1, 0]), count=np.array([5, 5, 3]),
    ...     quota=np.array([5, 5]), limit=np.array([10, 3]), fixed_s=np.zeros(2), speed=np.ones(2))
    >>> greedy_cover(Priced(two, np.array([1, 1])), two.limit, limit=2)
    (array([0]), array([0, 0]))
    """
    problem, entries = priced.problem, priced.order()
    count = problem.count[entries]
    return _cover(
        problem,
        problem.category[entries],
        count,
        count,
        room,
        priced.prices,
        priced.values(room),
        limit,
        first,
    )


def most_samples_first(
    problem: Problem, held: Integers, limit: int, *, first: Rows = _NOBODY
) -> tuple[Rows, Int64s]:
    """The paper's grouping (§5.2): always whoever holds most of what is not yet satisfied.

    Args:
        problem: The clients and the request.
        held: Samples behind each entry, those beyond the quota too: what the paper counts.
        limit: Where to stop.
        first: Rows that are chosen before any other.

    >>> two = Problem(
    ...     indptr=np.array([0, 2, 3]), category=np.array([0, 1, 0]), count=np.array([5, 5, 5]),
    ...     quota=np.array([5, 5]), limit=np.array([10, 5]), fixed_s=np.zeros(2), speed=np.ones(2))
    >>> most_samples_first(two, np.array([5, 5, 50]), limit=2)
    (array([1, 0]), array([0, 0]))
    """
    no_prices = np.zeros(0, np.int64)
    worth = sums_by_row(held, problem.indptr)
    return _cover(
        problem,
        problem.category,
        problem.count,
        held,
        problem.limit,
        no_prices,
        worth,
        limit,
        first,
    )


def _cover(
    problem: Problem,
    category: Integers,
    count: Integers,
    held: Integers,
    room: Int64s,
    price: Int64s,
    worth: Int64s,
    limit: int,
    first: Rows,
) -> tuple[Rows, Int64s]:
    """Hand over to the loop, after the rows that come first."""
    left = problem.quota.copy()
    for row in first.tolist():
        own = int(room[row])
        for entry in range(int(problem.indptr[row]), int(problem.indptr[row + 1])):
            given = min(int(count[entry]), int(left[category[entry]]), own)
            left[category[entry]] -= given
            own -= given
    worth[first] = 0
    order = np.argsort(-worth, kind="stable")[: int(np.count_nonzero(worth))]
    loop = _cover_loop if loops_for(len(count)) is None else _compiled()
    chosen = loop(
        problem.indptr, category, count, held, room, price, left, order, worth, limit - len(first)
    )
    return np.concatenate([first, chosen]), left


def _cover_loop(
    indptr: Int64s,
    category: Integers,
    count: Integers,
    held: Integers,
    room: Int64s,
    price: Int64s,
    left: Int64s,
    order: Rows,
    worth: Int64s,
    limit: int,
) -> Rows:
    """The loop: ``order`` is by falling worth, the heap holds those looked at with theirs of then.

    Without prices a client is worth all it holds of the categories that are still wanted. Counts
    down ``left`` in place.
    """
    total = left.sum()
    chosen = np.empty(max(0, min(limit, len(order))), np.int64)
    heap = [(np.int64(0), np.int64(0))]
    heap.pop()
    place, number = 0, 0
    while total > 0 and number < len(chosen):
        if place < len(order) and (len(heap) == 0 or worth[order[place]] >= -heap[0][0]):
            row = order[place]
            place += 1
        elif len(heap) > 0:
            row = heapq.heappop(heap)[1]
        else:
            break
        own, value = room[row], np.int64(0)
        for entry in range(indptr[row], indptr[row + 1]):
            wanted = left[category[entry]]
            given = min(count[entry], wanted, own)
            own -= given
            if len(price) > 0:
                value += price[category[entry]] * given
            elif wanted > 0:
                value += held[entry]
        if value <= 0:
            continue
        best = np.int64(0)
        if place < len(order):
            best = worth[order[place]]
        if len(heap) > 0:
            best = max(best, -heap[0][0])
        if value < best:
            heapq.heappush(heap, (-value, row))
            continue
        own = room[row]
        for entry in range(indptr[row], indptr[row + 1]):
            given = min(count[entry], left[category[entry]], own)
            own -= given
            total -= given
            left[category[entry]] -= given
        chosen[number] = row
        number += 1
    return chosen[:number]


@cache
def _compiled() -> Callable[..., Rows]:
    """The same loop as machine code."""
    from oort.kernels.compiling import compiled

    loop: Callable[..., Rows] = compiled(_cover_loop)
    return loop
