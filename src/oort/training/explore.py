"""The never-tried share of a round: how many, and who (Algorithm 1 line 18)."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from oort.kernels import arrays
from oort.types import Floats, Rows

_FASTEST_S: Final = 1e-6  # durations below count as this: a speed has to be finite


def rate(round_number: int, *, start: float, decay: float, minimum: float) -> float:
    """The paper's ε: decayed once per round opened before, never below the minimum.

    >>> rate(1, start=0.9, decay=0.98, minimum=0.2), rate(500, start=0.9, decay=0.98, minimum=0.2)
    (0.9, 0.2)
    """
    return max(minimum, start * decay ** (round_number - 1))


def quota(epsilon: float, wanted: int, luck: float) -> int:
    """How many to explore: ε·k, rounded up as often as its fraction says.

    So that small rounds explore too.

    >>> quota(0.25, 2, luck=0.4), quota(0.25, 2, luck=0.6)
    (0, 1)
    """
    return min(wanted, math.floor(epsilon * wanted + luck))


def shares(wanted: int, to_explore: int, *, untried: int, explored: int) -> tuple[int, int]:
    """How many come from exploration and from exploitation, each filling what the other cannot.

    >>> shares(10, 9, untried=4, explored=100)
    (4, 6)
    """
    from_explored = min(wanted - to_explore, explored)
    from_untried = min(wanted - from_explored, untried)
    return from_untried, min(wanted - from_untried, explored)


def expected_speed(duration_s: Floats) -> Floats:
    """Speed as 1/duration; the median of the known ones where unknown, even if none is known.

    >>> expected_speed(np.array([2.0, np.nan, 4.0, 5.0]))
    array([0.5 , 0.25, 0.25, 0.2 ])
    """
    known = duration_s[~np.isnan(duration_s)]
    typical = arrays.lower_quantile(known, 0.5) if known.size else 1.0
    filled = np.where(np.isnan(duration_s), typical, duration_s)
    return 1.0 / np.maximum(filled, _FASTEST_S)


def sample(rows: Rows, speed: Floats, wanted: int, generator: np.random.Generator) -> Rows:
    """Draw without replacement in proportion to expected speed."""
    return rows[arrays.race(speed, wanted, generator)]
