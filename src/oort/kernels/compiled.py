"""The hot loops, compiled by Numba and cached on disk.

No ``fastmath``: every operation rounds as in NumPy, in the same order, so that both backends pick
the same clients. A pass works on blocks that fit the first cache: a branch-free loop scores the
block, and only a block that holds something above the running bar is looked at row by row.

Written for the vectoriser: conditional expressions instead of ``min`` and ``max`` (which check for
NaN row by row), NumPy's error model (Python's checks every division), and loops over slices from 0
(an index that might be negative is checked row by row).

What goes from call to call travels in three parts:

    columns    utility, duration, last round, flags, and who is allowed (empty: everyone)
    state      the bits of the flags that count, and how they must be
    scale      low, cap, 1/(cap − low), uncertainty, preferred duration
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from oort.kernels.compiled_draws import explore, kth_smallest, race
from oort.kernels.compiling import compiled

__all__ = ["explore", "pool_of_all", "pool_of_rows", "race", "scores_of"]

_BLOCK = 1024


@compiled
def _score_block(
    scores,
    utility,
    duration_s,
    last_round,
    low,
    cap,
    inverse_range,
    uncertainty,
    preferred_s,
):
    """Scores of a block of rows, whoever they are."""
    one = np.float32(1)
    heard = np.uint32(1)
    for i in range(scores.size):
        worth = utility[i]
        worth = worth if worth < cap else cap
        worth = (worth - low) * inverse_range
        newest = last_round[i]
        newest = newest if newest > heard else heard
        bonus = np.sqrt(uncertainty / np.float32(newest))
        duration = duration_s[i]
        ratio = preferred_s / duration
        ratio = ratio if duration > preferred_s else one
        scores[i] = (worth + bonus) * (ratio * ratio)


@compiled
def _score_block_of_equals(scores, duration_s, last_round, uncertainty, preferred_s):
    """The same where everyone's utility is the same."""
    one = np.float32(1)
    heard = np.uint32(1)
    for i in range(scores.size):
        newest = last_round[i]
        newest = newest if newest > heard else heard
        bonus = np.sqrt(uncertainty / np.float32(newest))
        duration = duration_s[i]
        ratio = preferred_s / duration
        ratio = ratio if duration > preferred_s else one
        scores[i] = (one + bonus) * (ratio * ratio)


@compiled
def _score(scores, utility, duration_s, last_round, flags, allowed, state, scale):
    """Scores of a block of rows, −1 for those that are not in the state or not allowed."""
    low, cap, inverse_range, uncertainty, preferred_s = scale
    if inverse_range > 0:
        _score_block(
            scores,
            utility,
            duration_s,
            last_round,
            low,
            cap,
            inverse_range,
            uncertainty,
            preferred_s,
        )
    else:
        _score_block_of_equals(scores, duration_s, last_round, uncertainty, preferred_s)
    _leave_out(scores, flags, allowed, state[0], state[1])


@compiled
def _leave_out(scores, flags, allowed, care, state):
    """Put −1 in the place of rows that are not in the state or not allowed."""
    nothing = np.float32(-1)
    for i in range(scores.size):
        scores[i] = scores[i] if (flags[i] & care) == state else nothing
    if allowed.size:
        for i in range(scores.size):
            scores[i] = scores[i] if allowed[i] else nothing


@compiled
def _count_from(scores, bar):
    """How many scores reach the bar."""
    count = np.int32(0)
    for i in range(scores.size):
        count = np.int32(count + np.int32(scores[i] >= bar))
    return count


@compiled
def _drop_below(rows, found, count, bar):
    """Keep what reaches the bar; gives how many are left."""
    kept = 0
    for j in range(count):
        if found[j] >= bar:
            rows[kept] = rows[j]
            found[kept] = found[j]
            kept += 1
    return kept


