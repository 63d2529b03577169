"""Histograms and participations, compiled by Numba and cached on disk.

What ``statistics`` and ``table`` do row by row: a round changes a few rows, each of them in a
dozen small steps, and one call does them all.
"""

# mypy: disable-error-code="no-untyped-def, assignment"

from __future__ import annotations

import numpy as np

from oort.clients.columns import EXPLORED, MAX_PARTICIPATIONS_STORED, PRESENT, REMOVED, TRIED
from oort.clients.statistics import COARSE, SHIFT
from oort.kernels.compiling import compiled

_SHIFT = np.uint32(SHIFT)
_KNOWN = np.uint8(PRESENT | EXPLORED)
_UNTRIED_CARE = np.uint8(PRESENT | TRIED)
_PRESENT = np.uint8(PRESENT)
_EXPLORED = np.uint8(EXPLORED)
_TRIED = np.uint8(TRIED)
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
    group = 0
    while rank >= coarse[group]:
        rank -= coarse[group]
        group += 1
    bucket = group * COARSE
    while rank >= fine[bucket]:
        rank -= fine[bucket]
        bucket += 1
    return bucket


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
    untried, and of how many of those a duration was expected.
    """
    duration_bits = duration_s.view(np.uint32)
    added, untried, hinted = 0, 0, 0
    for row in rows:
        mark = flags[row]
        if (mark & _UNTRIED_CARE) == _PRESENT:
            untried += 1
            if not np.isnan(duration_s[row]):
                hinted += 1
                _count_in(expected[0], expected[1], duration_bits[row], -1)
        count = np.int64(participations[row])
        if count < MAX_PARTICIPATIONS_STORED:
            count += 1
            added += np.int64((mark & _PRESENT) != 0)
        participations[row] = count
        mark = (mark & _REST) | _TRIED
        flags[row] = mark | _REMOVED if count > limit else mark
    return added, untried, hinted
