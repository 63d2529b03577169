"""A training selector whose calls are committed when they return."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, NoReturn, Self

from oort.config import TrainingConfig
from oort.errors import StoreError
from oort.store import journal as journals
from oort.store.acknowledged import Acknowledged
from oort.store.capture import Capture
from oort.store.database import Database
from oort.store.driver import Driver
from oort.store.lease import Lease
from oort.store.recovery import Replayed, training_change
from oort.store.settings import StoreConfig
from oort.training.changes import Change
from oort.training.selector import GuidedSelector


class DurableSelector(Replayed, Driver):
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
        acknowledged: Acknowledged | None,
        settings: StoreConfig,
    ) -> None:
        Replayed.__init__(self, config)
        self._drive(database, lease, acknowledged, settings)

    @contextmanager
    def batch(self) -> Iterator[Self]:
        """Make one commit of several calls: all of them happen, or none.

        Inside, calls see what the calls before them did. They are committed at the end; if that
        fails, or something is raised inside, none of them happened. Other threads wait. A batch
        inside a batch belongs to it: where it fails, the outer one cannot be committed either.

        Raises:
            StoreUnavailableError: It could not be committed.
            StoreError: Something inside failed halfway, and that was not raised.
        """
        with self._lock:
            if self._batch is not None:
                with self._inner_batch(self._batch):
                    yield self
                return
            self._batch, self._half_done = [], False
            try:
                yield self
                if self._half_done:
                    message = "something inside the batch failed halfway: none of it happened"
                    raise StoreError(message)
                self._commit(self._batch)
                self._is_so()
            except BaseException:
                if self._batch:
                    self._ahead = True
                    self._try_to_settle()
                raise
            finally:
                self._batch = None

    @contextmanager
    def _inner_batch(self, changes: list[Any]) -> Iterator[None]:
        before = len(changes)
        try:
            yield
        except BaseException:
            self._half_done = self._half_done or len(changes) > before
            raise

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NoReturn:
        """A file is not a store: ``oort.load_selector`` reads it, ``oort import`` stores it."""
        message = f"{path} is a file: load it with oort.load_selector, or store it by oort import"
        raise StoreError(message)

    def _do(self, changes: Iterable[Change]) -> None:
        """First on disk, then in memory; in a batch the other way round."""
        changes = list(changes)
        if self._batch is None:
            self._commit(changes)
            self._make_all_so(changes)
            self._is_so()
        else:
            with self._inner_batch(self._batch):
                self._batch.extend(changes)
                self._make_all_so(changes)

    def _make_all_so(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self._make_so(change)

    def _make_so(self, change: Change) -> None:
        if self._capture is not None:
            self._capture.about_to(change)
        Replayed._do(self, [change])

    def _as_one(self) -> AbstractContextManager[Any]:
        return self.batch()

    def _take_missed(self, entry: journals.Entry) -> None:
        change = training_change(entry)
        if change is not None:
            self._make_so(change)
        self._journal.sequence = entry.sequence

    def _begin_copy(self, sequence: int) -> Capture:
        meta, arrays = self._described()
        return Capture(self._table, meta, arrays, sequence)
