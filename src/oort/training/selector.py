"""Algorithm 1 of the paper: guided participant selection for training.

Reads top to bottom like the paper; every line hands its result to the next. State changes
elsewhere, in one place, after the decision (``BookkeepingSelector.select``).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oort.clients.columns import EXPLORED, PRESENT
from oort.config import TrainingConfig
from oort.errors import ConfigWarning
from oort.kernels import arrays
from oort.training import eligibility, exploit, explore, pacer, utility
from oort.training.bookkeeping import BookkeepingSelector, Decision, Question
from oort.training.eligibility import Roles
from oort.training.rounds import History
from oort.training.utility import Scale, Single
from oort.types import PickTable, Rows


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of some rows, and the parts they are made of."""

    utility: Single
    staleness: Single
    speed: Single
    fairness: Single
    score: Single


@dataclass(frozen=True, slots=True)
class Explored:
    """The rows that have a utility, and what each is worth before clipping."""

    rows: Rows
    worth: Single


class GuidedSelector(BookkeepingSelector):
    """Oort's training selector, in memory."""

    strategy: ClassVar[str] = "oort"

    def __init__(self, config: TrainingConfig | Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._measure = utility.utility_named(self._config.utility)
        self._fairness = utility.fairness_named(self._config.fairness)

    def _decide(self, question: Question) -> Decision:
        """One round of Algorithm 1."""
        config, book = self._config, self._book
        explored = self._explored(question.round_number)
        scale = self._scale(explored)
        history = book.folded(float(scale.cap))
        steps = self._pacer_steps(question, history)
        preferred_s = self._preferred_s(question.wanted, explored, steps)

        roles = self._roles(question, preferred_s)
        epsilon = explore.rate(
            question.round_number,
            start=config.exploration.start,
            decay=config.exploration.decay,
            minimum=config.exploration.minimum,
        )
        generator = question.generator(config.seed, "select")
        quota = explore.quota(epsilon, question.wanted, float(generator.random()))
        num_explore, num_exploit = explore.shares(
            question.wanted, quota, untried=roles.untried.size, explored=roles.explored.size
        )

        scores = self._scores(roles.explored, explored, scale, preferred_s, question.round_number)
        pool = (
            exploit.admit(roles.explored, scores.score, num_exploit, config.cutoff)
            if num_exploit
            else None
        )
        exploited = exploit.sample(pool, num_exploit, generator) if pool else roles.explored[:0]
        speed = explore.expected_speed(self._table.duration_s[roles.untried])
        tried = explore.sample(roles.untried, speed, num_explore, generator)
        rest = question.wanted - num_exploit - num_explore
        filled = _fill(rest, roles, generator)

        return Decision(
            rows=np.concatenate([exploited, tried, filled]),
            table=self._why(roles, scores, exploited, tried, filled),
            preferred_s=preferred_s,
            epsilon=epsilon,
            cutoff=pool.cutoff if pool else float("nan"),
            pool_size=pool.rows.size if pool else 0,
            pacer_steps=steps,
            history=None if question.draw else history,
        )

    def _carry_out(self, question: Question, decision: Decision) -> None:
        super()._carry_out(question, decision)
        if question.round_number == 1 and question.draw == 0:
            self._warn_if_everyone_will_be_removed(question.wanted)

    def _reads(self) -> str:
        return self._measure.reads

    # The steps, applied to the table

    def _explored(self, round_number: int) -> Explored:
        rows = self._table.rows_with(PRESENT | EXPLORED, PRESENT | EXPLORED)
        if self._measure.function is None:
            return Explored(rows, self._table.utility[rows])
        columns = self._table.view(rows, round_number)
        return Explored(
            rows,
            utility.evaluated(self._measure.function, columns, f"utility '{self._measure.name}'"),
        )

    def _scale(self, explored: Explored) -> Scale:
        if not explored.rows.size:
            return Scale.between(0.0, 0.0)
        cap = arrays.lower_quantile(explored.worth, self._config.clip_quantile)
        return Scale.between(float(explored.worth.min()), cap)

    def _pacer_steps(self, question: Question, history: History) -> int:
        window, steps = self._config.pacer.window, self._book.pacer_steps
        opening = question.draw == 0
        if opening and pacer.is_due(question.round_number, window):
            return steps + pacer.utility_fell(history, question.round_number, window)
        return steps

    def _preferred_s(self, wanted: int, explored: Explored, steps: int) -> float:
        """T: fixed, so many seconds a step, or a quantile of the explored durations."""
        settings = self._config.pacer
        if settings.preferred_s is not None:
            return settings.preferred_s
        if settings.step_s is not None:
            return settings.step_s * steps
        durations = self._table.duration_s[explored.rows]
        durations = durations[~np.isnan(durations)]
        if not durations.size:
            return float("inf")
        step = pacer.quantile_step(
            window=settings.window,
            wanted=wanted,
            num_clients=self._table.num_present,
            smallest=settings.smallest_step,
        )
        return arrays.lower_quantile(durations, min(1.0, steps * step))

    def _roles(self, question: Question, preferred_s: float) -> Roles:
        too_slow = None
        if np.isinf(self._config.alpha):
            too_slow = eligibility.slower_than(self._table.duration_s, preferred_s)
        return eligibility.roles(self._table.flags, question.allowed, too_slow)

    def _scores(
        self, rows: Rows, explored: Explored, scale: Scale, preferred_s: float, round_number: int
    ) -> Scores:
        config, table = self._config, self._table
        worth = explored.worth[np.searchsorted(explored.rows, rows)]
        scaled = utility.scaled_utility(worth, scale)
        bonus = utility.staleness_bonus(
            table.last_round[rows], round_number=round_number, weight=config.staleness
        )
        speed = utility.slowness_penalty(
            table.duration_s[rows], preferred_s=preferred_s, alpha=config.alpha
        )
        score = (scaled + bonus) * speed
        fair = np.full(rows.size, np.nan, np.float32)
        if config.fairness_weight > 0 and rows.size:
            what = f"fairness '{config.fairness}'"
            fair = utility.to_unit_range(
                utility.evaluated(self._fairness, table.view(rows, round_number), what)
            )
            score = utility.blended(score, fair, config.fairness_weight)
        return Scores(scaled, bonus, speed, fair, score)

    def _why(
        self, roles: Roles, scores: Scores, exploited: Rows, tried: Rows, filled: Rows
    ) -> PickTable:
        """The parts of each pick's score, in the order of the participants."""
        places = np.searchsorted(roles.explored, exploited)
        others = np.full(tried.size + filled.size, np.nan, np.float32)
        rows = np.concatenate([exploited, tried, filled])
        speeds = 1.0 / np.maximum(self._table.duration_s[rows[exploited.size :]], 1e-6)
        return PickTable(
            how=["exploited"] * exploited.size
            + ["explored"] * tried.size
            + ["filled"] * filled.size,
            score=np.concatenate([scores.score[places], np.where(np.isnan(speeds), 1.0, speeds)]),
            utility=np.concatenate([scores.utility[places], others]),
            staleness=np.concatenate([scores.staleness[places], others]),
            speed=np.concatenate([scores.speed[places], others]),
            fairness=np.concatenate([scores.fairness[places], others]),
            duration_s=self._table.duration_s[rows],
            participations=self._table.participations[rows],
        )

    def _warn_if_everyone_will_be_removed(self, wanted: int) -> None:
        limit, rounds = self._config.max_participations, self._config.planned_rounds
        if limit is None or rounds is None or self.num_clients * limit >= wanted * rounds:
            return
        message = (
            f"max_participations={limit} cannot last: {self.num_clients} clients × {limit} is "
            f"below {wanted} picks × {rounds} planned rounds, so that everyone will have left "
            f"exploitation before the end; raise it or unset it"
        )
        warnings.warn(message, ConfigWarning, stacklevel=4)


def _fill(wanted: int, roles: Roles, generator: np.random.Generator) -> Rows:
    """Pending clients, then removed ones, evenly: only when nobody else is left."""
    filled = [roles.untried[:0]]
    for rows in (roles.pending, roles.removed):
        count = min(wanted - sum(f.size for f in filled), rows.size)
        if count > 0:
            filled.append(rows[generator.choice(rows.size, count, replace=False)])
    return np.concatenate(filled)


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
    """
    return GuidedSelector.load(path)
