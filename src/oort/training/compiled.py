"""One round of Algorithm 1 in one compiled call, for the settings that most jobs have.

The steps are those of ``GuidedSelector._decide``, in its order, on its arguments: what they give
is equal to the last bit. Between two steps there is no Python, which on tables of some ten
thousand clients takes longer than the steps themselves.
"""

# mypy: disable-error-code="no-untyped-def, call-arg"

from __future__ import annotations

import math

import numpy as np

from oort.clients.columns import EXPLORED, LARGEST_STORED, PRESENT, TRIED
from oort.clients.compiled import bucket_at
from oort.clients.statistics import SHIFT
from oort.kernels.compiled import pool_of_all
from oort.kernels.compiled_draws import (
    explore,
    finish_of,
    kth_smallest,
    mixed,
    race,
    speed,
    uniform,
)
from oort.kernels.compiling import compiled
from oort.kernels.draws import FASTEST_S
from oort.training.eligibility import CARE, EXPLORED_STATE, UNTRIED_STATE
from oort.training.purposes import EXPLOIT, EXPLORE, PROPOSE, QUOTA
from oort.training.utility import SMALLEST_NORMAL

_FRACTION_BITS = 23  # of a 4-byte float
_KEPT_BITS = _FRACTION_BITS - SHIFT  # a bucket is the exponent and so many bits of the fraction
_FRACTIONS = 2.0**_FRACTION_BITS
_KNOWN = np.uint8(PRESENT | EXPLORED)
_UNTRIED_CARE = np.uint8(PRESENT | TRIED)
_PRESENT = np.uint8(PRESENT)


@compiled
def _edge(bucket, upper):
    """The upper or the lower edge of a bucket of a histogram: no value below 1e-30 but 0."""
    if bucket == 0:
        return np.float32(0)
    exponent = bucket >> _KEPT_BITS
    inside = (bucket & ((1 << _KEPT_BITS) - 1)) << SHIFT
    inside |= ((1 << SHIFT) - 1) if upper else 0
    return np.float32(math.ldexp(1.0 + inside / _FRACTIONS, exponent - 127))


@compiled
def _place(count, level):
    """The rank of a quantile: what ``quantile_place`` gives."""
    place = np.int64(np.floor(level * np.float64(count - 1)))
    return min(count - 1, max(np.int64(0), place))


@compiled
def _lowest(values):
    lowest = values[0]
    for value in values:
        lowest = min(lowest, value)
    return lowest


@compiled
def _from_columns(utility, duration_s, flags, clip_level, pacer_level):
    """What small tables are asked for: exact, and from the columns themselves.

    How many are explored, how many of them have a duration, of how many untried one is expected
    and how many untried there are; then the lowest utility and where it is clipped, T, and the
    lowest and the typical duration expected; 0 where there is none.
    """
    worth = np.empty(flags.size, np.float32)
    known_s, hinted_s = np.empty(flags.size, np.float32), np.empty(flags.size, np.float32)
    explored, timed, hinted, untried = 0, 0, 0, 0
    for row in range(flags.size):
        unknown = np.isnan(duration_s[row])
        if (flags[row] & _KNOWN) == _KNOWN:
            worth[explored] = utility[row]
            explored += 1
            if not unknown:
                known_s[timed] = duration_s[row]
                timed += 1
        if (flags[row] & _UNTRIED_CARE) == _PRESENT:
            untried += 1
            if not unknown:
                hinted_s[hinted] = duration_s[row]
                hinted += 1
    low, cap, preferred_s = np.float32(0), np.float32(0), np.float32(0)
    lowest_s, typical_s = np.float32(0), np.float32(0)
    if explored > 0:
        low = _lowest(worth[:explored])
        cap = kth_smallest(worth[:explored], _place(explored, clip_level))
    if timed > 0:
        preferred_s = kth_smallest(known_s[:timed], _place(timed, pacer_level))
    if hinted > 0:
        lowest_s = _lowest(hinted_s[:hinted])
        typical_s = kth_smallest(hinted_s[:hinted], _place(hinted, 0.5))
    return (explored, timed, hinted, untried), (low, cap, preferred_s, lowest_s, typical_s)


@compiled
def _from_histograms(histograms, counts, clip_level, pacer_level):
    """The same of large tables, by histograms."""
    explored, timed, hinted, _ = counts
    utilities, durations, expected = histograms
    low, cap, preferred_s = np.float32(0), np.float32(0), np.float32(0)
    lowest_s, typical_s = np.float32(0), np.float32(0)
    if explored > 0:
        first = bucket_at(*utilities, 0)
        last = bucket_at(*utilities, _place(explored, clip_level))
        cap = _edge(last, True)
        low = cap if first == last else _edge(first, False)
    if timed > 0:
        preferred_s = _edge(bucket_at(*durations, _place(timed, pacer_level)), True)
    if hinted > 0:
        lowest_s = _edge(bucket_at(*expected, 0), False)
        typical_s = _edge(bucket_at(*expected, _place(hinted, 0.5)), True)
    return low, cap, preferred_s, lowest_s, typical_s


