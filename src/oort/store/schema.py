"""The tables, their versions, and the jobs in them. One schema for both databases.

oort_meta        schema_version, and the oldest version whose programs can read it
oort_jobs        one row per job: its name and its settings
oort_leases      who drives it: epoch, beat, holder
oort_journal     what was acknowledged: (job, sequence) → kind, payload, checksum
oort_chunks      columns of snapshots, about 1 MiB each
oort_snapshots   which snapshots are complete
oort_records     from version 2: test plans, client information

version 1        training jobs
version 2        and records; a program of version 1 reads and drives training jobs in it
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from oort.errors import DamagedStoreError, InvalidArgumentError, NewerStoreError, StoreError
from oort.store.checksums import checksum
from oort.store.database import Database, shown

VERSION: Final = 2
READABLE_SINCE: Final = 1  #: the oldest version whose programs can use a store of ours
RECORDS_SINCE: Final = 2
LONGEST_NAME: Final = 200

TABLES: Final = {
    "oort_meta": "name TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INTEGER NOT NULL",
    "oort_jobs": (
        "job INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, settings TEXT NOT NULL, "
        "created_s INTEGER NOT NULL, checksum INTEGER NOT NULL"
    ),
    "oort_leases": (
        "job INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, beat INTEGER NOT NULL, "
        "holder TEXT NOT NULL"
    ),
    "oort_journal": (
        "job INTEGER NOT NULL, sequence INTEGER NOT NULL, epoch INTEGER NOT NULL, "
        "kind TEXT NOT NULL, parts_left INTEGER NOT NULL, payload BLOB NOT NULL, "
        "checksum INTEGER NOT NULL, PRIMARY KEY (job, sequence)"
    ),
    "oort_chunks": (
        "job INTEGER NOT NULL, sequence INTEGER NOT NULL, number INTEGER NOT NULL, "
        "name TEXT NOT NULL, payload BLOB NOT NULL, checksum INTEGER NOT NULL, "
        "PRIMARY KEY (job, sequence, number)"
    ),
    "oort_snapshots": (
        "job INTEGER NOT NULL, sequence INTEGER NOT NULL, chunks INTEGER NOT NULL, "
        "bytes INTEGER NOT NULL, description TEXT NOT NULL, checksum INTEGER NOT NULL, "
        "PRIMARY KEY (job, sequence)"
    ),
}
RECORDS_TABLE: Final = {
    "oort_records": (
        "job INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, part INTEGER NOT NULL, "
        "parts INTEGER NOT NULL, payload BLOB NOT NULL, checksum INTEGER NOT NULL, "
        "PRIMARY KEY (job, kind, name, part)"
    ),
}
TABLES_OF: Final = {1: TABLES, 2: {**TABLES, **RECORDS_TABLE}}


@dataclass(frozen=True, slots=True)
class Job:
    """One row of ``oort_jobs``."""

    number: int
    name: str
    settings: str  #: JSON
    created_s: int

    def row(self) -> tuple[int, str, str, int, int]:
        """As it is stored."""
        values = (self.number, self.name, self.settings, self.created_s)
        return (*values, checksum(*values))


def create(database: Database, version: int = VERSION) -> None:
    """Make the tables where there are none (inside a transaction)."""
    database.lock("oort schema")
    if "oort_meta" in database.tables():
        return
    for name, columns in TABLES_OF[version].items():
        database.execute(f"CREATE TABLE {name} ({columns})")
    note_version(database, version)


def damage(database: Database) -> list[str]:
    """What is wrong with the tables themselves: the database's own view, and their definitions."""
    found = database.damage()
    try:
        version, made = version_of(database), database.definitions()
    except DamagedStoreError:
        return found or [f"the tables of {shown(database.url)} cannot be read"]
    if version in TABLES_OF and made:
        for name, columns in TABLES_OF[version].items():
            if made.get(name) != f"CREATE TABLE {name} ({columns})".encode():
                found.append(f"the definition of table {name} has changed")
    return found


