"""What was acknowledged, entry by entry.

An entry is one change. Its key is (job, sequence), without gaps; large ones are cut into rows of
at most 1 MiB, so that deleting one never takes long. The rows of one commit arrive together or
not at all: that is the database's part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from oort.errors import DamagedStoreError, StoreUnavailableError
from oort.store import lease as leases
from oort.store.acknowledged import Acknowledged
from oort.store.checksums import checksum
from oort.store.database import ConflictError, Database, Row
from oort.store.lease import OPENED, Lease
from oort.store.payloads import AnyChange, decode, encode

PIECE_BYTES: Final = 1 << 20
_INSERT: Final = (
    "INSERT INTO oort_journal SELECT ?, ?, ?, ?, ?, ?, ? "
    "WHERE EXISTS (SELECT 1 FROM oort_leases WHERE job = ? AND epoch = ?)"
)
_FIRST_WAIT_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Entry:
    """One change as it was written down; an opening changes nothing."""

    sequence: int  #: of its last row
    epoch: int
    kind: str
    payload: bytes

    def change(self) -> AnyChange | None:
        """What happened.

        Raises:
            ValueError: The payload is not of this kind.
        """
        return None if self.kind == OPENED else decode(self.kind, self.payload)


class Journal:
    """The writing end."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        acknowledged: Acknowledged | None,
        *,
        patience_s: float,
    ) -> None:
        self._database = database
        self._lease = lease
        self._acknowledged = acknowledged
        self._patience_s = patience_s
        self.sequence = lease.sequence
        self.bytes_written = 0

    def commit(
        self, changes: Sequence[AnyChange], along: Callable[[Database], None] | None = None
    ) -> None:
        """Write changes down: when this returns, they are on disk, and what goes ``along``.

        A server that goes away and comes back is waited for; whether the commit happened before it
        went is then read from the journal.

        Raises:
            StoreUnavailableError: It was not possible now. If ``uncertain`` is set on the error,
                whether it happened will only be known when the store can be read again.
            LeaseError: Another process has taken over.
        """
        rows = self._rows(changes)
        until_s = time.monotonic() + self._patience_s
        wait_s = _FIRST_WAIT_S
        uncertain = False
        while True:
            try:
                if not (uncertain and self._is_there(rows)):
                    self._write(rows, along)
                break
            except StoreUnavailableError as error:
                uncertain = uncertain or getattr(error, "uncertain", False)
                lasting = getattr(error, "lasting", self._database.kind == "sqlite")
                if lasting or time.monotonic() + wait_s > until_s:
                    error.uncertain = uncertain  # type: ignore[attr-defined]
                    raise
            time.sleep(wait_s)
            wait_s = min(2 * wait_s, 1.0)
        self.sequence = int(rows[-1][1])
        self.bytes_written += sum(len(row[5]) for row in rows)
        if self._acknowledged is not None:
            self._acknowledged.note(self._lease.job.number, self.sequence)

    def _write(self, rows: list[Row], along: Callable[[Database], None] | None = None) -> None:
        """Insert the rows, if the lease is still ours.

        Where another process has taken over, the number is taken; or, once that one has deleted
        old entries, at least the epoch is another.
        """
        held = (self._lease.job.number, self._lease.epoch)
        try:
            with self._database.transaction():
                if self._database.insert(_INSERT, [(*row, *held) for row in rows]) != len(rows):
                    raise leases.lost(self._database, self._lease)
                if along is not None:
                    along(self._database)
        except ConflictError:
            if not self._is_there(rows):
                raise leases.lost(self._database, self._lease) from None

    def _is_there(self, rows: list[Row]) -> bool:
        """Whether these rows were committed, by us."""
        found = self._database.query(
            "SELECT epoch, checksum FROM oort_journal WHERE job = ? AND sequence = ?",
            self._lease.job.number,
            rows[-1][1],
        )
        return found == [(self._lease.epoch, rows[-1][6])]

    def _rows(self, changes: Sequence[AnyChange]) -> list[Row]:
        sequence, rows = self.sequence, []
        for change in changes:
            kind, payload = encode(change)
            pieces = [
                payload[i : i + PIECE_BYTES] for i in range(0, max(1, len(payload)), PIECE_BYTES)
            ]
            for left, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
                sequence += 1
                values = (self._lease.job.number, sequence, self._lease.epoch, kind, left, piece)
                rows.append((*values, checksum(*values)))
        return rows


def read(database: Database, job: int, after: int) -> Iterator[Entry]:
    """The entries after a sequence number, in order, each checked.

    Raises:
        DamagedStoreError: A row is missing or has changed; ``sequence`` on the error says which.
    """
    expected, waiting, pieces = after + 1, 0, list[bytes]()
    for row in database.rows(
        "SELECT sequence, epoch, kind, parts_left, payload, checksum FROM oort_journal "
        "WHERE job = ? AND sequence > ? ORDER BY sequence",
        job,
        after,
    ):
        sequence, epoch, kind, left, payload, crc = row
        if sequence != expected:
            raise damaged(expected, f"{_span(expected, sequence - 1)} missing")
        if checksum(job, sequence, epoch, kind, left, bytes(payload)) != crc:
            raise damaged(sequence, f"entry {sequence} ({kind!r:.20}) has changed bytes")
        if pieces and left != waiting - 1:
            raise damaged(sequence, f"entry {sequence} does not continue the one before it")
        pieces.append(bytes(payload))
        waiting, expected = left, sequence + 1
        if left == 0:
            yield Entry(sequence, epoch, kind, b"".join(pieces))
            pieces = []
    if pieces:
        raise damaged(expected, f"entry {expected} is missing: the one before it is incomplete")


def _span(first: int, last: int) -> str:
    return f"entry {first} is" if first == last else f"entries {first} to {last} are"


def damaged(sequence: int, what: str) -> DamagedStoreError:
    """The error for a journal that is good up to before an entry."""
    error = DamagedStoreError(f"journal {what}")
    error.sequence = sequence  # type: ignore[attr-defined]
    return error
