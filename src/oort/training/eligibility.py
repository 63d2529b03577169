"""Who may be picked at all, and in which role."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from oort.clients.columns import EXPLORED, READY, REMOVED, TRIED
from oort.types import Floats, Integers, Mask, Rows

_CARE: Final = np.uint8(READY | TRIED | EXPLORED | REMOVED)


@dataclass(frozen=True, slots=True)
class Roles:
    """The eligible clients, each in exactly one role; rows ascending."""

    untried: Rows  #: never selected and never heard of
    explored: Rows  #: have a utility
    pending: Rows  #: selected, or failed, without a utility yet
    removed: Rows  #: selected too often

    def __len__(self) -> int:
        return self.untried.size + self.explored.size + self.pending.size + self.removed.size


def roles(flags: Integers, allowed: Mask | None = None, too_slow: Mask | None = None) -> Roles:
    """Sort the eligible rows into roles by their flags.

    >>> present = READY
    >>> flags = [present, present | TRIED | EXPLORED, present | TRIED, 0]
    >>> roles(np.array(flags, np.uint8)).explored
    array([1])
    """
    state = flags & _CARE
    if allowed is not None:
        state = state * allowed
    if too_slow is not None:
        state = state * ~too_slow
    removed = (state & (READY | REMOVED)) == (READY | REMOVED)
    return Roles(
        untried=np.flatnonzero(state == READY),
        explored=np.flatnonzero(state == READY | TRIED | EXPLORED),
        pending=np.flatnonzero(state == READY | TRIED),
        removed=np.flatnonzero(removed),
    )


def slower_than(duration_s: Floats, preferred_s: float) -> Mask:
    """Clients known, or expected, to need more than T: not eligible where α is infinite.

    >>> slower_than(np.array([5.0, np.nan, 20.0]), 10.0).tolist()
    [False, False, True]
    """
    with np.errstate(invalid="ignore"):
        return duration_s > duration_s.dtype.type(preferred_s)
