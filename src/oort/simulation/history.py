"""What a run leaves behind: one row per round, one row per participation.

RoundRecord      a round: its clock, its people, its losses, its costs
Participation    what one selected client did in it
Attendance       what everyone did in it, as columns; in records while a run goes on
write_csv, read_csv, write_parquet, read_table    files of either

Numbers are written so that reading gives the same bits back. NaN is an empty cell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

from oort.errors import DamagedFileError, missing_extra
from oort.simulation.files import UNREADABLE
from oort.types import Floats, Outcome, Rows

NOT_MEASURED = math.nan
_OUTCOMES = [outcome.value for outcome in Outcome]
_RECORD = np.dtype(
    [
        ("round", "<u4"),
        ("outcome", "<u4"),
        ("client", "<i8"),
        ("duration_s", "<f8"),
        ("num_samples", "<i8"),
        ("mean_squared_loss", "<f8"),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRecord:
    """One round."""

    round: int
    started_s: float  #: simulated clock when participants were selected
    waited_s: float  #: of that, time in which nobody could be selected
    duration_s: float  #: until the round ended
    clock_s: float  #: simulated clock when it ended
    preferred_s: float  #: the selector's T
    epsilon: float  #: the selector's ε
    online: int  #: clients that could be selected
    selected: int
    explored: int  #: of those, for the first time
    completed: int  #: whose updates were used
    failed: int  #: dropped out, or diverged
    diverged: int  #: of those, whose loss or update was not finite
    unused: int  #: cut off by the quorum
    train_loss: float  #: mean over all samples trained on
    utility: float  #: mean of what was reported
    test_loss: float  #: on samples that nobody trains on
    accuracy: float
    worst_decile: float  #: mean accuracy over the tenth of tested clients where it is lowest
    chosen_accuracy: float  #: on the data of clients that the testing selector chose
    used_s: float  #: client-seconds that went into updates
    wasted_s: float  #: client-seconds that did not
    down_bytes: int
    up_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Participation:
    """What one selected client did in a round."""

    round: int
    client: int
    outcome: str
    duration_s: float  #: as the server saw it: until the update, the loss of contact or the end
    num_samples: int  #: distinct samples trained on; 0 unless completed
    mean_squared_loss: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendance(Sequence[Participation]):
    """What everyone selected did in a round: a sequence of rows, kept as columns."""

    round: int
    client: Rows
    outcome: npt.NDArray[np.str_]
    duration_s: Floats
    num_samples: Rows
    mean_squared_loss: Floats

    @classmethod
    def of(cls, rows: Sequence[Participation]) -> Attendance:
        """The columns of one round's rows."""
        return cls(
            round=rows[0].round if rows else 0,
            client=np.array([row.client for row in rows], np.int64),
            outcome=np.array([row.outcome for row in rows], np.str_),
            duration_s=np.array([row.duration_s for row in rows], np.float64),
            num_samples=np.array([row.num_samples for row in rows], np.int64),
            mean_squared_loss=np.array([row.mean_squared_loss for row in rows], np.float64),
        )

    def __len__(self) -> int:
        return len(self.client)

    @overload
    def __getitem__(self, place: int) -> Participation: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Participation]: ...
    def __getitem__(self, place: int | slice) -> Participation | Sequence[Participation]:
        return list(self)[place]

    def __iter__(self) -> Iterator[Participation]:
        for client, outcome, duration_s, num_samples, loss in self._tuples():
            yield Participation(
                round=self.round,
                client=client,
                outcome=outcome,
                duration_s=duration_s,
                num_samples=num_samples,
                mean_squared_loss=loss,
            )

    def to_bytes(self) -> bytes:
        """All rows as records of a fixed size, which takes a tenth of the time of CSV."""
        records = np.empty(len(self), _RECORD)
        for name in ("round", "client", "duration_s", "num_samples", "mean_squared_loss"):
            records[name] = getattr(self, name)
        for outcome, some in self.by_outcome():
            records["outcome"][some] = _OUTCOMES.index(outcome)
        return records.tobytes()

    @classmethod
    def from_bytes(cls, content: bytes, *, of: str | Path = "participations") -> list[Attendance]:
        """The rounds in such records; what is left of a torn last one is passed over.

        Raises:
            DamagedFileError: These are no such records; the message says ``of`` what they are.
        """
        whole = len(content) // _RECORD.itemsize
        records = np.frombuffer(content, _RECORD, whole)
        outcome, client = records["outcome"].max(initial=0), records["client"].min(initial=0)
        if outcome >= len(_OUTCOMES) or client < 0:
            message = f"{of} must hold records; got outcome {outcome} or client {client}"
            raise DamagedFileError(message)
        edges = np.flatnonzero(np.diff(records["round"].astype(np.int64))) + 1
        return [cls._of_records(some) for some in np.split(records, edges) if len(some)]

    @classmethod
    def _of_records(cls, records: npt.NDArray[Any]) -> Attendance:
        return cls(
            round=int(records["round"][0]),
            client=records["client"].astype(np.int64),
            outcome=np.array(_OUTCOMES)[records["outcome"]],
            duration_s=records["duration_s"].astype(np.float64),
            num_samples=records["num_samples"].astype(np.int64),
            mean_squared_loss=records["mean_squared_loss"].astype(np.float64),
        )

    def by_outcome(self) -> Iterator[tuple[str, slice]]:
        """Rows that follow one another and have the same outcome: the outcome, and where."""
        edges = np.flatnonzero(self.outcome[1:] != self.outcome[:-1]) + 1
        for begin, end in pairwise([0, *edges.tolist(), len(self)]):
            if end > begin:
                yield str(self.outcome[begin]), slice(begin, end)

    def _tuples(self) -> Iterator[tuple[int, str, float, int, float]]:
        return zip(
            self.client.tolist(),
            self.outcome.tolist(),
            self.duration_s.tolist(),
            self.num_samples.tolist(),
            self.mean_squared_loss.tolist(),
            strict=True,
        )


