"""Randomness that belongs to one client in one round.

A counter-based generator is keyed by (seed, purpose, round, client): what a client draws does not
depend on who else takes part, on the order in which clients are trained or on the machine that
trains them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from oort.types import Floats, Integers

_WORD = (1 << 64) - 1


def client_generator(
    seed: int, round_number: int, client: int, purpose: str
) -> np.random.Generator:
    """The generator of one client in one round.

    >>> a, b = (client_generator(7, 3, 12, "batches").integers(1000) for _ in range(2))
    >>> bool(a == b)
    True
    """
    low, high = _key(seed, round_number, client, purpose)
    return np.random.Generator(np.random.Philox(key=low | high << 64))


class ClientGenerators:
    """The generators of many clients in one round, one after the other.

    It keeps one generator and gives it the next client's key, which takes a seventh of the time of
    a new one. What was given before is another client's from then on.

    >>> generators = ClientGenerators(7, 3, "batches")
    >>> bool(generators(12).random() == client_generator(7, 3, 12, "batches").random())
    True
    """

    def __init__(self, seed: int, round_number: int, purpose: str) -> None:
        self._low = _key(seed, round_number, 0, purpose)[0]
        self._round = round_number
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        self._fresh: Any = self._bits.state

    def __call__(self, client: int) -> np.random.Generator:
        """The generator of one client, at its beginning."""
        key = np.array([self._low, _high(self._round, client)], np.uint64)
        state: Any = {**self._fresh, "state": {**self._fresh["state"], "key": key}}
        self._bits.state = state
        return self._generator


def _key(seed: int, round_number: int, client: int, purpose: str) -> tuple[int, int]:
    low = (zlib.crc32(purpose.encode()) << 32 ^ seed * 0x9E3779B97F4A7C15) & _WORD
    return low, _high(round_number, client)


def _high(round_number: int, client: int) -> int:
    return ((round_number & 0xFFFFFF) << 40 ^ client) & _WORD


def hashed_uniform(seed: int, keys: Integers, purpose: str) -> Floats:
    """One number in [0, 1) for each key, the same whenever it is asked for (SplitMix64's mixing).

    >>> hashed_uniform(7, np.array([1, 2]), "day").round(3).tolist()
    [0.171, 0.708]
    """
    return np.asarray(hashed_uniforms(seed, keys, [purpose])[0])


def hashed_uniforms(seed: int, keys: Integers, purposes: Sequence[str]) -> Floats:
    """The same for several purposes at once, the first axis.

    >>> hashed_uniforms(7, np.array([1, 2]), ["day", "night"])[0].round(3).tolist()
    [0.171, 0.708]
    """
    numbers = np.asarray(keys).astype(np.uint64)
    offsets = [(zlib.crc32(purpose.encode()) << 32 ^ seed) & _WORD for purpose in purposes]
    z = np.array(offsets, np.uint64).reshape(-1, *[1] * numbers.ndim) + numbers
    z *= np.uint64(0x9E3779B97F4A7C15)  # arrays wrap around in silence
    z ^= z >> np.uint64(30)
    z *= np.uint64(0xBF58476D1CE4E5B9)
    z ^= z >> np.uint64(27)
    z *= np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)) * np.float64(2.0**-53)
