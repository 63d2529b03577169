"""Histograms and participations, compiled by Numba and cached on disk.

What ``statistics`` and ``table`` do row by row: a round changes a few rows, each of them in a
dozen small steps, and one call does them all.
"""

# mypy: disable-error-code="no-untyped-def, assignment, operator"

from __future__ import annotations

import numpy as np

from oort.clients.columns import (
    EXPLORED,
    MAX_PARTICIPATIONS_STORED,
    PRESENT,
    REMOVED,
    TIMED,
    TRIED,
)
from oort.clients.statistics import COARSE, SHIFT
from oort.kernels.compiling import compiled

_AT_ONCE = 16  # divides how many buckets there are, coarse and fine
_SHIFT = np.uint32(SHIFT)
_KNOWN = np.uint8(PRESENT | EXPLORED)
_UNTRIED_CARE = np.uint8(PRESENT | TRIED)
_PRESENT = np.uint8(PRESENT)
_EXPLORED = np.uint8(EXPLORED)
_TRIED = np.uint8(TRIED)
_TIMED = np.uint8(TIMED)
_REMOVED = np.uint8(REMOVED)
_REST = np.uint8(255 - TRIED - REMOVED)


@compiled
def _count_in(fine, coarse, bits, by):
    bucket = np.int64(bits >> _SHIFT)
    fine[bucket] += by
    coarse[bucket // COARSE] += by


@compiled
def bucket_at(fine, coarse, rank):
    """The bucket that holds the value of this rank, counted from 0."""
    group, rank = _counted_to(coarse, 0, rank)
    bucket, _ = _counted_to(fine, group * COARSE, rank)
    return bucket


@compiled
def _counted_to(counts, place, rank):
    """Where so many have been counted, from a place on, and how many of them in there."""
    while True:
        some = np.int64(0)
        for i in range(_AT_ONCE):
            some += counts[place + i]
        if rank < some:
            break
        rank -= some
        place += _AT_ONCE
    while rank >= counts[place]:
        rank -= counts[place]
        place += 1
    return place, rank


@compiled
def count_rows(rows, flags, utility, duration_s, by, utilities, durations, expected):
    """Count rows in or out of three histograms.

    Gives how many belonged to each, and how many are untried.
    """
    utility_bits, duration_bits = utility.view(np.uint32), duration_s.view(np.uint32)
    explored, timed, hinted, untried = 0, 0, 0, 0
    for row in rows:
        unknown = np.isnan(duration_s[row])
        if (flags[row] & _KNOWN) == _KNOWN:
            explored += 1
            _count_in(utilities[0], utilities[1], utility_bits[row], by)
            if not unknown:
                timed += 1
                _count_in(durations[0], durations[1], duration_bits[row], by)
        if (flags[row] & _UNTRIED_CARE) == _PRESENT:
            untried += 1
            if not unknown:
                hinted += 1
                _count_in(expected[0], expected[1], duration_bits[row], by)
    return explored, timed, hinted, untried


@compiled
def pick(rows, flags, participations, duration_s, limit, expected):
    """Distinct rows take part in one more round.

    Gives what was added to the participations of present clients, how many of the rows were
    untried, and of how many of those a duration was expected. A histogram without buckets is of
    a small table, which keeps none.
    """
    duration_bits = duration_s.view(np.uint32)
    added, untried, hinted = 0, 0, 0
    for row in rows:
        mark = flags[row]
        if (mark & _UNTRIED_CARE) == _PRESENT:
            untried += 1
            if not np.isnan(duration_s[row]):
                hinted += 1
                if expected[0].size:
                    _count_in(expected[0], expected[1], duration_bits[row], -1)
        count = np.int64(participations[row])
        if count < MAX_PARTICIPATIONS_STORED:
            count += 1
            added += np.int64((mark & _PRESENT) != 0)
        participations[row] = count
        mark = (mark & _REST) | _TRIED
        flags[row] = mark | _REMOVED if count > limit else mark
    return added, untried, hinted


@compiled
def report(rows, reports, codes, number, limit, columns, histograms):
    """Write reports of distinct rows into the columns, and let the histograms follow.

    Reports are outcomes, whether the row was selected, utilities, durations and samples; codes
    those of the outcomes "completed" and "unused". Gives what was added to the participations of
    present clients, and to the counts that ``count_rows`` gives.
    """
    outcome, selected, new_utility, new_duration_s, new_samples = reports
    flags, utility, duration_s, last_round, participations, num_samples = columns
    completed, unused = codes
    known = (flags, utility, duration_s)
    before, after = (0, 0, 0, 0), (0, 0, 0, 0)
    if histograms[0][0].size:
        before = count_rows(rows, *known, -1, *histograms)
    added = 0
    for i in range(rows.size):
        row, is_used = rows[i], outcome[i] != unused
        mark = flags[row]
        if is_used != selected[i]:
            earlier = np.int64(participations[row])
            count = min(max(earlier + (1 if is_used else -1), 0), MAX_PARTICIPATIONS_STORED)
            if (mark & _PRESENT) != 0:
                added += count - earlier
            participations[row] = count
            mark &= _REST
            if count > 0 or (mark & _EXPLORED) != 0:
                mark |= _TRIED
            if count > limit:
                mark |= _REMOVED
        if is_used:
            last_round[row] = number
        if not np.isnan(new_duration_s[i]):
            known_s = duration_s[row]
            if outcome[i] == completed or np.isnan(known_s) or new_duration_s[i] > known_s:
                duration_s[row] = new_duration_s[i]
            mark |= _TIMED
        if new_samples[i] >= 0:
            num_samples[row] = new_samples[i]
        if outcome[i] == completed:
            utility[row] = new_utility[i]
            mark |= _EXPLORED
        flags[row] = mark
    if histograms[0][0].size:
        after = count_rows(rows, *known, +1, *histograms)
    return added, before, after
