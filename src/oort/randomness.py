"""Randomness that is derived, never carried.

Seed, round and purpose give the generator, so a recovered job draws what it would have drawn, and
nothing here or elsewhere in Oort touches NumPy's global state.
"""

from __future__ import annotations

import zlib

import numpy as np


def generator_for(seed: int, round_number: int, purpose: str) -> np.random.Generator:
    """The generator for one purpose in one round of one job.

    >>> first, again = generator_for(7, 3, "select"), generator_for(7, 3, "select")
    >>> first.random() == again.random()
    True
    """
    key = (round_number, zlib.crc32(purpose.encode()))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
