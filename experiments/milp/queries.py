"""The requests: real counts, real devices, X samples from at most B participants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oort.testing import LocalTestingSelector, create_testing_selector

#: MobileNetV2's 3.5 million parameters in 32 bits: what a participant downloads.
TRANSFER_MB = 14.0
_GOLDEN = (5**0.5 - 1.0) / 2.0


@dataclass(frozen=True)
class Query:
    """X representative samples from at most B participants."""

    samples: int
    budget: int | None


#: The real counts: OpenImage (12,745 × 50) and Google Speech (2,187 × 35).
WORKLOADS = {
    "openimage": "openimage_counts_12745x50",
    "speech": "google_speech_counts_2187x35",
}


def load_workload(name: str, data: Path, seed: int) -> LocalTestingSelector:
    """A selector that knows the clients of a workload, with devices of the trace.

    A device tests as fast as the trace says it infers, and downloads at the trace's bandwidth.
    """
    devices = np.load(data / "devices" / "fedscale_capacity_51496.npz")
    counts = np.load(data / "counts" / f"{WORKLOADS[name]}.npz")["counts"]
    chosen = np.random.default_rng(seed).permutation(len(devices["client_id"]))[: len(counts)]
    tester = create_testing_selector()
    tester.update_clients_info(
        np.arange(len(counts)),
        counts,
        samples_per_s=1000.0 / devices["computation_ms"][chosen].astype(np.float64),
        bandwidth_mbps=devices["communication_kbps"][chosen] / 1000.0,
    )
    return tester


def grid(number: int) -> list[Query]:
    """About as many requests, evenly on logarithmic scales: X = 4,000 … 200,000, B = 100 … 5,000.

    >>> len(grid(200)), grid(200)[0], grid(200)[-1]
    (200, Query(samples=4000, budget=100), Query(samples=200000, budget=5000))
    """
    budgets = max(2, round(np.sqrt(number / 2)))
    sizes = max(2, round(number / budgets))
    return [
        Query(round(x), round(b))
        for x in np.geomspace(4_000, 200_000, sizes)
        for b in np.geomspace(100, 5_000, budgets)
    ]


def stratified(queries: list[Query], number: int) -> list[Query]:
    """As many of them: the grid's order cut into equal parts, one request of each.

    Where in its part moves on by the golden ratio, so that every size meets small budgets as well
    as large ones. Evenly spaced places would run down the diagonal of the grid: few samples from
    few clients, many from many.

    >>> [(q.samples, q.budget) for q in stratified(grid(200), 20)[:4]]
    [(4000, 368), (4915, 5000), (6038, 879), (7419, 154)]
    """
    number = min(number, len(queries))
    places = [(i + (i + 0.5) * _GOLDEN % 1.0) * len(queries) / number for i in range(number)]
    return [queries[int(p)] for p in places]
