"""Hashes that are drawn anew in every process, so that nobody can prepare values that collide."""

from __future__ import annotations

import os
from typing import Final

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]

_CHUNK: Final = 1 << 18
_LETTERS: Final = 1 << 20
_KEY: Final = np.frombuffer(os.urandom(16), np.uint64)


def text_hashes(text: Bytes, start: Places, length: Places) -> Numbers:
    """A 64-bit hash of each text: a sum of its bytes, each times a random number of its place.

    >>> text = np.frombuffer(b"abab", np.uint8)
    >>> hashes = text_hashes(text, np.array([0, 2, 3]), np.array([2, 1, 1]))
    >>> len(set(hashes.tolist()))
    3
    """
    hashes = np.empty(length.size, np.uint64)
    first = 0
    while first < length.size:
        last = int(np.searchsorted(start, start[first] + _LETTERS, side="right"))
        part = slice(first, min(max(last, first + 1), first + _CHUNK))
        hashes[part] = _hashed(text, start[part], length[part])
        first = min(part.stop, length.size)
    return hashes


def slots(keys: Numbers, kinds: Bytes, size: int) -> Places:
    """A slot below ``size`` for each key and kind, spread evenly."""
    spread = mixed(keys + kinds.astype(np.uint64) * _KEY[1]) >> np.uint64(32)
    return ((spread * np.uint64(size)) >> np.uint64(32)).astype(np.int64)


def mixed(values: Numbers) -> Numbers:
    """Every bit of the result depends on every bit of the value (SplitMix64's finisher)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _hashed(text: Bytes, start: Places, length: Places) -> Numbers:
    sums = np.zeros(length.size, np.uint64)
    filled = np.flatnonzero(length > 0)
    if filled.size:
        long, begin = length[filled], start[filled]
        edges = np.cumsum(long) - long
        place = np.arange(int(long.sum())) - np.repeat(edges, long)
        letters = text[int(begin[0]) : int(begin[-1] + long[-1])].astype(np.uint64)
        weights = mixed(np.arange(int(long.max()), dtype=np.uint64) * _KEY[0] + _KEY[1])
        sums[filled] = np.add.reduceat((letters + np.uint64(1)) * weights[place], edges)
    return mixed(sums + length.astype(np.uint64))
