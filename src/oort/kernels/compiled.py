"""The hot loops, compiled by Numba and cached on disk.

No ``fastmath``: every operation rounds as in NumPy, in the same order, so that both backends pick
the same clients. A pass works on blocks that fit the first cache: a branch-free loop screens the
block by what takes neither division nor root, and only rows that may reach the running bar are
scored.

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

from oort.kernels.compiled_draws import explore, kth_smallest, marked, race
from oort.kernels.compiling import compiled

__all__ = ["explore", "pool_of_all", "pool_of_rows", "race", "scores_of"]

_BLOCK = 4096
_FEW = 512  # if more rows of a block may reach the bar, scoring all takes less time
_LOWEST_BAR = np.float32(1e-6)  # below, and for shorter durations, rounding could hide a row
_SHORTEST_S = np.float32(1e-25)
_LOWER = np.float32(0.75)
_LESS = np.float32(0.9999)  # screening errs by less than these allow
_MORE = np.float32(1.0001)


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
def _score_everyone(scores, utility, duration_s, last_round, scale):
    """Scores of a block of rows, whoever they are."""
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


@compiled
def _score(scores, utility, duration_s, last_round, flags, allowed, state, scale):
    """The same, −1 for those that are not in the state or not allowed."""
    _score_everyone(scores, utility, duration_s, last_round, scale)
    nothing = np.float32(-1)
    for i in range(scores.size):
        scores[i] = scores[i] if (flags[i] & state[0]) == state[1] else nothing
    if allowed.size:
        for i in range(scores.size):
            scores[i] = scores[i] if allowed[i] else nothing


@compiled
def _screen(marks, utility, duration_s, last_round, flags, allowed, state, scale, bar):
    """Mark the rows of a block that may reach the bar.

    (a + √(w/L)) / r² ≥ bar if and only if x = bar·r² − a is below 0 or x²·L ≤ w.
    """
    low, cap, inverse_range, uncertainty, preferred_s = scale
    nothing, one, heard = np.float32(0), np.float32(1), np.uint32(1)
    equal = nothing if inverse_range > 0 else one
    per_s = one / preferred_s
    lower, most = bar * _LESS, uncertainty * _MORE
    for i in range(marks.size):
        worth = utility[i]
        worth = worth if worth < cap else cap
        worth = (worth - low) * inverse_range + equal
        newest = last_round[i]
        newest = newest if newest > heard else heard
        duration = duration_s[i]
        ratio = (duration if duration > preferred_s else preferred_s) * per_s
        short = lower * (ratio * ratio) - worth
        short = short if short > nothing else nothing
        may = short * short * np.float32(newest) <= most
        marks[i] = np.uint8(may) & np.uint8((flags[i] & state[0]) == state[1])
    if allowed.size:
        for i in range(marks.size):
            marks[i] = marks[i] & np.uint8(allowed[i] != 0)


@compiled
def _reaching(scratch, utility, duration_s, last_round, flags, allowed, state, scale, bar):
    """Find places and scores of the rows of a block that reach the bar; gives how many."""
    places, scores, marks, worth, duration, newest = scratch
    size = utility.size
    some = _BLOCK
    if bar >= _LOWEST_BAR and scale[4] >= _SHORTEST_S:
        _screen(marks[:size], utility, duration_s, last_round, flags, allowed, state, scale, bar)
        some = marked(places, marks, size)
        if some == 0:
            return 0
    if some <= _FEW:
        for j in range(some):
            worth[j], duration[j] = utility[places[j]], duration_s[places[j]]
            newest[j] = last_round[places[j]]
        _score_everyone(scores[:some], worth, duration, newest, scale)
    else:
        some = size
        _score(scores[:size], utility, duration_s, last_round, flags, allowed, state, scale)
        for i in range(size):
            places[i] = i
    count = 0
    for j in range(some):
        if scores[j] >= bar:
            scores[count], places[count] = scores[j], places[j]
            count += 1
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
    places = np.empty(_BLOCK + 8, np.int64)
    scores = np.empty(_BLOCK, np.float32)
    marks = np.empty(_BLOCK + 64, np.uint8)
    kept = (np.empty(_FEW, np.float32), np.empty(_FEW, np.float32), np.empty(_FEW, np.uint32))
    scratch = (places, scores, marks, *kept)
    for start in range(0, utility.size, _BLOCK):
        part = slice(start, min(start + _BLOCK, utility.size))
        better = _reaching(
            scratch,
            utility[part],
            duration_s[part],
            last_round[part],
            flags[part],
            allowed[part],
            state,
            scale,
            bar,
        )
        if better == 0:
            continue
        if count + better > full and count >= wanted:
            kth = kth_smallest(found[:count].copy(), count - wanted)
            bar = share * kth if share * kth > bar else bar
            count = _drop_below(rows, found, count, bar)
            full = max(full, 2 * count)
        if count + better > rows.size:
            more_rows = np.empty(2 * (count + better), np.int64)
            more_found = np.empty(more_rows.size, np.float32)
            for j in range(count):
                more_rows[j] = rows[j]
                more_found[j] = found[j]
            rows, found = more_rows, more_found
        for j in range(better):
            if scores[j] >= bar:
                rows[count], found[count] = start + places[j], scores[j]
                count += 1
    return rows, found, count


@compiled
def pool_of_all(columns, state, scale, wanted, share, hint):
    """Rows, ascending, scores, and the cut-off that they reach, in one pass.

    The hint is a cut-off to begin with, most often a little below that of the round before: if it
    was too high, the pass is repeated with a lower one, then without; at once without, where far
    too few reach it.
    """
    lower = np.float32(_LOWER * hint)
    while True:
        rows, found, count = _top(columns, state, scale, wanted, share, hint)
        enough = count >= wanted
        rows, found, bar = _settled(rows, found, count, wanted, share)
        if hint == 0 or (enough and bar >= hint):
            return rows, found, bar
        if enough:
            hint = bar  # the best are known: so is the cut-off
        else:
            hint, lower = lower if 2 * count >= wanted else np.float32(0), np.float32(0)


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
