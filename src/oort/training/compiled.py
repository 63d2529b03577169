"""One round of Algorithm 1 in one compiled call, for the settings that most jobs have.

The steps are those of ``GuidedSelector._decide``, in its order, on its arguments: what they give
is equal to the last bit. Between two steps there is no Python, which on tables of some ten
thousand clients takes longer than the steps themselves.
"""

# mypy: disable-error-code="no-untyped-def, call-arg"

from __future__ import annotations

import numpy as np

from oort.clients.compiled import bucket_at
from oort.clients.statistics import SHIFT
from oort.kernels.compiled import pool_of_all
from oort.kernels.compiled_draws import explore, race
from oort.kernels.compiling import compiled
from oort.kernels.draws import FASTEST_S
from oort.training.eligibility import CARE, EXPLORED_STATE, UNTRIED_STATE
from oort.training.utility import SMALLEST_NORMAL

_SHIFT = np.uint32(SHIFT)
_INSIDE = np.uint32((1 << SHIFT) - 1)


@compiled
def _edge(bucket, upper):
    """The upper or the lower edge of a bucket of a histogram."""
    bits = np.zeros(1, np.uint32)
    if bucket:
        bits[0] = (np.uint32(bucket) << _SHIFT) | (_INSIDE if upper else np.uint32(0))
    return bits.view(np.float32)[0]


@compiled
def decide(
    utility,
    duration_s,
    last_round,
    flags,
    participations,
    allowed,
    utilities,
    durations,
    expected,
    clip_rank,
    pacer_rank,
    typical_rank,
    preferred_s,
    uncertainty,
    share,
    hint,
    wanted,
    quota,
    num_untried,
    keys,
):
    """Who is picked: rows, why, how many of them for their score, and the numbers of the round.

    Ranks are those of the quantiles asked for, below 0 where there is nothing to rank. Why is, of
    every pick: score (of the exploited), utility, last round, duration, participations.
    """
    low, cap = np.float32(0), np.float32(0)
    if clip_rank >= 0:
        first, last = bucket_at(*utilities, 0), bucket_at(*utilities, clip_rank)
        cap = _edge(last, True)
        low = cap if first == last else _edge(first, False)
    spread = cap - low
    inverse_range = np.float32(1) / spread if spread >= SMALLEST_NORMAL else np.float32(0)
    if pacer_rank >= 0:
        preferred_s = _edge(bucket_at(*durations, pacer_rank), True)
    highest, typical_s = 1.0, np.float32(1)
    if typical_rank >= 0:
        lowest_s = np.float64(_edge(bucket_at(*expected, 0), False))
        highest = 1.0 / (lowest_s if lowest_s > FASTEST_S else FASTEST_S)
        typical_s = _edge(bucket_at(*expected, typical_rank), True)

    scale = (low, cap, inverse_range, uncertainty, preferred_s)
    asked = wanted - quota
    columns = (utility, duration_s, last_round, flags, allowed)
    pool = _pool(columns, scale, asked, share, hint)
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
            (keys[1], keys[2]),
        )
    if tried.size < short and num_exploit == asked:
        more = wanted - tried.size
        pool = _pool(columns, scale, more, share, hint)
        num_exploit = min(more, pool[0].size)
    places = race(pool[0], pool[1], num_exploit, keys[0])

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
    return rows, why, num_exploit, scale, typical_s, pool[2], pool[0].size


@compiled
def _pool(columns, scale, wanted, share, hint):
    if wanted == 0:
        return np.empty(0, np.int64), np.empty(0, np.float32), np.float32(np.nan)
    return pool_of_all(columns, (CARE, EXPLORED_STATE), scale, wanted, share, hint)
