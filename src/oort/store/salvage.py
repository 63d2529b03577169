"""What a store's jobs stand on: a file that can be read, and a row and a lease for each job.

A SQLite file whose own structure is damaged is copied, as far as each table can be read, to a new
file; the damaged one is kept beside it. A lease that is gone is made anew. A job whose own row is
gone or has changed gets its settings from its newest snapshot, and, where it was the only thing
that knew it, another name.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from oort.errors import DamagedStoreError, InvalidArgumentError, LeaseError
from oort.store import processes, schema, snapshots
from oort.store.acknowledged import Acknowledged
from oort.store.checksums import checksum
from oort.store.database import Database, Row, connect, shown
from oort.store.schema import Job
from oort.store.sqlite import SQLite

_BEYOND_EPOCHS: Final = 1_000_000  # more than there can have been since the journal was compacted


def salvaged(url: str) -> Path | None:
    """Copy what can be read to a new file, where SQLite finds its file damaged."""
    database = connect(url)
    try:
        if not isinstance(database, SQLite) or not schema.damage(database):
            return None
        path = database.path
        _refuse_if_driven(database)
        fresh = path.with_name(f"{path.name}.salvaged")
        fresh.unlink(missing_ok=True)
        target = connect(f"sqlite:///{fresh}", create=True)
        try:
            _copy_readable(database, target)
            target.tidy(erase=True)
        finally:
            target.close()
    finally:
        database.close()
    aside = _free_name(path)
    for suffix in ("", "-wal", "-shm"):
        old = path.with_name(f"{path.name}{suffix}")
        if old.exists():
            old.rename(aside.with_name(f"{aside.name}{suffix}"))
    fresh.rename(path)
    return aside


def _refuse_if_driven(database: Database) -> None:
    try:
        holders = [row[0] for row in database.query("SELECT holder FROM oort_leases")]
    except DamagedStoreError:
        return
    for holder in holders:
        if holder and processes.is_alive(holder) is not False:
            message = f"{shown(database.url)} is in use by {processes.described(holder)}"
            raise LeaseError(message)


def _copy_readable(source: SQLite, target: Database) -> None:
    """Every row that can be read, from either end of each table."""
    try:
        version = schema.version_of(source)
    except DamagedStoreError:
        version = schema.VERSION
    with target.transaction():
        schema.create(target, version)
        target.execute("DELETE FROM oort_meta")
        schema.note_version(target, version)
    for name in schema.TABLES_OF[version]:
        if name == "oort_meta":
            continue
        for order in ("ASC", "DESC"):
            try:
                for row in source.rows(f"SELECT * FROM {name} ORDER BY rowid {order}"):
                    _put(target, name, row)
            except DamagedStoreError:
                continue
            break


def _put(target: Database, name: str, row: Row) -> None:
    marks = ", ".join("?" * len(row))
    with target.transaction():
        target.execute(f"INSERT OR IGNORE INTO {name} VALUES ({marks})", *row)


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return aside


def missing_rows(database: Database) -> dict[str, list[str]]:
    """Make the rows that jobs need (inside a transaction); says of each job what was lost.

    Raises:
        DamagedStoreError: The settings of a job are lost, and no snapshot has them.
    """
    lost: dict[str, list[str]] = {}
    for number in _numbers_without_row(database):
        job, what = _job_anew(database, number)
        lost[job.name] = [what]
        database.execute("DELETE FROM oort_jobs WHERE job = ?", number)
        database.insert("INSERT INTO oort_jobs VALUES (?, ?, ?, ?, ?)", [job.row()])
    for name in _complete_leases(database):
        lost.setdefault(name, []).append("who drove it")
    return lost


def _numbers_without_row(database: Database) -> list[int]:
    """Jobs that have, or had, a journal, but no row that is as it was written."""
    rows = database.query("SELECT job, name, settings, created_s, checksum FROM oort_jobs")
    whole = {values[0] for *values, crc in rows if checksum(*values) == crc}
    there = database.query("SELECT job FROM oort_journal UNION SELECT job FROM oort_snapshots")
    known = Acknowledged(database.path).jobs() if isinstance(database, SQLite) else []
    numbers = {int(number) for (number,) in there} | {row[0] for row in rows} | set(known)
    return sorted(numbers - whole)


def _job_anew(database: Database, number: int) -> tuple[Job, str]:
    """A job's row from its newest snapshot, and what could not be found there."""
    try:
        newest = next(iter(snapshots.listed(database, number)))
    except (StopIteration, DamagedStoreError) as error:
        where = f"{shown(database.url)} is damaged"
        message = f"{where}: the settings of job {number} are lost, and no snapshot has them"
        raise DamagedStoreError(message) from error
    meta = newest.described()["meta"]
    settings = json.dumps(meta.get("config", meta.get("settings")), sort_keys=True)
    name, what = _name_of(database, number), "its settings as they were written"
    if name is None:
        name, what = f"recovered-{number}", f"its name and {what}"
    return Job(number, name, settings, 0), f"{what}; they are now those of entry {newest.sequence}"


def _name_of(database: Database, number: int) -> str | None:
    """The name in a row that has changed, if that can still be one."""
    found: list[tuple[Any, ...]] = database.query(
        "SELECT name FROM oort_jobs WHERE job = ?", number
    )
    try:
        return schema.checked_name(found[0][0]) if found else None
    except InvalidArgumentError:
        return None


def _complete_leases(database: Database) -> set[str]:
    """Give a lease to jobs whose own is gone, of an epoch beyond all others; says which."""
    without: dict[int, str] = dict(
        database.query(
            "SELECT job, name FROM oort_jobs WHERE NOT EXISTS "
            "(SELECT 1 FROM oort_leases WHERE oort_leases.job = oort_jobs.job)"
        )
    )
    for number in without:
        ((newest,),) = database.query("SELECT max(epoch) FROM oort_journal WHERE job = ?", number)
        values = (number, (newest or 0) + _BEYOND_EPOCHS, 0, "")
        database.insert("INSERT INTO oort_leases VALUES (?, ?, ?, ?)", [values])
    return set(without.values())
