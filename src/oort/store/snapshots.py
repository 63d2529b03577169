"""The whole state of a job at one entry of its journal, in chunks.

Columns are cut into chunks of 1 MiB, compressed, and written about one chunk per transaction, so
that calls never wait for more than that. When all are there, one more row says so; chunks without
it are of an attempt that was cut short, and do not count.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.errors import DamagedStoreError, StoreUnavailableError
from oort.store.checksums import checksum
from oort.store.database import Database, Row

CHUNK_BYTES: Final = 1 << 20
VERSION: Final = 1
_FASTEST: Final = 1
_INSERT: Final = "INSERT INTO oort_chunks VALUES (?, ?, ?, ?, ?, ?)"
_COMPLETE: Final = "INSERT INTO oort_snapshots VALUES (?, ?, ?, ?, ?, ?)"

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class State:
    """Everything about a job after an entry of its journal."""

    sequence: int
    meta: Mapping[str, Any]
    arrays: Arrays


@dataclass(frozen=True, slots=True)
class Listed:
    """A snapshot that is complete."""

    sequence: int
    chunks: int
    bytes: int
    description: str

    def described(self) -> dict[str, Any]:
        """What it says of itself."""
        return dict(json.loads(self.description))


def write(
    database: Database,
    job: int,
    state: State,
    *,
    may_go_on: Callable[[], bool],
    with_last: Callable[[], object] = lambda: None,
) -> Listed | None:
    """Write a snapshot; nothing comes of it where it may not go on.

    ``may_go_on`` is asked inside every transaction: whether the lease is held, and the state
    still wanted. ``with_last`` is done in the transaction that makes it complete.
    """
    discard_unfinished(database, job, may_go_on)
    rows: list[Row] = []
    waiting, number, stored = 0, 0, 0
    for name, piece in _pieces(state.arrays):
        values = (job, state.sequence, number, name, zlib.compress(piece, _FASTEST))
        rows.append((*values, checksum(*values)))
        number, stored, waiting = number + 1, stored + len(values[-1]), waiting + len(piece)
        if waiting >= CHUNK_BYTES:
            with database.transaction():
                if not may_go_on():
                    return None
                database.insert(_INSERT, rows)
            database.synced()
            rows, waiting = [], 0
    complete = (job, state.sequence, number, stored, _description(state))
    with database.transaction():
        if not may_go_on():
            return None
        database.insert(_INSERT, rows)
        _check_count(database, job, state.sequence, number)
        database.insert(_COMPLETE, [(*complete, checksum(*complete))])
        with_last()
    database.synced()
    return Listed(*complete[1:])


def _check_count(database: Database, job: int, sequence: int, number: int) -> None:
    """Say that a snapshot is complete only where it is."""
    ((there,),) = database.query(
        "SELECT count(*) FROM oort_chunks WHERE job = ? AND sequence = ?", job, sequence
    )
    if there != number:
        message = f"snapshot {sequence} must have {number} chunks; it has {there}"
        raise StoreUnavailableError(message)


def _description(state: State) -> str:
    arrays = {name: _shape(array) for name, array in state.arrays.items()}
    return json.dumps({"version": VERSION, "meta": state.meta, "arrays": arrays})


def listed(database: Database, job: int) -> list[Listed]:
    """The complete snapshots of a job, newest first.

    Raises:
        DamagedStoreError: A row has changed.
    """
    found = []
    for row in database.query(
        "SELECT sequence, chunks, bytes, description, checksum FROM oort_snapshots "
        "WHERE job = ? ORDER BY sequence DESC",
        job,
    ):
        *values, crc = row
        if checksum(job, *values) != crc:
            message = f"snapshot {values[0]}: its description has changed bytes"
            raise DamagedStoreError(message)
        found.append(Listed(*values))
    return found


def read(database: Database, job: int, snapshot: Listed) -> State:
    """The state that was written.

    Raises:
        DamagedStoreError: A chunk is missing or has changed.
    """
    said = snapshot.described()
    arrays = {
        name: np.empty(shape["shape"], np.dtype(shape["dtype"]))
        for name, shape in said["arrays"].items()
    }
    filled = dict.fromkeys(arrays, 0)
    count = 0
    for number, name, payload, crc in database.rows(
        "SELECT number, name, payload, checksum FROM oort_chunks "
        "WHERE job = ? AND sequence = ? ORDER BY number",
        job,
        snapshot.sequence,
    ):
        here = f"snapshot {snapshot.sequence}: chunk {number} (column '{name}')"
        if number != count:
            message = f"snapshot {snapshot.sequence}: chunk {count} is missing"
            raise DamagedStoreError(message)
        if checksum(job, snapshot.sequence, number, name, bytes(payload)) != crc:
            message = f"{here} has changed bytes"
            raise DamagedStoreError(message)
        piece = np.frombuffer(zlib.decompress(payload), np.uint8)
        target = _bytes(arrays[name])
        target[filled[name] : filled[name] + piece.size] = piece
        filled[name] += piece.size
        count += 1
    if count != snapshot.chunks or any(filled[n] != a.nbytes for n, a in arrays.items()):
        message = f"snapshot {snapshot.sequence}: it has {count} of {snapshot.chunks} chunks"
        raise DamagedStoreError(message)
    return State(snapshot.sequence, said["meta"], arrays)


def discard_unfinished(
    database: Database, job: int, may_go_on: Callable[[], bool] = lambda: True
) -> None:
    """Delete chunks that no snapshot stands for."""
    complete = {row[0] for row in _sequences(database, "oort_snapshots", job)}
    for (sequence,) in _sequences(database, "oort_chunks", job):
        if sequence not in complete:
            _discard_chunks(database, job, sequence, may_go_on)


def discard(
    database: Database, job: int, sequence: int, may_go_on: Callable[[], bool] = lambda: True
) -> None:
    """Delete a snapshot."""
    with database.transaction():
        if not may_go_on():
            return
        database.execute(
            "DELETE FROM oort_snapshots WHERE job = ? AND sequence = ?", job, sequence
        )
    _discard_chunks(database, job, sequence, may_go_on)


def _discard_chunks(
    database: Database, job: int, sequence: int, may_go_on: Callable[[], bool]
) -> None:
    """About one full chunk at a time: deleting overwrites, and calls wait meanwhile."""
    sizes = database.query(
        "SELECT number, length(payload) FROM oort_chunks WHERE job = ? AND sequence = ? "
        "ORDER BY number",
        job,
        sequence,
    )
    for until in in_groups(sizes):
        with database.transaction():
            if not may_go_on():
                return
            database.execute(
                "DELETE FROM oort_chunks WHERE job = ? AND sequence = ? AND number <= ?",
                job,
                sequence,
                until,
            )
        database.synced()


def in_groups(sizes: Iterable[tuple[Any, ...]]) -> Iterator[int]:
    """The last key of each group of rows that hold about one chunk together.

    >>> list(in_groups([(1, 10), (2, CHUNK_BYTES), (3, 10)]))
    [2, 3]
    """
    last, held = None, 0
    for key, size in sizes:
        last, held = key, held + size
        if held >= CHUNK_BYTES:
            yield key
            last, held = None, 0
    if last is not None:
        yield last


def _sequences(database: Database, table: str, job: int) -> list[tuple[Any, ...]]:
    return database.query(f"SELECT DISTINCT sequence FROM {table} WHERE job = ?", job)


def _pieces(arrays: Arrays) -> Iterator[tuple[str, memoryview]]:
    for name, array in arrays.items():
        data = _bytes(np.ascontiguousarray(array, array.dtype.newbyteorder("<")))
        for start in range(0, data.size, CHUNK_BYTES):
            yield name, data[start : start + CHUNK_BYTES].data


def _shape(array: npt.NDArray[Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.newbyteorder("<").str, "shape": list(array.shape)}


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    return array.reshape(-1).view(np.uint8)
