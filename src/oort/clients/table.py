"""The client table: growable columns, one row per client, and what follows from them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort import kernels, savefile
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
from oort.clients.id_columns import IdColumn
from oort.clients.ids import ClientIds
from oort.clients.statistics import EXACT_ROWS, NO_BUCKETS, Buckets, Histogram
from oort.errors import DamagedFileError
from oort.kernels.arrays import lower_quantile
from oort.types import Among, ClientColumns, Mask, Rows

_FIRST_CAPACITY: Final = 64
_LOWEST_LIMIT: Final = 20
_TIMES_THE_MEAN: Final = 2.0
_GROWTH: Final = 1.25
_CHUNK: Final = 1 << 20

_EXPLORED: Final = np.uint8(PRESENT | EXPLORED)
_UNTRIED_CARE: Final = np.uint8(PRESENT | TRIED)

Single = npt.NDArray[np.float32]


class ClientTable:
    """Every client's columns. Not safe for threads by itself: a selector guards it.

    Flags, utilities and durations are only written inside ``with table.changing(rows)``, which
    keeps the statistics true.
    """

    flags: npt.NDArray[np.uint8]
    utility: Single
    duration_s: Single
    last_round: npt.NDArray[np.uint32]
    participations: npt.NDArray[np.uint16]
    num_samples: npt.NDArray[np.uint32]
    sketch: Single

    def __init__(
        self, *, sketch_width: int = 0, max_participations: int | str | None = None
    ) -> None:
        self.ids = ClientIds()
        self.sketch_width = sketch_width
        self.num_present = 0
        self.on_change: Callable[[Rows], None] | None = None  #: told of rows that changed
        self._limit_follows = max_participations == "auto"
        self._limit = MAX_PARTICIPATIONS_STORED
        if isinstance(max_participations, int):
            self._limit = max_participations
        self._total_participations = 0  #: of present clients
        self._full: dict[str, npt.NDArray[Any]] = {}
        self._statistics: Statistics | None = None
        for column in (*SCHEMA, SKETCH):
            self._full[column.name] = np.empty(self._shape(column, 0), column.dtype)
        self._expose(0)

    @property
    def num_rows(self) -> int:
        """Rows ever given out, empty ones included."""
        return len(self.flags)

    @property
    def statistics(self) -> Statistics:
        """Quantiles of the columns, kept up to date row by row where the table is large."""
        if self._statistics is None:
            self._statistics = Statistics(self)
        return self._statistics

    def add(self, client_ids: Among) -> Rows:
        """The row of each client; unknown ones join, online and untried."""
        rows, new = self.ids.place(client_ids)
        if new is not None:
            self.join(new)
        return rows

    def join(self, new: IdColumn) -> None:
        """Give the next rows to clients that have none; where memory is short, to nobody."""
        self._make_room(len(self.ids) + len(new))
        self.ids.append(new)
        self._grow(len(self.ids))

    @contextmanager
    def changing(self, rows: Rows) -> Iterator[None]:
        """Write to the columns of distinct rows, and let the statistics follow."""
        statistics = self._statistics
        if statistics is not None and statistics.incremental:
            statistics.count(rows, -1)
        try:
            yield
        finally:
            if statistics is not None and statistics.incremental:
                statistics.count(rows, +1)
            if self.on_change is not None:
                self.on_change(rows)

    def bring_back(self, rows: Rows) -> None:
        """Removed clients are present again, with all that was known of them."""
        gone = np.unique(rows[(self.flags[rows] & PRESENT) == 0])
        if gone.size:
            with self.changing(gone):
                self.num_present += gone.size
                self._total_participations += _sum(self.participations[gone])
                self.flags[gone] |= PRESENT

    def remove(self, rows: Rows) -> int:
        """Take clients out of selection but keep their rows; returns how many were present."""
        there = np.unique(rows[(self.flags[rows] & PRESENT) != 0])
        with self.changing(there):
            self.flags[there] &= np.uint8(255 - PRESENT)
        self.num_present -= there.size
        self._total_participations -= _sum(self.participations[there])
        return there.size

    def forget(self, rows: Rows) -> int:
        """Erase clients; returns how many there were."""
        rows = np.unique(rows)
        self.remove(rows)
        self.ids.forget(rows)
        for column in self._columns():
            self._full[column.name][rows] = column.empty
        self.flags[rows] = 0
        return rows.size

    def mark(self, rows: Rows | slice, *, online: bool) -> None:
        """Set or clear the online mark, which no statistic depends on."""
        if online:
            self.flags[rows] |= ONLINE
        else:
            self.flags[rows] &= np.uint8(255 - ONLINE)

    def pick(self, rows: Rows) -> None:
        """Distinct rows take part in one more round: what nobody's score depends on."""
        added = self.statistics.pick(rows, self._limit)
        if added is not None:
            self._total_participations += added
            return
        if self._statistics is not None and self._statistics.incremental:
            untried = rows[(self.flags[rows] & _UNTRIED_CARE) == PRESENT]
            self._statistics.count_untried(self.duration_s[untried], -1)
        self.count_participations(rows, +1)

    def report(
        self,
        rows: Rows,
        reports: tuple[npt.NDArray[Any], ...],
        codes: tuple[int, int],
        number: int,
    ) -> bool:
        """Write what distinct rows reported of a round, in one compiled call.

        Says whether it was done: nothing happens, where no compiled code is there for it.

        Args:
            rows: The rows.
            reports: Outcome, whether it was selected, utility, duration and samples of each.
            codes: The outcomes "completed" and "unused".
            number: The round.
        """
        added = self.statistics.report(rows, reports, codes, number, self._limit)
        if added is None:
            return False
        self._total_participations += added
        if self.on_change is not None:
            self.on_change(rows)
        return True

    def count_participations(self, rows: Rows, change: int) -> None:
        """Add to the participations of rows (inside ``changing``); the flags follow."""
        before = self.participations[rows].astype(np.int64)
        counts = np.maximum(np.minimum(before + change, MAX_PARTICIPATIONS_STORED), 0)
        present = (self.flags[rows] & PRESENT) != 0
        self._total_participations += int((counts - before)[present].sum())
        self.participations[rows] = counts
        flags = self.flags[rows] & np.uint8(255 - TRIED - REMOVED)
        flags[(counts > 0) | ((flags & EXPLORED) != 0)] |= TRIED
        flags[counts > self._limit] |= REMOVED
        self.flags[rows] = flags

    def refresh_limit(self) -> None:
        """Let the limit on participations follow their mean, where it is to.

        Twice the mean, and at least 20: whoever took part more often is marked as removed, and
        whoever no longer did is not. The marks follow from the columns alone.
        """
        if not self._limit_follows or not self.num_present:
            return
        mean = self._total_participations / self.num_present
        limit = max(_LOWEST_LIMIT, int(_TIMES_THE_MEAN * mean))
        if limit == self._limit:
            return
        self._limit = limit
        removed = (self.flags & REMOVED) != 0
        changed = np.flatnonzero(removed != (self.participations > limit))
        self.flags[changed] ^= REMOVED
        if changed.size and self.on_change is not None:
            self.on_change(changed)

    def view(self, rows: Rows, round_number: int) -> ClientColumns:
        """Copies of the columns of some rows, for utility and fairness functions.

        Counts are signed there, so that a difference of two or a minus sign means what it says.
        """
        return ClientColumns(
            num_samples=self.num_samples[rows].astype(np.int64),
            utility=self.utility[rows],
            duration_s=self.duration_s[rows],
            last_round=self.last_round[rows].astype(np.int64),
            participations=self.participations[rows].astype(np.int64),
            sketch=self.sketch[rows] if self.sketch_width else None,
            round_number=round_number,
        )

    def rows_with(self, wanted: int, care: int) -> Rows:
        """Rows whose flags, where ``care`` has a bit, equal ``wanted``."""
        return np.flatnonzero((self.flags & np.uint8(care)) == wanted)

    def column_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The columns themselves, no copies."""
        return {c.name: self._full[c.name][: self.num_rows] for c in self._columns()}

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything, as arrays for a file."""
        return {**self.column_arrays(), **self.ids.to_arrays()}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, npt.NDArray[Any]],
        *,
        sketch_width: int,
        max_participations: int | str | None,
    ) -> ClientTable:
        """The table that ``to_arrays`` gave; takes the arrays over.

        Raises:
            DamagedFileError: The arrays are not such as ``to_arrays`` gives.
        """
        table = cls(sketch_width=sketch_width, max_participations=max_participations)
        table.ids = ClientIds.from_arrays(arrays)
        for column in table._columns():
            shape = table._shape(column, len(table.ids))
            table._full[column.name] = savefile.column(arrays, column.name, column.dtype, shape)
        table._expose(len(table.ids))
        table._require_possible()
        present = (table.flags & PRESENT) != 0
        table.num_present = int(np.count_nonzero(present))
        table._total_participations = _sum(table.participations[present])
        return table

    def _require_possible(self) -> None:
        """Refuse columns from a file that no table of ours can have had."""
        gone = self.ids.is_forgotten(np.arange(self.num_rows))
        known_s = _known(self.duration_s)
        for holds, what in (
            (not (self.flags[gone] & PRESENT).any(), "a present client without an id"),
            ((np.isfinite(self.utility) & ~np.signbit(self.utility)).all(), "a utility"),
            ((np.isfinite(known_s) & ~np.signbit(known_s)).all(), "a duration"),
        ):
            if not holds:
                message = f"the saved columns are damaged: {what} is impossible"
                raise DamagedFileError(message)

    def _columns(self) -> tuple[Column, ...]:
        return (*SCHEMA, SKETCH) if self.sketch_width else SCHEMA

    def _shape(self, column: Column, rows: int) -> tuple[int, ...]:
        return (rows, self.sketch_width) if column is SKETCH else (rows,)

    def _make_room(self, num_rows: int) -> None:
        """Make room for this many rows, column by column, so that only one is ever held twice."""
        before = self.num_rows
        for column in self._columns():
            capacity = len(self._full[column.name])
            if num_rows > capacity:
                capacity = max(num_rows, int(capacity * _GROWTH), _FIRST_CAPACITY)
                wider = np.empty(self._shape(column, capacity), column.dtype)
                wider[:before] = self._full[column.name][:before]
                self._full[column.name] = wider
                self._expose(before)

    def _grow(self, num_rows: int) -> None:
        """Begin the rows up to this many, for which there is room."""
        before = self.num_rows
        if num_rows == before:
            return
        for column in self._columns():
            self._full[column.name][before:num_rows] = column.empty
        self.num_present += num_rows - before
        self._expose(num_rows)
        statistics, self._statistics = self._statistics, None  # anew, if counting fails
        if statistics is not None and statistics.incremental:
            statistics.count_all(before, num_rows)
            self._statistics = statistics
        elif num_rows <= EXACT_ROWS:
            self._statistics = statistics

    def _expose(self, num_rows: int) -> None:
        """Columns as attributes, cut to the rows in use."""
        for column in (*SCHEMA, SKETCH):
            setattr(self, column.name, self._full[column.name][:num_rows])


