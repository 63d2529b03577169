"""The client table: growable contiguous columns, one row per client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.clients.columns import (
    EXPLORED,
    MAX_PARTICIPATIONS_STORED,
    ONLINE,
    PRESENT,
    REMOVED,
    SCHEMA,
    SKETCH,
    TRIED,
    Column,
)
from oort.clients.ids import ClientIds
from oort.types import ClientColumns, ClientId, Rows

_FIRST_CAPACITY: Final = 64
_GROWTH: Final = 1.5


class ClientTable:
    """Every client's columns. Not safe for threads by itself: a selector guards it."""

    flags: npt.NDArray[np.uint8]
    utility: npt.NDArray[np.float32]
    duration_s: npt.NDArray[np.float32]
    last_round: npt.NDArray[np.uint32]
    participations: npt.NDArray[np.uint16]
    num_samples: npt.NDArray[np.uint32]
    sketch: npt.NDArray[np.float32]

    def __init__(self, *, sketch_width: int = 0, max_participations: int | None = None) -> None:
        self.ids = ClientIds()
        self.sketch_width = sketch_width
        self.num_present = 0
        self._limit = (
            MAX_PARTICIPATIONS_STORED if max_participations is None else max_participations
        )
        self._full: dict[str, npt.NDArray[Any]] = {}
        for column in (*SCHEMA, SKETCH):
            self._full[column.name] = np.empty(self._shape(column, 0), column.dtype)
        self._expose(0)

    @property
    def num_rows(self) -> int:
        """Rows ever given out, empty ones included."""
        return len(self.flags)

    def find(self, client_ids: Sequence[ClientId]) -> Rows:
        """The row of each client, −1 where it is unknown."""
        return self.ids.find(client_ids)

    def add(self, client_ids: Sequence[ClientId]) -> Rows:
        """The row of each client; unknown ones join, online and untried."""
        rows = self.ids.add(client_ids)
        self._grow(len(self.ids))
        return rows

    def bring_back(self, rows: Rows) -> None:
        """Removed clients are present again, with all that was known of them."""
        gone = rows[(self.flags[rows] & PRESENT) == 0]
        if gone.size:
            self.num_present += len(np.unique(gone))
            self.flags[gone] |= PRESENT

    def remove(self, rows: Rows) -> int:
        """Take clients out of selection but keep their rows; returns how many were present."""
        there = np.unique(rows[(self.flags[rows] & PRESENT) != 0])
        self.flags[there] &= np.uint8(255 - PRESENT)
        self.num_present -= len(there)
        return len(there)

    def forget(self, rows: Rows) -> int:
        """Erase clients; returns how many there were."""
        rows = np.unique(rows)
        self.remove(rows)
        self.ids.forget(rows)
        for column in self._columns():
            self._full[column.name][rows] = column.empty
        self.flags[rows] = 0
        return len(rows)

    def mark(self, rows: Rows | slice, *, online: bool) -> None:
        """Set or clear the online mark."""
        if online:
            self.flags[rows] |= ONLINE
        else:
            self.flags[rows] &= np.uint8(255 - ONLINE)

    def count_participations(self, rows: Rows, change: int) -> None:
        """Add to the participations of distinct rows, and keep the flags that follow from them."""
        counts = self.participations[rows].astype(np.int64) + change
        counts = np.clip(counts, 0, MAX_PARTICIPATIONS_STORED)
        self.participations[rows] = counts
        flags = self.flags[rows] & np.uint8(255 - TRIED - REMOVED)
        flags[(counts > 0) | ((flags & EXPLORED) != 0)] |= TRIED
        flags[counts > self._limit] |= REMOVED
        self.flags[rows] = flags

    def set_durations(self, rows: Rows, duration_s: npt.NDArray[np.float32]) -> None:
        """Replace the durations of distinct rows."""
        self.duration_s[rows] = duration_s

    def set_utilities(self, rows: Rows, utility: npt.NDArray[np.float32]) -> None:
        """Replace the utilities of distinct rows, which are explored from now on."""
        self.utility[rows] = utility
        self.flags[rows] |= EXPLORED

    def view(self, rows: Rows, round_number: int) -> ClientColumns:
        """Copies of the columns of some rows, for utility and fairness functions."""
        return ClientColumns(
            num_samples=self.num_samples[rows],
            utility=self.utility[rows],
            duration_s=self.duration_s[rows],
            last_round=self.last_round[rows],
            participations=self.participations[rows],
            sketch=self.sketch[rows] if self.sketch_width else None,
            round_number=round_number,
        )

    def rows_with(self, wanted: int, care: int) -> Rows:
        """Rows whose flags, where ``care`` has a bit, equal ``wanted``."""
        return np.flatnonzero((self.flags & np.uint8(care)) == wanted)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything, as arrays for a file."""
        arrays = {
            column.name: self._full[column.name][: self.num_rows] for column in self._columns()
        }
        return {**arrays, **self.ids.to_arrays()}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, npt.NDArray[Any]],
        *,
        sketch_width: int,
        max_participations: int | None,
    ) -> ClientTable:
        """The table that ``to_arrays`` gave."""
        table = cls(sketch_width=sketch_width, max_participations=max_participations)
        table.ids = ClientIds.from_arrays(dict(arrays))
        table._grow(len(table.ids))
        for column in table._columns():
            table._full[column.name][: table.num_rows] = arrays[column.name]
        table.num_present = int(np.count_nonzero(table.flags & PRESENT))
        return table

    def _columns(self) -> tuple[Column, ...]:
        return (*SCHEMA, SKETCH) if self.sketch_width else SCHEMA

    def _shape(self, column: Column, rows: int) -> tuple[int, ...]:
        return (rows, self.sketch_width) if column is SKETCH else (rows,)

    def _grow(self, num_rows: int) -> None:
        """Make room for this many rows, column by column, so that only one is ever held twice."""
        before = self.num_rows
        if num_rows == before:
            return
        capacity = len(self._full["flags"])
        if num_rows > capacity:
            capacity = max(num_rows, int(capacity * _GROWTH), _FIRST_CAPACITY)
            for column in self._columns():
                wider = np.empty(self._shape(column, capacity), column.dtype)
                wider[:before] = self._full[column.name][:before]
                self._full[column.name] = wider
        for column in self._columns():
            self._full[column.name][before:num_rows] = column.empty
        self.num_present += num_rows - before
        self._expose(num_rows)

    def _expose(self, num_rows: int) -> None:
        """Columns as attributes, cut to the rows in use."""
        for column in (*SCHEMA, SKETCH):
            setattr(self, column.name, self._full[column.name][:num_rows])
