"""Softmax regression and multi-layer perceptrons in plain NumPy, a chunk of clients at once.

Every array has the clients on its first axis: a step is a few matrix products, each over all of
them. Layers are ``relu(x @ w + b)``, the last one goes into a softmax with cross-entropy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from oort.randomness import generator_for
from oort.simulation.data.base import Encoding
from oort.simulation.learners.base import Chunk, ChunkResult, Params
from oort.types import Floats, Mask, Rows

F4 = npt.NDArray[np.float32]
EVALUATION_BATCH = 4096


class NetworkLearner:
    """A perceptron with any number of hidden layers; none is softmax regression.

    >>> learner = NetworkLearner((2, 3), encoding=Encoding(), learning_rate=0.1)
    >>> {name: value.shape for name, value in learner.initial(0).items()}
    {'w0': (2, 3), 'b0': (3,)}
    """

    takes_threads = True

    def __init__(
        self,
        widths: Sequence[int],
        *,
        encoding: Encoding,
        learning_rate: float,
        proximal: float = 0.0,
    ) -> None:
        self._widths = tuple(widths)
        self._encoding = encoding
        self._rate = np.float32(learning_rate)
        self._proximal = np.float32(proximal)

    def initial(self, seed: int) -> Params:
        """Zeros for softmax regression (its loss is convex), scaled normals for hidden layers."""
        rng = generator_for(seed, 0, "initial model")
        params: Params = {}
        for layer, (inputs, outputs) in enumerate(
            zip(self._widths, self._widths[1:], strict=False)
        ):
            scale = np.sqrt(2.0 / inputs) if len(self._widths) > 2 else 0.0
            params[f"w{layer}"] = (scale * rng.standard_normal((inputs, outputs))).astype(
                np.float32
            )
            params[f"b{layer}"] = np.zeros(outputs, np.float32)
        return params

    def train(self, params: Params, pool: npt.NDArray[Any], chunk: Chunk) -> ChunkResult:
        """Train every client of the chunk from the same model."""
        local = {
            name: np.repeat(value[None], len(chunk), axis=0) for name, value in params.items()
        }
        squares, losses, seen = np.zeros((3, len(chunk)))
        steps = chunk.num_steps
        with np.errstate(all="ignore"):
            for step in range(chunk.rows.shape[1]):
                busy = int(np.count_nonzero(steps > step))
                there = chunk.rows[:busy, step] >= 0
                x = self._encoding.dense(pool[np.maximum(chunk.rows[:busy, step], 0)])
                loss = self._step(local, params, x, chunk.labels[:busy, step], there)
                loss = np.where(there, loss, 0.0).astype(np.float64)
                squares[:busy] += np.einsum("cb,cb->c", loss, loss)
                losses[:busy] += loss.sum(axis=1)
                seen[:busy] += there.sum(axis=1)
        return _result(params, local, chunk.weights, squares, losses, seen.astype(np.int64))

    def losses(self, params: Params, x: npt.NDArray[Any], y: Rows) -> tuple[Floats, Mask]:
        """The loss of every sample, and whether its label was the likeliest."""
        loss, right = np.empty(len(y)), np.empty(len(y), bool)
        stacked = {name: value[None] for name, value in params.items()}
        with np.errstate(all="ignore"):
            for begin in range(0, len(y), EVALUATION_BATCH):
                part = slice(begin, begin + EVALUATION_BATCH)
                inputs = self._encoding.dense(x[part][None])
                logits = self._forward(stacked, inputs)[-1]
                loss[part] = cross_entropy(logits, y[part][None])[0][0]
                right[part] = logits[0].argmax(axis=1) == y[part]
        return loss, right

    def _forward(self, local: Params, x: F4) -> list[F4]:
        """The input of every layer, and the logits last."""
        values, last = [x], len(self._widths) - 2
        for layer in range(last + 1):
            z = values[-1] @ local[f"w{layer}"] + local[f"b{layer}"][:, None]
            values.append(np.maximum(z, 0, out=z) if layer < last else z)
        return values

    def _step(self, local: Params, given: Params, x: F4, y: Rows, there: Mask) -> F4:
        """One gradient step of the first clients, in place; returns their losses before it."""
        busy = len(x)
        at_work = {name: value[:busy] for name, value in local.items()}
        values = self._forward(at_work, x)
        loss, slope = cross_entropy(values[-1], np.maximum(y, 0))
        slope *= (there / there.sum(axis=1, keepdims=True)).astype(np.float32)[..., None]
        gradients: Params = {}
        for layer in reversed(range(len(self._widths) - 1)):
            gradients[f"w{layer}"] = values[layer].transpose(0, 2, 1) @ slope
            gradients[f"b{layer}"] = slope.sum(axis=1)
            if layer:
                slope = (slope @ at_work[f"w{layer}"].transpose(0, 2, 1)) * (values[layer] > 0)
        for name, gradient in gradients.items():
            if self._proximal:
                gradient += self._proximal * (at_work[name] - given[name])
            at_work[name] -= self._rate * gradient
        return loss


def cross_entropy(logits: F4, y: Rows) -> tuple[F4, F4]:
    """Loss per sample, and its slope in the logits.

    >>> loss, slope = cross_entropy(np.zeros((1, 1, 2), np.float32), np.array([[1]]))
    >>> loss.round(3), slope.tolist()
    (array([[0.693]], dtype=float32), [[[0.5, -0.5]]])
    """
    shifted = logits - logits.max(axis=-1, keepdims=True)
    likelihood = np.exp(shifted)
    total = likelihood.sum(axis=-1, keepdims=True)
    slope = likelihood / total
    chosen = np.take_along_axis(shifted, y[..., None], axis=-1)
    loss = (np.log(total) - chosen)[..., 0]
    np.put_along_axis(
        slope, y[..., None], np.take_along_axis(slope, y[..., None], axis=-1) - 1, axis=-1
    )
    return loss, slope


def _result(
    given: Params, local: Params, weights: Floats, squares: Floats, losses: Floats, seen: Rows
) -> ChunkResult:
    """Add up the updates of clients whose losses and parameters are finite."""
    finite = np.isfinite(squares)
    for value in local.values():
        finite &= np.isfinite(value.reshape(len(value), -1)).all(axis=1)
    counted = np.where(finite, weights, 0.0).astype(np.float32)
    update = {}
    for name, value in local.items():
        delta = value - given[name]
        if not finite.all():
            delta[~finite] = 0.0
        update[name] = np.tensordot(counted, delta, axes=1)
    return ChunkResult(update, squares, losses, seen, ~finite)
