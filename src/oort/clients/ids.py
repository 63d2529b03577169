"""Client ids and their rows.

Up to 32,768 rows a dict serves, which is fastest for the handful of ids of a round; beyond, an
index in flat arrays takes over, which holds millions in little memory and takes whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.clients.hashed_ids import HashedIds
from oort.clients.id_columns import (
    GONE,
    TEXT,
    IdColumn,
    id_at,
    id_column,
    id_list,
    is_integers,
)
from oort.errors import DamagedFileError
from oort.savefile import column
from oort.types import ClientId, Mask, Rows

_FEW: Final = 32_768


class ClientIds:
    """The ids of all rows, and the row of each id."""

    def __init__(self) -> None:
        self._few: _FewIds | None = _FewIds()
        self._many = HashedIds()

    def __len__(self) -> int:
        """How many rows were ever given out."""
        return len(self._many) if self._few is None else len(self._few.id_of)

    def find(self, ids: Any) -> Rows:
        """The row of each id, −1 where it is unknown.

        Raises:
            InvalidClientIdError: One of them is no id.
        """
        if self._few is None:
            return self._many.find(id_column(ids))
        if self._few.are_rows and is_integers(ids):
            return _inside(ids, len(self))
        return self._few.find(id_list(ids))

    def add(self, ids: Any) -> Rows:
        """The row of each id, giving out new rows in order to those that have none.

        Raises:
            InvalidClientIdError: One of them is no id; no row is given out.
        """
        rows, new = self.place(ids)
        if new is not None:
            self.append(new)
        return rows

    def place(self, ids: Any) -> tuple[Rows, IdColumn | None]:
        """The row that each id has or would be given, and the new ids in the order of their rows.

        No row is given out: that is what :meth:`append` does with the new ids.

        Raises:
            InvalidClientIdError: One of them is no id.
        """
        if self._few is not None and len(self) + _length(ids) <= _FEW:
            return self._few.place(id_list(ids))
        column = id_column(ids)
        self._take_many()
        return self._place_column(column)

    def append(self, new: IdColumn) -> None:
        """Give the next rows to ids that are distinct and have none."""
        if self._few is not None and len(self) + len(new) <= _FEW:
            self._few.append(_plain(new))
        else:
            self._take_many()
            self._many.append(new)

    def of(self, rows: Rows) -> list[ClientId]:
        """The ids of rows that were not forgotten."""
        return self._many.of(rows) if self._few is None else self._few.of(rows)

    def is_forgotten(self, rows: Rows) -> Mask:
        """Which of these rows are empty."""
        if self._few is None:
            return self._many.is_forgotten(rows)
        id_of = self._few.id_of
        return np.fromiter((id_of[row] is None for row in rows.tolist()), np.bool_, rows.size)

    def forget(self, rows: Rows) -> None:
        """Erase the ids of these rows; the rows stay empty for ever."""
        if self._few is None:
            self._many.forget(rows)
        else:
            self._few.forget(rows)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything, as arrays for a file: kind, number and text of each row's id."""
        return self.frozen()()

    def frozen(self) -> Callable[[], dict[str, npt.NDArray[Any]]]:
        """What gives the arrays for a file as of now, later: ids may join meanwhile, not go."""
        if self._few is None:
            many = copy(self._many)
            return lambda: _arrays(many.column())
        column = self._few.column()
        return lambda: _arrays(column)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> ClientIds:
        """The ids that ``to_arrays`` gave.

        Raises:
            DamagedFileError: The arrays are not such as ``to_arrays`` gives.
        """
        kind = column(arrays, "id_kind", np.uint8)
        number = column(arrays, "id_number", np.uint64, kind.size)
        length = column(arrays, "id_length", np.uint32, kind.size).astype(np.int64)
        text = column(arrays, "id_text", np.uint8, int(length.sum()))
        if kind.max(initial=0) > TEXT:
            message = f"the saved ids are damaged: kind {kind.max()} is none"
            raise DamagedFileError(message)
        ids, saved = cls(), IdColumn(kind, number, length, text)
        if len(saved) > _FEW:
            ids._few, ids._many = None, HashedIds.from_column(saved)
        else:
            ids._few = _FewIds.from_column(saved)
        return ids

    def _take_many(self) -> None:
        """Leave the dict for flat arrays."""
        if self._few is not None:
            self._many = HashedIds.from_column(self._few.column())
            self._few = None

    def _place_column(self, ids: IdColumn) -> tuple[Rows, IdColumn | None]:
        before = len(self._many)
        if len(ids) and self._many.continues_with(ids):
            return np.arange(before, before + len(ids)), ids
        rows = self._many.find(ids)
        unknown = np.flatnonzero(rows < 0)
        if unknown.size == 0:
            return rows, None
        if unknown.size == len(ids):
            del rows, unknown  # nothing else that is as long is held, where millions join
            new, rows = _distinct(ids)
            rows += before
            return rows, new
        new, first_of = _distinct(ids.take(unknown))
        rows[unknown] = before + first_of
        return rows, new


