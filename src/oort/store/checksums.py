"""What makes a flipped bit show: one CRC-32 over all that a row says."""

from __future__ import annotations

import zlib


def checksum(*parts: int | str | bytes) -> int:
    r"""The checksum of a row's values, each set off from the next.

    >>> checksum(1, "kb", b"\x00") == checksum(1, "kb", b"\x00")
    True
    >>> checksum("ab", "c") == checksum("a", "bc")
    False
    """
    crc = 0
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        crc = zlib.crc32(data, zlib.crc32(len(data).to_bytes(8, "little"), crc))
    return crc
