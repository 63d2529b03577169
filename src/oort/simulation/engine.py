"""A job in a world: select, train, aggregate, report, round after round.

``Job`` is the only module that keeps state. One round:

    who is online -> select K · overcommit -> how long each takes, who drops out -> the first K
    to finish -> train them -> aggregate -> report everyone's outcome -> advance the clock
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oort.errors import ConfigError
from oort.protocols import TrainingSelector
from oort.simulation import executor as executors
from oort.simulation import strategies
from oort.simulation.aggregation import ServerState, aggregate
from oort.simulation.availability import DAY_S, WAITING_STEP_S
from oort.simulation.config import StrategyConfig
from oort.simulation.evaluation import Evaluator, Scores
from oort.simulation.history import NOT_MEASURED, Participation, RoundRecord
from oort.simulation.learners.base import ChunkResult, Params
from oort.simulation.learners.plan import chunk_for
from oort.simulation.population import Participations, participations
from oort.simulation.rounds import Ending, close, overcommitted
from oort.simulation.world import World
from oort.types import Floats, Mask, Outcome, Rows, Selection

PATIENCE_S = 7 * DAY_S  #: how long a job waits for somebody whom it can select


@dataclass(frozen=True)
class JobState:
    """What a job needs to go on, beside what its selector was told."""

    round: int = 0
    clock_s: float = 0.0
    params: Params = field(default_factory=dict)
    server: ServerState = field(default_factory=ServerState)


@dataclass(frozen=True)
class Trained:
    """What the participants of a round bring back, in their order."""

    mean_update: Params  #: empty where nobody's can be used
    mean_squared_loss: Floats
    sum_of_losses: Floats
    seen: Rows
    diverged: Mask


@dataclass(frozen=True)
class RoundResult:
    """A finished round."""

    record: RoundRecord
    participations: Sequence[Participation]
    timings_s: dict[str, float]  #: real seconds by what they went into; not part of the history


class Job:
    """One strategy's training job in a world.

    Args:
        world: Clients, their data, devices and availability.
        strategy: How participants are picked.
        state: Where to go on; from the start by default.
        past: What every round until then was told to the selector, to bring it to the same point.
    """

    def __init__(
        self,
        world: World,
        strategy: StrategyConfig,
        *,
        state: JobState | None = None,
        past: Iterator[tuple[RoundRecord, Sequence[Participation]]] | None = None,
    ) -> None:
        self.world = world
        self.state = state or JobState(params=world.learner.initial(world.seed))
        self._config = world.config
        self._selector = strategies.create(strategy, seed=world.seed)
        self._selector.register_clients(
            np.arange(world.num_clients), expected_duration_s=world.hint_s
        )
        self._executor = executors.create(world.config.executor, world.learner)
        self._evaluate = Evaluator(world)
        self._target_reached = False
        for record, parts in past or ():
            self._replay(record, parts)

    @property
    def selector(self) -> TrainingSelector:
        """The strategy's selector."""
        return self._selector

    def rounds(self) -> Iterator[RoundResult]:
        """Play rounds until the settings say that it is enough."""
        while not self._finished():
            yield self.play()

    def play(self) -> RoundResult:
        """Play one round."""
        watch = _Stopwatch()
        selection, online, started_s = self._select()
        rows = np.asarray(selection.participants, np.int64)
        watch.lap("select")
        luck = self._luck(rows, selection.round_number, started_s)
        ending = close(
            luck.duration_s,
            luck.drops_after_s,
            wanted=self._config.rounds.participants,
            deadline_s=self._config.rounds.deadline_s,
        )
        watch.lap("bookkeeping")
        trained = self._train(rows[ending.completed], selection.round_number, watch)
        params, server = self._aggregate(trained)
        watch.lap("aggregate")
        parts = self._participations(selection.round_number, rows, luck, ending, trained)
        self._tell(parts)
        watch.lap("bookkeeping")
        clock_s = started_s + ending.duration_s
        waited_s = started_s - self.state.clock_s
        self.state = JobState(selection.round_number, clock_s, params, server)
        scores = self._evaluate(params) if self._is_tested(selection.round_number) else Scores()
        watch.lap("evaluate")
        record = self._record(selection, online, started_s, waited_s, ending, trained, scores)
        watch.lap("bookkeeping")
        self._target_reached = self._reaches_target(scores)
        return RoundResult(record, parts, watch.laps_s)

    def close(self) -> None:
        """Give back what the executor holds."""
        self._executor.close()

    def _finished(self) -> bool:
        rounds = self._config.rounds
        out_of_time = rounds.max_clock_s is not None and self.state.clock_s >= rounds.max_clock_s
        return self.state.round >= rounds.count or out_of_time or self._target_reached

    def _is_tested(self, round_number: int) -> bool:
        every = self._config.evaluation.every
        return round_number % every == 0 or self._finished()

    def _reaches_target(self, scores: Scores) -> bool:
        settings = self._config.evaluation
        target = settings.target_accuracy
        return settings.stop_at_target and target is not None and scores.accuracy >= target

    def _select(self) -> tuple[Selection, int, float]:
        """Select as soon as there is somebody to select; says how many were online, and when."""
        wanted = overcommitted(self._config.rounds.participants, self._config.rounds.overcommit)
        start_s = self.state.clock_s
        while start_s <= self.state.clock_s + PATIENCE_S:
            online = self.world.availability.online(start_s)
            count = int(np.count_nonzero(online))
            if count >= self._config.rounds.least_online:
                among = None if count == len(online) else online
                selection = self._selector.select(wanted, among=among)
                if len(selection):
                    return selection, count, start_s
            start_s += WAITING_STEP_S
        message = (
            f"availability must let at least {self._config.rounds.least_online} clients be "
            f"selected within a week; got fewer from {self.state.clock_s:.0f} s on"
        )
        raise ConfigError(message)

    def _luck(self, rows: Rows, round_number: int, started_s: float) -> Participations:
        """How long each participant takes in this round, and who is lost when."""
        luck = participations(
            self._config.devices,
            self.world.devices,
            rows,
            self.world.samples[rows],
            transfer_mb=self.world.transfer_mb,
            seed=self.world.seed,
            round_number=round_number,
        )
        leaves_after_s = self.world.availability.online_until(started_s, rows) - started_s
        return dataclasses.replace(
            luck, drops_after_s=np.minimum(luck.drops_after_s, leaves_after_s)
        )

    def _train(self, clients: Rows, round_number: int, watch: _Stopwatch) -> Trained:
        """Train the participants from the current model, chunk by chunk."""
        size = self._config.executor.chunk_size
        cohort = self.world.data.cohort(clients)
        samples = self.world.samples[clients]
        weights = self._weights(clients)
        members, chunks = [], []
        for begin in range(0, len(clients), size):
            chunk, places = chunk_for(
                cohort,
                clients,
                np.arange(begin, min(begin + size, len(clients))),
                samples,
                batch_size=self._config.learner.batch_size,
                weights=weights,
                seed=self.world.seed,
                round_number=round_number,
            )
            chunks.append(chunk)
            members.append(places)
        watch.lap("plan")
        results = self._executor.train(self.state.params, cohort.pool, chunks)
        trained = _gathered(results, members, weights)
        watch.lap("train")
        return trained

    def _weights(self, clients: Rows) -> Floats:
        if self._config.server.weighting == "equal":
            return np.ones(len(clients))
        return self._distinct(clients).astype(np.float64)

    def _distinct(self, clients: Rows) -> Rows:
        """Samples that each client trains on, repeats not counted."""
        return np.minimum(self.world.samples[clients], self.world.data.sizes[clients])

    def _aggregate(self, trained: Trained) -> tuple[Params, ServerState]:
        if not trained.mean_update:
            return self.state.params, self.state.server
        params, server = aggregate(
            self.state.params, trained.mean_update, self.state.server, self._config.server
        )
        if not all(np.isfinite(value).all() for value in params.values()):
            return self.state.params, self.state.server
        return params, server

    def _participations(
        self, round_number: int, rows: Rows, luck: Participations, ending: Ending, trained: Trained
    ) -> list[Participation]:
        """What everyone did, as the server sees it."""
        done = rows[ending.completed]
        outcome = np.where(trained.diverged, Outcome.FAILED.value, Outcome.COMPLETED.value)
        whole = zip(
            done.tolist(),
            outcome.tolist(),
            luck.duration_s[ending.completed].tolist(),
            np.where(trained.diverged, 0, self._distinct(done)).tolist(),
            np.where(trained.diverged, NOT_MEASURED, trained.mean_squared_loss).tolist(),
            strict=True,
        )
        lost = zip(
            rows[ending.failed].tolist(), luck.drops_after_s[ending.failed].tolist(), strict=True
        )
        parts = [_part(round_number, *values) for values in whole]
        parts += [_part(round_number, c, Outcome.FAILED.value, s) for c, s in lost]
        cut_off = rows[ending.unused].tolist()
        return parts + [
            _part(round_number, c, Outcome.UNUSED.value, ending.duration_s) for c in cut_off
        ]

    def _tell(self, parts: Sequence[Participation]) -> None:
        """Report every outcome to the selector."""
        by_outcome: dict[str, list[Participation]] = {}
        for part in parts:
            by_outcome.setdefault(part.outcome, []).append(part)
        for outcome, some in by_outcome.items():
            measured: dict[str, Any] = {}
            if outcome == Outcome.COMPLETED:
                measured["num_samples"] = np.array([p.num_samples for p in some])
                measured["mean_squared_loss"] = np.array([p.mean_squared_loss for p in some])
            self._selector.update_clients(
                np.array([p.client for p in some]),
                duration_s=np.array([p.duration_s for p in some]),
                outcome=outcome,
                round_number=some[0].round,
                strict=True,
                **measured,
            )

    def _record(
        self,
        selection: Selection,
        online: int,
        started_s: float,
        waited_s: float,
        ending: Ending,
        trained: Trained,
        scores: Scores,
    ) -> RoundRecord:
        diverged = int(np.count_nonzero(trained.diverged))
        good = ~trained.diverged
        seen = trained.seen[good]
        clients = np.asarray(selection.participants, np.int64)[ending.completed[good]]
        utility = self._distinct(clients) * np.sqrt(trained.mean_squared_loss[good])
        message_bytes = round(self.world.transfer_mb * 1e6)
        lost = len(ending.failed)
        return RoundRecord(
            round=selection.round_number,
            started_s=started_s,
            waited_s=waited_s,
            duration_s=ending.duration_s,
            clock_s=self.state.clock_s,
            preferred_s=float(selection.preferred_s),
            epsilon=float(selection.epsilon),
            online=online,
            selected=len(selection),
            explored=len(selection.explored),
            completed=len(ending.completed) - diverged,
            failed=lost + diverged,
            diverged=diverged,
            unused=len(ending.unused),
            train_loss=float(trained.sum_of_losses[good].sum() / seen.sum())
            if len(seen)
            else NOT_MEASURED,
            utility=float(utility.mean()) if len(utility) else NOT_MEASURED,
            test_loss=scores.test_loss,
            accuracy=scores.accuracy,
            worst_decile=scores.worst_decile,
            chosen_accuracy=scores.chosen_accuracy,
            used_s=ending.used_s,
            wasted_s=ending.wasted_s,
            down_bytes=len(selection) * message_bytes,
            up_bytes=len(ending.completed) * message_bytes,
        )

    def _replay(self, record: RoundRecord, parts: Sequence[Participation]) -> None:
        """Bring the selector to where it was after a round that was played before.

        Raises:
            ConfigError: It picks others than it did then.
        """
        online = self.world.availability.online(record.started_s)
        among = None if online.all() else online
        wanted = overcommitted(self._config.rounds.participants, self._config.rounds.overcommit)
        selection = self._selector.select(wanted, among=among)
        if {p.client for p in parts} != set(selection.participants):
            message = (
                f"round {record.round} must be picked again as it was for the run to go on; "
                "got other clients: this version of the selector or its settings differ"
            )
            raise ConfigError(message)
        self._tell(parts)
        self._target_reached = self._reaches_target(Scores(accuracy=record.accuracy))


