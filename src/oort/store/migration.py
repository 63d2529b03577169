"""A newer schema, on request and after a backup.

Opening a store never upgrades it: an older store is used as it is, as far as it goes. Upgrades
only add, so that programs of the version before can still read and drive what they know.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oort.errors import LeaseError
from oort.store import lease as leases
from oort.store import processes, schema, transfer
from oort.store.database import Database, connect, shown
from oort.store.sqlite import SQLite


@dataclass(frozen=True, slots=True)
class Migrated:
    """What was done."""

    before: int
    after: int
    backup: Path | None  #: none where there was nothing to do


def migrate(url: str, backup: Path | None = None) -> Migrated:
    """Bring a store to the newest schema; all of it, or, on an error, nothing.

    Args:
        url: The store. Nobody may be driving a job in it.
        backup: Where the backup goes: a new file, a SQLite store of the old version. By default
            beside a SQLite file, or in the working directory.

    Raises:
        LeaseError: Somebody drives a job.
        StoreError: There is no store, or the backup's place is taken.
    """
    database = connect(url)
    try:
        before = schema.version_of(database)
        if before >= schema.VERSION:
            return Migrated(before, before, None)
        _refuse_if_driven(database)
        target = backup or _beside(database, before)
        transfer.backup(database, target)
        with database.transaction():
            database.lock("oort schema")
            for version in range(before, schema.VERSION):
                _STEPS[version](database)
            schema.note_version(database, schema.VERSION)
        return Migrated(before, schema.VERSION, target)
    finally:
        database.close()


def _add_records(database: Database) -> None:
    """1 → 2: a place for test plans and client information."""
    for name, columns in schema.RECORDS_TABLE.items():
        database.execute(f"CREATE TABLE {name} ({columns})")


_STEPS: Final[dict[int, Callable[[Database], None]]] = {1: _add_records}


def _refuse_if_driven(database: Database) -> None:
    for job in schema.jobs(database):
        _, _, holder = leases.current(database, job)
        if holder and processes.is_alive(holder):
            message = (
                f"job {job.name!r} in {shown(database.url)} must not be driven during an upgrade; "
                f"{processes.described(holder)} drives it"
            )
            raise LeaseError(message)


def _beside(database: Database, version: int) -> Path:
    """A name that is free: that of an upgrade which failed later on may be taken."""
    wanted = Path(f"oort-backup.version-{version}.db")
    if isinstance(database, SQLite):
        wanted = database.path.with_name(f"{database.path.name}.version-{version}")
    path, number = wanted, 1
    while path.exists():
        number += 1
        path = wanted.with_name(f"{wanted.name}-{number}")
    return path
