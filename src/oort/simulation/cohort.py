"""Who of those selected trains in a round, and what they bring back.

An update that is not finite is worth nothing to a server: it turns it down when it arrives, counts
the client as failed and waits for the next to finish. So clients are trained in the order in which
they finish, until K updates can be used or nobody is left to wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oort.simulation.executor import Executor
from oort.simulation.learners.base import ChunkResult, Params
from oort.simulation.learners.plan import chunk_for
from oort.simulation.population import Participations
from oort.simulation.rounds import Ending, close
from oort.simulation.world import World
from oort.types import Floats, Integers, Mask, Rows


@dataclass(frozen=True)
class Trained:
    """What the clients selected bring back, in their order; zeros for those who did not train."""

    mean_update: Params  #: empty where nobody's can be used
    mean_squared_loss: Floats
    sum_of_losses: Floats
    seen: Rows
    diverged: Mask


class CohortTrainer:
    """Trains cohorts of one world's clients.

    Args:
        world: Clients and their data.
        executor: Where chunks are trained.
        lap: Told what the time since it was last called went into.
    """

    def __init__(self, world: World, executor: Executor, lap: Callable[[str], None]) -> None:
        self._world = world
        self._executor = executor
        self._lap = lap
        self._distinct = np.minimum(world.samples, world.data.sizes)

    def __call__(
        self, params: Params, clients: Rows, luck: Participations, round_number: int
    ) -> tuple[Ending, Trained]:
        """Train the first to finish; says how the round ends."""
        config = self._world.config.rounds
        weights = self._weights(clients)
        brought = _Brought(len(clients))
        while True:
            ending = close(
                luck.duration_s,
                luck.drops_after_s,
                wanted=config.participants,
                deadline_s=config.deadline_s,
                rejected=brought.diverged,
            )
            new = ending.completed[~brought.trained[ending.completed]]
            if len(new):
                self._train(brought, params, clients, new, weights, round_number)
            if not brought.diverged[new].any():
                self._lap("bookkeeping")
                trained = brought.mean(weights)
                self._lap("aggregate")
                return ending, trained

    def distinct(self, clients: Rows) -> Rows:
        """Samples that each client trains on, repeats not counted."""
        return self._distinct[clients]

    def _weights(self, clients: Rows) -> Floats:
        if self._world.config.server.weighting == "equal":
            return np.ones(len(clients))
        return self.distinct(clients).astype(np.float64)

    def _train(
        self,
        brought: _Brought,
        params: Params,
        clients: Rows,
        places: Rows,
        weights: Floats,
        round_number: int,
    ) -> None:
        """Train the clients at these places, chunk by chunk."""
        config = self._world.config
        self._lap("bookkeeping")
        rows = clients[places]
        cohort = self._world.data.cohort(rows)
        chunks, members = [], []
        for begin in range(0, len(rows), config.executor.chunk_size):
            chunk, order = chunk_for(
                cohort,
                rows,
                np.arange(begin, min(begin + config.executor.chunk_size, len(rows))),
                self._world.samples[rows],
                batch_size=config.learner.batch_size,
                weights=weights[places],
                seed=self._world.seed,
                round_number=round_number,
            )
            chunks.append(chunk)
            members.append(places[order])
        self._lap("plan")
        results = self._executor.train(params, cohort.pool, chunks)
        for result, some in zip(results, members, strict=True):
            brought.add(result, some)
        self._lap("train")


class _Brought:
    """What came back so far; updates are added up in the order of the chunks."""

    def __init__(self, count: int) -> None:
        self.trained, self.diverged = np.zeros((2, count), bool)
        self._squares, self._losses = np.zeros((2, count))
        self._seen: Integers = np.zeros(count, np.int64)
        self._total: Params = {}

    def add(self, result: ChunkResult, places: Rows) -> None:
        self.trained[places] = True
        self.diverged[places] = result.diverged
        self._squares[places] = result.sum_of_squares
        self._losses[places] = result.sum_of_losses
        self._seen[places] = result.seen
        for name, value in result.update.items():
            self._total[name] = self._total[name] + value if name in self._total else value

    def mean(self, weights: Floats) -> Trained:
        weight = np.float32(weights[self.trained & ~self.diverged].sum())
        mean = {name: value / weight for name, value in self._total.items()} if weight else {}
        squares = self._squares / np.maximum(self._seen, 1)
        return Trained(mean, squares, self._losses, np.asarray(self._seen), self.diverged)
