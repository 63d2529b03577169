"""Who is there: joining, leaving, coming back, being forgotten, being online.

Wherever clients are named, they may be named by ids, by a boolean mask over rows, or by
:class:`~oort.types.RowNumbers`; this module is where the three become rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeGuard

import numpy as np
import numpy.typing as npt

from oort.clients.changes import Hinted, Joined, Returned, RosterChange
from oort.clients.columns import PRESENT, stored
from oort.clients.given import Given, is_one, listed, numbers
from oort.clients.id_columns import id_list, plain_items
from oort.clients.table import ClientTable
from oort.errors import InvalidArgumentError, UnknownClientError
from oort.types import Among, ClientId, Mask, RowNumbers, Rows

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
    ids: Any = clients if hasattr(clients, "__len__") else plain_items(clients)
    rows = table.ids.find(ids)
    if (rows < 0).any():
        unknown = id_list(ids)[int(np.argmin(rows))]
        message = f"client {unknown!r:.80} is not known"
        raise UnknownClientError(message)
    return rows


def joining(
    table: ClientTable, clients: Among, *, bring_back: bool = True
) -> tuple[Rows, list[RosterChange]]:
    """The rows of these clients, once unknown ones have joined and removed ones come back.

    Removed ones stay away unless they are to come back. Nothing has changed yet: the changes say
    what it takes.
    """
    rows = rows_given(table, clients)
    new = None
    if rows is None:
        rows, new = table.ids.place(clients)
    changes: list[RosterChange] = [] if new is None else [Joined(new)]
    known = rows if new is None else rows[rows < table.num_rows]
    gone = known[(table.flags[known] & PRESENT) == 0]
    if bring_back and gone.size:
        changes.append(Returned(np.unique(gone)))
    return rows, changes


def is_mask(clients: Among) -> TypeGuard[Mask]:
    """Whether clients are named by a boolean mask over rows.

    To be asked before whether they are row numbers: a comparison of those is a mask, of that type.
    """
    return isinstance(clients, np.ndarray) and clients.dtype.char == "?"


def mask_of(table: ClientTable, clients: Among) -> Mask:
    """The mask over rows that these clients stand for, passing over ids that are unknown."""
    if is_mask(clients):
        return _checked_mask(table, clients)
    mask = np.zeros(table.num_rows, np.bool_)
    mask[rows_of(table, clients)] = True
    return mask


def registration(
    table: ClientTable, clients: Among, num_samples: Any = None, expected_duration_s: Any = None
) -> tuple[Rows, Iterator[RosterChange]]:
    """Make clients known, or bring them back, with what their devices are expected to do.

    Gives their rows, and the changes that it takes. Hints stand until a report says better.
    ``None`` and NaN are unknown durations.

    Raises:
        InvalidArgumentError: An id or a hint is wrong.
    """
    sized = hasattr(clients, "__len__") and getattr(clients, "ndim", 1) != 0
    ids: Any = clients if sized else plain_items(clients)
    rows, changes = joining(table, ids)
    samples = _Hint("num_samples", listed(num_samples), rows.size, highest=_LARGEST_COUNT)
    duration = _Hint("expected_duration_s", listed(expected_duration_s), rows.size)
    for hint in (samples, duration):
        hint.check(lambda: table.ids.of(rows) if _by_row(ids) else id_list(ids))
    return rows, chain(changes, _hinted(rows, samples, duration))


def _hinted(rows: Rows, samples: _Hint, duration: _Hint) -> Iterator[RosterChange]:
    """The hints, in parts: made when they are asked for."""
    for part in _parts(rows.size):
        given = samples.given(part)
        if given is not None and given.there.any():
            there = given.there
            yield Hinted("num_samples", rows[part][there], given.values[there].astype(np.uint32))
        given = duration.given(part)
        if given is not None and given.there.any():
            there = given.there
            yield Hinted("duration_s", rows[part][there], stored(given.values[there]))


def present_rows(table: ClientTable) -> Rows:
    """Everyone who is registered and not removed."""
    return table.rows_with(PRESENT, PRESENT)


def rows_reported(table: ClientTable, clients: Among) -> Rows | None:
    """The rows of reporters named by row numbers or by a mask, forgotten ones among them.

    Raises:
        InvalidArgumentError: The mask or a row number does not fit.
    """
    if is_mask(clients):
        return np.flatnonzero(_checked_mask(table, clients))
    if isinstance(clients, RowNumbers):
        return _rows_inside(table, clients)
    return None


def _rows_inside(table: ClientTable, rows: RowNumbers) -> Rows:
    if rows.dtype != np.int64 or rows.ndim != 1:  # arithmetic with row numbers keeps their type
        rows = RowNumbers(rows)
    plain: Rows = np.asarray(rows)
    outside = (plain < 0) | (plain >= table.num_rows)
    if outside.any():
        message = f"a row must be from 0 to {table.num_rows - 1}; got {plain[outside][0]}"
        raise InvalidArgumentError(message)
    return plain


def checked_rows(table: ClientTable, rows: RowNumbers) -> Rows:
    """Row numbers that stand for clients of this table.

    Raises:
        InvalidArgumentError: One is out of range, or of a client that was forgotten.
    """
    plain = _rows_inside(table, rows)
    erased = table.ids.is_forgotten(plain)
    if erased.any():
        message = f"a row must be of a client that was not forgotten; got {plain[erased][0]}"
        raise InvalidArgumentError(message)
    return plain


def _by_row(clients: Among) -> bool:
    return isinstance(clients, RowNumbers) or is_mask(clients)


def rows_given(table: ClientTable, clients: Among) -> Rows | None:
    """The rows, where clients are named by row numbers or by a mask; nothing where by ids.

    Raises:
        InvalidArgumentError: The mask or a row number does not fit.
    """
    if is_mask(clients):
        rows = np.flatnonzero(_checked_mask(table, clients))
        return rows[~table.ids.is_forgotten(rows)]
    if isinstance(clients, RowNumbers):
        return checked_rows(table, clients)
    _refuse_mask_of_integers(table, clients)
    return None


def _checked_mask(table: ClientTable, mask: npt.NDArray[np.bool_]) -> Mask:
    if mask.shape != (table.num_rows,):
        wanted = f"one entry for each of {table.num_rows} rows (num_rows)"
        message = f"a mask must have {wanted}; got shape {mask.shape}"
        raise InvalidArgumentError(message)
    if isinstance(mask, np.ma.MaskedArray):
        mask = mask.filled(False)  # whoever is hidden is not named
    return np.asarray(mask)


def _refuse_mask_of_integers(table: ClientTable, clients: Among) -> None:
    """Refuse zeros and ones, one for each row: as ids they would mean two clients."""
    if not (isinstance(clients, np.ndarray) and clients.dtype.kind in "iu"):
        return
    if clients.shape == (table.num_rows,) and clients.size > 2 and set(_ends(clients)) <= {0, 1}:
        message = (
            f"a mask must be of booleans; got {clients.dtype} zeros and ones, one for each of "
            f"{table.num_rows} rows: .astype(bool) makes a mask of them"
        )
        raise InvalidArgumentError(message)


def _ends(values: npt.NDArray[Any]) -> tuple[int, int]:
    return int(values.min()), int(values.max())


@dataclass(frozen=True, slots=True)
class _Hint:
    """A column of hints, read in parts so that millions take little memory besides their own."""

    name: str
    column: Any
    count: int
    highest: float = np.inf

    def check(self, ids: Callable[[], Sequence[ClientId]]) -> None:
        """Raise unless every hint is missing or a number that makes sense."""
        for part in _parts(self.count):
            hint = self._read(part)
            if hint is None:
                return
            bad = hint.broken | ~(np.isnan(hint.values) | self._good(hint))
            if bad.any():
                place = part.start + int(np.argmax(bad))
                self._refuse(ids()[place], place)

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

    def _refuse(self, client: ClientId, place: int) -> None:
        whole = self.highest < np.inf
        must_be = "a whole number, 0 or more" if whole else "a finite number of seconds, 0 or more"
        got = self.column if is_one(self.column) else self.column[place]
        plain = got.item() if isinstance(got, np.generic) else got
        message = f"client {client!r:.80}: {self.name} must be {must_be}; got {plain!r:.80}"
        raise InvalidArgumentError(message)


def _parts(count: int) -> list[slice]:
    return [slice(i, min(i + _PART, count)) for i in range(0, count, _PART)]
