"""What is in a store, and whether it is sound: reads everything, changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from oort.errors import DamagedStoreError, OortError
from oort.store import jobs, journal, processes, records, recovery, schema, snapshots
from oort.store import lease as leases
from oort.store.database import Database, connect, shown
from oort.store.recovery import Replayed
from oort.store.schema import Job
from oort.store.snapshots import Listed
from oort.store.testing import ReplayedTesting


@dataclass(slots=True)
class JobReport:
    """One job: where it stands, what it takes, what is wrong with it."""

    job: Job
    selector: Replayed | ReplayedTesting
    sequence: int = 0  #: of the last entry that is good
    entries: int = 0
    journal_bytes: int = 0
    snapshots: list[Listed] = field(default_factory=list)
    records: list[tuple[str, str]] = field(default_factory=list)
    driver: str = ""  #: who holds the lease, and whether it lives
    problems: list[str] = field(default_factory=list)  #: nothing is lost by these
    damage: str = ""  #: something is lost by this

    @property
    def snapshot_bytes(self) -> int:
        """Bytes of all complete snapshots, compressed as they are."""
        return sum(snapshot.bytes for snapshot in self.snapshots)


@dataclass(slots=True)
class StoreReport:
    """A store and its jobs."""

    url: str
    version: int
    bytes: int
    jobs: list[JobReport]
    damage: list[str]  #: of the database's own structure, or of the list of jobs

    @property
    def is_sound(self) -> bool:
        """Whether every byte that was looked at is as it was written."""
        return not self.damage and all(not (j.damage or j.problems) for j in self.jobs)


def inspect(url: str, job: str | None = None) -> StoreReport:
    """Look at all jobs of a store, or at one.

    Raises:
        StoreError: There is no store, or no such job.
    """
    database = connect(url)
    try:
        version = schema.version_of(database)
        damage = schema.damage(database)
        try:
            found = schema.jobs(database)
        except DamagedStoreError as error:
            found, damage = [], [*damage, str(error)]
        if job is not None:
            found = [] if damage and not found else [schema.existing_job(database, job)]
        reports = [_report(database, each) for each in found]
        return StoreReport(shown(url), version, database.size(), reports, damage)
    finally:
        database.close()


def _report(database: Database, job: Job) -> JobReport:
    report = JobReport(job, jobs.blank(job))
    for look in (_look_at_state, _look_at_rest, _look_at_sizes, _look_at_lease):
        try:
            look(database, report)
        except OortError as error:
            report.problems.append(str(error))
    return report


def _look_at_state(database: Database, report: JobReport) -> None:
    found = recovery.replay(database, report.job, report.selector)
    report.sequence, report.problems = found.sequence, list(found.problems)
    report.damage = "" if found.damage is None else str(found.damage)


def _look_at_rest(database: Database, report: JobReport) -> None:
    """What recovery did not need: older snapshots and entries, records."""
    number = report.job.number
    report.snapshots = snapshots.listed(database, number)
    with database.reading():
        for old in report.snapshots[1:]:
            snapshots.read(database, number, old)
    report.records = records.names(database, report.job)
    for kind, name in report.records:
        records.get(database, report.job, kind, name)
    if not report.damage:
        with database.reading():
            for _ in journal.read(database, number, _first(database, number) - 1):
                pass


def _look_at_sizes(database: Database, report: JobReport) -> None:
    ((entries, size),) = database.query(
        "SELECT count(*), coalesce(sum(length(payload)), 0) FROM oort_journal WHERE job = ?",
        report.job.number,
    )
    report.entries, report.journal_bytes = int(entries), int(size)


def _look_at_lease(database: Database, report: JobReport) -> None:
    _, _, holder = leases.current(database, report.job)
    if holder:
        alive = processes.is_alive(holder)
        state = {True: "alive", False: "dead", None: "not to be seen from here"}[alive]
        report.driver = f"{processes.described(holder)}, {state}"


def _first(database: Database, job: int) -> int:
    ((first,),) = database.query("SELECT min(sequence) FROM oort_journal WHERE job = ?", job)
    return int(first or 1)
