"""The hot loops in NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from oort.types import Floats, Rows

# A weight that loses to every positive 4-byte float and still divides without overflow.
_NEVER: Final = 1e-300
_CHUNK: Final = 1 << 16
_FEW: Final = 4096  # up to so many entrants everyone runs; beyond, most never have to
_FULL_PASS: Final = 8  # after size/8 draws in vain, looking at everyone is cheaper

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


def race(weights: Floats, wanted: int, generator: np.random.Generator) -> Rows:
    """Draw without replacement in proportion to weights, by an exponential race.

    Each entrant finishes after Exp(1)/weight; the first ``wanted`` win, in order of arrival
    (Efraimidis and Spirakis, 2006). Weights of zero finish after everyone else, in random order,
    so that there are always enough winners.

    >>> race(np.array([1.0, 0.0, 1.0]), 2, np.random.default_rng(1)).tolist()
    [0, 2]
    """
    clock = generator.standard_exponential(weights.size)
    finish = clock / np.maximum(weights, _NEVER, dtype=np.float64)
    wanted = min(wanted, weights.size)
    if 0 < wanted < weights.size:
        first = np.argpartition(finish, wanted - 1)[:wanted]
    else:
        first = np.arange(wanted)
    return first[np.argsort(finish[first], kind="stable")]


def draw(
    weight: Callable[[Rows], Floats],
    size: int,
    *,
    highest: float,
    entrants: int,
    everyone: Callable[[], Rows],
    wanted: int,
    generator: np.random.Generator,
) -> Rows:
    """The same distribution as :func:`race`, without looking at everyone where they are many.

    Places from 0 to ``size`` are proposed evenly and accepted in proportion to their weight (0 for
    places that do not count); repeats are passed over, which is what drawing without replacement
    in proportion to weight means. If too many proposals fail, ``everyone`` is asked for and the
    rest run a race.

    Args:
        weight: Weights of places, at most ``highest``.
        size: How many places there are.
        highest: No weight is above.
        entrants: About how many places count.
        everyone: All places that count, ascending.
        wanted: How many to draw; if fewer count, all of them are drawn.
        generator: Where randomness comes from.
    """
    picked: list[int] = []
    if entrants > _FEW and 4 * wanted <= entrants:
        picked = _proposed(weight, size, highest, 2.0 * size / entrants, wanted, generator)
    short = wanted - len(picked)
    if short == 0:
        return np.array(picked, np.int64)
    rest = everyone()
    if picked:
        rest = rest[~np.isin(rest, picked)]
    return np.concatenate([np.array(picked, np.int64), rest[race(weight(rest), short, generator)]])


def _proposed(
    weight: Callable[[Rows], Floats],
    size: int,
    highest: float,
    per_pick: float,
    wanted: int,
    generator: np.random.Generator,
) -> list[int]:
    """Up to ``wanted`` distinct places by proposal and acceptance; fewer if it does not pay."""
    picked: dict[int, None] = {}
    left = size // _FULL_PASS
    while len(picked) < wanted and left > 0:
        count = int(min(left, max(256, per_pick * (wanted - len(picked)))))
        left -= count
        places = generator.integers(0, size, count)
        accepted = places[generator.random(count) * highest < weight(places)]
        picked.update(dict.fromkeys(accepted.tolist()))
        per_pick = min(2.0 * count / max(accepted.size, 1), 16 * per_pick)
    return list(picked)[:wanted]