def note_version(database: Database, version: int) -> None:
    """Say which version the tables are of (inside a transaction)."""
    values = {"schema_version": version, "readable_since": READABLE_SINCE}
    database.execute("DELETE FROM oort_meta")
    rows = [(name, str(value), checksum(name, value)) for name, value in values.items()]
    database.insert("INSERT INTO oort_meta VALUES (?, ?, ?)", rows)


def version_of(database: Database) -> int:
    """The version of the tables.

    Raises:
        StoreError: There are none.
        DamagedStoreError: It cannot be told.
        NewerStoreError: This program is too old for them.
    """
    where = shown(database.url)
    if "oort_meta" not in database.tables():
        message = f"{where} holds no store of Oort's"
        raise StoreError(message)
    values: dict[str, int] = {}
    for name, value, crc in database.query("SELECT name, value, checksum FROM oort_meta"):
        if checksum(name, value) != crc:
            message = f"{where} is damaged: its version has changed bytes"
            raise DamagedStoreError(message)
        values[name] = int(value)
    if not {"schema_version", "readable_since"} <= set(values):
        message = f"{where} is damaged: its version is missing"
        raise DamagedStoreError(message)
    if values["readable_since"] > VERSION:
        versions = f"version {values['schema_version']}; this one reads up to {VERSION}"
        message = f"{where} was written by a newer Oort ({versions})"
        raise NewerStoreError(message)
    return values["schema_version"]


def jobs(database: Database) -> list[Job]:
    """All jobs, by number.

    Raises:
        DamagedStoreError: A row has changed.
    """
    found = []
    for *values, crc in database.query(
        "SELECT job, name, settings, created_s, checksum FROM oort_jobs ORDER BY job"
    ):
        if checksum(*values) != crc:
            where = f"{shown(database.url)} is damaged"
            message = f"{where}: the row of job {values[0]} ({values[1]!r:.80}) has changed bytes"
            raise DamagedStoreError(message)
        found.append(Job(*values))
    return found


def job_named(database: Database, name: str) -> Job | None:
    """The job of a name, if there is one. Reads every row: an index may be what is damaged."""
    return next((job for job in jobs(database) if job.name == name), None)


def existing_job(database: Database, name: str | None) -> Job:
    """The job of a name; without one, the only job that there is.

    Raises:
        StoreError: There is none, or it is not clear which; the message lists those there are.
    """
    found = jobs(database)
    fitting = [job for job in found if name in (None, job.name)]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(repr(job.name) for job in found[:20]) or "none at all"
    wanted = "one job: say which" if name is None else f"a job {name!r}"
    message = f"{shown(database.url)} must have {wanted}; it has {names:.400}"
    raise StoreError(message)


def next_number(database: Database) -> int:
    """The number that a new job would get."""
    return max([job.number for job in jobs(database)], default=0) + 1


def checked_name(name: object) -> str:
    """A name that a job can have.

    Raises:
        InvalidArgumentError: It cannot.
    """
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        message = f"job must be a name of printable characters; got {name!r:.80}"
        raise InvalidArgumentError(message)
    if len(name) > LONGEST_NAME:
        message = f"job must be a name of at most {LONGEST_NAME} characters; got {len(name)}"
        raise InvalidArgumentError(message)
    return name


def add_job(database: Database, name: str, settings: Mapping[str, Any]) -> Job:
    """A new job (inside a transaction)."""
    database.lock("oort jobs")
    number = next_number(database)
    job = Job(number, name, json.dumps(settings, sort_keys=True), int(time.time()))
    database.insert("INSERT INTO oort_jobs VALUES (?, ?, ?, ?, ?)", [job.row()])
    database.execute("INSERT INTO oort_leases VALUES (?, 0, 0, '')", number)
    return job


def change_settings(database: Database, job: Job, settings: Mapping[str, Any]) -> Job:
    """Give a job other settings (inside a transaction)."""
    changed = Job(job.number, job.name, json.dumps(settings, sort_keys=True), job.created_s)
    database.execute(
        "UPDATE oort_jobs SET settings = ?, checksum = ? WHERE job = ?",
        changed.settings,
        changed.row()[-1],
        job.number,
    )
    return changed
