"""SQLite: write-ahead log, every commit synced.

Within a process, writers to one file take turns by a lock of ours: SQLite's own waiting polls, and
a selection would sleep for longer than the background thread writes.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from oort import savefile
from oort.errors import DamagedStoreError, StoreError, StoreUnavailableError
from oort.store.database import ConflictError, Database, Row

_WAIT_S: Final = 30.0
_WAL_BYTES: Final = 4 << 20
_WAL_PAGES_LEFT_TO_CALLS: Final = 50_000

_IO_ERROR: Final = 10  # also what SQLite says where there is no room for its lock file
_NEEDED_BYTES: Final = 64 << 10
_CORRUPT: Final = 11
_NO_DATABASE: Final = 26
_NOT_NOW: Final = {5, 6, 10, 13, 9}  # BUSY, LOCKED, IOERR, FULL, INTERRUPT
_KEY_IS_THERE: Final = {1555, 2067}  # CONSTRAINT_PRIMARYKEY, CONSTRAINT_UNIQUE

_gates: dict[str, threading.Lock] = {}
_gates_lock = threading.Lock()


class SQLite(Database):
    """A connection to a SQLite file."""

    kind: ClassVar[str] = "sqlite"

    def __init__(self, url: str, path: str, *, create: bool, background: bool) -> None:
        super().__init__(url)
        self.path = Path(path).absolute()
        self.address = f"sqlite:///{self.path}"
        missing = self.path.parent if create else self.path
        if not missing.exists():
            message = f"there is no store at {url}: {missing} does not exist"
            raise StoreError(message)
        self._gate = _gate_of(self.path)
        with self._named():
            locked = [p for p in (self.path, self.path.parent) if not _is_writable(p)]
            if locked and create:
                message = f"cannot use {self.path}: {locked[0]} cannot be written"
                raise StoreError(message)
            if locked:
                self._connection = self._connected_to(self._frozen())
                return
            is_new = not self.path.exists()
            self._connection = self._connected_to(self.path)
            try:
                self._set_up("NORMAL" if background else "FULL")
            except BaseException:
                self._connection.close()
                raise
            if is_new:
                savefile.sync_folder(self.path.parent)  # a new file's name is to last, too

    def _connected_to(self, place: Path | str) -> sqlite3.Connection:
        return sqlite3.connect(
            place,
            timeout=_WAIT_S,
            isolation_level=None,
            check_same_thread=False,
            uri=isinstance(place, str),
        )

    def _frozen(self) -> str:
        """The address of a file that nobody can be writing: enough to look at it."""
        if self.wal_path.exists() and self.wal_path.stat().st_size:
            message = (
                f"cannot use {self.path}: it cannot be written, and {self.wal_path.name} must be "
                f"moved into it first; copy both to where they can be written"
            )
            raise StoreError(message)
        return f"{self.path.as_uri()}?mode=ro&immutable=1"

    def _set_up(self, synchronous: str) -> None:
        with self._gate:
            if self._pragma("journal_mode = WAL") != "wal":
                message = f"{self.path} must be on a file system that SQLite's WAL mode works on"
                raise StoreError(message)
        self._pragma(f"synchronous = {synchronous}")
        self._pragma("secure_delete = ON")
        self._pragma("foreign_keys = OFF")
        self._pragma(f"wal_autocheckpoint = {_WAL_PAGES_LEFT_TO_CALLS}")
        self._pragma(f"journal_size_limit = {_WAL_BYTES}")
        self._pragma("cache_size = -8192")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One commit, and one sync unless this connection works in the background."""
        with self._gate, self._named():
            try:
                self._roll_back()
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One moment of the file."""
        with self._named():
            try:
                self._roll_back()
                self._connection.execute("BEGIN")
                yield
            finally:
                self._roll_back()

    def _roll_back(self) -> None:
        """End a transaction, also one that an interrupt left open."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def query(self, sql: str, *values: Any) -> list[Row]:
        """All rows of an answer."""
        with self._named():
            return self._connection.execute(sql, values).fetchall()

    def rows(self, sql: str, *values: Any) -> Iterable[Row]:
        """The rows of a long answer, one after the other."""
        with self._named():
            yield from self._connection.execute(sql, values)

    def execute(self, sql: str, *values: Any) -> int:
        """Run one statement."""
        with self._named():
            return self._connection.execute(sql, values).rowcount

    def insert(self, sql: str, rows: Sequence[Row]) -> int:
        """Run one statement for each row."""
        with self._named():
            return self._connection.executemany(sql, rows).rowcount

    def lock(self, name: str) -> None:
        """A write transaction is alone anyway."""

    def tables(self) -> set[str]:
        """The names of all tables."""
        rows = self.query("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in rows}

    def definitions(self) -> dict[str, bytes]:
        """How each table was made, as bytes: they need not be text any more."""
        rows = self.query(
            "SELECT CAST(name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master WHERE type = 'table'"
        )
        return {bytes(name).decode(errors="replace"): bytes(sql or b"") for name, sql in rows}

    def damage(self) -> list[str]:
        """What SQLite's own check finds."""
        try:
            found = self.query("PRAGMA integrity_check(10)")
        except DamagedStoreError as error:
            return [str(error)]
        return [str(row[0]) for row in found if row[0] != "ok"]

    def size(self) -> int:
        """Bytes of the file and of its log."""
        files = [self.path, self.wal_path]
        return sum(file.stat().st_size for file in files if file.exists())

    @property
    def wal_path(self) -> Path:
        """The write-ahead log beside the file."""
        return self.path.with_name(f"{self.path.name}-wal")

    def tidy(self, *, erase: bool) -> None:
        """Move the log into the file once it is long; to erase, cut it to nothing."""
        with self._named():
            if erase:
                with self._gate:
                    is_busy = self._pragma("wal_checkpoint(TRUNCATE)")
                if is_busy:
                    message = f"cannot cut the log of {self.path} now: somebody is reading it"
                    raise StoreUnavailableError(message)
            elif self.wal_path.exists() and self.wal_path.stat().st_size > _WAL_BYTES:
                self._pragma("wal_checkpoint(PASSIVE)")

    def synced(self) -> None:
        """Sync the log by ourselves, outside the lock that calls wait for.

        SQLite holds no POSIX lock on the log, so that closing our handle gives none away.
        """
        try:
            sync_file(self.wal_path)
        except FileNotFoundError:
            return
        except OSError as error:
            message = f"cannot sync {self.wal_path} now: {error.strerror or error}"
            raise StoreUnavailableError(message) from error

    def backup(self, path: Path) -> None:
        """Copy the whole database to a new file."""
        with self._named():
            copy = sqlite3.connect(path)
            try:
                self._connection.backup(copy)
            finally:
                copy.close()

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def _pragma(self, text: str) -> Any:
        row = self._connection.execute(f"PRAGMA {text}").fetchone()
        return None if row is None else row[0]

    @contextmanager
    def _named(self) -> Iterator[None]:
        """SQLite's errors as ours."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._ours(error) from error
        except UnicodeDecodeError as error:  # even its messages name what it found
            message = f"{self.path} is damaged: it holds text that is none ({error})"
            raise DamagedStoreError(message) from error

    def _disk_is_full(self) -> bool:
        try:
            return shutil.disk_usage(self.path.parent).free < _NEEDED_BYTES
        except OSError:
            return False

    def _ours(self, error: sqlite3.Error) -> Exception:
        whole_code = getattr(error, "sqlite_errorcode", 1)
        code = whole_code & 0xFF
        if whole_code in _KEY_IS_THERE:
            return ConflictError(str(error))
        if code == _NO_DATABASE:
            message = f"{self.path} is no SQLite database, or its beginning is damaged ({error})"
            return DamagedStoreError(message)
        if code == _CORRUPT or "Could not decode to UTF-8" in str(error):
            return DamagedStoreError(f"{self.path} is damaged: {error}")
        if code in _NOT_NOW or isinstance(error, sqlite3.ProgrammingError):
            full = " (its disk is full)" if code == _IO_ERROR and self._disk_is_full() else ""
            return StoreUnavailableError(f"cannot use {self.path} now: {error}{full}")
        return StoreError(f"cannot use {self.path}: {error}")


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK) or not path.exists()


def sync_file(path: Path) -> None:
    """Push what was written to a file to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _gate_of(path: Path) -> threading.Lock:
    with _gates_lock:
        return _gates.setdefault(str(path.resolve()), threading.Lock())


def forget_gates() -> None:
    """After a fork: locks that another thread of the parent held will never be given back."""
    _gates.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_gates)
