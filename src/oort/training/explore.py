"""The never-tried share of a round: how many, and who (Algorithm 1 line 18)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from oort.kernels import arrays
from oort.types import Floats, Mask, Rows

FASTEST_S: Final = 1e-6  # durations below count as this: a speed has to be finite


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


def sample(
    duration_s: Floats,
    is_untried: Callable[[Rows], Mask],
    everyone: Callable[[], Rows],
    *,
    num_untried: int,
    expected_s: tuple[float, float] | None,
    wanted: int,
    generator: np.random.Generator,
) -> Rows:
    """Draw untried clients, without replacement, in proportion to their expected speed.

    ``expected_s`` is the lowest and the typical duration expected of the untried: evenly, where
    nothing is expected of anyone.
    """
    lowest_s, typical_s = expected_s or (1.0, 1.0)

    def weight(rows: Rows) -> Floats:
        return expected_speed(duration_s[rows], typical_s) * is_untried(rows)

    return arrays.draw(
        weight,
        duration_s.size,
        highest=1.0 / max(lowest_s, FASTEST_S),
        entrants=num_untried,
        everyone=everyone,
        wanted=wanted,
        generator=generator,
    )
