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
from oort.types import Mask, Rows, UpdateResult

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


def find_reporters(
    table: ClientTable, named: Any, clients: Sequence[Any], reports: Reports
) -> Rows:
    """The row of every reporter, −1 where unknown; what is no id is rejected.

    ``named`` are the clients as they were named, which may be an array.
    """
    try:
        return table.ids.find(named)
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
    if not reports.reasons and _all_new_to_us(table, book, round_number, rows):
        taken = _taken(rows, reports, slice(None), rows[:0])
        return None, taken, UpdateResult(applied=rows.size)
    good = np.flatnonzero(~reports.bad)
    newcomers, new = good[rows[good] < 0], None
    if newcomers.size:
        ids = [checked_id(clients[i]) for i in newcomers.tolist()]
        rows[newcomers], new = table.ids.place(ids)
    fresh = good[book.fresh(round_number, rows[good])]
    outdated = _heard_of_since(table, round_number, rows[fresh])
    current = fresh[~outdated]
    result = UpdateResult(
        applied=current.size,
        repeated=good.size - fresh.size,
        outdated=fresh.size - current.size,
        rejected=reports.rejections(clients),
    )
    return new, _taken(rows, reports, current, rows[fresh[outdated]]), result


def _all_new_to_us(table: ClientTable, book: RoundBook, round_number: int, rows: Rows) -> bool:
    """Whether these are known clients of whom this round, or a newer one, was not heard."""
    return bool(
        rows.size
        and rows.min() >= 0
        and rows.max() < table.num_rows
        and book.fresh(round_number, rows).all()
        and not _heard_of_since(table, round_number, rows).any()
    )


def _heard_of_since(table: ClientTable, round_number: int, rows: Rows) -> Mask:
    """Of whom a newer round is known; of newcomers, who have no row yet, none is."""
    known = rows < table.num_rows
    if known.all():
        return np.asarray(table.last_round[rows] > round_number)
    newer = np.zeros(rows.size, np.bool_)
    newer[known] = table.last_round[rows[known]] > round_number
    return newer


def _taken(rows: Rows, reports: Reports, places: Rows | slice, outdated: Rows) -> Taken:
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
    """Write reports of distinct rows into the columns."""
    rows, outcome = taken.rows, taken.outcome
    selected = book.was_selected(number, rows)
    reports = (outcome, selected, taken.utility, taken.duration_s, taken.num_samples)
    if not table.report(rows, reports, (COMPLETED, UNUSED), number):
        with table.changing(rows):
            _write(table, number, taken, selected)
    completed = _where(outcome == COMPLETED)
    done = rows[completed]
    if done.size:
        book.unfolded.append((number, done, taken.utility[completed]))
        if taken.sketch is not None:
            _keep_sketches(table, done, taken.sketch[completed])


def _write(table: ClientTable, number: int, taken: Taken, selected: Mask) -> None:
    """The same, step by step (inside ``table.changing``)."""
    rows, unused = taken.rows, taken.outcome == UNUSED
    for joined, change in ((~(unused | selected), +1), (unused & selected, -1)):
        if joined.any():
            table.count_participations(rows[joined], change)
    table.last_round[rows[_where(~unused)]] = number

    completed, duration_s = _where(taken.outcome == COMPLETED), taken.duration_s
    timed = _where(~np.isnan(duration_s))
    at_least = np.fmax(table.duration_s[rows], duration_s)
    at_least[completed] = duration_s[completed]
    table.duration_s[rows[timed]] = at_least[timed]
    table.flags[rows[timed]] |= TIMED

    sized = _where(taken.num_samples >= 0)
    table.num_samples[rows[sized]] = taken.num_samples[sized]
    table.utility[rows[completed]] = taken.utility[completed]
    table.flags[rows[completed]] |= EXPLORED


def _where(mask: Mask) -> Mask | slice:
    """The places of a mask; most often they are all of them, and nothing has to be copied."""
    return slice(None) if mask.all() else mask


def _keep_sketches(table: ClientTable, rows: Rows, sketch: npt.NDArray[np.float32]) -> None:
    there = ~np.isnan(sketch).any(axis=1)
    table.sketch[rows[there]] = sketch[there]