class Statistics:
    """Quantiles of who is explored, and of what is expected of those never tried."""

    def __init__(self, table: ClientTable) -> None:
        self._table = table
        self.incremental = table.num_rows > EXACT_ROWS
        self._fast = _compiled_for(table.num_rows) if self.incremental else None
        if self.incremental:
            self._utility = Histogram()
            self._duration = Histogram()
            self._expected = Histogram()
            self._num_untried = 0
            self.count_all(0, table.num_rows)

    @property
    def histograms(self) -> tuple[Histogram, Histogram, Histogram]:
        """Utilities and durations of the explored, and what is expected of the untried."""
        return self._utility, self._duration, self._expected

    @property
    def buckets(self) -> tuple[Buckets, Buckets, Buckets]:
        """The same as compiled code takes them; without buckets, where the table is small."""
        if not self.incremental:
            return NO_BUCKETS, NO_BUCKETS, NO_BUCKETS
        return self._utility.pair, self._duration.pair, self._expected.pair

    @property
    def num_untried(self) -> int:
        """Present clients that were never tried."""
        if self.incremental:
            return self._num_untried
        return int(np.count_nonzero(self._is_untried()))

    @property
    def num_explored(self) -> int:
        """Present clients that have a utility."""
        if self.incremental:
            return self._utility.count
        return int(np.count_nonzero(self._is_explored()))

    def utility_range(self, level: float) -> tuple[float, float]:
        """The lowest utility of the explored, and a quantile of it; zeros if there are none."""
        if self.incremental:
            if not self._utility.count:
                return 0.0, 0.0
            return self._utility.span(level, self._fast)
        values = self._table.utility[self._is_explored()]
        return (float(values.min()), lower_quantile(values, level)) if values.size else (0.0, 0.0)

    def explored_duration_s(self, level: float) -> float | None:
        """A quantile of the known durations of the explored."""
        if self.incremental:
            return self._duration.quantile(level, self._fast) if self._duration.count else None
        durations = _known(self._table.duration_s[self._is_explored()])
        return lower_quantile(durations, level) if durations.size else None

    def expected_duration_s(self) -> tuple[float, float] | None:
        """The lowest and the median duration expected of those never tried, where one is."""
        if self.incremental:
            expected, fast = self._expected, self._fast
            if not expected.count:
                return None
            return expected.lowest(fast), expected.quantile(0.5, fast)
        durations = _known(self._table.duration_s[self._is_untried()])
        if not durations.size:
            return None
        return float(durations.min()), lower_quantile(durations, 0.5)

    def count_all(self, first: int, end: int) -> None:
        """Count consecutive rows in."""
        for start in range(first, end, _CHUNK):
            self.count(np.arange(start, min(start + _CHUNK, end)), +1)

    def count(self, rows: Rows, by: int) -> None:
        """Count rows in (+1) or out (−1) of every histogram that they belong to."""
        table, fast = self._table, self._fast
        if fast is not None:
            columns = (table.flags, table.utility, table.duration_s)
            explored, timed, hinted, untried = fast.count_rows(
                rows, *columns, by, self._utility.pair, self._duration.pair, self._expected.pair
            )
            self._utility.count += by * explored
            self._duration.count += by * timed
            self._expected.count += by * hinted
            self._num_untried += by * untried
            return
        flags, duration_s = table.flags[rows], table.duration_s[rows]
        explored = (flags & _EXPLORED) == _EXPLORED
        self._utility.change(table.utility[rows[explored]], by)
        self._duration.change(_known(duration_s[explored]), by)
        self.count_untried(duration_s[(flags & _UNTRIED_CARE) == PRESENT], by)

    def count_untried(self, expected_s: Single, by: int) -> None:
        """Count untried clients in or out, given what is expected of each."""
        self._num_untried += by * expected_s.size
        self._expected.change(_known(expected_s), by)

    def pick(self, rows: Rows, limit: int) -> int | None:
        """Rows take part in one more round; how many participations of present clients it adds.

        Nothing happens, where no compiled code is there for it.
        """
        table, fast = self._table, self._compiled()
        if fast is None:
            return None
        columns = (table.flags, table.participations, table.duration_s)
        added, untried, hinted = fast.pick(rows, *columns, limit, self.buckets[2])
        if self.incremental:
            self._num_untried -= untried
            self._expected.count -= hinted
        return int(added)

    def report(
        self,
        rows: Rows,
        reports: tuple[npt.NDArray[Any], ...],
        codes: tuple[int, int],
        number: int,
        limit: int,
    ) -> int | None:
        """Rows report; how many participations of present clients it adds.

        Nothing happens, where no compiled code is there for it.
        """
        table, fast = self._table, self._compiled()
        if fast is None:
            return None
        columns = (
            table.flags,
            table.utility,
            table.duration_s,
            table.last_round,
            table.participations,
            table.num_samples,
        )
        added, before, after = fast.report(
            rows, reports, codes, number, limit, columns, self.buckets
        )
        if self.incremental:
            self._utility.count += after[0] - before[0]
            self._duration.count += after[1] - before[1]
            self._expected.count += after[2] - before[2]
            self._num_untried += after[3] - before[3]
        return int(added)

    def _compiled(self) -> ModuleType | None:
        """The compiled steps: of small tables, where they are at hand."""
        if self.incremental:
            return self._fast
        return _compiled() if kernels.at_hand() else None

    def _is_explored(self) -> Mask:
        return np.asarray((self._table.flags & _EXPLORED) == _EXPLORED)

    def _is_untried(self) -> Mask:
        return np.asarray((self._table.flags & _UNTRIED_CARE) == PRESENT)


def _compiled_for(num_rows: int) -> ModuleType | None:
    """The compiled steps, where a table is large enough to earn them."""
    return None if kernels.compiled_for(num_rows) is None else _compiled()


@functools.cache
def _compiled() -> ModuleType:
    return import_module("oort.clients.compiled")


def _sum(counts: npt.NDArray[np.uint16]) -> int:
    return int(counts.sum(dtype=np.int64))


def _known(values: Single) -> Single:
    return values[~np.isnan(values)]
