"""What a run leaves behind: one row per round, one row per participation.

RoundRecord      a round: its clock, its people, its losses, its costs
Participation    what one selected client did in it
write_csv, read_csv, write_parquet, read_table    files of either

Numbers are written so that reading gives the same bits back. NaN is an empty cell.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from oort.errors import DamagedFileError, missing_extra

NOT_MEASURED = math.nan


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
    explored: int  #: selected for the first time, as the selector tells
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


Row = TypeVar("Row", RoundRecord, Participation)


def line(row: RoundRecord | Participation) -> str:
    """A row as a line of CSV, with its end."""
    stream = io.StringIO()
    values = [_written(getattr(row, f.name)) for f in fields(row)]
    csv.writer(stream, lineterminator="\n").writerow(values)
    return stream.getvalue()


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
    with path.open(encoding="utf-8", newline="") as stream:
        if stream.readline() != header(kind):
            message = f"{path} must begin with the columns of {kind.__name__}; got something else"
            raise DamagedFileError(message)
        rows: list[Row] = []
        for values in csv.reader(stream):
            try:
                row = _read(kind, values)
            except (ValueError, IndexError) as error:
                if until is not None:
                    break
                message = f"{path} must hold whole rows; got {values!r}"
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
    """The rows of ``name`` in a run's folder, CSV or Parquet."""
    parquet = folder / f"{name}.parquet"
    if not parquet.is_file():
        return read_csv(folder / f"{name}.csv", kind)
    try:
        import pyarrow.parquet as pq
    except ImportError:
        missing_extra("a Parquet history", "pyarrow", "parquet")
    return [kind(**row) for row in pq.read_table(parquet).to_pylist()]


def _written(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else repr(float(value))
    return str(value)


def _read(kind: type[Row], values: Sequence[str]) -> Row:
    named = list(fields(kind))
    if len(values) != len(named):
        raise ValueError
    converted: dict[str, Any] = {}
    for f, text in zip(named, values, strict=True):
        if f.type == "str":
            converted[f.name] = text
        else:
            converted[f.name] = int(text) if f.type == "int" else float(text or "nan")
    return kind(**converted)
