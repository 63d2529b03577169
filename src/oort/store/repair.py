"""Cut a damaged tail off a job, and say what was lost with it.

What is good is kept: the newest good snapshot and every entry after it up to the first that is
missing or changed. It becomes a new snapshot under a number that was never given out, so that a
writer from before cannot go on; everything older goes.

A SQLite file whose own structure is damaged is first salvaged: what can be read of each table is
copied to a new file, and the damaged one is kept beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from oort.errors import DamagedStoreError, LeaseError
from oort.store import jobs, keeper, processes, recovery, schema, snapshots
from oort.store import lease as leases
from oort.store.checksums import checksum
from oort.store.database import Database, Row, connect, shown
from oort.store.payloads import decode
from oort.store.recovery import Recovered
from oort.store.schema import Job
from oort.store.sqlite import SQLite
from oort.training.changes import Reported, Selected

_BEYOND_EPOCHS: Final = 1_000_000  # more than there can have been since the journal was compacted


@dataclass(slots=True)
class Repaired:
    """What became of a job."""

    job: str
    sequence: int  #: of the last entry kept
    round_number: int  #: where it stands now
    lost: list[str] = field(default_factory=list)  #: nothing was wrong where this is empty


def repair(url: str, job: str | None = None) -> tuple[list[Repaired], Path | None]:
    """Make the jobs of a store, or one of them, usable again.

    Gives what was lost of each, and where a damaged SQLite file was put aside.

    Raises:
        LeaseError: Somebody drives a job that would be touched.
        DamagedStoreError: Too much is damaged to tell the jobs.
    """
    aside = _salvaged(url)
    database = connect(url)
    try:
        schema.version_of(database)
        found = schema.jobs(database) if job is None else [schema.existing_job(database, job)]
        with database.transaction():
            without = _complete_leases(database)
        repaired = [_repair_job(database, each) for each in found]
        for each in repaired:
            if each.job in without:
                each.lost.insert(0, "who drove it")
        return repaired, aside
    finally:
        database.close()


def _repair_job(database: Database, job: Job) -> Repaired:
    beyond = recovery.acknowledged_sequence(database, job)
    selector = jobs.blank(job)
    found = recovery.replay(database, job, selector)
    if found.damage is None and not found.problems:
        return Repaired(job.name, found.sequence, selector.round_number)
    lease = leases.acquire(database, job, lease_s=10.0, beyond=beyond)
    try:
        selector = jobs.blank(job)
        found = recovery.replay(database, job, selector)
        lost = _lost(database, job, found, lease.sequence)
        written = snapshots.write(
            database,
            job.number,
            selector.state(lease.sequence),
            may_go_on=lambda: leases.is_held(database, lease),
        )
        if written is None:
            raise leases.lost(database, lease)
        _keep_only(database, lease)
    finally:
        leases.release(database, lease)
    return Repaired(job.name, found.sequence, selector.round_number, lost)


def _keep_only(database: Database, lease: leases.Lease) -> None:
    """Delete all but the newest snapshot, readable or not."""
    job = lease.job.number
    for (sequence,) in database.query("SELECT sequence FROM oort_snapshots WHERE job = ?", job):
        if sequence != lease.sequence:
            snapshots.discard(database, job, sequence)
    snapshots.discard_unfinished(database, job)
    keeper.discard_entries(database, lease, lease.sequence)


def _lost(database: Database, job: Job, found: Recovered, until: int) -> list[str]:
    """What came after the last good entry, as far as it can still be told."""
    lost, expected = [], found.sequence + 1
    for sequence, epoch, kind, left, payload, crc in database.query(
        "SELECT sequence, epoch, kind, parts_left, payload, checksum FROM oort_journal "
        "WHERE job = ? AND sequence > ? ORDER BY sequence",
        job.number,
        found.sequence,
    ):
        if sequence > expected:
            lost.append(_gone(expected, sequence - 1))
        expected = sequence + 1
        good = checksum(job.number, sequence, epoch, kind, left, bytes(payload)) == crc
        if kind != leases.OPENED:
            what = _described(kind, bytes(payload)) if good and left == 0 else f"'{kind}', damaged"
            lost.append(f"entry {sequence}: {what}")
    if expected < until:
        lost.append(_gone(expected, until - 1))
    return lost or [f"nothing but a snapshot that was not needed: {'; '.join(found.problems)}"]


def _gone(first: int, last: int) -> str:
    return f"entry {first}: missing" if first == last else f"entries {first} to {last}: missing"


def _described(kind: str, payload: bytes) -> str:
    try:
        change = decode(kind, payload)
    except ValueError:
        return f"part of '{kind}'"
    match change:
        case Selected():
            return f"the selection of {change.rows.size} clients in round {change.round_number}"
        case Reported():
            return f"{change.taken.rows.size} reports of round {change.round_number}"
        case _:
            return f"'{kind}'"


# A damaged SQLite file


def _salvaged(url: str) -> Path | None:
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


def _free_name(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return aside
