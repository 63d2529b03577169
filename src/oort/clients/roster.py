"""Who is there: joining, leaving, coming back, being forgotten, being online.

Wherever clients are named, they may be named by ids, by a boolean mask over rows, or by
:class:`~oort.types.RowNumbers`; this module is where the three become rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from oort.clients.columns import EXPLORED, LARGEST_STORED, PRESENT
from oort.clients.given import Given, numbers
from oort.clients.ids import checked_ids
from oort.clients.table import ClientTable
from oort.errors import InvalidArgumentError, UnknownClientError
from oort.types import Among, Mask, RowNumbers, Rows

_LARGEST_COUNT = 2**32 - 1


def rows_of(table: ClientTable, clients: Among) -> Rows:
    """The rows of these clients, passing over ids that are unknown.

    Raises:
        InvalidArgumentError: An id is none, or a mask or a row number does not fit.
    """
    rows = _rows_given(table, clients)
    if rows is None:
        rows = table.ids.find(checked_ids(clients))
        rows = rows[rows >= 0]
    return rows


def known_rows(table: ClientTable, clients: Among) -> Rows:
    """The rows of these clients.

    Raises:
        UnknownClientError: One of them was never seen.
    """
    rows = _rows_given(table, clients)
    if rows is not None:
        return rows
    ids = checked_ids(clients)
    rows = table.ids.find(ids)
    if (rows < 0).any():
        message = f"client {ids[int(np.argmin(rows))]!r:.80} is not known"
        raise UnknownClientError(message)
    return rows


def joined_rows(table: ClientTable, clients: Among) -> Rows:
    """The rows of these clients; unknown ones join, removed ones come back."""
    rows = _rows_given(table, clients)
    if rows is None:
        rows = table.add(checked_ids(clients))
    table.bring_back(rows)
    return rows


def mask_of(table: ClientTable, clients: Among, *, join: bool) -> Mask:
    """The mask over rows that these clients stand for."""
    if isinstance(clients, np.ndarray) and clients.dtype == np.bool_:
        return _checked_mask(table, clients)
    rows = joined_rows(table, clients) if join else rows_of(table, clients)
    mask = np.zeros(table.num_rows, np.bool_)
    mask[rows] = True
    return mask


def register(
    table: ClientTable, clients: Among, num_samples: Any = None, expected_duration_s: Any = None
) -> Rows:
    """Make clients known, or bring them back, with what their devices are expected to do.

    Hints stand until a report says better. ``None`` and NaN are unknown durations.

    Raises:
        InvalidArgumentError: An id or a hint is wrong; nothing is registered.
    """
    named = _rows_given(table, clients)
    ids: Any = checked_ids(clients) if named is None else named
    samples = _hint(num_samples, ids, "num_samples", _LARGEST_COUNT, "a whole number, 0 or more")
    duration = _hint(
        expected_duration_s,
        ids,
        "expected_duration_s",
        np.inf,
        "a finite number of seconds, 0 or more",
    )
    rows = table.add(ids) if named is None else named
    table.bring_back(rows)
    unheard = (table.flags[rows] & EXPLORED) == 0
    if samples is not None:
        take = samples.there & unheard
        table.num_samples[rows[take]] = samples.values[take].astype(np.uint32)
    if duration is not None:
        take = duration.there & unheard
        expected_s = np.minimum(duration.values[take], LARGEST_STORED).astype(np.float32)
        with table.changing(np.unique(rows[take])):
            table.duration_s[rows[take]] = expected_s
    return rows


def present_rows(table: ClientTable) -> Rows:
    """Everyone who is registered and not removed."""
    return table.rows_with(PRESENT, PRESENT)


def checked_rows(table: ClientTable, rows: RowNumbers) -> Rows:
    """Row numbers that stand for clients of this table.

    Raises:
        InvalidArgumentError: One is out of range, or of a client that was forgotten.
    """
    plain: Rows = np.asarray(rows)
    outside = (plain < 0) | (plain >= table.num_rows)
    if outside.any():
        message = f"a row must be from 0 to {table.num_rows - 1}; got {plain[outside][0]}"
        raise InvalidArgumentError(message)
    erased = table.ids.is_forgotten(plain)
    if erased.any():
        message = f"a row must be of a client that was not forgotten; got {plain[erased][0]}"
        raise InvalidArgumentError(message)
    return plain


def _rows_given(table: ClientTable, clients: Among) -> Rows | None:
    """The rows, where clients are named by row numbers or by a mask."""
    if isinstance(clients, RowNumbers):
        return checked_rows(table, clients)
    if isinstance(clients, np.ndarray) and clients.dtype == np.bool_:
        rows = np.flatnonzero(_checked_mask(table, clients))
        return rows[~table.ids.is_forgotten(rows)]
    return None


def _checked_mask(table: ClientTable, mask: npt.NDArray[np.bool_]) -> Mask:
    if mask.shape != (table.num_rows,):
        wanted = f"one entry for each of {table.num_rows} rows (num_rows)"
        message = f"a mask must have {wanted}; got shape {mask.shape}"
        raise InvalidArgumentError(message)
    return mask


def _hint(given: Any, ids: Any, name: str, highest: float, must_be: str) -> Given | None:
    if given is None:
        return None
    hint = numbers(given, len(ids), name)
    values = hint.values
    missing = np.isnan(values) & ~hint.broken
    with np.errstate(invalid="ignore"):
        good = (values >= 0) & (values < np.inf) & (values <= highest)
        if highest < np.inf:
            good &= values == np.floor(values)
    bad = hint.broken | ~(missing | good)
    if bad.any():
        place = int(np.argmax(bad))
        got = given if np.ndim(given) == 0 else list(given)[place]
        message = f"client {ids[place]!r:.80}: {name} must be {must_be}; got {got!r:.80}"
        raise InvalidArgumentError(message)
    return Given(values, hint.there & ~missing, hint.broken)
