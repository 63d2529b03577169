"""Populations in mid-job, made through the public calls."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import oort
from oort.training.selector import GuidedSelector

_BATCH = 1 << 20


def draw(size: int, generator: np.random.Generator) -> npt.NDArray[np.float32]:
    """Log-normal values with a median of 20, as utilities and durations roughly are."""
    values = generator.standard_normal(size, dtype=np.float32)
    np.exp(values, out=values)
    values *= 20
    return values


def job(clients: int, explored: float, seed: int = 1) -> GuidedSelector:
    """A job in which a share of the clients has reported, over rounds that lie behind it.

    Everyone's duration is expected; clients report in batches, one round each.
    """
    generator = np.random.default_rng(seed)
    selector = oort.create_training_selector({"seed": seed})
    selector.register_clients(np.arange(clients), expected_duration_s=draw(clients, generator))
    known = int(clients * explored)
    rows = np.arange(known) if explored == 1 else generator.permutation(clients)[:known]
    batch = max(1, min(_BATCH, -(-known // 50)))
    for start in range(0, known, batch):
        reporting = oort.RowNumbers(rows[start : start + batch])
        selector.update_clients(
            reporting,
            utility=draw(reporting.size, generator),
            duration_s=draw(reporting.size, generator),
        )
        selector.select(1)
    return selector
