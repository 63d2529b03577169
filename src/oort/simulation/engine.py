"""A job in a world: select, train, aggregate, report, round after round.

``Job`` is the only module that keeps state. One round:

    who is online -> select K · overcommit -> how long each takes, who drops out -> train the first
    K to finish (cohort) -> aggregate -> report everyone's outcome -> advance the clock
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oort.errors import ConfigError, require
from oort.protocols import TrainingSelector
from oort.simulation import executor as executors
from oort.simulation import strategies
from oort.simulation.aggregation import ServerState, aggregate
from oort.simulation.availability import DAY_S, WAITING_STEP_S
from oort.simulation.cohort import CohortTrainer, Trained
from oort.simulation.config import StrategyConfig
from oort.simulation.evaluation import Evaluator, Scores
from oort.simulation.history import NOT_MEASURED, Attendance, Participation, RoundRecord
from oort.simulation.learners.base import Params
from oort.simulation.population import Participations, participations
from oort.simulation.rounds import Ending, overcommitted
from oort.simulation.world import World
from oort.types import Outcome, Rows, Selection

OUTCOMES = np.array([Outcome.COMPLETED.value, Outcome.FAILED.value, Outcome.UNUSED.value])
PATIENCE_S = 7 * DAY_S  #: how long a job waits for somebody whom it can select


@dataclass(frozen=True)
class JobState:
    """What a job needs to go on, beside what its selector was told."""

    round: int = 0
    clock_s: float = 0.0
    params: Params = field(default_factory=dict)
    server: ServerState = field(default_factory=ServerState)


@dataclass(frozen=True)
class _Picked:
    """Who was selected, and when."""

    selection: Selection
    rows: Rows  #: the participants
    new: int  #: of them, selected for the first time
    online: int  #: clients that could be
    started_s: float
    waited_s: float


@dataclass(frozen=True)
class RoundResult:
    """A finished round."""

    record: RoundRecord
    participations: Attendance
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
        initial = world.learner.initial(world.seed)
        self.state = state or JobState(params=initial)
        _require_fits(self.state, initial)
        self._config = world.config
        self._selector = strategies.create(
            strategy, seed=world.seed, planned_rounds=world.config.rounds.count
        )
        self._selector.register_clients(
            np.arange(world.num_clients), expected_duration_s=world.hint_s
        )
        self._executor = executors.create(world.config.executor, world.learner)
        self._watch = _Stopwatch()
        self._train = CohortTrainer(world, self._executor, self._watch.lap)
        self._evaluate = Evaluator(world)
        self._target_reached = False
        self._met = np.zeros(world.num_clients, bool)
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
        watch = self._watch
        watch.begin()
        picked = self._select()
        number = picked.selection.round_number
        watch.lap("select")
        luck = self._luck(picked)
        ending, trained = self._train(self.state.params, picked.rows, luck, number)
        params, server = self._aggregate(trained)
        watch.lap("aggregate")
        parts = self._attendance(picked, luck, ending, trained)
        self._tell(parts, _spans(ending))
        watch.lap("bookkeeping")
        self.state = JobState(number, picked.started_s + ending.duration_s, params, server)
        scores = self._evaluate(params) if self._is_tested(number) else Scores()
        watch.lap("evaluate")
        record = self._record(picked, ending, trained, parts, scores)
        self._target_reached = self._reaches_target(scores)
        watch.lap("bookkeeping")
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

    def _select(self) -> _Picked:
        """Select as soon as there is somebody to select."""
        wanted = overcommitted(self._config.rounds.participants, self._config.rounds.overcommit)
        start_s = self.state.clock_s
        while start_s <= self.state.clock_s + PATIENCE_S:
            online = self.world.availability.online(start_s)
            count = int(np.count_nonzero(online))
            if count >= self._config.rounds.least_online:
                among = None if count == len(online) else online
                selection = self._selector.select(wanted, among=among)
                if len(selection):
                    rows = np.asarray(selection.participants, np.int64)
                    waited_s = start_s - self.state.clock_s
                    return _Picked(selection, rows, self._meet(rows), count, start_s, waited_s)
            start_s += WAITING_STEP_S
        message = (
            f"availability must let at least {self._config.rounds.least_online} clients be "
            f"selected within a week; got fewer from {self.state.clock_s:.0f} s on"
        )
        raise ConfigError(message)

    def _meet(self, rows: Rows) -> int:
        """How many of these are selected for the first time."""
        new = len(rows) - int(np.count_nonzero(self._met[rows]))
        self._met[rows] = True
        return new

    def _luck(self, picked: _Picked) -> Participations:
        """How long each participant takes in this round, and who is lost when."""
        rows, started_s = picked.rows, picked.started_s
        luck = participations(
            self._config.devices,
            self.world.devices,
            rows,
            self.world.samples[rows],
            transfer_mb=self.world.transfer_mb,
            seed=self.world.seed,
            round_number=picked.selection.round_number,
        )
        leaves_after_s = self.world.availability.online_until(started_s, rows) - started_s
        return Participations(luck.duration_s, np.minimum(luck.drops_after_s, leaves_after_s))

    def _aggregate(self, trained: Trained) -> tuple[Params, ServerState]:
        if not trained.mean_update:
            return self.state.params, self.state.server
        with np.errstate(all="ignore"):  # a step beyond all floats is not taken, see below
            params, server = aggregate(
                self.state.params, trained.mean_update, self.state.server, self._config.server
            )
        if not all(np.isfinite(value).all() for value in params.values()):
            return self.state.params, self.state.server
        return params, server

    def _attendance(
        self, picked: _Picked, luck: Participations, ending: Ending, trained: Trained
    ) -> Attendance:
        """What everyone did, as the server sees it."""
        rows = picked.rows
        places = np.concatenate([ending.completed, ending.failed, ending.unused])
        done, lost = len(ending.completed), len(ending.failed)
        duration_s = np.minimum(luck.duration_s, luck.drops_after_s)[places]
        duration_s[done + lost :] = ending.duration_s
        num_samples = np.zeros(len(places), np.int64)
        num_samples[:done] = self._train.distinct(rows[ending.completed])
        loss = np.full(len(places), NOT_MEASURED)
        loss[:done] = trained.mean_squared_loss[ending.completed]
        return Attendance(
            round=picked.selection.round_number,
            client=rows[places],
            outcome=np.repeat(OUTCOMES, [done, lost, len(ending.unused)]),
            duration_s=duration_s,
            num_samples=num_samples,
            mean_squared_loss=loss,
        )

    def _tell(self, parts: Attendance, spans: Iterable[tuple[str, slice]]) -> None:
        """Report every outcome to the selector, given where in the columns each stands."""
        for outcome, some in spans:
            measured: dict[str, Any] = {}
            if outcome == Outcome.COMPLETED:
                measured["num_samples"] = parts.num_samples[some]
                measured["mean_squared_loss"] = parts.mean_squared_loss[some]
            self._selector.update_clients(
                parts.client[some],
                duration_s=parts.duration_s[some],
                outcome=outcome,
                round_number=parts.round,
                strict=True,
                **measured,
            )

    def _record(
        self,
        picked: _Picked,
        ending: Ending,
        trained: Trained,
        parts: Attendance,
        scores: Scores,
    ) -> RoundRecord:
        selection, rows = picked.selection, picked.rows
        done = ending.completed
        diverged = int(np.count_nonzero(trained.diverged))
        seen = int(trained.seen[done].sum())
        first = slice(len(done))
        utility = parts.num_samples[first] * np.sqrt(parts.mean_squared_loss[first])
        message_bytes = round(self.world.transfer_mb * 1e6)
        return RoundRecord(
            round=selection.round_number,
            started_s=picked.started_s,
            waited_s=picked.waited_s,
            duration_s=ending.duration_s,
            clock_s=self.state.clock_s,
            preferred_s=float(selection.preferred_s),
            epsilon=float(selection.epsilon),
            online=picked.online,
            selected=len(rows),
            explored=picked.new,
            completed=len(done),
            failed=len(ending.failed),
            diverged=diverged,
            unused=len(ending.unused),
            train_loss=float(trained.sum_of_losses[done].sum()) / seen if seen else NOT_MEASURED,
            utility=float(utility.mean()) if len(utility) else NOT_MEASURED,
            test_loss=scores.test_loss,
            accuracy=scores.accuracy,
            worst_decile=scores.worst_decile,
            chosen_accuracy=scores.chosen_accuracy,
            used_s=ending.used_s,
            wasted_s=ending.wasted_s,
            down_bytes=len(rows) * message_bytes,
            up_bytes=(len(done) + diverged) * message_bytes,
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
        attendance = parts if isinstance(parts, Attendance) else Attendance.of(parts)
        self._meet(attendance.client)
        self._tell(attendance, attendance.by_outcome())
        self._target_reached = self._reaches_target(Scores(accuracy=record.accuracy))


def _require_fits(state: JobState, initial: Params) -> None:
    """Refuse to go on with another model than the learner's.

    Raises:
        ConfigError: Names or shapes of parameters differ.
    """
    wanted = {name: value.shape for name, value in initial.items()}
    remembered = [p for p in (state.server.first, state.server.second) if p]
    for params in (state.params, *remembered):
        given = {name: value.shape for name, value in params.items()}
        require(given == wanted, "the model to go on with", f"of shapes {wanted}", given)


def _spans(ending: Ending) -> Iterator[tuple[str, slice]]:
    """Where in the columns of a round's attendance those with each outcome stand, if there are."""
    begin = 0
    for outcome, some in zip(
        OUTCOMES.tolist(), (ending.completed, ending.failed, ending.unused), strict=True
    ):
        if len(some):
            yield outcome, slice(begin, begin + len(some))
        begin += len(some)


class _Stopwatch:
    """Real time by what it goes into."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.laps_s: dict[str, float] = {}
        self._since = time.perf_counter()

    def lap(self, what: str) -> None:
        now = time.perf_counter()
        self.laps_s[what] = self.laps_s.get(what, 0.0) + now - self._since
        self._since = now
