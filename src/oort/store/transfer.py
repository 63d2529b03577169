"""Jobs in and out of stores: one job as one file, a whole store as a SQLite file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort import savefile
from oort.config import TrainingConfig
from oort.errors import (
    ConfigError,
    DamagedFileError,
    OortError,
    SaveFileError,
    StoreError,
    StoreUnavailableError,
)
from oort.store import jobs, records, recovery, schema, snapshots
from oort.store.database import ConflictError, Database, connect, shown
from oort.store.recovery import Replayed
from oort.store.snapshots import State
from oort.store.sqlite import SQLite, sync_file
from oort.store.testing import WHAT, ReplayedTesting

_RECORD: Final = "record-"


def export_job(
    url: str, job: str | None, path: str | os.PathLike[str]
) -> tuple[str, Replayed | ReplayedTesting]:
    """Write a job to a file that ``oort.load_selector`` and :func:`import_job` read.

    Gives the job's name, which may be left out where a store has one job, and its selector.

    It may be driven meanwhile: what is written is of one moment.

    Raises:
        StoreError: There is no such store or job, or it is damaged.
        SaveFileError: The file cannot be written.
    """
    database = connect(url)
    try:
        schema.version_of(database)
        found = schema.existing_job(database, job)
        selector = jobs.blank(found)
        state = selector.state(recovery.recover(database, found, selector).sequence)
        named = records.names(database, found)
        blobs = {
            f"{_RECORD}{place}": np.frombuffer(_record(database, found, *name), np.uint8)
            for place, name in enumerate(named)
        }
    finally:
        database.close()
    meta = {**state.meta, "records": [list(name) for name in named]}
    savefile.write(path, meta, {**state.arrays, **blobs})
    return found.name, selector


def import_job(path: str | os.PathLike[str], url: str, job: str) -> Replayed | ReplayedTesting:
    """Make a new job of a file that ``export_job`` or a selector's ``save`` wrote.

    Raises:
        SaveFileError: The file cannot be read, is damaged, or holds something else.
        ConfigError: Its utility or fairness was not registered in this process.
        StoreError: The job exists already, or the store cannot be used.
    """
    name = schema.checked_name(job)
    meta, arrays = savefile.read(path)
    try:
        selector, settings = _blank(path, meta)
        selector.take_state(State(0, meta, arrays))
        blobs = _records_in(meta, arrays)
    except (SaveFileError, ConfigError):
        raise
    except (LookupError, TypeError, ValueError, OortError) as error:
        message = f"{path} is damaged: its parts do not fit together ({error})"
        raise DamagedFileError(message) from error
    database = connect(url, create=True)
    try:
        _import(database, name, selector, settings, blobs)
    finally:
        database.close()
    return selector


def _blank(
    path: str | os.PathLike[str], meta: dict[str, Any]
) -> tuple[Replayed | ReplayedTesting, dict[str, Any]]:
    """The kind of selector that a file holds, and the settings of its job."""
    if meta.get("what") == "training selector" and meta.get("strategy") == Replayed.strategy:
        config = TrainingConfig.from_stored(meta["config"])
        return Replayed(config), config.to_dict()
    if meta.get("what") == WHAT:
        return ReplayedTesting(meta["settings"]), meta["settings"]
    message = f"{path} must hold a selector of strategy 'oort' or for testing; it holds another"
    raise SaveFileError(message)


def _import(
    database: Database,
    name: str,
    selector: Replayed | ReplayedTesting,
    settings: dict[str, Any],
    blobs: dict[tuple[str, str], bytes],
) -> None:
    """Write the snapshot first; the job is there when that is complete, or not at all."""
    if "oort_meta" not in database.tables():
        with database.transaction():
            schema.create(database)
    schema.version_of(database)
    if blobs:
        records.require(database)
    _refuse_second(database, name)
    number = schema.next_number(database)

    def make_job() -> None:
        job = schema.add_job(database, name, settings)
        if job.number != number:
            message = f"another job was made in {shown(database.url)} meanwhile; try again"
            raise StoreError(message)
        for (kind, record), blob in blobs.items():
            records.insert(database, job, kind, record, blob)

    state = selector.state(1)
    try:
        snapshots.write(database, number, state, may_go_on=lambda: True, with_last=make_job)
    except ConflictError:
        _refuse_second(database, name)
        raise


def _refuse_second(database: Database, name: str) -> None:
    if schema.job_named(database, name) is not None:
        message = f"{shown(database.url)} must have no job {name!r} yet; it has one"
        raise StoreError(message)


def backup(database: Database, path: Path) -> None:
    """Copy a whole store to a new SQLite file, whole and synced, or not at all.

    Raises:
        StoreError: There is a file of this name.
        StoreUnavailableError: There is no room for it.
    """
    if path.exists():
        message = f"a backup must go to a new file; {path} exists"
        raise StoreError(message)
    partial = path.with_name(f"{path.name}.partial")
    try:
        _remove(partial)
        if isinstance(database, SQLite):
            database.backup(partial)
        else:
            _copy_rows(database, partial)
        sync_file(partial)
        partial.rename(path)
        savefile.sync_folder(path.parent)
    except OSError as error:
        _remove(partial)
        if isinstance(error, StoreError):
            raise
        message = f"cannot write a backup to {path}: {error.strerror or error}"
        raise StoreUnavailableError(message) from error


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def _copy_rows(database: Database, path: Path) -> None:
    """Row by row, to a store of the same version."""
    version = schema.version_of(database)
    copy = connect(f"sqlite:///{path.absolute()}", create=True)
    try:
        with copy.transaction():
            schema.create(copy, version)
        for name in schema.TABLES_OF[version]:
            if name != "oort_meta":
                _copy_table(database, copy, name)
        copy.tidy(erase=True)
    finally:
        copy.close()


def _copy_table(source: Database, target: Database, name: str) -> None:
    with source.reading(), target.transaction():
        for row in source.rows(f"SELECT * FROM {name}"):
            marks = ", ".join("?" * len(row))
            target.insert(f"INSERT INTO {name} VALUES ({marks})", [row])


def _record(database: Database, job: schema.Job, kind: str, name: str) -> bytes:
    return records.get(database, job, kind, name) or b""


def _records_in(
    meta: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
) -> dict[tuple[str, str], bytes]:
    named = meta.get("records", [])
    return {
        (str(kind), str(name)): arrays[f"{_RECORD}{place}"].tobytes()
        for place, (kind, name) in enumerate(named)
    }
