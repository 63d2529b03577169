"""What every in-memory selector does besides deciding: registering, reporting, marking, saving.

A strategy inherits :class:`BookkeepingSelector` and says who is picked, in ``_decide``.
"""

from __future__ import annotations

import math
import operator
import os
import sys
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

from oort import savefile
from oort.clients import roster
from oort.clients.changes import Joined, Marked, Removed, RosterChange
from oort.clients.columns import PRESENT, READY
from oort.clients.id_columns import checked_id, plain_items
from oort.clients.table import ClientTable
from oort.config import TrainingConfig
from oort.errors import (
    DamagedFileError,
    InvalidArgumentError,
    InvalidFeedbackError,
    RoundError,
    SaveFileError,
    StaleFeedbackWarning,
)
from oort.randomness import generator_for, key_for
from oort.training import intake
from oort.training.changes import (
    Change,
    Forgotten,
    Reported,
    Selected,
    Switched,
    apply,
)
from oort.training.feedback import check_reports
from oort.training.rounds import History, RoundBook
from oort.types import (
    Among,
    ClientColumns,
    ClientId,
    Feedback,
    Mask,
    Outcome,
    PickTable,
    RowNumbers,
    Rows,
    Selection,
    UpdateResult,
)

MODES: Final = ("guided", "uniform")


@dataclass(slots=True, kw_only=True)
class Question:
    """What a strategy is asked: so many rows for a round, out of the allowed ones."""

    wanted: int
    allowed: Mask | None  #: ``None``: everyone who is ready
    round_number: int
    draw: int  #: 0 for the selection that opens the round, then 1, 2, … for its top-ups
    opened_for: int | None = None  #: of a top-up: how many the round was opened for

    def generator(self, seed: int, purpose: str) -> np.random.Generator:
        """The random numbers for one purpose of this draw."""
        return generator_for(
            seed, self.round_number, f"{purpose}/{self.draw}" if self.draw else purpose
        )

    def key(self, seed: int, purpose: int) -> int:
        """The key for one purpose of this draw, for :mod:`oort.kernels.draws`."""
        return key_for(seed, self.round_number, self.draw, purpose)


@dataclass(slots=True, kw_only=True)
class Decision:
    """What a strategy answers; nothing has changed yet."""

    rows: Rows
    explain: Callable[[], PickTable]  #: why, from copies of what was known then
    preferred_s: float = float("inf")
    epsilon: float = math.nan
    cutoff: float = math.nan
    pool_size: int = 0
    pacer_steps: int = 1
    history: History | None = None  #: entries that the newest reports change; ``None``: none


