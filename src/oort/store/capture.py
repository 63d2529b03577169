"""A consistent copy of a selector's state, taken while the selector goes on working.

The columns are copied a slice of rows at a time, with the selector's lock held for one slice only.
A change that comes in between first puts aside what the rows it touches held before, where they
have not been copied yet; in the end that is laid over the copy. Ids are not copied: rows are only
ever added, and forgetting a client spoils the capture, which is then begun anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.clients.changes import Hinted, Joined, Marked, Removed, Returned
from oort.clients.table import ClientTable
from oort.training.changes import Change, Forgotten, Reported, Selected
from oort.types import Rows

SLICE_ROWS: Final = 1 << 16


class Capture:
    """One copy in the making. Every method is called with the selector's lock held."""

    def __init__(
        self, table: ClientTable, meta: Mapping[str, Any], arrays: Mapping[str, Any], sequence: int
    ) -> None:
        self.sequence = sequence
        self.meta = meta
        self.spoiled = False
        self._table = table
        self._rest = dict(arrays)
        self._ids: Callable[[], Mapping[str, Any]] = table.ids.frozen()
        self._rows = table.num_rows
        self._done = 0
        self._columns = {
            name: np.empty_like(column) for name, column in table.column_arrays().items()
        }
        self._before: list[tuple[Rows, dict[str, npt.NDArray[Any]]]] = []

    def copy_slice(self) -> bool:
        """Copy the next rows; false when all are."""
        part = slice(self._done, min(self._done + SLICE_ROWS, self._rows))
        for name, column in self._table.column_arrays().items():
            self._columns[name][part] = column[part]
        self._done = part.stop
        return self._done < self._rows and not self.spoiled

    def about_to(self, change: Change) -> None:
        """Put aside what a change will overwrite before it was copied."""
        rows: Rows | None
        match change:
            case Forgotten():
                self.spoiled = True
                return
            case Returned() | Removed() | Marked() | Hinted() | Selected():
                rows = change.rows
            case Reported():
                rows = change.taken.rows
            case Joined() | _:
                return
        if rows is None:
            rows = np.arange(self._done, self._rows)
        rows = rows[(rows >= self._done) & (rows < self._rows)]
        if rows.size:
            columns = self._table.column_arrays()
            self._before.append((rows, {name: column[rows] for name, column in columns.items()}))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as it was when the capture began; needs no lock any more."""
        for rows, values in reversed(self._before):
            for name, column in values.items():
                self._columns[name][rows] = column
        self._before = []
        return {**self._columns, **self._ids(), **self._rest}


class Copy:
    """A copy that was made at once, for what is not large."""

    def __init__(self, meta: Mapping[str, Any], arrays: Mapping[str, Any], sequence: int) -> None:
        self.sequence = sequence
        self.meta = meta
        self.spoiled = False
        self._arrays = {name: np.array(array) for name, array in arrays.items()}

    def copy_slice(self) -> bool:
        """Nothing is left to copy."""
        return False

    def about_to(self, change: object) -> None:
        """Nothing can spoil it."""

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as it was."""
        return self._arrays
