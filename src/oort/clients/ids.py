"""Client ids and their rows.

Up to 32,768 rows a dict serves, which is fastest for the handful of ids of a round; beyond, an
index in flat arrays takes over, which holds millions in little memory and takes whole columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.clients.hashed_ids import HashedIds
from oort.clients.id_columns import GONE, TEXT, IdColumn, id_at, id_column, id_list
from oort.errors import DamagedFileError
from oort.savefile import column
from oort.types import ClientId, Mask, Rows

_FEW: Final = 32_768
_PART: Final = 1 << 22


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
        if self._few is not None:
            return self._few.find(id_list(ids))
        return self._many.find(id_column(ids))

    def add(self, ids: Any) -> Rows:
        """The row of each id, giving out new rows in order to those that have none.

        Raises:
            InvalidClientIdError: One of them is no id; no row is given out.
        """
        if self._few is not None:
            if len(self) + _length(ids) <= _FEW:
                return self._few.add(id_list(ids))
            more = id_column(ids)
            self._many = HashedIds.from_column(self._few.column())
            self._few = None
            return self._add_column(more)
        return self._add_column(id_column(ids))

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
        ids = self._many.column() if self._few is None else self._few.column()
        return {
            "id_kind": ids.kind,
            "id_number": ids.number,
            "id_length": ids.length.astype(np.uint32),
            "id_text": ids.text,
        }

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

    def _add_column(self, ids: IdColumn) -> Rows:
        """Add a column, in parts where it holds integers alone, so that little is held twice."""
        before = len(self._many)
        if self._many.continues_with(ids):
            self._many.append(ids)
            return np.arange(before, before + len(ids))
        if ids.is_text or len(ids) <= _PART:
            return self._add_part(ids)
        self._many.reserve(before + len(ids))
        rows = np.empty(len(ids), np.int64)
        for start in range(0, len(ids), _PART):
            part = slice(start, start + _PART)
            rows[part] = self._add_part(
                IdColumn(ids.kind[part], ids.number[part], ids.length[part], ids.text)
            )
        return rows

    def _add_part(self, ids: IdColumn) -> Rows:
        rows = self._many.find(ids)
        unknown = np.flatnonzero(rows < 0)
        if unknown.size == 0:
            return rows
        new, first_of = _distinct(ids.take(unknown))
        before = len(self._many)
        self._many.append(new)
        rows[unknown] = before + first_of
        return rows


class _FewIds:
    """The same with a dict."""

    def __init__(self) -> None:
        self.row_of: dict[ClientId, int] = {}
        self.id_of: list[ClientId | None] = []

    def find(self, ids: list[ClientId]) -> Rows:
        row_of = self.row_of
        return np.fromiter((row_of.get(i, -1) for i in ids), np.int64, len(ids))

    def add(self, ids: list[ClientId]) -> Rows:
        row_of, id_of = self.row_of, self.id_of
        for client_id in ids:
            if client_id not in row_of:
                row_of[client_id] = len(id_of)
                id_of.append(client_id)
        return self.find(ids)

    def of(self, rows: Rows) -> list[ClientId]:
        found = [self.id_of[row] for row in rows.tolist()]
        return [client_id for client_id in found if client_id is not None]

    def forget(self, rows: Rows) -> None:
        for row in rows.tolist():
            client_id = self.id_of[row]
            if client_id is not None:
                del self.row_of[client_id]
                self.id_of[row] = None

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
        return ids


def _length(ids: Any) -> int:
    return len(ids) if hasattr(ids, "__len__") else 0


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
    starts = [0, *ends[:-1]]
    columns = zip(ids.kind.tolist(), ids.number.tolist(), starts, ends, strict=True)
    return [id_at(kind, number, text[a:b]) for kind, number, a, b in columns]
