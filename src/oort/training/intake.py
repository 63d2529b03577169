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
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.clients.columns import EXPLORED, TIMED, stored
from oort.clients.id_columns import IdColumn, checked_id
from oort.clients.table import ClientTable
from oort.errors import InvalidClientIdError
from oort.training.feedback import COMPLETED, UNUSED, Reports
from oort.training.rounds import RoundBook
from oort.types import Rows, UpdateResult

_NO_ID: Final = -2


@dataclass(frozen=True, slots=True)
class Taken:
    """Reports of distinct rows for one round, as they are stored."""

    rows: Rows
    outcome: npt.NDArray[np.uint8]
    utility: npt.NDArray[np.float32]  #: NaN where the outcome has none
    duration_s: npt.NDArray[np.float32]  #: NaN where none was given
    num_samples: npt.NDArray[np.int64]  #: −1 where none was given
    sketch: npt.NDArray[np.float32] | None
    outdated: Rows  #: heard of, but a newer round of theirs is known


def find_reporters(table: ClientTable, clients: Sequence[Any], reports: Reports) -> Rows:
    """The row of every reporter, −1 where unknown; what is no id is rejected."""
    try:
        return table.ids.find(clients)
    except InvalidClientIdError:
        pass
    rows = np.full(len(clients), _NO_ID, np.int64)
    places = [place for place, client in enumerate(clients) if _is_id(client)]
    rows[places] = table.ids.find([clients[place] for place in places])
    shape = "a string or an integer from -2**63 to 2**64-1"
    reports.reject(rows == _NO_ID, "client id", clients, shape)
    return rows


def _is_id(client: Any) -> bool:
    try:
        checked_id(client)
    except InvalidClientIdError:
        return False
    return True


def check_round(
    book: RoundBook, round_number: int, rows: Rows, reports: Reports, *, strict_rounds: bool
) -> None:
    """Reject reports for rounds too old and, if asked, from clients not selected in the round."""
    if round_number < book.oldest:
        too_old = np.ones(rows.size, np.bool_)
        reports.reject(too_old, "round_number", round_number, f"{book.oldest} or later by now")
    elif strict_rounds:
        stranger = ~book.was_selected(round_number, rows)
        must_be = "a round that this client was selected in"
        reports.reject(stranger, "round_number", round_number, must_be)


def planned(
    table: ClientTable,
    book: RoundBook,
    round_number: int,
    clients: Sequence[Any],
    rows: Rows,
    reports: Reports,
) -> tuple[IdColumn | None, Taken, UpdateResult]:
    """What taking in the good reports means: who joins, what is written, what became of each."""
    good = np.flatnonzero(~reports.bad)
    newcomers, new = good[rows[good] < 0], None
    if newcomers.size:
        ids = [checked_id(clients[i]) for i in newcomers.tolist()]
        rows[newcomers], new = table.ids.place(ids)
    fresh = good[book.fresh(round_number, rows[good])]
    known = rows[fresh] < table.num_rows
    outdated = np.zeros(fresh.size, np.bool_)
    outdated[known] = table.last_round[rows[fresh[known]]] > round_number
    current = fresh[~outdated]
    result = UpdateResult(
        applied=current.size,
        repeated=good.size - fresh.size,
        outdated=fresh.size - current.size,
        rejected=reports.rejections(clients),
    )
    return new, _taken(rows, reports, current, rows[fresh[outdated]]), result


def _taken(rows: Rows, reports: Reports, places: Rows, outdated: Rows) -> Taken:
    sketch = None if reports.sketch is None else reports.sketch[places].astype(np.float32)
    return Taken(
        rows=rows[places],
        outcome=reports.outcome[places],
        utility=stored(reports.utility[places]),
        duration_s=stored(reports.duration_s[places]),
        num_samples=reports.num_samples[places],
        sketch=sketch,
        outdated=outdated,
    )


def write(table: ClientTable, book: RoundBook, number: int, taken: Taken) -> None:
    """Write reports of distinct rows into the columns (inside ``table.changing``)."""
    rows, outcome = taken.rows, taken.outcome
    completed = outcome == COMPLETED
    selected = book.was_selected(number, rows)
    for joined, change in (
        ((outcome != UNUSED) & ~selected, +1),
        ((outcome == UNUSED) & selected, -1),
    ):
        if joined.any():
            table.count_participations(rows[joined], change)
    table.last_round[rows[outcome != UNUSED]] = number

    duration_s = taken.duration_s
    at_least = np.where(completed, duration_s, np.fmax(table.duration_s[rows], duration_s))
    timed = ~np.isnan(duration_s)
    table.duration_s[rows[timed]] = at_least[timed]
    table.flags[rows[timed]] |= TIMED

    sized = taken.num_samples >= 0
    table.num_samples[rows[sized]] = taken.num_samples[sized]
    if completed.any():
        utility = taken.utility[completed]
        table.utility[rows[completed]] = utility
        table.flags[rows[completed]] |= EXPLORED
        book.unfolded.append((number, rows[completed], utility))
        if taken.sketch is not None:
            _keep_sketches(table, rows[completed], taken.sketch[completed])


def _keep_sketches(table: ClientTable, rows: Rows, sketch: npt.NDArray[np.float32]) -> None:
    there = ~np.isnan(sketch).any(axis=1)
    table.sketch[rows[there]] = sketch[there]
