"""A training selector whose calls are committed when they return."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any, ClassVar, Final, NoReturn, Self

from oort.config import TrainingConfig
from oort.errors import LeaseError, OortError, StoreError, StoreUnavailableError
from oort.store import journal as journals
from oort.store import keeper as keepers
from oort.store import lease as leases
from oort.store.acknowledged import Acknowledged
from oort.store.capture import Capture
from oort.store.database import Database, connect, shown
from oort.store.journal import Journal
from oort.store.keeper import Keeper
from oort.store.lease import Lease
from oort.store.recovery import Replayed, recover
from oort.training.changes import Change
from oort.training.selector import GuidedSelector

_log = logging.getLogger(__name__)
_TRY_AGAIN_S: Final = 1.0


class CallLock:
    """The lock of a selector, which looks whether the selector may be used at all."""

    def __init__(self, before: Callable[[], None]) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._before = before

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            try:
                self._before()
            except BaseException:
                self.__exit__(None, None, None)
                raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._depth -= 1
        self._lock.release()

    @contextmanager
    def unchecked(self) -> Iterator[None]:
        """The lock alone."""
        with self._lock:
            yield


class DurableSelector(Replayed):
    """Oort's training selector over a store; ``oort.open_selector`` makes one.

    Everything that :class:`~oort.protocols.TrainingSelector` promises, and: when a call returns,
    what it did is committed. A call that raises has changed nothing, in memory or on disk.
    """

    strategy: ClassVar[str] = GuidedSelector.strategy

    def __init__(
        self,
        database: Database,
        lease: Lease,
        config: TrainingConfig,
        *,
        acknowledged: Acknowledged | None,
        patience_s: float,
        lease_s: float,
        snapshot_entries: int,
        snapshot_bytes: int,
    ) -> None:
        super().__init__(config)
        self._lock = self._call_lock = CallLock(self._before_call)
        self._database = database
        self._lease = lease
        self._acknowledged = acknowledged
        self._snapshot_entries, self._snapshot_bytes = snapshot_entries, snapshot_bytes
        self._pid = os.getpid()
        self._closed = False
        self._lost = False
        self._unsettled = False  #: the last commit failed: whether it happened is to be read
        self._ahead = False  #: memory holds what was not committed: it is to be read anew
        self._tried_s = -_TRY_AGAIN_S
        self._batch: list[Change] | None = None
        self._capture: Capture | None = None
        found = recover(database, lease.job, self)
        self._snapshot_sequence = found.snapshot.sequence if found.snapshot is not None else 0
        self._journal = Journal(database, lease, acknowledged, patience_s=patience_s)
        self._journal.sequence = found.sequence
        self._bytes_at_snapshot = 0
        self._keeper = Keeper(self, database.url, lease, lease_s)
        self._keeper.start()
        self._let_go = weakref.finalize(self, _let_go, database, lease, acknowledged, self._pid)
        if self.snapshot_is_due:
            self._keeper.wake()

    # For callers

    @property
    def job(self) -> str:
        """The name of the job."""
        return self._lease.job.name

    @property
    def url(self) -> str:
        """The address of the store, without a password."""
        return shown(self._database.url)

    @contextmanager
    def batch(self) -> Iterator[Self]:
        """Make one commit of several calls: all of them happen, or none.

        Inside, calls see what the calls before them did. They are committed at the end; if that
        fails, or something is raised inside, none of them happened. Other threads wait.

        Raises:
            StoreUnavailableError: It could not be committed.
        """
        with self._lock:
            if self._batch is not None:
                yield self
                return
            self._batch = []
            try:
                yield self
                self._commit(self._batch)
            except BaseException:
                if self._batch:
                    self._ahead = True
                    self._try_to_settle()
                raise
            finally:
                self._batch = None

    def compact(self) -> None:
        """Take a snapshot now and delete everything older, forgotten clients for good.

        Raises:
            StoreUnavailableError: It was not possible now.
        """
        with self._lock:
            if self._batch is not None:
                message = "compact() must be called outside a batch: the batch is not committed"
                raise StoreError(message)
        database = connect(self._database.url, background=True)
        try:
            keepers.snapshot(database, self, self._lease, keep_previous=False)
            keepers.compact(database, self._lease, keep_previous=False)
            database.tidy(erase=True)
        finally:
            database.close()

    def close(self) -> None:
        """Let go of the job: another process may open it at once. Calls are refused from now."""
        with self._call_lock.unchecked():
            if self._closed or os.getpid() != self._pid:
                return
            self._closed = True
        self._keeper.stop()
        self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NoReturn:
        """A file is not a store: ``oort.load_selector`` reads it, ``oort import`` stores it."""
        message = f"{path} is a file: load it with oort.load_selector, or store it by oort import"
        raise StoreError(message)

    # How calls become durable

    def _do(self, changes: Iterable[Change]) -> None:
        """First on disk, then in memory; in a batch the other way round."""
        changes = list(changes)
        if self._batch is None:
            self._commit(changes)
            self._ahead = True  # until all of it is so: an interrupt must not leave half of it
        else:
            self._batch.extend(changes)
        for change in changes:
            self._make_so(change)
        if self._batch is None:
            self._ahead = False

    def _make_so(self, change: Change) -> None:
        if self._capture is not None:
            self._capture.about_to(change)
        super()._do([change])

    def _commit(self, changes: list[Change]) -> None:
        if not changes:
            return
        if self._unsettled:
            self._settle()
        self._unsettled = True  # until it is known that it was committed, whatever is raised
        try:
            self._journal.commit(changes)
        except StoreUnavailableError as error:
            if getattr(error, "uncertain", False):
                message = f"{error}; whether this call was committed is not known yet"
                raise StoreUnavailableError(message) from error
            raise
        except LeaseError:
            self._lost = True
            raise
        self._unsettled = False
        if self.snapshot_is_due:
            self._keeper.wake()

    def _as_one(self) -> AbstractContextManager[Any]:
        return self.batch() if self._batch is None else nullcontext()

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
        change = entry.change()
        if change is not None:
            self._make_so(change)
        self._journal.sequence = entry.sequence

    # For the keeper

    @property
    def snapshot_is_due(self) -> bool:
        """Whether the journal has grown enough since the last snapshot."""
        if self._closed or self._lost:
            return False
        entries = self._journal.sequence - self._snapshot_sequence
        grown = self._journal.bytes_written - self._bytes_at_snapshot
        return entries >= self._snapshot_entries or grown >= self._snapshot_bytes

    def begin_capture(self) -> Capture | None:
        """Begin a copy of everything; none where nothing happened since the last one."""
        with self._call_lock.unchecked():
            if self._batch is not None or self._ahead or self._lost:
                return None
            if self._journal.sequence == self._snapshot_sequence:
                return None
            meta, arrays = self._described()
            self._capture = Capture(self._table, meta, arrays, self._journal.sequence)
            self._bytes_at_snapshot = self._journal.bytes_written
            return self._capture

    def copy_slice(self, capture: Capture) -> bool:
        """Copy some more; false when there is nothing left to copy."""
        with self._call_lock.unchecked():
            return not capture.spoiled and capture.copy_slice()

    def drop_capture(self, capture: Capture) -> None:
        """The copy is written, or not wanted any more."""
        with self._call_lock.unchecked():
            if self._capture is capture:
                self._capture = None

    def note_snapshot(self, sequence: int) -> None:
        """A snapshot is complete."""
        with self._call_lock.unchecked():
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
