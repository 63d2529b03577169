"""Who drives a job: one process at a time, and another when that one has died.

The lease is a row: an epoch that counts its holders, the holder's signature, and a beat that the
holder counts up every few seconds. No clock is read from anywhere: whoever wants the lease and
cannot see the holder's process watches the beat, and takes over when it has stood still for the
length of the lease by its own monotonic clock.

Taking over writes an entry into the journal under the new epoch. A holder that was only asleep
finds its next sequence number taken, or the epoch another, and can write nothing any more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from oort.errors import DamagedStoreError, LeaseError
from oort.store import processes
from oort.store.checksums import checksum
from oort.store.database import ConflictError, Database, shown
from oort.store.schema import Job

OPENED: Final = "opened"
_MOST_CONFLICTS: Final = 1_000
_LOOKS: Final = 40  # how often a watched beat is looked at

#: Signatures of this process that nobody uses any more, also where the database was never told.
_given_up: set[str] = set()


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to drive a job."""

    job: Job
    epoch: int
    holder: str
    sequence: int  #: of the entry that says so


def acquire(database: Database, job: Job, lease_s: float, *, beyond: int = 0) -> Lease:
    """Take the lease of a job. The entry that says so gets a number ``beyond`` what was given out.

    Raises:
        LeaseError: Another process holds it, and lives.
    """
    holder = processes.signature()
    watched: tuple[int, int] | None = None
    since_s = time.monotonic()
    conflicts = 0
    while True:
        try:
            with database.transaction():
                epoch, beat, other = current(database, job, for_update=True)
                unused = not other or other in _given_up
                alive = False if unused else processes.is_alive(other)
                still = watched == (epoch, beat) and time.monotonic() - since_s >= lease_s
                if alive is False or still:
                    return _take(database, job, epoch + 1, holder, beyond)
        except ConflictError as error:
            conflicts += 1
            if conflicts < _MOST_CONFLICTS:
                continue  # the old holder committed one more entry just now
            message = f"{shown(database.url)} is damaged: an index disagrees with its table"
            raise DamagedStoreError(message) from error
        if alive or (watched is not None and watched != (epoch, beat)):
            raise _refused(database, job, other)
        watched = (epoch, beat)
        time.sleep(lease_s / _LOOKS)


def _refused(database: Database, job: Job, holder: str) -> LeaseError:
    by, cure = processes.described(holder), "one process at a time can drive a job"
    if processes.is_ours(holder):
        by, cure = f"this process itself, {by}", "close the other selector first"
    return LeaseError(f"job {job.name!r} in {shown(database.url)} is driven by {by}; {cure}")


def _take(database: Database, job: Job, epoch: int, holder: str, beyond: int) -> Lease:
    database.execute(
        "UPDATE oort_leases SET epoch = ?, beat = 0, holder = ? WHERE job = ?",
        epoch,
        holder,
        job.number,
    )
    (last,) = database.query(
        "SELECT max(s) FROM (SELECT max(sequence) AS s FROM oort_journal WHERE job = ? "
        "UNION ALL SELECT max(sequence) AS s FROM oort_snapshots WHERE job = ?) AS both_tables",
        job.number,
        job.number,
    )
    sequence = max(last[0] or 0, beyond) + 1
    values = (job.number, sequence, epoch, OPENED, 0, b"")
    database.insert(
        "INSERT INTO oort_journal VALUES (?, ?, ?, ?, ?, ?, ?)", [(*values, checksum(*values))]
    )
    return Lease(job, epoch, holder, sequence)


def current(database: Database, job: Job, *, for_update: bool = False) -> tuple[int, int, str]:
    """Epoch, beat and holder of a job's lease; no holder is an empty one."""
    sql = "SELECT epoch, beat, holder FROM oort_leases WHERE job = ?"
    if for_update and database.kind == "postgresql":
        sql += " FOR UPDATE"
    found = database.query(sql, job.number)
    if len(found) != 1:
        message = f"{shown(database.url)} is damaged: the lease of job {job.name!r} is missing"
        raise DamagedStoreError(message)
    epoch, beat, holder = found[0]
    return int(epoch), int(beat), str(holder)


def is_held(database: Database, lease: Lease) -> bool:
    """Whether the lease is still ours (inside a transaction: until it ends)."""
    sql = "SELECT epoch FROM oort_leases WHERE job = ?"
    if database.kind == "postgresql":
        sql += " FOR SHARE"
    return database.query(sql, lease.job.number) == [(lease.epoch,)]


def renew(database: Database, lease: Lease) -> bool:
    """Count the beat up; false where the lease is no longer ours."""
    with database.transaction():
        changed = database.execute(
            "UPDATE oort_leases SET beat = beat + 1 WHERE job = ? AND epoch = ?",
            lease.job.number,
            lease.epoch,
        )
    return changed == 1


def release(database: Database, lease: Lease) -> None:
    """Let the next one in at once."""
    _given_up.add(lease.holder)
    with database.transaction():
        database.execute(
            "UPDATE oort_leases SET holder = '' WHERE job = ? AND epoch = ?",
            lease.job.number,
            lease.epoch,
        )


def lost(database: Database, lease: Lease) -> LeaseError:
    """The error for a holder that has been taken over."""
    _, _, other = current(database, lease.job)
    by = processes.described(other) if other else "another process, which has closed it"
    return LeaseError(
        f"job {lease.job.name!r} in {shown(database.url)} was taken over by {by}; this selector "
        f"can write nothing any more: open it again"
    )
