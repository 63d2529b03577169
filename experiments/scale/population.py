"""Generated clients: every client holds 7 to 20 categories, popular ones more often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oort.testing import LocalTestingSelector, create_testing_selector

#: Clients and categories at the scale of the paper's datasets.
POPULATIONS = {
    "openimage-like": (14_477, 600),
    "stackoverflow-like": (315_902, 500),
    "reddit-like": (1_660_820, 5_000),
}

_FEWEST, _MOST = 7, 20
_CHUNK = 100_000


def make_tester(name: str, data: Path | None, seed: int) -> LocalTestingSelector:
    """A selector that knows a whole population."""
    number, categories = POPULATIONS[name]
    indptr, category, count = counts(number, categories, seed)
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((count, category, indptr), shape=(number, categories))
    speed, mbps = devices(number, data, seed)
    tester = create_testing_selector()
    tester.update_clients_info(np.arange(number), matrix, samples_per_s=speed, bandwidth_mbps=mbps)
    return tester


def counts(
    number: int, categories: int, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Samples as CSR arrays.

    A client holds k distinct categories, k uniform from 7 to 20, drawn with probability falling as
    rank^-0.8; its size is lognormal (median 81, at most 20,000), split by exponential weights.
    """
    generator = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, categories + 1) ** 0.8
    ladder = np.cumsum(popularity / popularity.sum())
    ladder[-1] = 1.0
    lengths, columns, samples = [], [], []
    for begin in range(0, number, _CHUNK):
        size = min(_CHUNK, number - begin)
        held = _distinct(generator, ladder, size)
        length = generator.integers(_FEWEST, _MOST + 1, size)
        keep = generator.random((size, _MOST)).argsort(axis=1) < length[:, None]
        weight = generator.exponential(1.0, (size, _MOST)) * keep
        total = np.minimum(np.ceil(generator.lognormal(4.4, 1.4, size)), 20_000)
        share = np.ceil(total[:, None] * weight / weight.sum(axis=1, keepdims=True))
        lengths.append(length)
        columns.append(held[keep])
        samples.append(share[keep].astype(np.int32))
    indptr = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    return indptr, np.concatenate(columns), np.concatenate(samples)


def _distinct(
    generator: np.random.Generator, ladder: npt.NDArray[np.float64], size: int
) -> npt.NDArray[np.int32]:
    """Twenty different categories for each of ``size`` clients, ascending; repeats drawn again."""
    held = np.searchsorted(ladder, generator.random((size, _MOST)), side="right").astype(np.int32)
    held.sort(axis=1)
    while True:
        repeated = np.zeros(held.shape, np.bool_)
        repeated[:, 1:] = held[:, 1:] == held[:, :-1]
        rows = np.flatnonzero(repeated.any(axis=1))
        if not len(rows):
            return held
        part, again = held[rows], repeated[rows]
        part[again] = np.searchsorted(ladder, generator.random(int(again.sum())), side="right")
        part.sort(axis=1)
        held[rows] = part


def devices(number: int, data: Path | None, seed: int) -> tuple[Any, Any]:
    """Samples and megabits per second: drawn from the trace, or lognormal without it."""
    generator = np.random.default_rng([seed, 1])
    if data is None:
        speed = 1000.0 / generator.lognormal(np.log(41.0), 0.8, number)
        return speed, generator.lognormal(np.log(6.1), 1.1, number)
    trace = np.load(data / "devices" / "fedscale_capacity_51496.npz")
    chosen = generator.integers(0, len(trace["client_id"]), number)
    speed = 1000.0 / trace["computation_ms"][chosen].astype(np.float64)
    return speed, trace["communication_kbps"][chosen] / 1000.0
