"""What becomes of the cohort's mean update.

fedavg     the mean itself, times the server's step (McMahan et al., AISTATS 2017);
           FedProx's too, whose proximal term is the clients' business
fedadam    Adam on it, and
fedyogi    Yogi on it (Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2)
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from oort.simulation.config import ServerConfig
from oort.simulation.learners.base import Params

ADAPTIVE = ("fedyogi", "fedadam")


@dataclass(frozen=True)
class ServerState:
    """What an adaptive server remembers: moments of the mean update; empty before the first."""

    first: Params = field(default_factory=dict)
    second: Params = field(default_factory=dict)


def aggregate(
    params: Params, mean_update: Params, state: ServerState, config: ServerConfig
) -> tuple[Params, ServerState]:
    """The next model, and what the server remembers.

    >>> params, update = {"w": np.array([1.0])}, {"w": np.array([0.5])}
    >>> aggregate(params, update, ServerState(), ServerConfig())[0]["w"]
    array([1.5])
    """
    if config.aggregation not in ADAPTIVE:
        rate = 1.0 if config.learning_rate is None else config.learning_rate
        return {
            k: (params[k] + rate * mean_update[k]).astype(params[k].dtype) for k in params
        }, state
    rate = 0.01 if config.learning_rate is None else config.learning_rate
    first, second, stepped = {}, {}, {}
    for name, value in params.items():
        update = np.asarray(mean_update[name], np.float64)
        m = state.first.get(name, np.zeros_like(update))
        v = state.second.get(name, np.full_like(update, config.tau**2))
        first[name] = config.beta1 * m + (1.0 - config.beta1) * update
        second[name] = _second_moment(v, update**2, config)
        step = rate * first[name] / (np.sqrt(second[name]) + config.tau)
        stepped[name] = (value + step).astype(value.dtype)
    return stepped, ServerState(first, second)


def _second_moment(v: np.ndarray, square: np.ndarray, config: ServerConfig) -> np.ndarray:
    """Yogi moves by the size of the square alone; Adam forgets exponentially."""
    if config.aggregation == "fedyogi":
        yogi: np.ndarray = v - (1.0 - config.beta2) * square * np.sign(v - square)
        return yogi
    adam: np.ndarray = config.beta2 * v + (1.0 - config.beta2) * square
    return adam