Row = TypeVar("Row", RoundRecord, Participation)


def line(row: RoundRecord | Participation) -> str:
    """A row as a line of CSV, with its end; no text in these rows needs quotes."""
    return ",".join(map(_written, _VALUES[type(row)](row))) + "\n"


def header(kind: type[Row]) -> str:
    """The first line of a file of such rows, with its end."""
    return ",".join(f.name for f in fields(kind)) + "\n"


def write_csv(path: Path, kind: type[Row], rows: Iterable[Row]) -> None:
    """Write rows to a file."""
    path.write_text(header(kind) + "".join(map(line, rows)), encoding="utf-8")


def read_csv(path: Path, kind: type[Row], *, until: int | None = None) -> list[Row]:
    """The rows of a file; with ``until`` only those of rounds so far, whatever comes after.

    Raises:
        DamagedFileError: The file is not one of these, or a row in it cannot be read.
    """
    with path.open(encoding="ascii", errors="replace", newline="") as stream:
        if stream.readline() != header(kind):
            message = f"{path} must begin with the columns of {kind.__name__}; got something else"
            raise DamagedFileError(message)
        rows: list[Row] = []
        for text in stream:
            try:
                row = _read(kind, text)
            except ValueError as error:
                if until is not None:
                    break
                message = f"{path} must hold whole rows; got {text!r}"
                raise DamagedFileError(message) from error
            if until is not None and row.round > until:
                break
            rows.append(row)
    return rows


def write_parquet(path: Path, kind: type[Row], rows: Sequence[Row]) -> None:
    """Write rows to a Parquet file (extra ``parquet``)."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        missing_extra("output.format 'parquet'", "pyarrow", "parquet")
    columns = {f.name: [getattr(row, f.name) for row in rows] for f in fields(kind)}
    pq.write_table(pa.table(columns), path)


def read_table(folder: Path, name: str, kind: type[Row]) -> list[Row]:
    """The rows of ``name`` in a run's folder, CSV or Parquet.

    Raises:
        DamagedFileError: The file is not one of these, or cannot be read.
    """
    parquet = folder / f"{name}.parquet"
    if not parquet.is_file():
        return read_csv(folder / f"{name}.csv", kind)
    try:
        import pyarrow.parquet as pq
    except ImportError:
        missing_extra("a Parquet history", "pyarrow", "parquet")
    try:
        return [kind(**row) for row in pq.read_table(parquet).to_pylist()]
    except UNREADABLE as error:
        message = f"{parquet} must be a table of {kind.__name__}; got {error}"
        raise DamagedFileError(message) from error


def _written(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(float(value))
    return str(value)


def _read(kind: type[Row], text: str) -> Row:
    """A row from a line; one without its end was cut off while it was written."""
    values, columns = text.rstrip("\n").split(","), _COLUMNS[kind]
    if len(values) != len(columns) or not text.endswith("\n"):
        raise ValueError
    return kind(
        **{name: convert(text) for (name, convert), text in zip(columns, values, strict=True)}
    )


def _float(text: str) -> float:
    return float(text) if text else NOT_MEASURED


def _outcome(text: str) -> str:
    return Outcome(text).value


_READERS: dict[Any, Callable[[str], Any]] = {"str": _outcome, "int": int, "float": _float}

#: the columns of either file, and what reads a cell
_COLUMNS = {
    kind: [(f.name, _READERS[f.type]) for f in fields(kind)]
    for kind in (RoundRecord, Participation)
}
_VALUES = {kind: attrgetter(*(name for name, _ in _COLUMNS[kind])) for kind in _COLUMNS}
