"""Who may be picked at all, and in which role."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from oort.clients.columns import EXPLORED, LARGEST_STORED, READY, REMOVED, TRIED
from oort.types import Floats, Mask, Rows

CARE: Final = np.uint8(READY | TRIED | EXPLORED | REMOVED)
UNTRIED_STATE: Final = np.uint8(READY)
EXPLORED_STATE: Final = np.uint8(READY | TRIED | EXPLORED)
PENDING_STATE: Final = np.uint8(READY | TRIED)


class Roles:
    """The eligible clients, each in exactly one role, which its flags tell.

    untried     never selected and never heard of
    explored    has a utility
    pending     selected, or failed, without a utility yet
    removed     selected too often

    >>> flags = [READY, READY | TRIED | EXPLORED, READY | TRIED, 0, READY | TRIED | REMOVED]
    >>> roles = Roles(np.array(flags, np.uint8))
    >>> roles.rows_untried(), roles.rows_explored(), roles.rows_pending(), roles.rows_removed()
    (array([0]), array([1]), array([2]), array([4]))
    """

    def __init__(self, flags: npt.NDArray[np.uint8], allowed: Mask | None = None) -> None:
        self.flags = flags
        self.allowed = allowed

    def rows_untried(self) -> Rows:
        """Rows of clients that were never selected and never heard of, ascending."""
        return self._rows(UNTRIED_STATE)

    def rows_explored(self) -> Rows:
        """Rows of clients that have a utility, ascending."""
        return self._rows(EXPLORED_STATE)

    def rows_pending(self) -> Rows:
        """Rows of clients that were selected, or failed, and have no utility yet."""
        return self._rows(PENDING_STATE)

    def rows_removed(self) -> Rows:
        """Rows of clients that were selected too often."""
        over = np.uint8(READY | REMOVED)
        return self._where((self.flags & over) == over)

    def is_untried(self, rows: Rows) -> Mask:
        """Which of these rows are eligible and untried."""
        return self._is(rows, UNTRIED_STATE)

    def is_explored(self, rows: Rows) -> Mask:
        """Which of these rows are eligible and explored."""
        return self._is(rows, EXPLORED_STATE)

    def _is(self, rows: Rows, state: np.uint8) -> Mask:
        fits = (self.flags[rows] & CARE) == state
        return np.asarray(fits if self.allowed is None else fits & self.allowed[rows])

    def _rows(self, state: np.uint8) -> Rows:
        return self._where((self.flags & CARE) == state)

    def _where(self, mask: Mask) -> Rows:
        return np.flatnonzero(mask if self.allowed is None else mask & self.allowed)


def slower_than(duration_s: Floats, preferred_s: float) -> Mask:
    """Clients known, or expected, to need more than T: not eligible where α is infinite.

    >>> slower_than(np.array([5.0, np.nan, 20.0]), 10.0).tolist()
    [False, False, True]
    """
    with np.errstate(invalid="ignore"):
        longest_s = duration_s.dtype.type(min(preferred_s, LARGEST_STORED))
        return np.asarray(duration_s > longest_s)
