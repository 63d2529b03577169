"""One category request as arrays: what the steps of the solver work on."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from oort import kernels
from oort.types import Floats, Integers, Rows

_COMPILED_FROM = 10_000  # entries or clients below which plain NumPy is as fast

Int64s = npt.NDArray[np.int64]


def loops_for(size: int) -> ModuleType | None:
    """The compiled loops, where there is enough to do and Numba is installed."""
    if size < _COMPILED_FROM or kernels.backend() != "numba":
        return None
    return import_module("oort.testing.category.compiled")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Who could give what, how fast, and what is wanted.

    Client n stands in entries ``indptr[n]`` to ``indptr[n+1]`` of ``category`` and ``count``,
    categories ascending: a CSR matrix of the categories asked for. Counts are positive and none
    exceeds its quota, because no client is ever asked for more.
    """

    indptr: Int64s
    category: Integers
    count: Integers
    fixed_s: Floats  #: what a participation costs before the first sample, seconds
    speed: Floats  #: samples per second
    limit: Int64s  #: the most samples a client may be asked for
    quota: Int64s  #: samples wanted of each category, all above 0

    @property
    def num_clients(self) -> int:
        """Clients that hold something that is wanted."""
        return len(self.speed)

    @property
    def num_categories(self) -> int:
        """Categories asked for."""
        return len(self.quota)

    def room(self, deadline_s: float) -> Int64s:
        """The samples that each client can do within a deadline."""
        return samples_within(deadline_s, self.fixed_s, self.speed, self.limit)

    def rows(self) -> npt.NDArray[np.int32]:
        """The client of each entry."""
        return np.repeat(np.arange(self.num_clients, dtype=np.int32), np.diff(self.indptr))

    def take(self, rows: Rows) -> Problem:
        """The same request to these clients alone."""
        indptr, entries = entries_of(self.indptr, rows)
        return Problem(
            indptr=indptr,
            category=self.category[entries],
            count=self.count[entries],
            fixed_s=self.fixed_s[rows],
            speed=self.speed[rows],
            limit=self.limit[rows],
            quota=self.quota,
        )


def samples_within(deadline_s: float, fixed_s: Floats, speed: Floats, limit: Int64s) -> Int64s:
    """u_n(T): the largest k up to the limit with ``fixed_s + k / speed <= deadline_s``, or 0.

    Evaluated in that form, in float64, because that is how a duration is computed from an
    assignment: the closed form floor((T − τ)·s) is off by one at a fifth of the deadlines that
    matter.

    >>> samples_within(1.1, np.array([1.0, 1.0]), np.array([10.0, 30.0]), np.array([9, 2]))
    array([1, 2])
    """
    if not len(limit):
        return np.zeros(0, np.int64)
    fast = loops_for(len(limit))
    if fast is not None:
        counts: Int64s = fast.samples_within(deadline_s, fixed_s, speed, limit)
        return counts
    return _samples_within(deadline_s, fixed_s, speed, limit)


def _samples_within(deadline_s: float, fixed_s: Floats, speed: Floats, limit: Int64s) -> Int64s:
    """The same in NumPy: a guess, put right by one sample twice, else by bisection."""
    ceiling = limit.astype(np.float64)
    k = np.floor(np.clip((deadline_s - fixed_s) * speed, 0.0, ceiling))
    for _ in range(2):
        k -= (k > 0) & (fixed_s + k / speed > deadline_s)
        k += (k < ceiling) & (fixed_s + (k + 1) / speed <= deadline_s)
    wrong = (k > 0) & (fixed_s + k / speed > deadline_s)
    wrong |= (k < ceiling) & (fixed_s + (k + 1) / speed <= deadline_s)
    counts = k.astype(np.int64)
    if wrong.any():
        counts[wrong] = _samples_by_bisection(
            deadline_s, fixed_s[wrong], speed[wrong], limit[wrong]
        )
    return counts


def _samples_by_bisection(
    deadline_s: float, fixed_s: Floats, speed: Floats, limit: Int64s
) -> Int64s:
    """The same where rounding hides many samples in one float: time never falls as k grows."""
    low, high = np.zeros_like(limit), limit.copy()
    while (low < high).any():
        middle = high - (high - low) // 2
        fits = fixed_s + middle / speed <= deadline_s
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low


def entries_of(indptr: Int64s, rows: Rows) -> tuple[Int64s, Int64s]:
    """The entries of some rows, one row after the other, and where each row begins among them.

    >>> entries_of(np.array([0, 2, 3, 6]), np.array([2, 0]))
    (array([0, 3, 5]), array([3, 4, 5, 0, 1]))
    """
    lengths = indptr[rows + 1] - indptr[rows]
    begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    entries = np.arange(begins[-1]) + np.repeat(indptr[rows] - begins[:-1], lengths)
    return begins, entries


def sums_by_row(values: npt.NDArray[Any], indptr: Int64s) -> Int64s:
    """The sum of whole numbers over the entries of each row, rows without entries included.

    >>> sums_by_row(np.array([5, 6, 7]), np.array([0, 2, 2, 3]))
    array([11,  0,  7])
    """
    sums = np.zeros(len(indptr) - 1, np.int64)
    filled = np.flatnonzero(indptr[1:] > indptr[:-1])
    if len(filled):
        sums[filled] = np.add.reduceat(values, indptr[filled], dtype=np.int64)
    return sums
