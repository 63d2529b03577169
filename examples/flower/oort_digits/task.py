"""The learning task: scikit-learn's digits, split by label, and a small network in NumPy.

Nothing here knows of Flower or of Oort.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.datasets import load_digits

Arrays = list[np.ndarray]
NUM_TEST = 397


@cache
def images_and_labels() -> tuple[np.ndarray, np.ndarray]:
    """All 1,797 images, in one fixed random order."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    return (data.data[order] / 16.0).astype(np.float32), data.target[order]


def test_set() -> tuple[np.ndarray, np.ndarray]:
    """Images that no client trains on."""
    images, labels = images_and_labels()
    return images[:NUM_TEST], labels[:NUM_TEST]


@cache
def partition(client: int, num_clients: int) -> tuple[np.ndarray, np.ndarray]:
    """What one client holds: images of two digits, and far more of them on some than on others."""
    images, labels = images_and_labels()
    rng = np.random.default_rng([client, num_clients])
    digits = rng.choice(10, size=2, replace=False)
    mine = np.flatnonzero(np.isin(labels[NUM_TEST:], digits)) + NUM_TEST
    size = int(np.clip(rng.lognormal(mean=2.5, sigma=1.0), 5, len(mine)))
    rows = rng.choice(mine, size=size, replace=False)  # clients' images overlap: there are few
    return images[rows], labels[rows]


def seconds_per_sample(client: int) -> float:
    """How slow the client's (simulated) device is: the slowest are a hundred times slower."""
    return float(np.random.default_rng(1000 + client).lognormal(mean=-1.0, sigma=1.0))


def new_model(seed: int = 0) -> Arrays:
    """Weights and biases of a network 64-32-10."""
    rng = np.random.default_rng(seed)
    return [
        (rng.standard_normal((64, 32)) * 0.15).astype(np.float32),
        np.zeros(32, np.float32),
        (rng.standard_normal((32, 10)) * 0.15).astype(np.float32),
        np.zeros(10, np.float32),
    ]


def losses_of(model: Arrays, images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The loss of each sample."""
    return -np.log(_forward(model, images)[1][np.arange(len(labels)), labels] + 1e-9)


def accuracy(model: Arrays, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of images that are recognised."""
    return float(np.mean(_forward(model, images)[1].argmax(axis=1) == labels))


def step(model: Arrays, images: np.ndarray, labels: np.ndarray, rate: float) -> np.ndarray:
    """One step of gradient descent, in place; the loss of each sample before it."""
    hidden, shares = _forward(model, images)
    losses = -np.log(shares[np.arange(len(labels)), labels] + 1e-9)
    error = shares
    error[np.arange(len(labels)), labels] -= 1.0
    error /= len(labels)
    back = (error @ model[2].T) * (hidden > 0)
    for weights, gradient in zip(
        model, (images.T @ back, back.sum(0), hidden.T @ error, error.sum(0)), strict=True
    ):
        weights -= (rate * gradient).astype(np.float32)
    return losses


def _forward(model: Arrays, images: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    hidden = np.maximum(images @ model[0] + model[1], 0.0)
    scores = hidden @ model[2] + model[3]
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, powers / powers.sum(axis=1, keepdims=True)
