"""Randomness that is derived, never carried.

Seed, round and purpose give the generator, or the key of a draw, so a recovered job draws what it
would have drawn, and nothing here or elsewhere in Oort touches NumPy's global state.
"""

from __future__ import annotations

import functools
import zlib
from typing import Final

import numpy as np

# SplitMix64 (Steele, Lea and Flood, 2014): its increment and the two factors of its finaliser.
STEP: Final = 0x9E3779B97F4A7C15
FACTORS: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_BITS: Final = 0xFFFF_FFFF_FFFF_FFFF


def generator_for(seed: int, round_number: int, purpose: str) -> np.random.Generator:
    """The generator for one purpose in one round of one job.

    >>> first, again = generator_for(7, 3, "select"), generator_for(7, 3, "select")
    >>> first.random() == again.random()
    True
    """
    key = (round_number, zlib.crc32(purpose.encode()))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def key_for(seed: int, round_number: int, draw: int, purpose: int) -> int:
    """The key of one draw of one round of one job: 64 bits for :mod:`oort.kernels.draws`.

    >>> key_for(7, 3, 0, 1) == key_for(7, 3, 0, 1), key_for(7, 3, 0, 1) == key_for(7, 3, 0, 2)
    (True, False)
    """
    key = mixed(int(key_of_job(seed)) + STEP * round_number)
    return mixed(key + STEP * (1 + purpose + (draw << 8)))


def uniform(key: int) -> float:
    """One number from [0, 1).

    >>> uniform(key_for(7, 3, 0, 1)) < 1.0
    True
    """
    return (mixed(key) >> 11) * 2.0**-53


def mixed(bits: int) -> int:
    """64 bits of which each depends on every bit given.

    >>> hex(mixed(STEP))
    '0xe220a8397b1dcdaf'
    """
    bits &= _BITS
    bits = ((bits ^ (bits >> 30)) * FACTORS[0]) & _BITS
    bits = ((bits ^ (bits >> 27)) * FACTORS[1]) & _BITS
    return bits ^ (bits >> 31)


@functools.lru_cache(maxsize=256)
def key_of_job(seed: int) -> np.uint64:
    """What all keys of a job are derived from."""
    key: np.uint64 = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    return key
