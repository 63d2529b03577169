"""Exact tails of drawing without replacement: the oracle of the bounds."""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@cache
def hypergeometric(num_clients: int, ones: int) -> Array:
    """P(k ones among n drawn), one row per n from 1 to N, one column per k from 0 to N."""
    table = np.zeros((num_clients, num_clients + 1))
    for n in range(1, num_clients + 1):
        total = comb(num_clients, n)
        for k in range(max(0, n - (num_clients - ones)), min(n, ones) + 1):
            table[n - 1, k] = comb(ones, k) * comb(num_clients - ones, n - k) / total
    return table


def deviations(num_clients: int, ones: int) -> Array:
    """|k/n − K/N| in the same shape."""
    n = np.arange(1, num_clients + 1)[:, None]
    return np.asarray(np.abs(np.arange(num_clients + 1)[None, :] / n - ones / num_clients))


def tail(num_clients: int, ones: int, n: int, epsilon: float) -> float:
    """P(|mean of n drawn − mean of all| ≥ ε), exactly."""
    row = deviations(num_clients, ones)[n - 1]
    return float(hypergeometric(num_clients, ones)[n - 1][row >= epsilon - 1e-12].sum())


def worst_tail(num_clients: int, n: int, epsilon: float) -> float:
    """The largest such tail over all populations of zeros and ones."""
    return max(tail(num_clients, ones, n, epsilon) for ones in range(num_clients + 1))