class _FewIds:
    """The same with a dict."""

    def __init__(self) -> None:
        self.row_of: dict[ClientId, int] = {}
        self.id_of: list[ClientId | None] = []
        self.are_rows = True  #: every id is its row number

    def find(self, ids: list[ClientId]) -> Rows:
        row_of = self.row_of
        return np.array([row_of.get(i, -1) for i in ids], np.int64)

    def place(self, ids: list[ClientId]) -> tuple[Rows, IdColumn | None]:
        rows = self.find(ids)
        unknown = np.flatnonzero(rows < 0).tolist()
        if not unknown:
            return rows, None
        new: dict[ClientId, int] = {}
        for place in unknown:
            rows[place] = len(self.id_of) + new.setdefault(ids[place], len(new))
        return rows, id_column(list(new))

    def append(self, ids: list[ClientId]) -> None:
        start = len(self.id_of)
        self.are_rows = self.are_rows and ids == list(range(start, start + len(ids)))
        self.id_of.extend(ids)
        self.row_of.update(zip(ids, range(start, start + len(ids)), strict=True))

    def of(self, rows: Rows) -> list[ClientId]:
        if self.are_rows:
            ids: list[ClientId] = rows.tolist()
            return ids
        id_of = self.id_of
        found = [id_of[row] for row in rows.tolist()]
        return found if None not in found else [i for i in found if i is not None]

    def forget(self, rows: Rows) -> None:
        for row in rows.tolist():
            client_id = self.id_of[row]
            if client_id is not None:
                del self.row_of[client_id]
                self.id_of[row] = None
                self.are_rows = False

    def column(self) -> IdColumn:
        """All rows; forgotten ones have kind ``GONE``."""
        gone = np.fromiter((i is None for i in self.id_of), np.bool_, len(self.id_of))
        column = id_column([0 if i is None else i for i in self.id_of])
        kind = np.where(gone, np.uint8(GONE), column.kind)
        return IdColumn(kind, column.number, column.length, column.text)

    @classmethod
    def from_column(cls, column: IdColumn) -> _FewIds:
        ids = cls()
        text = column.text.tobytes()
        start = 0
        values = zip(
            column.kind.tolist(), column.number.tolist(), column.length.tolist(), strict=True
        )
        for row, (kind, number, length) in enumerate(values):
            client_id = id_at(kind, number, text[start : start + length]) if kind != GONE else None
            start += length
            if client_id is not None and ids.row_of.setdefault(client_id, row) != row:
                message = f"the saved ids are damaged: {client_id!r:.80} stands in two rows"
                raise DamagedFileError(message)
            ids.id_of.append(client_id)
        ids.are_rows = ids.id_of == list(range(len(ids.id_of)))
        return ids


def _arrays(column: IdColumn) -> dict[str, npt.NDArray[Any]]:
    return {
        "id_kind": column.kind,
        "id_number": column.number,
        "id_length": column.length.astype(np.uint32),
        "id_text": column.text,
    }


def _inside(numbers: npt.NDArray[Any], count: int) -> Rows:
    """Integers as rows, where every id is its row number; −1 for those that are none."""
    rows = numbers.astype(np.int64)
    known = (rows >= 0) & (rows < count)
    return rows if known.all() else np.where(known, rows, -1)


def _length(ids: Any) -> int:
    sized = hasattr(ids, "__len__") and getattr(ids, "ndim", 1) != 0
    return len(ids) if sized else 0


def _distinct(ids: IdColumn) -> tuple[IdColumn, Rows]:
    """The ids without repeats, and for each id the place of its first appearance among those."""
    if not ids.has_equal_keys:
        return ids, np.arange(len(ids))
    place_of: dict[ClientId, int] = {}
    firsts: list[int] = []
    place = np.empty(len(ids), np.int64)
    for i, client_id in enumerate(_plain(ids)):
        if client_id not in place_of:
            place_of[client_id] = len(firsts)
            firsts.append(i)
        place[i] = place_of[client_id]
    return ids.take(np.array(firsts, np.int64)), place


def _plain(ids: IdColumn) -> list[ClientId]:
    text, ends = ids.text.tobytes(), np.cumsum(ids.length).tolist()
    columns = zip(ids.kind.tolist(), ids.number.tolist(), ids.start.tolist(), ends, strict=True)
    return [id_at(kind, number, text[a:b]) for kind, number, a, b in columns]
