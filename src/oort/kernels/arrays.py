"""The hot loops in NumPy."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from oort.types import Floats, Rows

# A weight that loses to every positive 4-byte float and still divides without overflow.
_NEVER: Final = 1e-300


def lower_quantile(values: Floats, level: float) -> float:
    """The order statistic at or below a quantile: never a mixture of two values.

    Of n ≥ 2 values the largest is never returned for a level below 1, so a single outlier cannot
    set it.

    >>> lower_quantile(np.array([3.0, 1.0, 1e9]), 0.95)
    3.0
    """
    place = quantile_place(values.size, level)
    return float(np.partition(values, place)[place])


def quantile_place(count: int, level: float) -> int:
    """The rank, counted from 0, of the order statistic that :func:`lower_quantile` returns.

    >>> quantile_place(10, 0.95), quantile_place(10, 1.0)
    (8, 9)
    """
    return min(count - 1, max(0, math.floor(level * (count - 1))))


def admit(scores: Floats, wanted: int, share: float) -> tuple[Rows, float]:
    """Places, ascending, of all scores that reach a share of the ``wanted``-th largest; that bar.

    >>> admit(np.array([1.0, 0.5, 0.97, 0.2]), 1, 0.95)
    (array([0, 2]), 0.95)
    """
    place = scores.size - wanted
    kth = np.partition(scores, place)[place]
    bar = scores.dtype.type(share) * kth
    return np.flatnonzero(scores >= bar), float(bar)


def race(weights: Floats, wanted: int, generator: np.random.Generator) -> Rows:
    """Draw without replacement in proportion to weights, by an exponential race.

    Each entrant finishes after Exp(1)/weight; the first ``wanted`` win, in order of arrival
    (Efraimidis and Spirakis, 2006). Weights of zero finish after everyone else, in random order,
    so that there are always enough winners.

    >>> race(np.array([1.0, 0.0, 1.0]), 2, np.random.default_rng(1)).tolist()
    [0, 2]
    """
    finish = generator.standard_exponential(weights.size) / np.maximum(
        weights, _NEVER, dtype=np.float64
    )
    wanted = min(wanted, weights.size)
    first = (
        np.argpartition(finish, wanted - 1)[:wanted]
        if 0 < wanted < weights.size
        else np.arange(wanted)
    )
    return first[np.argsort(finish[first], kind="stable")]
