"""What clients can earn when every category has a price: the currency of search and proofs."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from oort.testing.category.problem import Int64s, Problem, loops_for
from oort.types import Floats, Integers, Rows

_DEAREST = 1_000_000
_CHUNK = 1 << 21
_NOBODY: Rows = np.zeros(0, np.int64)


def whole_prices(prices: Floats, problem: Problem) -> Int64s:
    """Prices as whole numbers, the dearest about a million and every sum of values inside 64 bits.

    >>> one = Problem(
    ...     indptr=np.array([0, 2]), category=np.array([0, 1]), count=np.array([5, 5]),
    ...     quota=np.array([5, 5]), limit=np.array([10]), fixed_s=np.zeros(1), speed=np.ones(1))
    >>> whole_prices(np.array([0.5, 0.25]), one)
    array([1000000,  500000])
    """
    most = max(int(problem.limit.sum()), int(problem.quota.sum()), 1)
    dearest = max(1, min(_DEAREST, 2**61 // most))
    top = float(np.max(prices, initial=0.0))
    if top <= 0.0:
        return np.ones(problem.num_categories, np.int64)
    return np.rint(np.maximum(prices, 0.0) * (dearest / top)).astype(np.int64)


class Priced:
    """A problem with a price on each category.

    Args:
        problem: The clients and the request.
        prices: One whole number per category.
        ties: Among categories of one price, those with less of this come first.
    """

    def __init__(self, problem: Problem, prices: Int64s, *, ties: Floats | None = None) -> None:
        self.problem = problem
        self.prices = prices
        self.need = int(prices @ problem.quota)
        self._same = int(prices[0]) if (prices == prices[0]).all() else None
        order = np.lexsort((np.zeros(len(prices)) if ties is None else ties, -prices))
        self._rank = np.empty(len(prices), np.int32)
        self._rank[order] = np.arange(len(prices), dtype=np.int32)
        self._order: Integers | None = None
        self._steps: tuple[Int64s, Int64s] | None = None

    def order(self) -> Integers:
        """Entries of each client by falling price, clients in their own order."""
        if self._order is None:
            fast = self._loops()
            problem = self.problem
            self._order = (
                self._sorted()
                if fast is None
                else fast.order_by_rank(problem.indptr, problem.category, self._rank)
            )
        return self._order

    def _loops(self) -> ModuleType | None:
        """The compiled loops, where they serve this problem."""
        entries = len(self.problem.category)
        return loops_for(entries) if entries < 2**31 else None

    def _sorted(self) -> Integers:
        """The same by SciPy."""
        from scipy.sparse import csr_matrix

        problem = self.problem
        small = len(problem.category) < 2**31
        places: Any = np.arange(len(problem.category), dtype=np.int32 if small else np.int64)
        shape = (problem.num_clients, problem.num_categories)
        matrix: Any = csr_matrix(
            (places, self._rank[problem.category], problem.indptr), shape=shape
        )
        matrix.has_sorted_indices = False
        matrix.sort_indices()
        order: Integers = matrix.data
        return order

    def values(self, room: Int64s) -> Int64s:
        """The most that each client can earn, its dearest samples first.

        That is v_n = max{λ·x : 0 ≤ x ≤ c_n, Σx ≤ room_n}.

        >>> one = Problem(
        ...     indptr=np.array([0, 2]), category=np.array([0, 1]), count=np.array([4, 4]),
        ...     quota=np.array([5, 5]), limit=np.array([8]), fixed_s=np.zeros(1), speed=np.ones(1))
        >>> Priced(one, np.array([1, 3])).values(np.array([5]))
        array([13])
        """
        if self._same is not None:
            return self._same * room
        fast = self._loops()
        if fast is not None:
            problem = self.problem
            earned: Int64s = fast.values(
                problem.indptr, problem.category, problem.count, self.order(), self.prices, room
            )
            return earned
        return self._values(room)

    def _values(self, room: Int64s) -> Int64s:
        """The same in NumPy, from sums along each client's entries."""
        if self._steps is None:
            self._steps = self._make_steps()
        running, steps = self._steps
        indptr = self.problem.indptr
        values = np.empty(len(room), np.int64)
        begin = 0
        while begin < len(room):
            end = max(begin + 1, int(np.searchsorted(indptr, indptr[begin] + _CHUNK)) - 1)
            part = slice(indptr[begin], indptr[end])
            own = np.repeat(room[begin:end], np.diff(indptr[begin : end + 1]))
            earned = np.minimum(running[part], own) * steps[part]
            values[begin:end] = np.add.reduceat(earned, indptr[begin:end] - indptr[begin])
            begin = end
        return values

    def _make_steps(self) -> tuple[Int64s, Int64s]:
        """Per entry, dearest first: the client's samples up to it, and the price less the next.

        Held in 32 bits where they fit: at millions of clients these are the largest arrays of the
        search.
        """
        problem, order = self.problem, self.order()
        running = np.cumsum(problem.count[order], dtype=np.int64)
        before = np.concatenate([[0], running[problem.indptr[1:-1] - 1]])
        running -= np.repeat(before, np.diff(problem.indptr))
        if int(running.max()) < 2**31:
            running = running.astype(np.int32)
        price = self.prices[problem.category[order]].astype(np.int32)
        following = np.append(price[1:], price[:1])
        following[problem.indptr[1:] - 1] = 0
        return running, price - following

    def earned(self, deadline_s: float, budget: int, required: Rows = _NOBODY) -> int:
        """The most that ``budget`` clients, required ones among them, can earn in time."""
        values = self.values(self.problem.room(deadline_s))
        base = int(values[required].sum())
        values[required] = 0
        others = max(0, budget - len(required))
        values = values[values > 0]  # many equal numbers make partition slow
        if others < len(values):
            values = np.partition(values, len(values) - others - 1)[len(values) - others :]
        return base + int(values.sum())

    def excess(self, deadline_s: float, budget: int, required: Rows = _NOBODY) -> int:
        """What they can earn beyond the request; below 0 proves the deadline impossible."""
        return self.earned(deadline_s, budget, required) - self.need

    def impossible(self, deadline_s: float, budget: int, required: Rows = _NOBODY) -> bool:
        """Whether these prices prove that nobody can meet the request within the deadline."""
        return self.excess(deadline_s, budget, required) < 0

    def fewest(self, required: Rows = _NOBODY) -> int:
        """A number of clients below which the request is impossible, however long it may take."""
        values = self.values(self.problem.limit)
        base = int(values[required].sum())
        values[required] = 0
        if base >= self.need:
            return max(1, len(required))
        running = base + np.cumsum(np.sort(values)[::-1])
        return len(required) + int(np.searchsorted(running, self.need)) + 1
