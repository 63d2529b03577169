"""How good the model is: on a test set, on clients' own data, on clients chosen for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oort.randomness import generator_for
from oort.simulation.history import NOT_MEASURED
from oort.simulation.learners.base import Params
from oort.simulation.world import World
from oort.testing.selector import create_testing_selector
from oort.types import Floats, Rows

MOST_SAMPLES_PER_CLIENT = 100


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
        self._tested = np.sort(rng.permutation(world.num_clients)[:count])
        self._chosen = chosen_clients(world)

    def __call__(self, params: Params) -> Scores:
        """Test a model."""
        test = self._world.data.test
        loss, right = self._world.learner.losses(params, test.x, test.y)
        return Scores(
            test_loss=float(np.mean(loss)),
            accuracy=float(np.mean(right)),
            worst_decile=worst_decile(self._per_client(params, self._tested)[0]),
            chosen_accuracy=self._pooled(params, self._chosen),
        )

    def _per_client(self, params: Params, clients: Rows) -> tuple[Floats, Rows]:
        """Accuracy on each client's own samples, and how many those were."""
        if len(clients) == 0:
            return np.zeros(0), np.zeros(0, np.int64)
        cohort = self._world.data.cohort(clients)
        taken = np.minimum(cohort.sizes, MOST_SAMPLES_PER_CLIENT)
        places = np.concatenate(
            [np.arange(s, s + n) for s, n in zip(cohort.start, taken, strict=False)]
        )
        x = cohort.pool[cohort.index[places]]
        _, right = self._world.learner.losses(params, x, cohort.labels[places])
        begins = np.concatenate([[0], np.cumsum(taken)[:-1]])
        return np.add.reduceat(right.astype(np.float64), begins) / taken, taken

    def _pooled(self, params: Params, clients: Rows) -> float:
        """Accuracy over the samples of all these clients together."""
        accuracy, taken = self._per_client(params, clients)
        return float(np.average(accuracy, weights=taken)) if len(taken) else NOT_MEASURED


def worst_decile(accuracy: Floats) -> float:
    """Mean over the tenth of clients where it is lowest; at least one client.

    >>> worst_decile(np.array([0.9, 0.2, 0.8]))
    0.2
    """
    if len(accuracy) == 0:
        return NOT_MEASURED
    return float(np.sort(accuracy)[: max(1, len(accuracy) // 10)].mean())


def chosen_clients(world: World) -> Rows:
    """The clients that the testing selector picks, few whose data looks like everyone's."""
    deviation = world.config.evaluation.chosen_deviation
    if deviation is None:
        return np.zeros(0, np.int64)
    sizes = np.asarray(world.data.sizes)
    plan = create_testing_selector().select_by_deviation(
        dev_target=deviation * float(np.ptp(sizes)),
        range_of_capacity=float(np.ptp(sizes)),
        total_num_clients=world.num_clients,
    )
    count = min(int(plan.num_participants), world.num_clients)
    rng = generator_for(world.seed, 0, "chosen clients")
    return np.sort(rng.permutation(world.num_clients)[:count])