@compiled
def _settled(rows, found, count, wanted, share):
    """Rows and scores of those that reach a share of the ``wanted``-th best, and that score."""
    if count == 0:
        return rows[:0], found[:0], np.float32(np.nan)
    place = count - min(wanted, count)
    bar = share * kth_smallest(found[:count].copy(), place)
    count = _drop_below(rows, found, count, bar)
    return rows[:count], found[:count], bar


@compiled
def _top(columns, state, scale, wanted, share, bar):
    """Rows, ascending, and scores of all that reach the bar, which rises as better ones come in.

    It rises at most to the final one, so nothing that belongs is missed, and what no longer
    reaches it is dropped when the list is full.
    """
    utility, duration_s, last_round, flags, allowed = columns
    full = max(4 * wanted, 512)  # so many before the bar is raised
    rows = np.empty(full + _BLOCK, np.int64)
    found = np.empty(full + _BLOCK, np.float32)
    count = 0
    block = np.empty(_BLOCK, np.float32)
    for start in range(0, utility.size, _BLOCK):
        scores = block[: min(_BLOCK, utility.size - start)]
        part = slice(start, start + scores.size)
        _score(
            scores,
            utility[part],
            duration_s[part],
            last_round[part],
            flags[part],
            allowed[part],
            state,
            scale,
        )
        better = _count_from(scores, bar)
        if better == 0:
            continue
        if count + better > full and count >= wanted:
            kth = kth_smallest(found[:count].copy(), count - wanted)
            bar = share * kth if share * kth > bar else bar
            count = _drop_below(rows, found, count, bar)
            better = _count_from(scores, bar)
            full = max(full, 2 * count)
        if count + better > rows.size:
            more_rows = np.empty(2 * (count + better), np.int64)
            more_found = np.empty(more_rows.size, np.float32)
            for j in range(count):
                more_rows[j] = rows[j]
                more_found[j] = found[j]
            rows, found = more_rows, more_found
        for i in range(scores.size):
            if scores[i] >= bar:
                rows[count] = start + i
                found[count] = scores[i]
                count += 1
    return rows, found, count


@compiled
def pool_of_all(columns, state, scale, wanted, share, hint):
    """Rows, ascending, scores, and the cut-off that they reach, in one pass.

    The hint is a cut-off to begin with, most often a little below that of the round before: if it
    was too high, the pass is repeated without.
    """
    while True:
        rows, found, count = _top(columns, state, scale, wanted, share, hint)
        enough = count >= wanted
        rows, found, bar = _settled(rows, found, count, wanted, share)
        if hint == 0 or (enough and bar >= hint):
            return rows, found, bar
        hint = np.float32(0)


@compiled
def scores_of(rows, columns, state, scale):
    """Scores of some rows, −1 for those that are not in the state or not allowed."""
    utility, duration_s, last_round, flags, allowed = columns
    count = rows.size
    worth = np.empty(count, np.float32)
    duration = np.empty(count, np.float32)
    newest = np.empty(count, np.uint32)
    marks = np.empty(count, np.uint8)
    may = np.empty(count if allowed.size else 0, np.uint8)
    for i in range(count):
        row = rows[i]
        worth[i] = utility[row]
        duration[i] = duration_s[row]
        newest[i] = last_round[row]
        marks[i] = flags[row]
        if allowed.size:
            may[i] = allowed[row]
    scores = np.empty(count, np.float32)
    _score(scores, worth, duration, newest, marks, may, state, scale)
    return scores


@compiled
def pool_of_rows(rows, columns, state, scale, wanted, share, hint):
    """The same of some rows, in their order."""
    scores = scores_of(rows, columns, state, scale)
    while True:
        count = 0
        kept = np.empty(rows.size, np.int64)
        found = np.empty(rows.size, np.float32)
        for i in range(rows.size):
            if scores[i] >= hint:
                kept[count] = rows[i]
                found[count] = scores[i]
                count += 1
        enough = count >= wanted
        kept, found, bar = _settled(kept, found, count, wanted, share)
        if hint == 0 or (enough and bar >= hint):
            return kept, found, bar
        hint = np.float32(0)