class _Stopwatch:
    """Real time by what it goes into."""

    def __init__(self) -> None:
        self.laps_s: dict[str, float] = {}
        self._since = time.perf_counter()

    def lap(self, what: str) -> None:
        now = time.perf_counter()
        self.laps_s[what] = self.laps_s.get(what, 0.0) + now - self._since
        self._since = now


def _part(
    round_number: int,
    client: int,
    outcome: str,
    duration_s: float,
    num_samples: int = 0,
    mean_squared_loss: float = NOT_MEASURED,
) -> Participation:
    return Participation(
        round=round_number,
        client=client,
        outcome=outcome,
        duration_s=duration_s,
        num_samples=num_samples,
        mean_squared_loss=mean_squared_loss,
    )


def _gathered(results: Sequence[ChunkResult], members: Sequence[Rows], weights: Floats) -> Trained:
    """Put the chunks' results back into the cohort's order, and add up their updates in order."""
    n = len(weights)
    squares, losses = np.zeros(n), np.zeros(n)
    seen, diverged = np.zeros(n, np.int64), np.zeros(n, bool)
    total: Params = {}
    for result, places in zip(results, members, strict=True):
        squares[places], losses[places] = result.sum_of_squares, result.sum_of_losses
        seen[places], diverged[places] = result.seen, result.diverged
        for name, value in result.update.items():
            total[name] = total[name] + value if name in total else value
    weight = float(weights[~diverged].sum())
    mean = {name: value / np.float32(weight) for name, value in total.items()} if weight else {}
    return Trained(mean, squares / np.maximum(seen, 1), losses, seen, diverged)
