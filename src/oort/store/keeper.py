"""The thread behind a durable selector: it keeps the lease, takes snapshots, compacts the journal.

It has a connection of its own and knows the selector only weakly: a selector that nobody holds any
more takes its thread with it. What it cannot do now (a full disk, a server away) it tries again
later; calls do not depend on it.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Final

from oort.errors import OortError
from oort.store import lease as leases
from oort.store import snapshots
from oort.store.capture import Capture, Copy
from oort.store.database import Database, connect
from oort.store.lease import Lease
from oort.store.snapshots import Listed, State

if TYPE_CHECKING:
    from oort.store.driver import Driver

_log = logging.getLogger(__name__)
_BEATS_PER_LEASE: Final = 4


class Keeper:
    """Housekeeping for one job."""

    def __init__(self, selector: Driver, url: str, lease: Lease, lease_s: float) -> None:
        self._selector = weakref.ref(selector)
        self._url = url
        self._lease = lease
        self._every_s = lease_s / _BEATS_PER_LEASE
        self._signals: SimpleQueue[None] = SimpleQueue()  # an Event could be left locked by Ctrl-C
        self._stop = False
        self._thread = threading.Thread(
            target=self._run, name=f"oort-keeper-{lease.job.name}", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something to do."""
        if self._signals.empty():
            self._signals.put(None)

    def stop(self) -> None:
        """End, when what is under way is done."""
        self._stop = True
        self._signals.put(None)
        if self._thread is not threading.current_thread() and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        database: Database | None = None
        next_beat_s = time.monotonic() + self._every_s
        while not self._stop and self._selector() is not None:
            with suppress(Empty):
                self._signals.get(timeout=max(0.0, next_beat_s - time.monotonic()))
            if self._stop:
                break
            try:
                if database is None:
                    database = connect(self._url, background=True)
                if time.monotonic() >= next_beat_s:
                    next_beat_s = time.monotonic() + self._every_s
                    if not leases.renew(database, self._lease):
                        self._tell_lost()
                        break
                self._keep_house(database)
            except OortError as error:
                _log.warning("job %r: %s; trying again later", self._lease.job.name, error)
                next_beat_s = time.monotonic() + self._every_s
            except Exception:  # without this thread the lease would be lost
                _log.exception("job %r: housekeeping failed", self._lease.job.name)
                next_beat_s = time.monotonic() + self._every_s
        if database is not None:
            database.close()

    def _keep_house(self, database: Database) -> None:
        selector = self._selector()
        if selector is not None and selector.snapshot_is_due:
            snapshot(database, selector, self._lease)
        del selector
        database.tidy(erase=False)

    def _tell_lost(self) -> None:
        selector = self._selector()
        if selector is not None:
            selector.note_lease_lost()


def snapshot(
    database: Database, selector: Driver, lease: Lease, *, keep_previous: bool = True
) -> None:
    """Take a snapshot, and delete what it makes superfluous.

    One at a time: a selector tells one copy in the making what is about to change.
    """
    with selector.one_snapshot:
        _snapshot(database, selector, lease, keep_previous=keep_previous)


def _snapshot(database: Database, selector: Driver, lease: Lease, *, keep_previous: bool) -> None:
    while True:
        capture = selector.begin_capture()
        if capture is None:
            return
        try:
            done = _written(database, selector, lease, capture)
        finally:
            selector.drop_capture(capture)
        if done is not None:
            selector.note_snapshot(done.sequence)
            compact(database, lease, keep_previous=keep_previous)
        if not capture.spoiled:
            return


def _written(
    database: Database, selector: Driver, lease: Lease, capture: Capture | Copy
) -> Listed | None:
    """The copy, finished and on disk; nothing where it was spoiled or the lease was lost."""
    while selector.copy_slice(capture):
        time.sleep(0)  # whoever waits for the lock is first
    if capture.spoiled:
        return None
    state = State(capture.sequence, capture.meta, capture.arrays())
    return snapshots.write(
        database,
        lease.job.number,
        state,
        may_go_on=lambda: not capture.spoiled and leases.is_held(database, lease),
    )


def compact(database: Database, lease: Lease, *, keep_previous: bool = True) -> None:
    """Delete entries and snapshots that are no longer needed.

    The snapshot before the newest stays, with the entries after it, in case the newest is damaged
    one day; unless a client was forgotten since, who would still be in it.
    """
    job = lease.job.number
    complete = snapshots.listed(database, job)
    if not complete:
        return
    kept = complete[:1]
    if keep_previous and len(complete) > 1 and not _forgotten_since(database, job, complete[1]):
        kept = complete[:2]
    for old in complete[len(kept) :]:
        snapshots.discard(database, job, old.sequence, lambda: leases.is_held(database, lease))
    discard_entries(database, lease, kept[-1].sequence)


def discard_entries(database: Database, lease: Lease, until: int) -> None:
    """Delete the entries up to one, oldest first, a few at a time: calls wait meanwhile."""
    sizes = database.query(
        "SELECT sequence, length(payload) FROM oort_journal WHERE job = ? AND sequence <= ? "
        "ORDER BY sequence",
        lease.job.number,
        until,
    )
    for last in snapshots.in_groups(sizes):
        with database.transaction():
            if not leases.is_held(database, lease):
                return
            database.execute(
                "DELETE FROM oort_journal WHERE job = ? AND sequence <= ?", lease.job.number, last
            )
        database.synced()


def _forgotten_since(database: Database, job: int, snapshot: snapshots.Listed) -> bool:
    found = database.query(
        "SELECT count(*) FROM oort_journal WHERE job = ? AND sequence > ? "
        "AND kind IN ('forgotten', 'dropped')",
        job,
        snapshot.sequence,
    )
    return bool(found[0][0])
