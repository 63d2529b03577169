"""Quantiles, scores and cut-offs in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from oort.types import Floats, Rows

_CHUNK: Final = 1 << 16
_FEW: Final = 4096  # so many scores before the bar is raised

Single = npt.NDArray[np.float32]


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


def top_scores(
    score: Callable[[slice], Single], num_rows: int, wanted: int, share: np.float32
) -> tuple[Rows, Single]:
    """Rows, ascending, and scores of all that reach a share of the ``wanted``-th best.

    ``score`` gives the scores of a slice of rows, below 0 for rows that do not count. Slices keep
    the work inside the processor's cache; the bar rises as better rows come in.

    >>> values = np.array([1.0, 0.5, -1.0, 0.97, 0.2], np.float32)
    >>> top_scores(values.__getitem__, 5, 1, np.float32(0.95))[0]
    array([0, 3])
    """
    rows, found = np.empty(0, np.int64), np.empty(0, np.float32)
    bar = np.float32(0)
    for start in range(0, num_rows, _CHUNK):
        scores = score(slice(start, min(start + _CHUNK, num_rows)))
        better = np.flatnonzero(scores >= bar)
        rows = np.concatenate([rows, better + start])
        found = np.concatenate([found, scores[better]])
        if found.size > max(4 * wanted, _FEW):
            rows, found, bar = _above(rows, found, wanted, share)
    if not found.size:
        return rows, found
    rows, found, _ = _above(rows, found, min(wanted, found.size), share)
    return rows, found


def _above(
    rows: Rows, scores: Single, wanted: int, share: np.float32
) -> tuple[Rows, Single, np.float32]:
    bar = cutoff(scores, wanted, share)
    kept = scores >= bar
    return rows[kept], scores[kept], bar


def cutoff(scores: Single, wanted: int, share: np.float32) -> np.float32:
    """A share of the ``wanted``-th largest score.

    >>> float(cutoff(np.array([1.0, 4.0, 2.0], np.float32), 2, np.float32(0.5)))
    1.0
    """
    place = scores.size - wanted
    bar: np.float32 = share * np.partition(scores, place)[place]
    return bar
