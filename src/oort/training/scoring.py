"""The utility steps applied to the whole table, by NumPy or in one compiled pass."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Final

import numpy as np

from oort import kernels
from oort.clients.columns import EXPLORED, LARGEST_STORED, PRESENT, REMOVED
from oort.clients.table import ClientTable
from oort.config import TrainingConfig
from oort.kernels import arrays
from oort.training import exploit, utility
from oort.training.candidates import NEARLY, Candidates, Yardstick
from oort.training.eligibility import CARE, EXPLORED_STATE, Roles
from oort.training.exploit import Pool
from oort.training.utility import ColumnFunction, Scale, Single
from oort.types import Integers, Mask, Rows

_EVER: Final = np.uint8(PRESENT | EXPLORED | REMOVED)
_EXPLORED: Final = np.uint8(PRESENT | EXPLORED)
MANY_ROWS: Final = 32_768  # below, a full pass costs less than remembering


@dataclass(frozen=True, slots=True)
class Parts:
    """What scores are made of."""

    utility: Single  #: clipped and scaled to [0, 1]
    staleness: Single  #: added
    speed: Single  #: multiplied
    fairness: Single  #: blended in; NaN where fairness is off

    @property
    def score(self) -> Single:
        """Utility, staleness and speed, before fairness."""
        return (self.utility + self.staleness) * self.speed


def _none() -> Single:
    return np.empty(0, np.float32)


@dataclass(frozen=True, slots=True)
class Known:
    """Columns of some clients, and what turns them into scores."""

    config: TrainingConfig
    yardstick: Yardstick
    round_number: int
    worth: Single
    last_round: Integers
    duration_s: Single
    fairness: Single = field(default_factory=_none)

    def parts(self) -> Parts:
        """The parts of their scores, by the steps of ``utility``."""
        scaled = utility.scaled_utility(self.worth, self.yardstick.scale)
        bonus = utility.staleness_bonus(
            self.last_round, round_number=self.round_number, weight=self.config.staleness
        )
        preferred_s, alpha = self.yardstick.preferred_s, self.config.alpha
        speed = utility.slowness_penalty(self.duration_s, preferred_s=preferred_s, alpha=alpha)
        return Parts(scaled, bonus, speed, self.fairness)


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """Everything that decides the scores of one round."""

    table: ClientTable
    roles: Roles
    worth: Single  #: of every row, before clipping
    scale: Scale
    preferred_s: float
    round_number: int
    config: TrainingConfig
    fairness: ColumnFunction

    def pool(self, wanted: int, candidates: Candidates) -> Pool:
        """Every eligible explored client that reaches the cut-off for ``wanted`` picks.

        If there are fewer than ``wanted``, it is everyone eligible and explored.
        """
        share, wanted = self.config.cutoff, min(wanted, self.table.num_rows)
        if wanted == 0:
            return Pool.empty()
        if self.config.fairness_weight > 0:
            rows = self.roles.rows_explored()
            return exploit.settled(rows, self._fair_scores(rows), wanted, share)
        pool = self._remembered(wanted, share, candidates)
        if pool is None:
            pool = self._top(wanted, share, self.roles, candidates.hint)
        candidates.hint = NEARLY * pool.cutoff if len(pool) >= wanted else 0.0
        return pool

    @functools.cached_property
    def yardstick(self) -> Yardstick:
        """What turns columns into scores in this round."""
        uncertainty = utility.uncertainty(self.round_number, self.config.staleness)
        return Yardstick(self.scale, float(uncertainty), self.preferred_s, self.config.alpha)

    def best(self, wanted: int, share: float, hint: float = 0.0) -> tuple[Rows, Single]:
        """The explored clients with a share of the ``wanted``-th best score, in a full pass.

        Whether they may be picked now or not. The hint is about what that share is.
        """
        pool = self._top(min(wanted, self.table.num_rows), share, None, hint)
        return pool.rows, pool.scores

    def scores_of(self, rows: Rows) -> Single:
        """Scores of some rows, −1 for those that may not be picked."""
        fast = self._fast_kernels()
        if fast is not None:
            scores: Single = fast.scores_of(rows, *self._arguments(self.roles))
            return scores
        return np.where(self.roles.is_explored(rows), self._score(rows), np.float32(-1))

    def pool_among(self, rows: Rows, wanted: int, share: float, hint: float = 0.0) -> Pool:
        """The pool, if there were only these rows."""
        fast = self._fast_kernels()
        if fast is not None:
            single = (np.float32(share), np.float32(hint))
            return _pool(*fast.pool_of_rows(rows, *self._arguments(self.roles), wanted, *single))
        scores = self.scores_of(rows)
        may = scores >= 0
        return exploit.settled(rows[may], scores[may], wanted, share)

    def _remembered(self, wanted: int, share: float, candidates: Candidates) -> Pool | None:
        """The pool without a full pass, where that can be had."""
        if self.worth is not self.table.utility or self.table.num_rows < MANY_ROWS:
            return None

        def among(rows: Rows) -> Pool:
            return self.pool_among(rows, wanted, share, candidates.hint)

        return candidates.pool(wanted, share, self.yardstick, among=among, best=self.best)

    def _top(self, wanted: int, share: float, roles: Roles | None, hint: float = 0.0) -> Pool:
        """All that reach the cut-off, in one full pass."""
        fast = self._fast_kernels()
        if fast is not None:
            single = (np.float32(share), np.float32(hint))
            return _pool(*fast.pool_of_all(*self._arguments(roles), wanted, *single))
        score = functools.partial(self._scores, roles=roles)
        found = arrays.top_scores(score, self.table.num_rows, wanted, np.float32(share))
        return exploit.settled(*found, wanted, share)

    def copy_of(self, rows: Rows) -> Known:
        """What the scores of some rows are made of, as it is now."""
        fairness = np.full(rows.size, np.nan, np.float32)
        if self.config.fairness_weight > 0 and rows.size:
            everyone = self.roles.rows_explored()
            fairness = self._fairness_of(everyone)[everyone.searchsorted(rows)]
        table = self.table
        columns = (self.worth[rows], table.last_round[rows], table.duration_s[rows])
        return Known(self.config, self.yardstick, self.round_number, *columns, fairness)

    def _score(self, rows: Rows | slice) -> Single:
        table = self.table
        columns = (self.worth[rows], table.last_round[rows], table.duration_s[rows])
        return Known(self.config, self.yardstick, self.round_number, *columns).parts().score

    def _scores(self, rows: slice, roles: Roles | None) -> Single:
        """Scores of a slice of rows, −1 for those that do not count."""
        care, state = _states(roles)
        counts: Mask = (self.table.flags[rows] & care) == state
        if roles is not None and roles.allowed is not None:
            counts = counts & roles.allowed[rows]
        return np.where(counts, self._score(rows), np.float32(-1))

    def _fair_scores(self, rows: Rows) -> Single:
        fairness = self._fairness_of(rows)
        return utility.blended(self._score(rows), fairness, self.config.fairness_weight)

    def _fairness_of(self, rows: Rows) -> Single:
        columns = self.table.view(rows, self.round_number)
        what = f"fairness '{self.config.fairness}'"
        values = utility.evaluated(self.fairness, columns, what, lowest=-LARGEST_STORED)
        return utility.to_unit_range(values)

    def _fast_kernels(self) -> ModuleType | None:
        """The compiled kernels, which know α = 2 alone."""
        return kernels.compiled_for(self.table.num_rows) if self.config.alpha == 2.0 else None

    def _arguments(self, roles: Roles | None) -> tuple[Any, ...]:
        """What compiled kernels take, rounded as the steps round it."""
        table, scale = self.table, self.scale
        allowed = kernels.as_bytes(None if roles is None else roles.allowed)
        columns = (self.worth, table.duration_s, table.last_round, table.flags, allowed)
        preferred_s = np.float32(min(self.preferred_s, LARGEST_STORED))
        uncertainty = np.float32(self.yardstick.uncertainty)
        rounded = (scale.low, scale.cap, scale.inverse_range, uncertainty, preferred_s)
        return columns, _states(roles), rounded


def _pool(rows: Rows, scores: Single, cutoff: float) -> Pool:
    return Pool(rows, scores, cutoff) if rows.size else Pool.empty()


def _states(roles: Roles | None) -> tuple[np.uint8, np.uint8]:
    """The bits that count, and how they must be: eligible and explored, or explored at all."""
    return (_EVER, _EXPLORED) if roles is None else (CARE, EXPLORED_STATE)
