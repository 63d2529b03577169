"""What belongs to a job besides its clients' columns: test plans, client information.

A record has a kind, a name and bytes; it is written whole, replaced whole, read whole. Large ones
are cut into rows of at most 1 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Final

from oort.errors import DamagedStoreError, StoreError
from oort.store import schema
from oort.store.checksums import checksum
from oort.store.database import Database, Row, shown
from oort.store.schema import Job

_PIECE_BYTES: Final = 1 << 20
_INSERT: Final = "INSERT INTO oort_records VALUES (?, ?, ?, ?, ?, ?, ?)"


def put(database: Database, job: Job, kind: str, name: str, payload: bytes) -> None:
    """Write a record, over what had its name before, in one transaction."""
    require(database)
    with database.transaction():
        insert(database, job, kind, name, payload)


def insert(database: Database, job: Job, kind: str, name: str, payload: bytes) -> None:
    """The same inside a transaction."""
    _delete(database, job, kind, name)
    database.insert(_INSERT, _rows(job.number, kind, name, payload))


def get(database: Database, job: Job, kind: str, name: str) -> bytes | None:
    """A record; nothing where there is none.

    Raises:
        DamagedStoreError: It has changed, or a part of it is missing.
    """
    require(database)
    found = database.query(
        "SELECT part, parts, payload, checksum FROM oort_records "
        "WHERE job = ? AND kind = ? AND name = ? ORDER BY part",
        job.number,
        kind,
        name,
    )
    return _joined(database, job, kind, name, found) if found else None


def of_kind(database: Database, job: Job, kind: str) -> Iterator[tuple[str, bytes]]:
    """All records of a kind, by name (inside a transaction).

    Raises:
        DamagedStoreError: One has changed, or a part of it is missing.
    """
    rows = database.rows(
        "SELECT name, part, parts, payload, checksum FROM oort_records "
        "WHERE job = ? AND kind = ? ORDER BY name, part",
        job.number,
        kind,
    )
    for name, parts in groupby(rows, key=itemgetter(0)):
        yield name, _joined(database, job, kind, name, [row[1:] for row in parts])


def _joined(database: Database, job: Job, kind: str, name: str, found: list[Row]) -> bytes:
    """The bytes of a record from its rows, each checked."""
    pieces = []
    for place, (part, parts, payload, crc) in enumerate(found):
        whole = part == place and parts == len(found)
        if not whole or checksum(job.number, kind, name, part, parts, bytes(payload)) != crc:
            what = f"{kind} {name!r} of job {job.name!r} has changed bytes or lacks some"
            message = f"{shown(database.url)} is damaged: {what}"
            raise DamagedStoreError(message)
        pieces.append(bytes(payload))
    return b"".join(pieces)


def names(database: Database, job: Job, kind: str | None = None) -> list[tuple[str, str]]:
    """Kind and name of a job's records, sorted; none where the schema has no place for them."""
    if schema.version_of(database) < schema.RECORDS_SINCE:
        return []
    found = database.query(
        "SELECT DISTINCT kind, name FROM oort_records WHERE job = ?", job.number
    )
    return sorted((k, n) for k, n in found if kind in (None, k))


def delete(database: Database, job: Job, kind: str, name: str) -> bool:
    """Delete a record; says whether there was one."""
    require(database)
    with database.transaction():
        return _delete(database, job, kind, name) > 0


def require(database: Database) -> None:
    """Records need a schema that has a place for them.

    Raises:
        StoreError: It is too old; the message says how to upgrade it.
    """
    version = schema.version_of(database)
    if version < schema.RECORDS_SINCE:
        where = shown(database.url)
        message = (
            f"{where} must be of version {schema.RECORDS_SINCE} to hold plans and client "
            f"information; it is of version {version}: run oort migrate {where}"
        )
        raise StoreError(message)


def _delete(database: Database, job: Job, kind: str, name: str) -> int:
    return database.execute(
        "DELETE FROM oort_records WHERE job = ? AND kind = ? AND name = ?", job.number, kind, name
    )


def _rows(job: int, kind: str, name: str, payload: bytes) -> list[Row]:
    pieces = [payload[i : i + _PIECE_BYTES] for i in range(0, max(1, len(payload)), _PIECE_BYTES)]
    keys = [(job, kind, name, part, len(pieces), piece) for part, piece in enumerate(pieces)]
    return [(*values, checksum(*values)) for values in keys]
