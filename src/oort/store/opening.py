"""From an address to a selector: create what is not there, take the lease, recover."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from oort.config import TrainingConfig
from oort.errors import (
    ConfigError,
    DamagedStoreError,
    StoreError,
)
from oort.store import keeper, records, schema, snapshots
from oort.store import lease as leases
from oort.store.acknowledged import Acknowledged
from oort.store.database import ConflictError, Database, connect, shown
from oort.store.driver import Driver
from oort.store.durable import DurableSelector
from oort.store.lease import Lease
from oort.store.recovery import Replayed, acknowledged_sequence, config_of, recover
from oort.store.schema import Job
from oort.store.settings import StoreConfig
from oort.store.snapshots import State
from oort.store.sqlite import SQLite
from oort.store.testing import DurableTestingSelector, testing_settings
from oort.testing.category.information import Category

_log = logging.getLogger(__name__)
_Driver = TypeVar("_Driver", bound=Driver)


def open_selector(
    url: str,
    *,
    job: str = "default",
    config: TrainingConfig | Mapping[str, Any] | None = None,
    reconfigure: bool = False,
    store: StoreConfig | None = None,
) -> DurableSelector:
    """A training selector that loses nothing it acknowledged.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql://USER@HOST/NAME``. A SQLite file and the tables
            are created where they are not there.
        job: The name of the job; a store holds many.
        config: The settings, for a new job; a job that exists keeps its own, so leave this out or
            give the same.
        reconfigure: Give a job that exists these settings from now on.
        store: How the store is kept.

    Raises:
        ConfigError: The job exists with other settings, and ``reconfigure`` is not set.
        LeaseError: Another process drives the job.
        DamagedStoreError: Something in the store is missing or changed; the message says what.
        NewerStoreError: A newer version wrote the store.
        StoreError: The store cannot be used.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with open_selector(f"sqlite:///{folder.name}/jobs.db", job="kb") as selector:
    ...     selector.register_client("phone-17")
    >>> with open_selector(f"sqlite:///{folder.name}/jobs.db", job="kb") as selector:
    ...     selector.select_participant(1)
    ['phone-17']
    >>> folder.cleanup()
    """
    wanted = TrainingConfig.from_dict(config) if isinstance(config, Mapping) else config
    new = Replayed(wanted).config.to_dict()  # refused before anything is made

    def make(database: Database, lease: Lease, settings: StoreConfig) -> DurableSelector:
        before = config_of(lease.job)
        if wanted is not None and wanted != before:
            _reconfigure(database, lease, wanted, allowed=reconfigure)
        chosen = before if wanted is None else wanted
        return DurableSelector(database, lease, chosen, _note(database), settings)

    return _opened(url, job, new, make, store)


def open_testing_selector(
    url: str,
    *,
    job: str = "default",
    seed: int | None = None,
    categories: Iterable[Category] | None = None,
    store: StoreConfig | None = None,
) -> DurableTestingSelector:
    """A testing selector that loses nothing it acknowledged: client information, and plans.

    Args:
        url: As for :func:`open_selector`; training and testing jobs may share a store, under
            different names.
        job: The name of the job.
        seed: Of the draws, for a new job; a job that exists keeps its own.
        categories: The categories that there are, for a new job. None: they are taken in as
            clients name them.
        store: How the store is kept.

    Raises:
        ConfigError: The job exists with another seed or other categories.
        LeaseError: Another process drives the job.
        StoreError: The store cannot be used, or the job is a training job.
    """
    new = testing_settings(0 if seed is None else seed, categories)

    def make(database: Database, lease: Lease, settings: StoreConfig) -> DurableTestingSelector:
        before = json.loads(lease.job.settings)
        if before.get("what") != new["what"]:
            message = f"job {job!r} in {shown(url)} must be a testing job; it is a training job"
            raise StoreError(message)
        for name, given in (("seed", seed), ("categories", categories)):
            if given is not None and new[name] != before[name]:
                was, now = before[name], new[name]
                message = f"{name} must be that of job {job!r}, {was!r:.80}; got {now!r:.80}"
                raise ConfigError(message)
        return DurableTestingSelector(database, lease, _note(database), settings)

    return _opened(url, job, new, make, store)


def _opened(
    url: str,
    job: object,
    new: Mapping[str, Any],
    make: Callable[[Database, Lease, StoreConfig], _Driver],
    store: StoreConfig | None,
) -> _Driver:
    """Find or make the job, take its lease, and hand both to what drives it."""
    name, settings = schema.checked_name(job), StoreConfig() if store is None else store
    database = connect(url, create=True)
    lease: Lease | None = None
    try:
        found = _found_or_made(database, name, new)
        beyond = acknowledged_sequence(database, found)
        lease = leases.acquire(database, found, settings.lease_s, beyond=beyond)
        return make(database, lease, settings)
    except BaseException:
        _let_go(database, lease)
        raise


def _note(database: Database) -> Acknowledged | None:
    return Acknowledged(database.path) if isinstance(database, SQLite) else None


def _found_or_made(database: Database, name: str, settings: Mapping[str, Any]) -> Job:
    if "oort_meta" not in database.tables():
        _refuse_what_was_lost(database, 1)
        with database.transaction():
            schema.create(database)
    schema.version_of(database)
    job = schema.job_named(database, name)
    if job is not None:
        return job
    if "what" in settings:
        records.require(database)
    try:
        with database.transaction():
            job = schema.add_job(database, name, settings)
            _refuse_what_was_lost(database, job.number)
    except ConflictError:
        job = schema.job_named(database, name)  # made by another process just now
    if job is None:
        message = f"{shown(database.url)} is damaged: job {name!r} can neither be found nor made"
        raise DamagedStoreError(message)
    return job


def _refuse_what_was_lost(database: Database, number: int) -> None:
    """A job that was acknowledged to and is not there is lost, not new."""
    if not isinstance(database, SQLite):
        return
    note = Acknowledged(database.path)
    lost = [job for job in note.jobs() if job >= number]
    if lost:
        message = (
            f"{database.path} is damaged: it has no job {lost[0]}, to which "
            f"{note.sequence(lost[0])} entries were acknowledged; restore it, or, to begin anew, "
            f"delete {note.path}"
        )
        raise DamagedStoreError(message)


def _reconfigure(
    database: Database, lease: Lease, config: TrainingConfig, *, allowed: bool
) -> None:
    """Give a job other settings: its state, as it is under them, becomes a snapshot."""
    old = config_of(lease.job)
    if not allowed:
        was, now = old.to_dict(), config.to_dict()
        differ = ", ".join(
            f"{name} is {was[name]!r}, not {now[name]!r}" for name in was if was[name] != now[name]
        )
        message = (
            f"config must be that of job {lease.job.name!r} in {shown(database.url)} ({differ}), "
            f"or left out, unless reconfigure=True"
        )
        raise ConfigError(message)
    before, after = Replayed(old), Replayed(config)
    found = recover(database, lease.job, before)
    state = before.state(found.sequence)
    arrays = dict(state.arrays)
    if config.sketch_width != old.sketch_width:
        rows = len(arrays["flags"])
        arrays["sketch"] = np.zeros((rows, config.sketch_width), np.float32)
    after.take_state(State(found.sequence, state.meta, arrays))
    after.count_removed()
    for listed in snapshots.listed(database, lease.job.number):
        if listed.sequence == found.sequence:
            snapshots.discard(database, lease.job.number, listed.sequence)

    def settled() -> bool:
        return leases.is_held(database, lease)

    done = snapshots.write(
        database,
        lease.job.number,
        after.state(found.sequence),
        may_go_on=settled,
        with_last=lambda: schema.change_settings(database, lease.job, config.to_dict()),
    )
    if done is None:
        raise leases.lost(database, lease)
    keeper.compact(database, lease, keep_previous=False)


def _let_go(database: Database, lease: Lease | None) -> None:
    try:
        if lease is not None:
            leases.release(database, lease)
    except StoreError as error:
        _log.warning("the lease was not given back: %s", error)
    finally:
        database.close()
