"""Algorithm 1 of the paper: guided participant selection for training.

``GuidedSelector._decide`` reads top to bottom like the paper; every line hands its result to the
next. State changes elsewhere, in one place, after the decision.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from oort import kernels
from oort.clients.columns import EXPLORED, PRESENT
from oort.config import TrainingConfig
from oort.errors import ConfigWarning
from oort.kernels import arrays, draws
from oort.kernels.arrays import Single
from oort.randomness import uniform
from oort.training import at_once, eligibility, exploit, explore, pacer, purposes, utility
from oort.training.bookkeeping import BookkeepingSelector, Decision, Question
from oort.training.candidates import Candidates
from oort.training.eligibility import Roles
from oort.training.exploit import Pool
from oort.training.rounds import History
from oort.training.scoring import Scoring
from oort.training.utility import Scale
from oort.types import Mask, PickTable, Rows

_NOBODY: Final = np.empty(0, np.int64)


class Picks:
    """Who was picked, by how they came to be."""

    __slots__ = ("exploited", "filled", "rows", "scores", "tried")

    def __init__(self, exploited: Rows, scores: Single, tried: Rows, filled: Rows) -> None:
        self.exploited, self.scores, self.tried, self.filled = exploited, scores, tried, filled
        self.rows = np.concatenate([exploited, tried, filled])


class GuidedSelector(BookkeepingSelector):
    """Oort's training selector, in memory."""

    strategy: ClassVar[str] = "oort"

    def __init__(self, config: TrainingConfig | Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._measure = utility.utility_named(self._config.utility)
        self._fairness = utility.fairness_named(self._config.fairness)
        builtin = self._measure.function is None
        self._is_ordinary = builtin and at_once.is_ordinary(self._config)
        self._level = ((0, 0, 0), 0.0)  #: T's quantile, and what it follows from
        self._candidates = Candidates()
        self._table.on_change = self._candidates.note

    def _restore(self, meta: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        super()._restore(meta, arrays)
        self._candidates = Candidates()
        self._table.on_change = self._candidates.note

    def _decide(self, question: Question) -> Decision:
        """One round of Algorithm 1."""
        decision = self._decide_at_once(question)
        if decision is not None:
            return decision
        config, wanted = self._config, question.wanted
        worth, scale = self._worth(question.round_number)
        history = self._book.folded(self._history_cap(scale))
        steps = self._pacer_steps(question, history)
        preferred_s = self._patience(question, steps)

        roles = Roles(self._table.flags, self._allowed(question, preferred_s))
        epsilon = self._epsilon(question.round_number)
        scoring = Scoring(
            table=self._table,
            roles=roles,
            worth=worth,
            scale=scale,
            preferred_s=preferred_s,
            round_number=question.round_number,
            config=config,
            fairness=self._fairness,
        )
        quota = self._quota(question, epsilon)
        expected_s = self._table.statistics.expected_duration_s()

        pool = scoring.pool(wanted - quota, self._candidates)
        num_exploit = min(wanted - quota, len(pool))
        tried = self._explore(question, roles, wanted - num_exploit, expected_s)
        if tried.size < wanted - num_exploit and num_exploit == wanted - quota:
            pool = scoring.pool(wanted - tried.size, self._candidates)
            num_exploit = min(wanted - tried.size, len(pool))
        places = self._exploit(question, pool, num_exploit)
        filled = self._fill(question, roles, wanted - places.size - tried.size)
        picks = Picks(pool.rows[places], pool.scores[places], tried, filled)

        return Decision(
            rows=picks.rows,
            explain=self._why(scoring, picks, expected_s),
            preferred_s=preferred_s,
            epsilon=epsilon,
            cutoff=pool.cutoff,
            pool_size=len(pool),
            pacer_steps=steps,
            history=None if question.draw else history,
        )

    def _decide_at_once(self, question: Question) -> Decision | None:
        """The same in one compiled call, where the round is an ordinary one."""
        table, config, book = self._table, self._config, self._book
        number = question.round_number
        is_due = question.draw == 0 and pacer.is_due(number, config.pacer.window)
        if is_due or not self._is_ordinary:
            return None
        if not at_once.is_possible(table, question.wanted, config.planned_rounds):
            return None
        return at_once.decided(
            table,
            book,
            config,
            question,
            epsilon=self._epsilon(number),
            fixed_s=self._fixed_s(book.pacer_steps),
            pacer_level=self._pacer_level(
                question.opened_for or question.wanted, book.pacer_steps
            ),
            candidates=self._candidates,
        )

    def _carry_out(self, question: Question, decision: Decision) -> None:
        if question.round_number == 1 and question.draw == 0:
            self._warn_if_everyone_will_be_removed(question.wanted)
        super()._carry_out(question, decision)

    def _reads(self) -> str:
        return self._measure.reads

    # The steps, applied to the table

    def _worth(self, round_number: int) -> tuple[Single, Scale]:
        """What everyone's data is worth before clipping, and how it is clipped and scaled."""
        table, clip = self._table, self._config.clip_quantile
        if self._measure.function is None:
            return table.utility, Scale.between(*table.statistics.utility_range(clip))
        rows = table.rows_with(PRESENT | EXPLORED, PRESENT | EXPLORED)
        what = f"utility '{self._measure.name}'"
        values = utility.evaluated(self._measure.function, table.view(rows, round_number), what)
        worth = np.zeros(table.num_rows, np.float32)
        worth[rows] = values
        if not values.size:
            return worth, Scale.between(0.0, 0.0)
        return worth, Scale.between(float(values.min()), arrays.lower_quantile(values, clip))

    def _history_cap(self, scale: Scale) -> float:
        """Where reports are clipped for the pacer, which compares utilities as reported."""
        statistics = self._table.statistics
        if not statistics.num_explored:
            return math.inf
        if self._measure.function is None:
            return float(scale.cap)
        return statistics.utility_range(self._config.clip_quantile)[1]

    def _pacer_steps(self, question: Question, history: History) -> int:
        window, steps = self._config.pacer.window, self._book.pacer_steps
        opening = question.draw == 0
        if opening and pacer.is_due(question.round_number, window):
            everything = {**self._book.history, **history}
            return steps + pacer.utility_fell(everything, question.round_number, window)
        return steps

    def _fixed_s(self, steps: int) -> float | None:
        """T, where it is fixed or so many seconds a step."""
        settings = self._config.pacer
        if settings.preferred_s is None and settings.step_s is not None:
            return settings.step_s * steps
        return settings.preferred_s

    def _pacer_level(self, wanted: int, steps: int) -> float:
        """Which quantile of the explored durations T is, where it is one."""
        asked = (wanted, steps, self._table.num_present)
        if self._level[0] != asked:  # the same from round to round, most often
            settings = self._config.pacer
            step = pacer.quantile_step(
                window=settings.window,
                wanted=wanted,
                num_clients=self._table.num_present,
                smallest=settings.smallest_step,
                largest=settings.largest_step,
            )
            self._level = asked, min(1.0, steps * step)
        return self._level[1]

    def _preferred_s(self, wanted: int, steps: int) -> float:
        """T: fixed, so many seconds a step, or a quantile of the explored durations."""
        fixed_s = self._fixed_s(steps)
        if fixed_s is not None:
            return fixed_s
        level = self._pacer_level(wanted, steps)
        quantile_s = self._table.statistics.explored_duration_s(level)
        return float("inf") if quantile_s is None else quantile_s

    def _epsilon(self, round_number: int) -> float:
        settings = self._config.exploration
        return explore.rate(
            round_number, start=settings.start, decay=settings.decay, minimum=settings.minimum
        )

    def _quota(self, question: Question, epsilon: float) -> int:
        """How many to explore: no more than there are."""
        luck = uniform(question.key(self._config.seed, purposes.QUOTA))
        quota = explore.quota(epsilon, question.wanted, luck)
        return min(quota, self._table.statistics.num_untried)

    def _patience(self, question: Question, steps: int) -> float:
        """T; with an infinite α, at least so long that somebody may take part.

        Otherwise a job whose clients are all slower than T would stand still for ever: no round,
        no reports, no pacer. A fixed T is a deadline, and stays.
        """
        preferred_s = self._preferred_s(question.opened_for or question.wanted, steps)
        if not np.isinf(self._config.alpha) or self._config.pacer.preferred_s is not None:
            return preferred_s
        durations = self._table.duration_s[self._ready_rows(question.allowed)]
        if not durations.size or not (durations > np.float32(preferred_s)).all():
            return preferred_s
        return float(durations.min())

    def _allowed(self, question: Question, preferred_s: float) -> Mask | None:
        """Who may be picked: with an infinite α, only those who are not known to be too slow."""
        if not np.isinf(self._config.alpha):
            return question.allowed
        in_time = ~eligibility.slower_than(self._table.duration_s, preferred_s)
        return in_time if question.allowed is None else in_time & question.allowed

    def _explore(
        self,
        question: Question,
        roles: Roles,
        wanted: int,
        expected_s: tuple[float, float] | None,
    ) -> Rows:
        """Untried clients: as many as wanted, or all there are."""
        table, seed = self._table, self._config.seed
        num_untried = table.statistics.num_untried
        if wanted == 0 or num_untried == 0:
            return _NOBODY
        keys = (question.key(seed, purposes.PROPOSE), question.key(seed, purposes.EXPLORE))
        fast = kernels.compiled_for(table.num_rows)
        if fast is None:
            return explore.sample(
                table.duration_s,
                roles.is_untried,
                roles.rows_untried,
                num_untried=num_untried,
                expected_s=expected_s,
                wanted=wanted,
                keys=keys,
            )
        highest, typical_s = explore.bounds(expected_s)
        rows: Rows = fast.explore(
            table.duration_s,
            table.flags,
            kernels.as_bytes(roles.allowed),
            eligibility.CARE,
            eligibility.UNTRIED_STATE,
            np.float32(typical_s),
            highest,
            num_untried,
            min(wanted, table.num_rows),
            (np.uint64(keys[0]), np.uint64(keys[1])),
            0.0,
        )
        return rows

    def _exploit(self, question: Question, pool: Pool, wanted: int) -> Rows:
        """Places in the pool of those who are drawn from it."""
        if wanted == 0:
            return _NOBODY
        key = question.key(self._config.seed, purposes.EXPLOIT)
        return exploit.sample(pool, wanted, key, kernels.compiled_for(self._table.num_rows))

    def _fill(self, question: Question, roles: Roles, wanted: int) -> Rows:
        """Pending clients, then removed ones, evenly: only when nobody else is left."""
        if wanted == 0:
            return _NOBODY
        key, filled = question.key(self._config.seed, purposes.FILL), [_NOBODY]
        for rows in (roles.rows_pending(), roles.rows_removed()):
            short = wanted - sum(part.size for part in filled)
            filled.append(rows[draws.race(rows, np.ones(rows.size), short, key)])
        return np.concatenate(filled)

    def _why(
        self, scoring: Scoring, picks: Picks, expected_s: tuple[float, float] | None
    ) -> Callable[[], PickTable]:
        """What explains each pick, in the order of the participants, once somebody asks."""
        known = scoring.copy_of(picks.exploited)
        duration_s = self._table.duration_s[picks.rows]
        counts = self._table.participations[picks.rows]
        exploited, tried, filled = picks.exploited.size, picks.tried.size, picks.filled.size

        def explain() -> PickTable:
            parts = known.parts()
            nothing = np.full(tried + filled, np.nan, np.float32)
            _, typical_s = explore.bounds(expected_s)
            speeds = explore.expected_speed(duration_s[exploited : exploited + tried], typical_s)
            how = [("exploited", exploited), ("explored", tried), ("filled", filled)]
            return PickTable(
                how=[name for name, count in how for _ in range(count)],
                score=np.concatenate([picks.scores, speeds, np.ones(filled)]),
                utility=np.concatenate([parts.utility, nothing]),
                staleness=np.concatenate([parts.staleness, nothing]),
                speed=np.concatenate([parts.speed, nothing]),
                fairness=np.concatenate([parts.fairness, nothing]),
                duration_s=duration_s,
                participations=counts,
            )

        return explain

    def _warn_if_everyone_will_be_removed(self, wanted: int) -> None:
        limit, rounds = self._config.max_participations, self._config.planned_rounds
        if (
            not isinstance(limit, int)
            or rounds is None
            or self.num_clients * limit >= wanted * rounds
        ):
            return
        message = (
            f"max_participations={limit} cannot last: {self.num_clients} clients × {limit} is "
            f"below {wanted} picks × {rounds} planned rounds, so that everyone will have left "
            f"exploitation before the end; raise it or unset it"
        )
        warnings.warn(message, ConfigWarning, stacklevel=4)


def create_training_selector(
    config: TrainingConfig | Mapping[str, Any] | None = None,
) -> GuidedSelector:
    """A training selector in memory: the paper's call of this name.

    Args:
        config: The settings; a dict of them works too; nothing means the defaults.

    >>> selector = create_training_selector({"seed": 7})
    >>> selector.register_clients(["a", "b", "c"]).tolist()
    [0, 1, 2]
    >>> len(selector.select_participant(2))
    2
    """
    return GuidedSelector(config)


def load_selector(path: str | os.PathLike[str]) -> GuidedSelector:
    """The selector that ``save`` wrote; it draws what the saved one would have drawn.

    Raises:
        SaveFileError: The file cannot be read, is damaged, or was written by a newer version.
        ConfigError: Its utility or fairness was not registered in this process.
    """
    return GuidedSelector.load(path)
