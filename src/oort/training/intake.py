"""Where reports reach the table: newcomers join, repeats and outdated reports drop out.

The rules, for a report that names a client and a round:

    repeated    the same client and round were heard of before      applied once
    outdated    a newer round of the client is known                noted, changes nothing
    completed   utility, duration and samples replace what was known
    failed      counts as a participation; may raise the duration; says nothing of utility
    unused      undoes the participation; the duration is at least what it says
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from oort.clients.columns import EXPLORED, stored
from oort.clients.id_columns import checked_id
from oort.clients.table import ClientTable
from oort.errors import InvalidClientIdError
from oort.training.feedback import COMPLETED, UNUSED, Reports
from oort.training.rounds import RoundBook
from oort.types import Rows, UpdateResult

_NO_ID: Final = -2


def find_reporters(table: ClientTable, clients: Sequence[Any], reports: Reports) -> Rows:
    """The row of every reporter, −1 where unknown; what is no id is rejected."""
    try:
        return table.ids.find(clients)
    except InvalidClientIdError:
        pass
    rows = np.full(len(clients), -1, np.int64)
    for place, client in enumerate(clients):
        try:
            rows[place] = table.ids.find([checked_id(client)])[0]
        except InvalidClientIdError:
            rows[place] = _NO_ID
    shape = "a string or an integer from -2**63 to 2**64-1"
    reports.reject(rows == _NO_ID, "client id", clients, shape)
    return rows


def check_round(
    book: RoundBook, round_number: int, rows: Rows, reports: Reports, *, strict_rounds: bool
) -> None:
    """Reject reports for rounds too old and, if asked, from clients not selected in the round."""
    if round_number < book.oldest:
        too_old = np.ones(rows.size, np.bool_)
        reports.reject(too_old, "round_number", round_number, f"{book.oldest} or later by now")
    elif strict_rounds:
        stranger = ~np.isin(rows, book.cohort(round_number))
        must_be = "a round that this client was selected in"
        reports.reject(stranger, "round_number", round_number, must_be)


def take_in(
    table: ClientTable,
    book: RoundBook,
    round_number: int,
    clients: Sequence[Any],
    rows: Rows,
    reports: Reports,
) -> UpdateResult:
    """Apply the good reports; register whoever reports for the first time."""
    good = np.flatnonzero(~reports.bad)
    newcomers = good[rows[good] < 0]
    if newcomers.size:
        rows[newcomers] = table.add([checked_id(clients[i]) for i in newcomers.tolist()])
    fresh = good[book.fresh(round_number, rows[good])]
    book.note(round_number, rows[fresh])
    current = fresh[table.last_round[rows[fresh]] <= round_number]
    _apply(table, book, round_number, rows[current], reports, current)
    return UpdateResult(
        applied=current.size,
        repeated=good.size - fresh.size,
        outdated=fresh.size - current.size,
        rejected=reports.rejections(clients),
    )


def _apply(
    table: ClientTable, book: RoundBook, number: int, rows: Rows, reports: Reports, places: Rows
) -> None:
    """Write reports of distinct rows into the columns."""
    with table.changing(rows):
        _write(table, book, number, rows, reports, places)


def _write(
    table: ClientTable, book: RoundBook, number: int, rows: Rows, reports: Reports, places: Rows
) -> None:
    outcome = reports.outcome[places]
    completed = outcome == COMPLETED
    selected = np.isin(rows, book.cohort(number))
    table.count_participations(rows[(outcome != UNUSED) & ~selected], +1)
    table.count_participations(rows[(outcome == UNUSED) & selected], -1)
    table.last_round[rows[outcome != UNUSED]] = number

    duration_s = stored(reports.duration_s[places])
    at_least = np.where(completed, duration_s, np.fmax(table.duration_s[rows], duration_s))
    timed = ~np.isnan(duration_s)
    table.duration_s[rows[timed]] = at_least[timed]

    num_samples = reports.num_samples[places]
    table.num_samples[rows[num_samples >= 0]] = num_samples[num_samples >= 0]
    if completed.any():
        utility = stored(reports.utility[places][completed])
        table.utility[rows[completed]] = utility
        table.flags[rows[completed]] |= EXPLORED
        book.unfolded.append((number, rows[completed], utility))
        _keep_sketches(table, rows[completed], reports, places[completed])


def _keep_sketches(table: ClientTable, rows: Rows, reports: Reports, places: Rows) -> None:
    if reports.sketch is not None:
        there = ~np.isnan(reports.sketch[places]).any(axis=1)
        table.sketch[rows[there]] = reports.sketch[places][there]
