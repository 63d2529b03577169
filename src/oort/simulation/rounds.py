"""How a round ends: the first K to finish, the clock, and what became of everyone else.

``close`` is a function of times alone, so that rounds can be computed by hand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from oort.errors import InvalidArgumentError
from oort.types import Floats, Mask, Rows


@dataclass(frozen=True)
class Ending:
    """How a round ended; clients are places in the list of those selected."""

    completed: Rows  #: in the order in which they finished
    failed: Rows  #: dropped out before the round ended, or were turned down
    unused: Rows  #: still at work when it ended
    duration_s: float
    used_s: float  #: client-seconds of those who completed
    wasted_s: float  #: client-seconds of all others


def overcommitted(participants: int, overcommit: float) -> int:
    """How many clients to select so that so many finish in time.

    >>> overcommitted(100, 1.3)
    130
    """
    return math.ceil(round(participants * overcommit, 9))


def close(
    duration_s: Floats,
    drops_after_s: Floats,
    *,
    wanted: int,
    deadline_s: float | None = None,
    rejected: Mask | None = None,
) -> Ending:
    """End a round: with the ``wanted``-th to finish, with nobody left, or at the deadline.

    Args:
        duration_s: When each selected client finishes, had it not dropped out.
        drops_after_s: When it drops out; infinite for those who do not.
        wanted: How many updates the round waits for (K).
        deadline_s: When the round ends at the latest.
        rejected: Whose updates are turned down when they arrive; they do not count as one of
            those waited for.

    >>> ending = close(np.array([5.0, 1.0, 3.0]), np.array([np.inf, np.inf, 2.0]), wanted=2)
    >>> ending.completed, ending.failed, ending.duration_s
    (array([1, 0]), array([2]), 5.0)
    """
    if len(duration_s) == 0:
        message = "a round must have at least one client; got none"
        raise InvalidArgumentError(message)
    turned_down = rejected is not None and bool(rejected.any())
    if deadline_s is None and not turned_down and np.isinf(drops_after_s).all():
        return _without_losses(duration_s, wanted)
    finishes = duration_s <= drops_after_s
    counts = finishes if rejected is None else finishes & ~rejected
    known_at_s = np.where(finishes, duration_s, drops_after_s)
    arrival = np.argsort(np.where(counts, duration_s, np.inf), kind="stable")
    arrival = arrival[: np.count_nonzero(counts)]
    enough = len(arrival) >= wanted
    end_s = float(duration_s[arrival[wanted - 1]]) if enough else float(known_at_s.max())
    if deadline_s is not None:
        end_s = min(end_s, deadline_s)
    completed = arrival[:wanted]
    completed = completed[duration_s[completed] <= end_s]
    failed = np.flatnonzero(~counts & (known_at_s <= end_s))
    at_work = np.ones(len(duration_s), bool)
    at_work[completed] = at_work[failed] = False
    unused = np.flatnonzero(at_work)
    used_s = float(duration_s[completed].sum())
    wasted_s = float(known_at_s[failed].sum() + len(unused) * end_s)
    return Ending(completed, failed, unused, end_s, used_s, wasted_s)


def _without_losses(duration_s: Floats, wanted: int) -> Ending:
    """The same, where everyone who has the time finishes."""
    arrival = np.argsort(duration_s, kind="stable")
    completed, unused = arrival[:wanted], np.sort(arrival[wanted:])
    times_s = duration_s[completed]
    end_s = float(times_s[-1])
    wasted_s = float(len(unused) * end_s)
    return Ending(completed, arrival[:0], unused, end_s, float(times_s.sum()), wasted_s)
