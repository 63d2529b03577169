"""How good the model is: on a test set, on clients' own data, on clients chosen for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oort.randomness import generator_for
from oort.simulation.chosen import MOST_SAMPLES_PER_CLIENT, TestSet, chosen_test_set, first_samples
from oort.simulation.history import NOT_MEASURED
from oort.simulation.learners.base import Params
from oort.simulation.world import World
from oort.types import Floats, Mask, Rows


@dataclass(frozen=True)
class Scores:
    """What testing gave; NaN where it was not asked for."""

    test_loss: float = NOT_MEASURED
    accuracy: float = NOT_MEASURED
    worst_decile: float = NOT_MEASURED
    chosen_accuracy: float = NOT_MEASURED


class Evaluator:
    """Tests models in one world; the clients that it tests on stay the same."""

    def __init__(self, world: World) -> None:
        self._world = world
        settings = world.config.evaluation
        rng = generator_for(world.seed, 0, "evaluation clients")
        count = min(settings.clients, world.num_clients)
        tested = np.sort(rng.permutation(world.num_clients)[:count])
        self._tested = first_samples(world, tested)
        self.chosen = chosen_test_set(world)

    def __call__(self, params: Params) -> Scores:
        """Test a model."""
        test = self._world.data.test
        loss, right = self._losses(params, test.x, test.y)
        return Scores(
            test_loss=float(np.mean(loss)),
            accuracy=float(np.mean(right)),
            worst_decile=worst_decile(self._by_client(params)),
            chosen_accuracy=float(np.mean(self._right(params, self.chosen)))
            if len(self.chosen)
            else NOT_MEASURED,
        )

    def _by_client(self, params: Params) -> Floats:
        """Accuracy on each tested client's own samples."""
        if len(self._tested) == 0:
            return np.zeros(0)
        sizes = np.asarray(self._world.data.sizes)[self._tested.clients]
        taken = np.minimum(sizes, MOST_SAMPLES_PER_CLIENT)
        begins = np.concatenate([[0], np.cumsum(taken)[:-1]])
        right = self._right(params, self._tested).astype(np.float64)
        return np.asarray(np.add.reduceat(right, begins) / taken)

    def _right(self, params: Params, samples: TestSet) -> Mask:
        """Which samples of a test set the model gets right."""
        cohort = self._world.data.cohort(samples.clients)
        x = cohort.pool[cohort.index[samples.places]]
        return self._losses(params, x, cohort.labels[samples.places])[1]

    def _losses(self, params: Params, x: npt.NDArray[Any], y: Rows) -> tuple[Floats, Mask]:
        """The learner's; a sample whose loss is not finite is not right by accident."""
        loss, right = self._world.learner.losses(params, x, y)
        return loss, right & np.isfinite(loss)


def worst_decile(accuracy: Floats) -> float:
    """Mean over the tenth of clients where it is lowest; at least one client.

    >>> worst_decile(np.array([0.9, 0.2, 0.8]))
    0.2
    """
    if len(accuracy) == 0:
        return NOT_MEASURED
    return float(np.sort(accuracy)[: max(1, len(accuracy) // 10)].mean())
