"""What every durable selector does besides selecting: committing, settling, letting go.

A selector inherits :class:`Driver`, decides what a call means, hands it to ``_commit`` and makes
it so. The driver knows what became of commits that failed, and serves the keeper.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Self, cast

from oort.errors import LeaseError, OortError, StoreError, StoreUnavailableError
from oort.store import journal as journals
from oort.store import keeper as keepers
from oort.store import lease as leases
from oort.store.acknowledged import Acknowledged
from oort.store.capture import Capture, Copy
from oort.store.database import Database, connect, shown
from oort.store.journal import Journal
from oort.store.keeper import Keeper
from oort.store.lease import Lease
from oort.store.recovery import recover
from oort.store.settings import StoreConfig
from oort.store.snapshots import State

_log = logging.getLogger(__name__)
_TRY_AGAIN_S: Final = 1.0


class CallLock:
    """The lock of a selector, which looks whether the selector may be used at all.

    Ctrl-C may come between any two steps of Python, and must not leave it held: it is taken where
    a handler sees it, and given back by a method of the lock's own, which no interrupt divides.
    """

    def __init__(self, before: Callable[[], None]) -> None:
        self.plain: Any = threading.RLock()  #: the lock alone
        self._before = before

    def __enter__(self) -> None:
        if self.plain._is_owned():  # a call inside a call
            return
        try:
            self.plain.acquire()
            self._before()
        except BaseException:
            if self.plain._is_owned():
                self.plain.release()
            raise

    @property
    def __exit__(self) -> Callable[..., None]:
        # Looked up before __enter__ is called: whoever finds the lock held leaves it so.
        leave: Callable[..., None] = self.plain.__exit__
        return _stay if self.plain._is_owned() else leave


def _stay(*_: object) -> None:
    """The lock belongs to a call further out."""


class Driver(ABC):
    """Drives one job of a store: to be inherited after the selector that does the selecting."""

    _lock: AbstractContextManager[Any]

    def _drive(
        self,
        database: Database,
        lease: Lease,
        acknowledged: Acknowledged | None,
        settings: StoreConfig,
    ) -> None:
        """Bring the selector to where its job stands, and keep it there."""
        self._call_lock = CallLock(self._before_call)
        self._lock = cast(AbstractContextManager[Any], self._call_lock)
        self._database = database
        self._lease = lease
        self._acknowledged = acknowledged
        self._settings = settings
        self._pid = os.getpid()
        self._closed = False
        self._lost = False
        self._unsettled = False  #: the last commit failed: whether it happened is to be read
        self._ahead = False  #: memory holds what was not committed: it is to be read anew
        self._tried_s = -_TRY_AGAIN_S
        self._batch: list[Any] | None = None
        self._capture: Capture | Copy | None = None
        self.one_snapshot = threading.Lock()  #: held while one is taken
        found = recover(database, lease.job, self)
        self._snapshot_sequence = found.snapshot.sequence if found.snapshot is not None else 0
        self._journal = Journal(database, lease, acknowledged, patience_s=settings.patience_s)
        self._journal.sequence = found.sequence
        self._bytes_at_snapshot = 0
        self._keeper = Keeper(self, database.address, lease, settings.lease_s)
        self._keeper.start()
        self._let_go = weakref.finalize(self, _let_go, database, lease, acknowledged, self._pid)
        if self.snapshot_is_due:
            self._keeper.wake()

    # What a selector has to have

    @property
    @abstractmethod
    def round_number(self) -> int:
        """How far the job has come."""

    @abstractmethod
    def take_state(self, state: State) -> None:
        """Begin at a snapshot."""

    @abstractmethod
    def take_entry(self, entry: journals.Entry) -> None:
        """Make one entry so again."""

    @abstractmethod
    def start_over(self) -> None:
        """Know nothing again."""

    @abstractmethod
    def _begin_copy(self, sequence: int) -> Capture | Copy:
        """Begin a copy of everything."""

    # For callers

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._lease.job.name

    @property
    def url(self) -> str:
        """The address of the store, without a password."""
        return shown(self._database.url)

    def compact(self) -> None:
        """Take a snapshot now and delete everything older, forgotten clients for good.

        Raises:
            StoreUnavailableError: It was not possible now; nothing is lost, try again.
            LeaseError: Another process has taken over.
        """
        with self._lock:
            if self._batch is not None:
                message = "compact() must be called outside a batch: the batch is not committed"
                raise StoreError(message)
        database = connect(self._database.address, background=True)
        try:
            keepers.snapshot(database, self, self._lease, keep_previous=False)
            keepers.compact(database, self._lease, keep_previous=False)
            if not leases.is_held(database, self._lease):
                raise leases.lost(database, self._lease)
            database.tidy(erase=True)
        finally:
            database.close()

    def close(self) -> None:
        """Let go of the job: another process may open it at once. Calls are refused from now."""
        with self._call_lock.plain:
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
        self._keeper.stop()
        self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # How calls become durable

    def _commit(
        self, changes: Sequence[Any], along: Callable[[Database], None] | None = None
    ) -> None:
        """Write changes down, and whatever else belongs into the same transaction.

        The caller then makes memory so, and says so by ``_is_so``: until then, whatever happens,
        memory would be read anew before the next call.
        """
        if not changes:
            return
        if self._unsettled:
            self._settle()
        was_ahead = self._ahead
        self._unsettled = self._ahead = True  # whatever is raised, wherever an interrupt comes
        try:
            self._journal.commit(changes, along)
        except StoreUnavailableError as error:
            self._ahead = was_ahead
            if getattr(error, "uncertain", False):
                message = f"{error}; whether this call was committed is not known yet"
                raise StoreUnavailableError(message) from error
            raise
        except LeaseError:
            self._lost = True
            raise
        self._unsettled = False

    def _is_so(self) -> None:
        """Memory holds what was committed."""
        self._ahead = False
        if self.snapshot_is_due:
            self._keeper.wake()

    def _before_call(self) -> None:
        """Whether a call may begin; after a failure, see first what came of it."""
        if self._closed:
            message = f"job {self.job!r} in {self.url} was closed: open it again"
            raise StoreError(message)
        if os.getpid() != self._pid:
            message = f"job {self.job!r} in {self.url} was opened by another process: open it here"
            raise StoreError(message)
        if self._lost:
            raise leases.lost(self._database, self._lease)
        if self._ahead or self._unsettled:
            self._try_to_settle()
        if self._ahead:
            message = f"job {self.job!r}: {self.url} cannot be read to undo a call that failed"
            raise StoreUnavailableError(message)

    def _try_to_settle(self) -> None:
        if not (self._ahead or self._unsettled):
            return
        now_s = time.monotonic()
        if now_s - self._tried_s < _TRY_AGAIN_S and not self._ahead:
            return
        try:
            self._settle()
        except StoreUnavailableError as error:
            self._tried_s = now_s
            _log.warning("job %r: %s", self.job, error)

    def _settle(self) -> None:
        """Make memory what the journal says."""
        if self._ahead:
            self.start_over()
            found = recover(self._database, self._lease.job, self)
            self._journal.sequence = found.sequence
            if self._capture is not None:
                self._capture.spoiled = True
        else:
            after = self._journal.sequence
            with self._database.reading():
                missed = list(journals.read(self._database, self._lease.job.number, after))
            for entry in missed:
                if entry.epoch != self._lease.epoch:
                    self._lost = True
                    raise leases.lost(self._database, self._lease)
                self._take_missed(entry)
        self._ahead = self._unsettled = False

    def _take_missed(self, entry: journals.Entry) -> None:
        self.take_entry(entry)
        self._journal.sequence = entry.sequence

    # For the keeper

    @property
    def snapshot_is_due(self) -> bool:
        """Whether the journal has grown enough since the last snapshot."""
        if self._closed or self._lost:
            return False
        entries = self._journal.sequence - self._snapshot_sequence
        grown = self._journal.bytes_written - self._bytes_at_snapshot
        limit = self._settings.snapshot_bytes
        return entries >= self._settings.snapshot_entries or grown >= limit

    def begin_capture(self) -> Capture | Copy | None:
        """Begin a copy of everything; none where nothing happened since the last one."""
        with self._call_lock.plain:
            if self._batch is not None or self._ahead or self._lost:
                return None
            if self._journal.sequence == self._snapshot_sequence:
                return None
            self._capture = self._begin_copy(self._journal.sequence)
            self._bytes_at_snapshot = self._journal.bytes_written
            return self._capture

    def copy_slice(self, capture: Capture | Copy) -> bool:
        """Copy some more; false when there is nothing left to copy."""
        with self._call_lock.plain:
            return not capture.spoiled and capture.copy_slice()

    def drop_capture(self, capture: Capture | Copy) -> None:
        """The copy is written, or not wanted any more."""
        with self._call_lock.plain:
            if self._capture is capture:
                self._capture = None

    def note_snapshot(self, sequence: int) -> None:
        """A snapshot is complete."""
        with self._call_lock.plain:
            self._snapshot_sequence = sequence

    def note_lease_lost(self) -> None:
        """Another process has taken over."""
        self._lost = True


def _let_go(database: Database, lease: Lease, acknowledged: Acknowledged | None, pid: int) -> None:
    """Give the lease back, also where a selector was dropped without being closed."""
    if os.getpid() != pid:
        return
    try:
        leases.release(database, lease)
    except OortError as error:
        _log.warning("job %r: the lease was not given back: %s", lease.job.name, error)
    finally:
        if acknowledged is not None:
            acknowledged.close()
        database.close()
