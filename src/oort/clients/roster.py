"""Who is there: joining, leaving, coming back, being forgotten, being online.

Wherever clients are named, they may be named by ids, by a boolean mask over rows, or by
:class:`~oort.types.RowNumbers`; this module is where the three become rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.clients.columns import EXPLORED, PRESENT, stored
from oort.clients.given import Given, is_one, listed, numbers
from oort.clients.id_columns import id_list, plain_items
from oort.clients.table import ClientTable
from oort.errors import InvalidArgumentError, UnknownClientError
from oort.types import Among, Mask, RowNumbers, Rows

_LARGEST_COUNT: Final = 2**32 - 1
_PART: Final = 1 << 20


def rows_of(table: ClientTable, clients: Among) -> Rows:
    """The rows of these clients, passing over ids that are unknown.

    Raises:
        InvalidArgumentError: An id is none, or a mask or a row number does not fit.
    """
    rows = rows_given(table, clients)
    if rows is None:
        rows = table.ids.find(clients)
        rows = rows[rows >= 0]
    return rows


def known_rows(table: ClientTable, clients: Among) -> Rows:
    """The rows of these clients.

    Raises:
        UnknownClientError: One of them was never seen.
    """
    rows = rows_given(table, clients)
    if rows is not None:
        return rows
    rows = table.ids.find(clients)
    if (rows < 0).any():
        unknown = id_list(clients)[int(np.argmin(rows))]
        message = f"client {unknown!r:.80} is not known"
        raise UnknownClientError(message)
    return rows


def joined_rows(table: ClientTable, clients: Among, *, bring_back: bool = True) -> Rows:
    """The rows of these clients; unknown ones join, removed ones come back unless they may not."""
    rows = rows_given(table, clients)
    if rows is None:
        rows = table.add(clients)
    if bring_back:
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
    named = rows_given(table, clients)
    ids: Any = clients if hasattr(clients, "__len__") else plain_items(clients)
    count = len(ids) if named is None else named.size
    samples = _Hint("num_samples", listed(num_samples), count, highest=_LARGEST_COUNT)
    duration = _Hint("expected_duration_s", listed(expected_duration_s), count)
    for hint in (samples, duration):
        hint.check(ids if named is None else named)
    rows = table.add(ids) if named is None else named
    table.bring_back(rows)
    for part in _parts(count):
        _take_hints(table, rows[part], samples.given(part), duration.given(part))
    return rows


def _take_hints(
    table: ClientTable, rows: Rows, samples: Given | None, duration: Given | None
) -> None:
    """Note hints of clients that no report has told of yet."""
    unheard = (table.flags[rows] & EXPLORED) == 0
    if samples is not None:
        take = samples.there & unheard
        table.num_samples[rows[take]] = samples.values[take].astype(np.uint32)
    if duration is not None:
        take = duration.there & unheard
        with table.changing(_distinct(rows[take])):
            table.duration_s[rows[take]] = stored(duration.values[take])


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


def rows_given(table: ClientTable, clients: Among) -> Rows | None:
    """The rows, where clients are named by row numbers or by a mask; nothing where by ids.

    Raises:
        InvalidArgumentError: The mask or a row number does not fit.
    """
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


@dataclass(frozen=True, slots=True)
class _Hint:
    """A column of hints, read in parts so that millions take little memory besides their own."""

    name: str
    column: Any
    count: int
    highest: float = np.inf

    def check(self, ids: Any) -> None:
        """Raise unless every hint is missing or a number that makes sense."""
        for part in _parts(self.count):
            hint = self._read(part)
            bad = (
                None if hint is None else hint.broken | ~(np.isnan(hint.values) | self._good(hint))
            )
            if bad is not None and bad.any():
                self._refuse(ids, part.start + int(np.argmax(bad)))

    def given(self, part: slice) -> Given | None:
        """The hints of some clients; NaN is none."""
        hint = self._read(part)
        if hint is None:
            return None
        return Given(hint.values, hint.there & ~np.isnan(hint.values), hint.broken)

    def _read(self, part: slice) -> Given | None:
        if self.column is None:
            return None
        one_for_all = is_one(self.column)
        values = self.column if one_for_all else self.column[part]
        if not one_for_all and len(self.column) != self.count:
            values = self.column
            part = slice(0, self.count)
        return numbers(values, part.stop - part.start, self.name)

    def _good(self, hint: Given) -> Mask:
        values = hint.values
        with np.errstate(invalid="ignore"):
            good = (values >= 0) & (values < np.inf) & (values <= self.highest)
            return np.asarray(good if self.highest == np.inf else good & (values % 1 == 0))

    def _refuse(self, ids: Any, place: int) -> None:
        whole = self.highest < np.inf
        must_be = "a whole number, 0 or more" if whole else "a finite number of seconds, 0 or more"
        got = self.column if is_one(self.column) else self.column[place]
        plain = got.item() if isinstance(got, np.generic) else got
        message = (
            f"client {_id_at(ids, place)!r:.80}: {self.name} must be {must_be}; got {plain!r:.80}"
        )
        raise InvalidArgumentError(message)


def _id_at(ids: Any, place: int) -> Any:
    return id_list(ids)[place]


def _parts(count: int) -> list[slice]:
    return [slice(i, min(i + _PART, count)) for i in range(0, count, _PART)]


def _distinct(rows: Rows) -> Rows:
    """Rows without repeats; most often there are none."""
    return rows if bool((np.diff(rows) > 0).all()) else np.unique(rows)
