from __future__ import annotations

import numpy as np
import pytest

import oort
from oort.simulation.data.base import Encoding
from oort.simulation.learners.base import Chunk, Params
from oort.simulation.learners.network import NetworkLearner
from oort.types import Rows

POOL = np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 3, 40)


def chunk_of(*clients: list[list[int]], weights: list[float] | None = None) -> Chunk:
    """A chunk from the batches of each client, given as rows of the pool."""
    steps = max(len(c) for c in clients)
    size = max(len(batch) for c in clients for batch in c)
    rows = np.full((len(clients), steps, size), -1, np.int64)
    for i, client in enumerate(clients):
        for s, batch in enumerate(client):
            rows[i, s, : len(batch)] = batch
    labels = np.where(rows >= 0, LABELS[rows], -1)
    return Chunk(rows, labels, np.array(weights or [1.0] * len(clients)))


def one_client_in_a_plain_loop(
    params: Params, batches: list[list[int]], *, rate: float, proximal: float = 0.0
) -> tuple[Params, oort.LossMeter]:
    """The same training as a textbook would write it, in double precision, with a LossMeter."""
    local: Params = {k: v.astype(np.float64) for k, v in params.items()}
    depth = len(local) // 2
    meter = oort.LossMeter()
    for batch in batches:
        x, y = POOL[batch].astype(np.float64), LABELS[batch]
        inputs = [x]
        for layer in range(depth):
            z = inputs[-1] @ local[f"w{layer}"] + local[f"b{layer}"]
            inputs.append(np.maximum(z, 0) if layer < depth - 1 else z)
        p = np.exp(inputs[-1]) / np.exp(inputs[-1]).sum(axis=1, keepdims=True)
        meter.update(-np.log(p[np.arange(len(y)), y]))
        slope = p.copy()
        slope[np.arange(len(y)), y] -= 1
        slope /= len(y)
        gradients = {}
        for layer in reversed(range(depth)):
            gradients[f"w{layer}"] = inputs[layer].T @ slope
            gradients[f"b{layer}"] = slope.sum(axis=0)
            slope = (slope @ local[f"w{layer}"].T) * (inputs[layer] > 0)
        for name, gradient in gradients.items():
            local[name] = local[name] - rate * (gradient + proximal * (local[name] - params[name]))
    return local, meter


CLIENTS = (
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]],
    [[10, 11, 12, 13], [14, 15, 16, 17]],
    [[20, 21]],
)


@pytest.mark.parametrize("proximal", [0.0, 0.7])
@pytest.mark.parametrize("widths", [(5, 3), (5, 4, 3), (5, 6, 4, 3)])
def test_a_chunk_trains_as_a_plain_loop_over_its_clients_does(
    widths: tuple[int, ...], proximal: float
) -> None:
    learner = NetworkLearner(widths, encoding=Encoding(), learning_rate=0.3, proximal=proximal)
    params = learner.initial(7)
    weights = [3.0, 1.0, 2.0]
    result = learner.train(params, POOL, chunk_of(*CLIENTS, weights=weights))
    plain = [
        one_client_in_a_plain_loop(params, batches, rate=0.3, proximal=proximal)
        for batches in CLIENTS
    ]
    for name, value in params.items():
        expected = sum(w * (p[name] - value) for w, (p, _) in zip(weights, plain, strict=True))
        np.testing.assert_allclose(result.update[name], expected, rtol=1e-4, atol=1e-5)
    meters = [meter for _, meter in plain]
    measured = result.sum_of_squares / result.seen
    np.testing.assert_allclose(measured, [m.mean_squared_loss for m in meters], rtol=1e-4)
    assert result.seen.tolist() == [m.num_samples for m in meters]


def test_fedprox_pulls_clients_towards_the_model_by_hand() -> None:
    """One weight, one sample, two steps: the second step feels μ · (w − w₀)."""
    x = np.array([[2.0]], np.float32)
    rate, mu = 0.5, 1.0
    learner = NetworkLearner((1, 2), encoding=Encoding(), learning_rate=rate, proximal=mu)
    given = {"w0": np.array([[0.0, 0.0]], np.float32), "b0": np.zeros(2, np.float32)}
    chunk = Chunk(np.zeros((1, 2, 1), np.int64), np.zeros((1, 2, 1), np.int64), np.ones(1))
    update = learner.train(given, x, chunk).update

    w, b = 0.0, 0.0  # of the right class; the wrong one mirrors it
    for _ in range(2):
        p = 1 / (1 + np.exp(-2 * (2.0 * w + b)))
        w, b = w - rate * ((p - 1) * 2.0 + mu * w), b - rate * ((p - 1) + mu * b)
    np.testing.assert_allclose(update["w0"], [[w, -w]], rtol=1e-5)
    np.testing.assert_allclose(update["b0"], [b, -b], rtol=1e-5)


def test_a_client_whose_loss_diverges_is_marked_and_left_out() -> None:
    pool = POOL.copy()
    pool[20:22] = 3e38
    learner = NetworkLearner((5, 4, 3), encoding=Encoding(), learning_rate=10.0)
    params = learner.initial(3)
    two_steps = [*CLIENTS[:2], [[20, 21], [20, 21]]]
    result = learner.train(params, pool, chunk_of(*two_steps))
    assert result.diverged.tolist() == [False, False, True]
    without = learner.train(params, pool, chunk_of(*two_steps[:2]))
    for name, value in without.update.items():
        np.testing.assert_allclose(result.update[name], value, rtol=1e-5, atol=1e-6)


def test_a_model_starts_the_same_under_the_same_seed() -> None:
    learner = NetworkLearner((5, 4, 3), encoding=Encoding(), learning_rate=0.1)
    first, again, other = (learner.initial(seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first["w0"], again["w0"])
    assert not np.array_equal(first["w0"], other["w0"])


def test_testing_says_for_each_sample_what_its_loss_is_and_whether_it_was_right() -> None:
    learner = NetworkLearner((1, 2), encoding=Encoding(), learning_rate=0.1)
    params = {"w0": np.array([[1.0, -1.0]], np.float32), "b0": np.zeros(2, np.float32)}
    labels: Rows = np.array([0, 1])
    loss, right = learner.losses(params, np.array([[1.0], [1.0]], np.float32), labels)
    np.testing.assert_allclose(loss, [np.log1p(np.exp(-2)), np.log1p(np.exp(2))], rtol=1e-6)
    assert right.tolist() == [True, False]
