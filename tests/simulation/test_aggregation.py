from __future__ import annotations

import math

import numpy as np
import pytest

from oort.simulation.aggregation import ServerState, aggregate
from oort.simulation.config import ServerConfig

PARAMS = {"w": np.array([1.0, -2.0])}
FIRST = {"w": np.array([0.5, -0.1])}
SECOND = {"w": np.array([-0.2, 0.3])}


def test_fedavg_adds_the_mean_update_times_the_servers_step() -> None:
    config = ServerConfig(aggregation="fedavg", learning_rate=0.5)
    after, _ = aggregate(PARAMS, FIRST, ServerState(), config)
    np.testing.assert_allclose(after["w"], [1.25, -2.05])


def test_fedprox_aggregates_as_fedavg_does() -> None:
    prox, _ = aggregate(PARAMS, FIRST, ServerState(), ServerConfig(aggregation="fedprox"))
    np.testing.assert_array_equal(prox["w"], PARAMS["w"] + FIRST["w"])


@pytest.mark.parametrize("kind", ["fedyogi", "fedadam"])
def test_adaptive_servers_follow_the_published_algorithm_by_hand(kind: str) -> None:
    """Two rounds of Reddi et al.'s Algorithm 2, written out number by number."""
    config = ServerConfig(aggregation=kind, learning_rate=0.1, beta1=0.9, beta2=0.99, tau=0.01)
    value, m, v = 1.0, 0.0, 0.01**2
    for update in (0.5, -0.2):
        m = 0.9 * m + 0.1 * update
        square = update * update
        if kind == "fedyogi":
            v = v - 0.01 * square * (1.0 if v > square else -1.0)
        else:
            v = 0.99 * v + 0.01 * square
        value = value + 0.1 * m / (math.sqrt(v) + 0.01)
    params, state = aggregate(PARAMS, FIRST, ServerState(), config)
    params, state = aggregate(params, SECOND, state, config)
    assert params["w"][0] == pytest.approx(value, rel=1e-12)
    assert state.first["w"][0] == pytest.approx(m, rel=1e-12)
    assert state.second["w"][0] == pytest.approx(v, rel=1e-12)


def test_yogi_and_adam_differ_once_updates_shrink() -> None:
    after = {}
    for kind in ("fedyogi", "fedadam"):
        config = ServerConfig(aggregation=kind)
        params, state = aggregate(PARAMS, {"w": np.array([5.0, 5.0])}, ServerState(), config)
        after[kind], _ = aggregate(params, {"w": np.array([0.1, 0.1])}, state, config)
    assert not np.allclose(after["fedyogi"]["w"], after["fedadam"]["w"])


def test_models_keep_their_precision() -> None:
    params = {"w": np.ones(2, np.float32)}
    for kind in ("fedavg", "fedyogi"):
        after, _ = aggregate(params, FIRST, ServerState(), ServerConfig(aggregation=kind))
        assert after["w"].dtype == np.float32
