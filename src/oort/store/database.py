"""What SQLite and PostgreSQL have in common, and how a store is addressed.

    sqlite:///jobs.db                a file, relative to the working directory
    sqlite:////var/lib/oort/jobs.db  a file, from the root
    postgresql://user@host/name      a PostgreSQL database; libpq's parameters after ``?`` work

Both speak the SQL in this package: placeholders are ``?``, and types are those in ``schema``.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Final
from urllib.parse import unquote

from oort.errors import InvalidArgumentError

_NAME_AND_PASSWORD: Final = re.compile(r"(\w[\w+]*://[^:@/?]*:)(.*)@", re.DOTALL)
_PASSWORD: Final = re.compile(r"(?<=password=)(?:'[^']*'|[^&\s]+)", re.IGNORECASE)

Row = tuple[Any, ...]


class ConflictError(Exception):
    """A row with this key is there already: another writer was first."""


class Database(ABC):
    """One connection. Not for several threads at once: whoever has it guards it."""

    kind: ClassVar[str]

    def __init__(self, url: str) -> None:
        self.url = url
        self.address = url  #: the same, from whichever working directory

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Everything inside is committed at the end, or nothing is.

        Raises:
            StoreUnavailableError: It could not be committed; nothing of it happened, unless
                ``uncertain`` is set on the error.
            ConflictError: A key was there already.
            DamagedStoreError: The database found itself damaged.
            StoreError: Anything else that it refused.
        """

    @abstractmethod
    def reading(self) -> AbstractContextManager[None]:
        """Everything read inside is of one moment."""

    @abstractmethod
    def query(self, sql: str, *values: Any) -> list[Row]:
        """All rows of an answer."""

    @abstractmethod
    def rows(self, sql: str, *values: Any) -> Iterable[Row]:
        """The rows of a long answer, one after the other."""

    @abstractmethod
    def execute(self, sql: str, *values: Any) -> int:
        """Run one statement; gives the number of rows that it changed."""

    @abstractmethod
    def insert(self, sql: str, rows: Sequence[Row]) -> int:
        """Run one statement for each row; gives the number of rows that they made in all."""

    @abstractmethod
    def lock(self, name: str) -> None:
        """Until the transaction ends, nobody else gets past here with this name."""

    @abstractmethod
    def tables(self) -> set[str]:
        """The names of all tables."""

    @abstractmethod
    def damage(self) -> list[str]:
        """What the database itself finds wrong with its own structure."""

    def definitions(self) -> dict[str, bytes]:
        """How each table was made, where the database keeps that as text."""
        return {}

    @abstractmethod
    def size(self) -> int:
        """Bytes on disk, as far as they can be told."""

    @abstractmethod
    def tidy(self, *, erase: bool) -> None:
        """Outside transactions: housekeeping; ``erase`` leaves nothing of deleted rows behind."""

    def synced(self) -> None:  # noqa: B027
        """Push what was committed to the disk, where commits of this connection do not."""

    @abstractmethod
    def close(self) -> None:
        """End the connection."""


def connect(url: str, *, create: bool = False, background: bool = False) -> Database:
    """A connection to the store at an address.

    Args:
        url: The address.
        create: A SQLite file that is not there is made.
        background: For work that may wait and must not hold up others.

    Raises:
        InvalidArgumentError: This is no address of a store.
        StoreError: There is nothing at this address, or it cannot be opened.
        MissingExtraError: psycopg is not installed.
    """
    scheme, _, rest = str(url).partition("://")
    if scheme == "sqlite" and rest == "/:memory:":
        message = "a store must be on disk: oort.create_training_selector() keeps all in memory"
        raise InvalidArgumentError(message)
    if scheme == "sqlite" and rest.startswith("/") and rest != "/":
        from oort.store.sqlite import SQLite

        return SQLite(url, rest[1:], create=create, background=background)
    if scheme in ("postgresql", "postgres"):
        from oort.store.postgres import Postgres

        return Postgres(url, background=background)
    must_be = "sqlite:///FILE or postgresql://USER@HOST/NAME"
    message = f"the address of a store must be {must_be}; got {shown(str(url))!r:.200}"
    raise InvalidArgumentError(message)


def is_url(text: str) -> bool:
    """Whether this looks like the address of a store rather than the name of a file.

    >>> is_url("sqlite:///jobs.db"), is_url("selector.oort")
    (True, False)
    """
    return "://" in text


def shown(url: str) -> str:
    """An address without its password, wherever that stands.

    >>> shown("postgresql://oort:secret@db/oort")
    'postgresql://oort:…@db/oort'
    >>> shown("postgresql://db/oort?user=oort&password=secret")
    'postgresql://db/oort?user=oort&password=…'
    """
    if url.startswith("sqlite:"):
        return url
    return _PASSWORD.sub("…", _NAME_AND_PASSWORD.sub(r"\1…@", url))


def secrets(url: str) -> list[str]:
    """The passwords in an address as they are written there, and as they are meant.

    >>> secrets("postgresql://oort:s%40@db/oort")
    ['s%40', 's@']
    """
    named = _NAME_AND_PASSWORD.match(url)
    written = [*_PASSWORD.findall(url), *([named[2]] if named else [])]
    forms = {form for password in written for form in (password, unquote(password)) if form}
    return sorted(forms, key=len, reverse=True)
