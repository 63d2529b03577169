"""The never-tried share of a round: how many, and who (Algorithm 1 line 18)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from oort.kernels import draws
from oort.kernels.draws import FASTEST_S
from oort.types import Floats, Mask, Rows


def rate(round_number: int, *, start: float, decay: float, minimum: float) -> float:
    """The paper's ε: decayed once per round opened before, never below the minimum.

    >>> settings = {"start": 0.9, "decay": 0.98, "minimum": 0.2}
    >>> rate(1, **settings), rate(500, **settings)
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


def expected_speed(duration_s: Floats, typical_s: float) -> Floats:
    """Speed as 1/duration, taking what is typical for those of whom nothing is expected.

    >>> expected_speed(np.array([2.0, np.nan, 4.0]), typical_s=4.0)
    array([0.5 , 0.25, 0.25])
    """
    filled = np.where(np.isnan(duration_s), typical_s, duration_s)
    return np.asarray(1.0 / np.maximum(filled, FASTEST_S, dtype=np.float64))


def bounds(expected_s: tuple[float, float] | None) -> tuple[float, float]:
    """The highest expected speed of the untried and the duration that is typical of them.

    ``expected_s`` is their lowest and their typical duration, nothing where none is expected.

    >>> bounds((0.5, 4.0)), bounds(None)
    ((2.0, 4.0), (1.0, 1.0))
    """
    lowest_s, typical_s = expected_s or (1.0, 1.0)
    return 1.0 / max(lowest_s, FASTEST_S), typical_s


def sample(
    duration_s: Floats,
    is_untried: Callable[[Rows], Mask],
    everyone: Callable[[], Rows],
    *,
    num_untried: int,
    expected_s: tuple[float, float] | None,
    wanted: int,
    keys: tuple[int, int],
) -> Rows:
    """Draw untried clients, without replacement, in proportion to their expected speed.

    ``expected_s`` is the lowest and the typical duration expected of the untried: evenly, where
    nothing is expected of anyone.
    """
    highest, typical_s = bounds(expected_s)

    def weight(rows: Rows) -> Floats:
        return expected_speed(duration_s[rows], typical_s) * is_untried(rows)

    return draws.draw(
        weight,
        duration_s.size,
        highest=highest,
        entrants=num_untried,
        everyone=everyone,
        wanted=wanted,
        keys=keys,
    )
