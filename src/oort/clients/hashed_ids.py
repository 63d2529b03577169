"""An index of ids in flat arrays: about 17 bytes per client besides the text of its id.

Open addressing with linear probing, done for a whole batch at once: each turn looks at one slot
for every id that is still unresolved. Text is compared by a 64-bit hash first and by its bytes
then, so that two ids with the same hash are still two clients. The hash is drawn anew in every
process, so that nobody can prepare ids that collide.

Ids that are consecutive integers, as simulations have them, need no index at all.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.clients import hashing
from oort.clients.id_columns import GONE, INT, TEXT, Bytes, IdColumn, Numbers, id_at
from oort.errors import DamagedFileError
from oort.types import ClientId, Mask, Rows

_EMPTY: Final = -1
_DELETED: Final = -2
_LOAD: Final = 0.75
_CHUNK: Final = 1 << 18
_LETTERS: Final = 1 << 22


class HashedIds:
    """The ids of all rows, and the row of each id."""

    def __init__(self) -> None:
        self._kind: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._number: Numbers = np.empty(0, np.uint64)  #: of text: its hash
        self._end: npt.NDArray[Any] = np.empty(0, np.uint32)  #: where texts end; empty: no texts
        self._text: Bytes = np.empty(0, np.uint8)
        self._count = 0
        self._first: int | None = 0  #: row i has id first + i; ``None``: it does not
        self._slots: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return self._count

    def find(self, ids: IdColumn) -> Rows:
        """The row of each id, −1 where it is unknown."""
        if self._first is not None:
            return self._find_in_sequence(ids)
        rows = np.full(len(ids), -1, np.int64)
        if self._slots is None:
            self._build(self._count)
        for start in range(0, len(ids) if self._count else 0, _CHUNK):
            places = np.arange(start, min(start + _CHUNK, len(ids)))
            rows[places] = self._probe(ids, places)
        return rows

    def append(self, ids: IdColumn) -> None:
        """Give new rows to ids that are distinct and have none; where memory is short, to none."""
        before, added = self._count, len(ids)
        if self.continues_with(ids):
            if before == 0 and added:
                self._first = int(ids.number[:1].view(np.int64)[0])
            self._store(ids, ids.number)
            self._count = before + added
            return
        self._store(ids, ids.key)
        self._first = None
        slots, self._slots = self._slots, None  # made anew when next asked for, if this fails
        if slots is None or before + added > _LOAD * slots.size:
            del slots
            self._build(before + added)
        else:
            self._insert(slots, before, before + added)
            self._slots = slots
        self._count = before + added

    def of(self, rows: Rows) -> list[ClientId]:
        """The ids of rows that were not forgotten."""
        kind, number = self._kind[rows], self._number[rows]
        if (kind == INT).all():
            return list(number.view(np.int64).tolist())
        kinds, numbers = kind.tolist(), number.tolist()
        if TEXT not in kinds:
            return [id_at(k, n, b"") for k, n in zip(kinds, numbers, strict=True) if k != GONE]
        return [
            id_at(k, n, self._text_at(row) if k == TEXT else b"")
            for k, n, row in zip(kinds, numbers, rows.tolist(), strict=True)
            if k != GONE
        ]

    def is_forgotten(self, rows: Rows) -> Mask:
        """Which of these rows are empty."""
        return np.asarray(self._kind[rows] == GONE)

    def forget(self, rows: Rows) -> None:
        """Erase the ids of these rows."""
        rows = rows[self._kind[rows] != GONE]
        if self._slots is not None:
            self._slots[self._slot_of(rows)] = _DELETED
        for row in rows[self._kind[rows] == TEXT].tolist():
            self._text[self._text_range(row)] = 0
        self._kind[rows] = GONE
        self._number[rows] = 0

    def column(self) -> IdColumn:
        """The ids of all rows; forgotten ones have kind ``GONE``."""
        count = self._count
        kind = self._kind[:count]
        length, number = np.zeros(count, np.int64), self._number[:count]
        if self._end.size:  # there are texts, whose numbers are hashes of this process alone
            length[:] = np.diff(self._end[:count].astype(np.int64), prepend=0)
            number = np.where(kind == TEXT, np.uint64(0), number)
        return IdColumn(kind, number, length, self._text[: self._used_text()])

    @classmethod
    def from_column(cls, ids: IdColumn) -> HashedIds:
        """The index over all ids of a column, row by row; those of kind ``GONE`` stay empty.

        Takes the numbers of the column over, so that millions of them are held once.

        Raises:
            DamagedFileError: An id stands in two rows.
        """
        index = cls()
        index._number = ids.key
        index._store(ids, ids.key)
        index._count = len(ids)
        if cls().continues_with(ids):
            index._first = int(ids.number[:1].view(np.int64)[0]) if len(ids) else 0
            return index
        index._first = None
        if ids.has_equal_keys:
            present = np.flatnonzero(ids.kind != GONE)
            if not np.array_equal(index.find(ids)[present], present):
                message = "the saved ids are damaged: an id stands in two rows"
                raise DamagedFileError(message)
        return index

    # Consecutive integers

    def _find_in_sequence(self, ids: IdColumn) -> Rows:
        offset = ids.number.view(np.int64) - np.int64(self._first or 0)
        inside = (ids.kind == INT) & (offset >= 0) & (offset < self._count)
        rows = np.where(inside, offset, -1)
        there = rows[inside]
        rows[inside] = np.where(self._kind[there] == GONE, -1, there)
        return rows

    def continues_with(self, ids: IdColumn) -> bool:
        """Whether all ids, these included, are consecutive integers."""
        if self._first is None or not bool((ids.kind == INT).all()):
            return False
        if len(ids) == 0:
            return True
        values = ids.number.view(np.int64)
        start = int(values[0])
        if self._count and start != self._first + self._count:
            return False
        steps = all(
            bool((np.diff(values[i : i + _CHUNK + 1]) == 1).all())
            for i in range(0, values.size, _CHUNK)
        )
        return steps and start + len(ids) <= 2**63

    # The table

    def _store(self, ids: IdColumn, keys: Numbers) -> None:
        before, count = self._count, self._count + len(ids)
        self._kind = _grown(self._kind, before, count)
        self._number = _grown(self._number, before, count)
        self._kind[before:count] = ids.kind
        self._number[before:count] = keys
        used = self._used_text()
        if ids.text.size or self._end.size:
            if used + ids.text.size >= 2**32:
                self._end = self._end.astype(np.int64)
            self._end = _grown(self._end, before, count)
            self._end[before:count] = used + np.cumsum(ids.length)
            self._text = _grown(self._text, used, used + ids.text.size)
            self._text[used : used + ids.text.size] = ids.text

    def _build(self, count: int) -> None:
        """Make the slots of so many rows anew, with room to grow."""
        expected = max(64, int(1.1 * count))
        slots = np.full(int(expected / _LOAD), _EMPTY, np.int32)
        self._insert(slots, 0, count)
        self._slots = slots

    def _insert(self, slots: npt.NDArray[np.int32], first: int, end: int) -> None:
        """Put rows into slots: all try, one wins each slot, the others move on."""
        for start in range(first, end, _CHUNK):
            there = self._kind[start : min(start + _CHUNK, end)] != GONE
            waiting = (start + np.flatnonzero(there)).astype(np.int32)
            at = hashing.slots(self._number[waiting], self._kind[waiting], slots.size)
            while waiting.size:
                free = slots[at] == _EMPTY
                slots[at[free]] = waiting[free]
                lost = slots[at] != waiting
                waiting, at = waiting[lost], _next(at[lost], slots.size)

    def _probe(self, ids: IdColumn, places: Rows) -> Rows:
        """Rows of the ids at some places."""
        assert self._slots is not None
        slots = self._slots
        found = np.full(places.size, -1, np.int64)
        waiting = np.arange(places.size)
        keys, kinds = ids.key[places], ids.kind[places]
        at = hashing.slots(keys, kinds, slots.size)
        while waiting.size:
            content = slots[at]
            rows = np.maximum(content, 0).astype(np.int64)
            same = content >= 0
            same &= self._number[rows] == keys[waiting]
            same &= self._kind[rows] == kinds[waiting]
            if ids.is_text:
                same[same] = self._same_texts(rows[same], ids, places[waiting[same]])
            found[waiting[same]] = rows[same]
            on = ~same & (content != _EMPTY)
            waiting, at = waiting[on], _next(at[on], slots.size)
        return found

    def _same_texts(self, rows: Rows, ids: IdColumn, places: Rows) -> Mask:
        """The same in parts of a few million letters."""
        ends = np.cumsum(ids.length[places])
        cuts = np.searchsorted(
            ends, np.arange(_LETTERS, int(ends[-1]) if ends.size else 0, _LETTERS)
        )
        parts = np.split(np.arange(places.size), np.unique(cuts))
        return np.concatenate([self._same_text(rows[p], ids, places[p]) for p in parts])

    def _same_text(self, rows: Rows, ids: IdColumn, places: Rows) -> Mask:
        """Whether the texts of rows and of ids are the same, byte by byte."""
        length = ids.length[places]
        mine = self._begin(rows)
        end = self._end[rows].astype(np.int64) if self._end.size else mine
        same = end - mine == length
        check = np.flatnonzero(same & (length > 0))
        if check.size:
            length, mine, theirs = length[check], mine[check], ids.start[places[check]]
            edges = np.cumsum(length) - length
            step = np.arange(int(length.sum())) - np.repeat(edges, length)
            differ = (
                self._text[np.repeat(mine, length) + step]
                != ids.text[np.repeat(theirs, length) + step]
            )
            same[check] = np.add.reduceat(differ, edges, dtype=np.int64) == 0
        return np.asarray(same)

    def _slot_of(self, rows: Rows) -> npt.NDArray[np.int64]:
        """The slot that each row is in."""
        assert self._slots is not None
        size = self._slots.size
        at = hashing.slots(self._number[rows], self._kind[rows], size)
        waiting = np.flatnonzero(self._slots[at] != rows)
        while waiting.size:
            at[waiting] = _next(at[waiting], size)
            waiting = waiting[self._slots[at[waiting]] != rows[waiting]]
        return at

    def _begin(self, rows: Rows) -> npt.NDArray[np.int64]:
        if not self._end.size:
            return np.zeros(rows.size, np.int64)
        return np.where(rows > 0, self._end[np.maximum(rows, 1) - 1].astype(np.int64), 0)

    def _text_range(self, row: int) -> slice:
        if not self._end.size:
            return slice(0, 0)
        return slice(int(self._end[row - 1]) if row else 0, int(self._end[row]))

    def _text_at(self, row: int) -> bytes:
        return self._text[self._text_range(row)].tobytes()

    def _used_text(self) -> int:
        return int(self._end[self._count - 1]) if self._end.size and self._count else 0


def _next(at: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """The slots after these, the first after the last."""
    return np.where(at + 1 == size, 0, at + 1)


def _grown(array: npt.NDArray[Any], used: int, size: int) -> npt.NDArray[Any]:
    """The array with room for ``size`` entries, the first ``used`` kept."""
    if size <= array.size:
        return array
    room = size if used == 0 else max(size, int(1.25 * array.size))
    wider = np.zeros(room, array.dtype)
    wider[: array.size] = array
    return wider