class BookkeepingSelector(ABC):
    """The bookkeeping of a training selector. Safe to call from several threads."""

    strategy: ClassVar[str]

    def __init__(self, config: TrainingConfig | Mapping[str, Any] | None = None) -> None:
        self._config = _as_config(config)
        self._lock: AbstractContextManager[Any] = threading.RLock()
        self._table = ClientTable(
            sketch_width=self._config.sketch_width,
            max_participations=self._config.max_participations,
        )
        self._book = RoundBook(memory=2 * self._config.pacer.window)
        self._mode = "guided"

    # What is asked of it

    @property
    def config(self) -> TrainingConfig:
        """The settings it was built with."""
        return self._config

    @property
    def num_clients(self) -> int:
        """Clients registered and not removed."""
        return self._table.num_present

    @property
    def num_rows(self) -> int:
        """Rows ever given out: the length of a mask for ``among``."""
        return self._table.num_rows

    @property
    def round_number(self) -> int:
        """The newest round opened; 0 before the first."""
        return self._book.round_number

    @property
    def mode(self) -> str:
        """The kill switch: "guided", or "uniform" for the same bookkeeping with random picks."""
        return self._mode

    @mode.setter
    def mode(self, mode: str) -> None:
        checked = _as_mode(mode)
        with self._lock:
            self._do([Switched(checked)])

    def rows(self, client_ids: Among) -> RowNumbers:
        """The rows of known clients, to be used in place of their ids.

        Raises:
            UnknownClientError: One of them was never seen.
        """
        with self._lock:
            return RowNumbers(roster.known_rows(self._table, client_ids))

    def columns(self, client_ids: Among | None = None) -> ClientColumns:
        """What is known of some clients, or of all present ones in row order, as arrays."""
        with self._lock:
            if client_ids is None:
                rows = roster.present_rows(self._table)
            else:
                rows = roster.known_rows(self._table, client_ids)
            return self._table.view(rows, self._book.round_number)

    def client_ids(self) -> list[ClientId]:
        """All present clients, in row order."""
        with self._lock:
            return self._table.ids.of(roster.present_rows(self._table))

    # Who is there

    def register_client(
        self,
        client_id: ClientId,
        *,
        num_samples: int | None = None,
        expected_duration_s: float | None = None,
    ) -> None:
        """Make a client known, or bring a removed one back.

        Hints are optional and stand until a report says better.

        Raises:
            InvalidArgumentError: The id or a hint is wrong; nothing is registered.
        """
        for name, hint in (
            ("num_samples", num_samples),
            ("expected_duration_s", expected_duration_s),
        ):
            if isinstance(hint, float | np.floating) and np.isnan(hint):
                message = f"client {client_id!r:.80}: {name} must be a number; got nan"
                raise InvalidArgumentError(message)
        self.register_clients(
            [client_id], num_samples=num_samples, expected_duration_s=expected_duration_s
        )

    def register_clients(
        self,
        client_ids: Among,
        *,
        num_samples: npt.ArrayLike | None = None,
        expected_duration_s: npt.ArrayLike | None = None,
    ) -> RowNumbers:
        """The same for many at once; ``None`` and NaN are unknown durations. Returns their rows.

        Raises:
            InvalidArgumentError: An id or a hint is wrong; nothing is registered.
        """
        with self._lock:
            rows, changes = roster.registration(
                self._table, client_ids, num_samples, expected_duration_s
            )
            self._do(changes)
            own = rows.base is None  # not the caller's: millions need not be copied
            return rows.view(RowNumbers) if own else RowNumbers(rows)

    def remove_clients(self, client_ids: Among) -> int:
        """Take clients out of selection but keep what is known of them, in case they come back.

        Unknown ones are passed over. Returns how many were present.
        """
        with self._lock:
            rows = roster.rows_of(self._table, client_ids)
            there = np.unique(rows[(self._table.flags[rows] & PRESENT) != 0])
            if there.size:
                self._do([Removed(there)])
            return there.size

    def forget(self, client_ids: Among) -> int:
        """Erase clients and all that is known of them.

        Unknown ones are passed over. Returns how many there were.
        """
        with self._lock:
            rows = np.unique(roster.rows_of(self._table, client_ids))
            if rows.size:
                self._do([Forgotten(rows)])
            return rows.size

    def mark_online(self, client_ids: Among | None = None) -> None:
        """These clients may be picked; unknown ones join, removed ones return.

        Without an argument: everyone who is there.
        """
        self._mark(client_ids, online=True)

    def mark_offline(self, client_ids: Among | None = None) -> None:
        """These clients (default: all) may not be picked until they are marked online again.

        Unknown ones join; removed ones stay removed.
        """
        self._mark(client_ids, online=False)

    def _mark(self, client_ids: Among | None, *, online: bool) -> None:
        with self._lock:
            if client_ids is None:
                self._do([Marked(None, online)])
            else:
                rows, changes = roster.joining(self._table, client_ids, bring_back=online)
                self._do([*changes, Marked(rows, online)])

    # Who is picked

    def select_participant(
        self, num_participants: int, among: Among | None = None
    ) -> list[ClientId]:
        """Open a round and pick its participants, as the paper's call of this name does."""
        return self.select(num_participants, among).participants

    def select(
        self,
        num_participants: int,
        among: Among | None = None,
        *,
        round_number: int | None = None,
    ) -> Selection:
        """Open a round and pick its participants; or, given the current round, pick more for it.

        The answer holds as many distinct clients as were asked for, or all that are eligible.
        ``among`` narrows it to these ids (unknown ones join, removed ones come back; a mask or
        row numbers bring nobody back), this mask over rows, or these
        :class:`~oort.types.RowNumbers`; it is intersected with who is online. If nobody is asked
        for, or nobody is eligible, no round opens.

        Raises:
            InvalidArgumentError: ``num_participants`` is no whole number from 0, or ``among``
                does not fit.
            RoundError: ``round_number`` is not the current round.
        """
        wanted = min(_whole("num_participants", num_participants), sys.maxsize)
        with self._lock:
            self._check_current(round_number)
            if wanted == 0:
                return self._nobody()
            among, newcomers = self._joining(among)
            if not newcomers:
                return self._select(wanted, among, round_number)
            with self._as_one():
                self._do(newcomers)
                return self._select(wanted, among, round_number)

    def _select(self, wanted: int, among: Among | None, round_number: int | None) -> Selection:
        question = self._question(wanted, among, round_number)
        decision = self._answer(question)
        if decision is None:
            return self._nobody()
        chosen = self._selection(question, decision)
        self._carry_out(question, decision)
        return chosen

    def preview(self, num_participants: int, among: Among | None = None) -> Selection:
        """What :meth:`select` would answer now, without opening a round.

        Nobody joins or comes back: unknown and removed clients are passed over.
        """
        wanted = min(_whole("num_participants", num_participants), sys.maxsize)
        with self._lock:
            question = self._question(wanted, among, None)
            decision = self._answer(question)
            return self._nobody() if decision is None else self._selection(question, decision)

    @abstractmethod
    def _decide(self, question: Question) -> Decision:
        """Who is picked: at most ``question.wanted`` ≥ 1 rows. Changes nothing."""

    # What they report

    def update_client_util(
        self,
        client_id: ClientId,
        feedback: Feedback | Mapping[str, Any],
        *,
        round_number: int | None = None,
    ) -> None:
        """Take in what one client reports, for a round (default: the current one).

        A repeated report counts once, a report older than what is known changes nothing, a report
        too old to tell is refused with a warning.

        Raises:
            InvalidFeedbackError: A value cannot be used; the message names client, field, value.
            RoundError: The round has not been opened.
        """
        report = _as_feedback(client_id, feedback)
        values = {f.name: [getattr(report, f.name)] for f in fields(report)}
        with self._lock:
            number = self._round_named(round_number)
            if number < self._book.oldest:
                self._warn_stale(number, 1)
                return
            client = checked_id(client_id)
            self.update_clients([client], **values, round_number=number, strict=True)

    def update_clients(
        self,
        client_ids: Among,
        *,
        utility: npt.ArrayLike | None = None,
        num_samples: npt.ArrayLike | None = None,
        mean_squared_loss: npt.ArrayLike | None = None,
        mean_squared_gradient_norm: npt.ArrayLike | None = None,
        duration_s: npt.ArrayLike | None = None,
        outcome: Outcome | str | Sequence[Outcome | str] | npt.NDArray[Any] = Outcome.COMPLETED,
        sketch: npt.ArrayLike | None = None,
        round_number: int | None = None,
        strict: bool = False,
    ) -> UpdateResult:
        """Take in many reports of one round (default: the current one).

        Each column is one value for all clients or one for each; ``None`` inside a list, a null
        of Arrow or pandas and what a masked array hides are missing values. Bad reports are
        rejected one by one, with their reason, and the good ones applied.

        Raises:
            InvalidArgumentError: A column does not fit. Nothing is applied.
            InvalidFeedbackError: With ``strict``, a report is bad. Nothing is applied.
            RoundError: The round has not been opened.
        """
        with self._lock:
            number = self._round_named(round_number)
            clients, rows = self._reporters(client_ids)
            reports = check_reports(
                len(clients),
                utility=utility,
                num_samples=num_samples,
                mean_squared_loss=mean_squared_loss,
                mean_squared_gradient_norm=mean_squared_gradient_norm,
                duration_s=duration_s,
                outcome=outcome,
                sketch=sketch,
                sketch_width=self._config.sketch_width,
                reads=self._reads(),
            )
            if rows is None:
                named = client_ids if isinstance(client_ids, np.ndarray) else clients
                rows = intake.find_reporters(self._table, named, clients, reports)
            else:
                erased = self._table.ids.is_forgotten(rows)
                reports.reject(erased, "row", rows, "of a client that was not forgotten")
            intake.check_round(
                self._book, number, rows, reports, strict_rounds=self._config.strict_rounds
            )
            if strict and reports.reasons:
                raise InvalidFeedbackError(str(reports.rejections(clients)[0]))
            if number < self._book.oldest:
                self._warn_stale(number, len(clients))
            new, taken, result = intake.planned(
                self._table, self._book, number, clients, rows, reports
            )
            joined = [] if new is None else [Joined(new)]
            if result.applied or result.outdated:
                self._do([*joined, Reported(number, taken)])
            return result

    def _reporters(self, client_ids: Among) -> tuple[Sequence[Any], Rows | None]:
        """Reporters as something to count and index, and their rows where those were given."""
        given = roster.rows_reported(self._table, client_ids)
        if given is not None:
            return _Named(self._table, given), given.copy()
        return plain_items(client_ids), None

    def _reads(self) -> str:
        """Which means of loss or gradient the utility reads."""
        return "any"

    # What survives

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically; :meth:`load` continues where this left off.

        Raises:
            SaveFileError: The file cannot be written; what was there before is untouched.
        """
        with self._lock:
            meta, arrays = self._described()
            savefile.write(path, meta, {**self._table.to_arrays(), **arrays})

    def _described(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Everything but the client table."""
        numbers, arrays = self._book.to_state()
        meta = {
            "what": "training selector",
            "strategy": self.strategy,
            "config": self._config.to_dict(),
            "mode": self._mode,
            **numbers,
            **self._extra_state(),
        }
        return meta, arrays

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The selector that :meth:`save` wrote.

        Raises:
            SaveFileError: The file cannot be read, is damaged, newer, or holds something else.
            ConfigError: Its utility or fairness was not registered in this process.
        """
        meta, arrays = savefile.read(path)
        if meta.get("what") != "training selector" or meta.get("strategy") != cls.strategy:
            found = meta.get("strategy", meta.get("what", "something else"))
            message = f"{path} holds {found!r}, not a selector of strategy {cls.strategy!r}"
            raise SaveFileError(message)
        with _damage_named(path):
            config = TrainingConfig.from_stored(meta["config"])
        selector = cls(config)
        with _damage_named(path):
            selector._restore(meta, arrays)
        return selector

    def _restore(self, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        config = self._config
        self._table = ClientTable.from_arrays(
            arrays, sketch_width=config.sketch_width, max_participations=config.max_participations
        )
        num_rows = self._table.num_rows
        self._book = RoundBook.from_state(2 * config.pacer.window, meta, arrays, num_rows)
        self._mode = _as_mode(meta["mode"])
        self._restore_extra(meta)

    def _extra_state(self) -> dict[str, Any]:
        """What a strategy keeps besides the columns, as plain values."""
        return {}

    def _restore_extra(self, meta: Mapping[str, Any]) -> None:  # noqa: B027
        """Take back what ``_extra_state`` gave; most strategies have nothing of their own."""

    # How it is done

    def _answer(self, question: Question) -> Decision | None:
        if question.wanted == 0:
            return None
        self._table.refresh_limit()
        uniform = self._mode == "uniform"
        decision = self._decide_uniformly(question) if uniform else self._decide(question)
        return decision if decision.rows.size else None

    def _decide_uniformly(self, question: Question) -> Decision:
        """Anyone ready and allowed, evenly."""
        rows = self._ready_rows(question.allowed)
        generator = question.generator(self._config.seed, "uniform")
        wanted = min(question.wanted, rows.size)
        picked = rows[generator.choice(rows.size, wanted, replace=False)] if wanted else rows[:0]
        return self._plain_decision(picked, "uniform")

    def _plain_decision(self, rows: Rows, how: str) -> Decision:
        """A decision that no score made."""
        steps = self._book.pacer_steps
        known = (self._table.duration_s[rows], self._table.participations[rows])
        return Decision(rows=rows, explain=lambda: PickTable.plain(how, *known), pacer_steps=steps)

    def _ready_rows(self, allowed: Mask | None) -> Rows:
        ready = (self._table.flags & READY) == READY
        return np.flatnonzero(ready if allowed is None else ready & allowed)

    def _carry_out(self, question: Question, decision: Decision) -> None:
        """Make a decision so: the only place where rounds and participations advance."""
        number, draw, rows = question.round_number, question.draw, decision.rows
        steps, history = decision.pacer_steps, decision.history
        self._do([Selected(number, draw, rows, steps, question.wanted, history)])

    def _do(self, changes: Iterable[Change]) -> None:
        """Make changes so: nothing changes but here."""
        for change in changes:
            if isinstance(change, Switched):
                self._mode = change.mode
            else:
                apply(change, self._table, self._book)

    def _as_one(self) -> AbstractContextManager[None]:
        """What is done inside belongs together: a journal writes it down as one."""
        return nullcontext()

    def _joining(self, among: Among | None) -> tuple[Among | None, list[RosterChange]]:
        """Everyone named, by row, and what has to happen so that they are there."""
        if among is None or roster.is_mask(among):
            return among, []
        rows, changes = roster.joining(self._table, among)
        return RowNumbers(rows), changes

    def _check_current(self, round_number: int | None) -> None:
        current = self._book.round_number
        if round_number is not None and (
            current == 0 or _whole("round_number", round_number) != current
        ):
            now = f"{current}, the current round" if current else "left out: no round is open yet"
            message = f"round_number must be {now}; got {round_number!r}"
            raise RoundError(message)

    def _question(self, wanted: int, among: Among | None, round_number: int | None) -> Question:
        current = self._book.round_number
        allowed = None if among is None else roster.mask_of(self._table, among)
        if round_number is None:
            return Question(wanted=wanted, allowed=allowed, round_number=current + 1, draw=0)
        others = np.ones(self._table.num_rows, np.bool_) if allowed is None else allowed.copy()
        others[self._book.cohort(current)] = False
        return Question(
            wanted=wanted,
            allowed=others,
            round_number=current,
            draw=self._book.draws,
            opened_for=self._book.wanted or None,
        )

    def _round_named(self, round_number: int | None) -> int:
        if round_number is None:
            return self._book.round_number
        number = _whole("round_number", round_number)
        if number > self._book.round_number:
            newest = f"{self._book.round_number}, the current round"
            message = f"round_number must be at most {newest}; got {number}"
            raise RoundError(message)
        return number

    def _selection(self, question: Question, decision: Decision) -> Selection:
        return Selection(
            participants=self._table.ids.of(decision.rows),
            round_number=question.round_number,
            preferred_s=decision.preferred_s,
            epsilon=decision.epsilon,
            cutoff=decision.cutoff,
            pool_size=decision.pool_size,
            mode=self._mode,
            explain=decision.explain,
        )

    def _nobody(self) -> Selection:
        number = self._book.round_number
        return Selection(participants=[], round_number=number, mode=self._mode)

    def _warn_stale(self, number: int, count: int) -> None:
        message = (
            f"{count} report(s) for round {number} refused: it is more than {self._book.memory} "
            f"rounds old, and whether they were counted is no longer known"
        )
        warnings.warn(message, StaleFeedbackWarning, stacklevel=3)


class _Named(Sequence[ClientId]):
    """The clients of rows, named when asked: only those of rejected reports are."""

    def __init__(self, table: ClientTable, rows: Rows) -> None:
        self._table, self._rows = table, rows

    def __len__(self) -> int:
        return self._rows.size

    def __getitem__(self, place: Any) -> Any:
        named = self._table.ids.of(self._rows[[place]])
        return named[0] if named else f"row {self._rows[place]}"


@contextmanager
def _damage_named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever cannot be taken from a file is damage of that file."""
    try:
        yield
    except (DamagedFileError, LookupError, TypeError, ValueError, ArithmeticError) as error:
        message = f"{path} is damaged: its parts do not fit together ({error})"
        raise DamagedFileError(message) from error


def _as_config(config: TrainingConfig | Mapping[str, Any] | None) -> TrainingConfig:
    if config is None:
        return TrainingConfig()
    if isinstance(config, TrainingConfig):
        return config
    if isinstance(config, Mapping):
        return TrainingConfig.from_dict(config)
    message = f"config must be a TrainingConfig, a dict or nothing; got {config!r:.80}"
    raise InvalidArgumentError(message)


def _as_mode(mode: object) -> str:
    if mode not in MODES:
        message = f"mode must be 'guided' or 'uniform'; got {mode!r:.80}"
        raise InvalidArgumentError(message)
    return str(mode)


def _as_feedback(client_id: ClientId, feedback: Feedback | Mapping[str, Any]) -> Feedback:
    if isinstance(feedback, Feedback):
        return feedback
    try:
        return Feedback.from_mapping(feedback)
    except InvalidFeedbackError as error:
        message = f"client {client_id!r:.80}: {error}"
        raise InvalidFeedbackError(message) from error


def _whole(name: str, value: object) -> int:
    """A whole number from 0."""
    if type(value) is int and value >= 0:
        return value
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if number < 0:
        message = f"{name} must be a whole number, 0 or more; got {value!r:.80}"
        raise InvalidArgumentError(message)
    return number
