"""Beside a SQLite file: how far it must reach.

SQLite takes a damaged or missing write-ahead log for one that was never finished, and goes on
without it: commits that we acknowledged would be gone without a word. So after each commit its
sequence number is written to a small file, ``NAME-acknowledged``: 24 bytes per job, in place,
unsynced. The file can fall behind (after a loss of power), never run ahead; a journal that ends
before it has lost something.

    bytes 0–7      the job's number
    8–15           the sequence number acknowledged
    16–23          a checksum of both
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from oort.store.checksums import checksum

_SLOT: Final = struct.Struct("<QQQ")


class Acknowledged:
    """The numbers acknowledged to the callers of each job of a file."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}-acknowledged")
        self._handle: int | None = None

    def note(self, job: int, sequence: int) -> None:
        """Remember that everything up to here is committed."""
        try:
            if self._handle is None:
                self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            slot = _SLOT.pack(job, sequence, checksum(job, sequence))
            os.pwrite(self._handle, slot, job * _SLOT.size)
        except OSError:
            pass  # what it does not know, it does not miss

    def sequence(self, job: int) -> int:
        """How far a job must reach; 0 where nothing is known."""
        try:
            with self.path.open("rb") as file:
                file.seek(job * _SLOT.size)
                slot = file.read(_SLOT.size)
        except OSError:
            return 0
        if len(slot) < _SLOT.size:
            return 0
        number, sequence, crc = _SLOT.unpack(slot)
        return sequence if number == job and checksum(job, sequence) == crc else 0

    def jobs(self) -> list[int]:
        """The jobs that something was acknowledged to."""
        try:
            count = self.path.stat().st_size // _SLOT.size
        except OSError:
            return []
        return [job for job in range(count) if self.sequence(job)]

    def close(self) -> None:
        """Give the file back, synced."""
        if self._handle is not None:
            with suppress(OSError):
                os.fsync(self._handle)
            os.close(self._handle)
            self._handle = None
