"""PostgreSQL through psycopg 3 (extra ``postgres``).

A server that goes away takes its connection with it; the next use connects anew. Whether a commit
that was under way still happened, only the journal can tell: see ``journal``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from oort.errors import (
    DamagedStoreError,
    StoreError,
    StoreUnavailableError,
    missing_extra,
)
from oort.store.checksums import checksum
from oort.store.database import ConflictError, Database, Row, secrets, shown

_CONNECT_S: Final = 5
_WAIT_MS: Final = 30_000
_TYPES: Final = {"BLOB": "BYTEA", "INTEGER": "BIGINT"}
_DAMAGED: Final = ("XX001", "XX002")  # data_corrupted, index_corrupted
_DISK_FULL: Final = "53100"
_HOLD_CLIENTS: Final = {"oort_journal", "oort_chunks", "oort_snapshots", "oort_records"}
_NOT_NOW: Final = ("08", "53", "57", "40", "55")  # connection, resources, shutdown, retry, locks


class Postgres(Database):
    """A connection to a PostgreSQL database."""

    kind: ClassVar[str] = "postgresql"

    def __init__(self, url: str, *, background: bool) -> None:
        super().__init__(url)
        try:
            import psycopg
        except ImportError:
            missing_extra("a store in PostgreSQL", "psycopg", "postgres")
        self._psycopg = psycopg
        self._background = background
        self._open: psycopg.Connection[Row] | None = None
        with self._named():
            self._connected()

    def _connected(self) -> Any:
        """The connection, made anew where the last one was lost."""
        if self._open is None or self._open.closed:
            options: dict[str, Any] = {"connect_timeout": _CONNECT_S, "application_name": "oort"}
            keep: dict[str, Any] = {
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
            }
            fresh = self._psycopg.connect(self.url, autocommit=True, **options, **keep)
            fresh.prepare_threshold = None  # poolers between us and the server lose these
            fresh.execute(f"SET lock_timeout = {_WAIT_MS}")
            fresh.execute("SET client_min_messages = warning")
            self._open = fresh
        return self._open

    def _idle(self) -> Any:
        """The connection, without a transaction that an interrupt left open."""
        if self._connected().info.transaction_status != self._psycopg.pq.TransactionStatus.IDLE:
            self._roll_back()
        return self._connected()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One commit, durable when it returns, whatever the server's default is."""
        with self._named():
            connection = self._idle()
            level = "off" if self._background else "on"
            committing = False
            try:
                connection.execute("BEGIN")
                connection.execute(f"SET LOCAL synchronous_commit = {level}")
                yield
                committing = True
                connection.execute("COMMIT")
            except self._psycopg.Error as error:
                ours = self._ours(error)
                ours.uncertain = committing  # type: ignore[attr-defined]
                self._roll_back()
                raise ours from error
            except BaseException:
                self._roll_back()
                raise

    @contextmanager
    def reading(self) -> Iterator[None]:
        """One moment of the database."""
        with self._named():
            try:
                self._idle().execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                yield
            finally:
                self._roll_back()

    def query(self, sql: str, *values: Any) -> list[Row]:
        """All rows of an answer."""
        with self._named():
            cursor = self._connected().cursor(binary=True)
            return list(cursor.execute(_spoken(sql), values).fetchall())

    def rows(self, sql: str, *values: Any) -> Iterable[Row]:
        """The rows of a long answer, a few at a time."""
        with self._named(), self._connected().cursor("oort_rows", binary=True) as cursor:
            cursor.itersize = 64
            cursor.execute(_spoken(sql), values)
            yield from cursor

    def execute(self, sql: str, *values: Any) -> int:
        """Run one statement."""
        with self._named():
            return int(self._connected().execute(_spoken(sql), values).rowcount)

    def insert(self, sql: str, rows: Sequence[Row]) -> int:
        """Run one statement for each row."""
        with self._named():
            cursor = self._connected().cursor()
            if len(rows) == 1:
                cursor.execute(_spoken(sql), rows[0])
            else:
                cursor.executemany(_spoken(sql), rows)
            return int(cursor.rowcount)

    def lock(self, name: str) -> None:
        """Until the transaction ends."""
        self.query("SELECT pg_advisory_xact_lock(?, ?)", 0x6F6F7274, checksum(name) >> 1)

    def tables(self) -> set[str]:
        """The names of all tables on the search path."""
        rows = self.query(
            "SELECT c.relname::text FROM pg_class c "
            "WHERE c.relkind = 'r' AND pg_table_is_visible(c.oid)"
        )
        return {name for (name,) in rows}

    def damage(self) -> list[str]:
        """PostgreSQL tells of damage when it reads: our own checks read everything."""
        return []

    def size(self) -> int:
        """Bytes of our tables, indexes and large values included."""
        rows = self.query(
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "WHERE c.relkind = 'r' AND pg_table_is_visible(c.oid) AND c.relname LIKE 'oort\\_%'"
        )
        return int(rows[0][0])

    def tidy(self, *, erase: bool) -> None:
        """The server's own housekeeping does the rest; to erase, rewrite the tables."""
        if erase:
            for table in sorted(self.tables() & _HOLD_CLIENTS):
                self.execute(f"VACUUM FULL {table}")

    def close(self) -> None:
        """End the connection."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _roll_back(self) -> None:
        try:
            if self._open is not None and not self._open.closed:
                self._open.execute("ROLLBACK")
        except self._psycopg.Error:
            self.close()

    @contextmanager
    def _named(self) -> Iterator[None]:
        """PostgreSQL's errors as ours."""
        try:
            yield
        except self._psycopg.ProgrammingError as error:
            if error.sqlstate is not None:
                raise self._ours(error) from error
            raise self._ours(error) from None  # an address that libpq cannot read, with all in it
        except self._psycopg.Error as error:
            raise self._ours(error) from error

    def _ours(self, error: Any) -> Exception:
        state = error.sqlstate or ""
        where, what = shown(self.url), _without(secrets(self.url), error)
        if state == "23505":
            return ConflictError(what)
        if state in _DAMAGED:
            return DamagedStoreError(f"{where} is damaged: {what}")
        lost = isinstance(error, self._psycopg.OperationalError) and not state
        if lost or state.startswith(_NOT_NOW):
            if lost or state.startswith(("08", "57")):
                self.close()
            ours = StoreUnavailableError(f"cannot use {where} now: {what}")
            ours.lasting = state == _DISK_FULL  # type: ignore[attr-defined]
            return ours
        return StoreError(f"cannot use {where}: {what}")


def _without(hidden: list[str], error: object) -> str:
    """What an error says, on one line and without passwords."""
    told = " ".join(str(error).split())
    for secret in hidden:
        told = told.replace(secret, "…")
    return told


def _spoken(sql: str) -> str:
    """Our SQL as PostgreSQL speaks it.

    >>> _spoken("CREATE TABLE t (a INTEGER, b BLOB)")
    'CREATE TABLE t (a BIGINT, b BYTEA)'
    """
    sql = sql.replace("%", "%%").replace("?", "%s")
    for ours, theirs in _TYPES.items():
        sql = sql.replace(f" {ours}", f" {theirs}")
    return sql