@compiled
def _key(job, round_number, draw, purpose):
    """The key of one draw of one round: what ``key_for`` gives."""
    return mixed(mixed(job, round_number), 1 + purpose + (draw << 8))


@compiled
def decide(
    utility,
    duration_s,
    last_round,
    flags,
    participations,
    allowed,
    histograms,
    counts,
    clip_level,
    pacer_level,
    fixed_s,
    uncertainty,
    share,
    hint,
    pace,
    reported,
    wanted,
    epsilon,
    job,
    round_number,
    draw,
):
    """Who is picked: rows, why, how many of them for their score, and the numbers of the round.

    Histograms without buckets stand for a small table, whose columns say everything.
    Why is, of every pick: score (of the exploited), utility, last round, duration,
    participations. The numbers are: lowest utility and where it is clipped, the inverse of their
    difference, T, what is typical of the untried, the cut-off, and what the newest reports are
    worth. Last come the size of the pool, how many are explored and of how many of them a
    duration is known, and what hints for the next round follow from: the cut-off, 0 where it says
    nothing, and the pace of exploration.
    """
    if histograms[0][0].size:
        known = _from_histograms(histograms, counts, clip_level, pacer_level)
    else:
        counts, known = _from_columns(utility, duration_s, flags, clip_level, pacer_level)
    num_explored, num_timed, num_hinted, num_untried = counts
    low, cap, quantile_s, lowest_s, typical_s = known
    spread = cap - low
    inverse_range = np.float32(1) / spread if spread >= SMALLEST_NORMAL else np.float32(0)
    preferred_s = np.float32(min(fixed_s, LARGEST_STORED))
    if np.isnan(fixed_s):
        preferred_s = quantile_s if num_timed > 0 else np.float32(LARGEST_STORED)
    highest = 1.0
    if num_hinted > 0:
        highest = 1.0 / max(np.float64(lowest_s), FASTEST_S)
    else:
        typical_s = np.float32(1)
    luck = uniform(_key(job, round_number, draw, QUOTA), 0)
    quota = min(np.int64(np.floor(epsilon * wanted + luck)), wanted, num_untried)

    scale = (low, cap, inverse_range, np.float32(min(uncertainty, LARGEST_STORED)), preferred_s)
    least, expected_bar = np.float32(share), np.float32(hint)
    asked = wanted - quota
    columns = (utility, duration_s, last_round, flags, allowed)
    pool = _pool(columns, scale, asked, least, expected_bar)
    num_exploit = min(asked, pool[0].size)
    short = wanted - num_exploit
    tried = np.empty(0, np.int64)
    if short > 0 and num_untried > 0:
        tried = explore(
            duration_s,
            flags,
            allowed,
            CARE,
            UNTRIED_STATE,
            typical_s,
            highest,
            num_untried,
            short,
            (_key(job, round_number, draw, PROPOSE), _key(job, round_number, draw, EXPLORE)),
            pace,
        )
    if tried.size < short and num_exploit == asked:
        more = wanted - tried.size
        pool = _pool(columns, scale, more, least, expected_bar)
        num_exploit = min(more, pool[0].size)
    places = race(pool[0], pool[1], num_exploit, _key(job, round_number, draw, EXPLOIT))

    rows = np.empty(num_exploit + tried.size, np.int64)
    why = np.empty((5, rows.size), np.float64)
    for i in range(num_exploit):
        rows[i] = pool[0][places[i]]
        why[0, i] = pool[1][places[i]]
    for i in range(tried.size):
        rows[num_exploit + i] = tried[i]
        why[0, num_exploit + i] = np.nan
    for i in range(rows.size):
        why[1, i] = utility[rows[i]]
        why[2, i] = last_round[rows[i]]
        why[3, i] = duration_s[rows[i]]
        why[4, i] = participations[rows[i]]
    cutoff = np.float64(pool[2]) if num_exploit >= max(asked, 1) else 0.0
    if tried.size:
        key, last_of = _key(job, round_number, draw, EXPLORE), tried[-1]
        newest = finish_of(key, last_of, speed(duration_s[last_of], typical_s)) / tried.size
        pace = max(newest, 0.5 * (newest + pace))
    worth, most = 0.0, cap if num_explored > 0 else np.float32(np.inf)
    for i in range(reported.size):
        worth += np.float64(reported[i] if reported[i] < most else most)
    numbers = (low, cap, inverse_range, preferred_s, typical_s, pool[2], worth)
    return rows, why, num_exploit, numbers, (pool[0].size, num_explored, num_timed), (cutoff, pace)


@compiled
def _pool(columns, scale, wanted, share, hint):
    if wanted == 0:
        return np.empty(0, np.int64), np.empty(0, np.float32), np.float32(np.nan)
    return pool_of_all(columns, (CARE, EXPLORED_STATE), scale, wanted, share, hint)
