"""Cut a damaged tail off a job, and say what was lost with it.

What is good is kept: the newest good snapshot and every entry after it up to the first that is
missing or changed. It becomes a new snapshot under a number that was never given out, so that a
writer from before cannot go on; everything older goes.

Before that, what the jobs themselves stand on is put in order: see ``salvage``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from oort.store import jobs, keeper, recovery, salvage, schema, snapshots
from oort.store import lease as leases
from oort.store.checksums import checksum
from oort.store.database import Database, connect
from oort.store.payloads import decode
from oort.store.recovery import Recovered
from oort.store.schema import Job
from oort.training.changes import Reported, Selected


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
    aside = salvage.salvaged(url)
    database = connect(url)
    try:
        schema.version_of(database)
        with database.transaction():
            anew = salvage.missing_rows(database)
        found = schema.jobs(database) if job is None else [schema.existing_job(database, job)]
        repaired = [_repair_job(database, each) for each in found]
        for each in repaired:
            each.lost[:0] = anew.get(each.job, [])
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
            return f"the selection of {change.rows.size:,} clients in round {change.round_number}"
        case Reported():
            return f"{change.taken.rows.size:,} reports of round {change.round_number}"
        case _:
            return f"'{kind}'"
