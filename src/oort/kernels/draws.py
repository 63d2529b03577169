"""Drawing without replacement, in NumPy.

Chance is counted here, not carried: the key of a draw and a number (a client's row, or that of the
n-th proposal) give 53 random bits by integer arithmetic alone, and the logarithm is made of four
plain operations. So whoever draws, here or in compiled code, on this machine or another, with this
version of NumPy or a later one, in whatever order the clients come, the same clients are drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from oort.randomness import FACTORS, STEP
from oort.types import Floats, Mask, Rows

# A weight that loses to every positive 4-byte float and still divides without overflow.
NEVER: Final = 1e-300
FASTEST_S: Final = 1e-6  # durations below count as this: a speed has to be finite
FEW: Final = 16_384  # up to so many entrants everyone runs; beyond, most never have to
FULL_PASS: Final = 8  # after size/8 proposals in vain, looking at everyone is cheaper
LEAST: Final = 1.0 + 1e-9  # what is later than this much later is later, however it is rounded
ROOT_HALF: Final = 0.7071067811865476
LN_2: Final = 0.6931471805599453
ODD: Final = tuple(1.0 / n for n in range(19, 1, -2))  # atanh(x) = x + x³/3 + x⁵/5 + …

_ALL: Final = 0xFFFF_FFFF_FFFF_FFFF

Doubles = npt.NDArray[np.float64]


def uniforms(key: int, numbers: npt.NDArray[np.integer]) -> Doubles:
    """One number from [0, 1) for each number given.

    >>> uniforms(7, np.arange(3)).round(3).tolist()
    [0.073, 0.39, 0.017]
    """
    return np.asarray((_mixed(key, numbers.astype(np.uint64)) >> np.uint64(11)) * 2.0**-53)


def chances(key: int, names: npt.NDArray[np.integer]) -> Doubles:
    """One number from (0, 1] for each name: what a race is run with.

    Of its 53 bits, the first 16 come from a hash that four neighbouring names share, the others
    from their own: most entrants of a race lose by the first 16 already, so that compiled code
    makes one hash for four rows.

    >>> chances(7, np.arange(3)).round(3).tolist()
    [0.871, 0.481, 0.188]
    """
    numbers = names.astype(np.uint64)
    shared = _mixed(key, numbers >> np.uint64(2))
    first = (shared >> ((numbers & np.uint64(3)) << np.uint64(4))) & np.uint64(0xFFFF)
    others = _mixed(~key & _ALL, numbers) >> np.uint64(27)
    return np.asarray((((first << np.uint64(37)) | others) + np.uint64(1)) * 2.0**-53)


def logarithm(values: Doubles) -> Doubles:
    """The natural logarithm of numbers from (0, 1], rounded alike wherever it is computed.

    >>> logarithm(np.array([1.0, 0.5, 1e-9])).tolist()
    [0.0, -0.6931471805599453, -20.72326583694641]
    """
    part, exponent = np.frexp(values)
    low = part < ROOT_HALF
    part = np.where(low, part * 2.0, part)
    x = (part - 1.0) / (part + 1.0)
    square = x * x
    series = np.full(values.shape, 1.0 / 21.0)
    for term in ODD:
        series = series * square + term
    series = series * square + 1.0
    return np.asarray((exponent - low) * LN_2 + 2.0 * x * series)


def race(names: Rows, weights: Floats, wanted: int, key: int) -> Rows:
    """Draw without replacement in proportion to weights, by an exponential race.

    Each entrant finishes after Exp(1)/weight, where its name and the key give the exponential; the
    first ``wanted`` win (Efraimidis and Spirakis, 2006). Weights of zero finish after everyone
    else, in random order, so that there are always enough winners. Returns the winners' places
    among those given, in the order of their arrival.

    >>> race(np.array([10, 20, 30]), np.array([1.0, 0.0, 1.0]), 2, key=1).tolist()
    [2, 0]
    """
    wanted = min(wanted, names.size)
    if wanted == 0:
        return np.empty(0, np.int64)
    weights = np.maximum(weights, NEVER, dtype=np.float64)
    chance = chances(key, names)
    places = np.arange(names.size)
    if names.size > 4 * wanted:
        earliest = (1.0 - chance) / weights  # −ln x ≥ 1 − x
        first = np.argpartition(earliest, wanted - 1)[:wanted]
        latest = (-logarithm(chance[first]) / weights[first]).max()
        places = np.flatnonzero(earliest <= latest * LEAST)
    finish = -logarithm(chance[places]) / weights[places]
    return places[np.lexsort((names[places], finish))[:wanted]]


def draw(
    weight: Callable[[Rows], Floats],
    size: int,
    *,
    highest: float,
    entrants: int,
    everyone: Callable[[], Rows],
    wanted: int,
    keys: tuple[int, int],
) -> Rows:
    """The same distribution as :func:`race`, without looking at everyone where they are many.

    Rows from 0 to ``size`` are proposed evenly and accepted in proportion to their weight (0 for
    rows that do not count); repeats are passed over, which is what drawing without replacement
    in proportion to weight means. If too many proposals fail, ``everyone`` is asked for and the
    rest run a race.

    Args:
        weight: Weights of rows, at most ``highest``.
        size: How many rows there are.
        highest: No weight is above.
        entrants: About how many rows count.
        everyone: All rows that count.
        wanted: How many to draw; if fewer count, all of them are drawn.
        keys: The keys of the proposals and of the race.
    """
    picked: list[int] = []
    if entrants > FEW and 4 * wanted <= entrants:
        picked = _proposed(weight, size, highest, 2.0 * size / entrants, wanted, keys[0])
    short = wanted - len(picked)
    if short == 0:
        return np.array(picked, np.int64)
    rest = everyone()
    if picked:
        rest = rest[~np.isin(rest, picked)]
    winners = rest[race(rest, weight(rest), short, keys[1])]
    return np.concatenate([np.array(picked, np.int64), winners])


def _proposed(
    weight: Callable[[Rows], Floats],
    size: int,
    highest: float,
    per_pick: float,
    wanted: int,
    key: int,
) -> list[int]:
    """The first ``wanted`` distinct rows that are accepted; fewer if it does not pay."""
    picked: dict[int, None] = {}
    done, limit = 0, size // FULL_PASS
    while len(picked) < wanted and done < limit:
        count = int(min(limit - done, max(256, per_pick * (wanted - len(picked)))))
        numbers = np.arange(2 * done, 2 * (done + count), 2)
        done += count
        rows = np.minimum((uniforms(key, numbers) * size).astype(np.int64), size - 1)
        accepted: Mask = uniforms(key, numbers + 1) * highest < weight(rows)
        picked.update(dict.fromkeys(rows[accepted].tolist()))
        per_pick = min(2.0 * count / max(int(accepted.sum()), 1), 16 * per_pick)
    return list(picked)[:wanted]


def _mixed(key: int, numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """64 random bits for each number: SplitMix64, its stream begun at the key."""
    bits = numbers * np.uint64(STEP) + np.uint64(key)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(FACTORS[0])
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(FACTORS[1])
    return bits ^ (bits >> np.uint64(31))
