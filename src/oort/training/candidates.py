"""The clients that may reach the cut-off, remembered from round to round.

In a large table almost nobody is near the cut-off, and almost nothing changes between two rounds.
So a full pass keeps the best few thousand clients, or all down to a little below the cut-off where
that is more, and the score that all others were below.
Later rounds score only those and the rows that changed since, and ask how far anyone else can
have risen: utilities are scaled by a range that moves a little, the staleness bonus grows with
ln R, the preferred duration follows a quantile. Where that bound is below the cut-off, the pool is
what a full pass would find, row by row; where it is not, a full pass is made.

    score = (a(u) + b) · p      with b = √(w ln R / L), p = min(1, T/t)^α

For ρ = max(a's slope ratio, b's ratio), σ = max over u of a(u) − ρ · a₀(u), and
φ = max(1, T/T₀)^α: score ≤ (ρ · score₀ + σ) · φ. The difference a − ρ·a₀ is piecewise linear in
u, so its maximum lies at the ends of the two ranges.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from oort.kernels import arrays
from oort.training.exploit import Pool
from oort.training.utility import Scale, Single
from oort.types import Rows

Best = Callable[[int, float, float], tuple[Rows, Single]]

NEARLY: Final = 0.92  # the cut-off seldom falls by more from one round to the next
_SLACK: Final = 1.00001  # scores are rounded to 4-byte floats; the bound is not
_PER_POWER: Final = 1.0 + 2.0**-21  # and so is T/t, before α raises it
_TINY: Final = 1e-6
_SHORTEST_S: Final = 1e-7  # from here on, T/t of any duration that is stored is a normal float
_LOST: Final = 2.0**-149  # so much of a smaller power of it may be
_FEWEST: Final = 8_192
_PER_PICK: Final = 16
_TOO_MANY: Final = 4
_SOON: Final = 8  # rounds
_LONG: Final = 32
_DEEPEST: Final = 4


@dataclass(frozen=True, slots=True)
class Yardstick:
    """What turns columns into scores in one round."""

    scale: Scale
    uncertainty: float
    preferred_s: float
    alpha: float = 2.0

    def worth(self, utility: float) -> float:
        """The scaled utility, in exact arithmetic."""
        scale = self.scale
        if scale.inverse_range == 0:
            return 1.0
        return (min(utility, float(scale.cap)) - float(scale.low)) * float(scale.inverse_range)


def highest_possible(score: float, then: Yardstick, now: Yardstick) -> float:
    """How high a client can score now whose columns did not change and who was below ``score``.

    >>> scale = Scale.between(0.0, 10.0)
    >>> then, now = Yardstick(scale, 0.5, 30.0), Yardstick(scale, 0.5, 60.0)
    >>> round(highest_possible(0.2, then, now), 3)
    0.8
    """
    slopes = _ratio(float(now.scale.inverse_range), float(then.scale.inverse_range))
    bonuses = math.sqrt(_ratio(now.uncertainty, then.uncertainty))
    rho = max(slopes, bonuses)
    if math.isinf(rho):
        return math.inf
    ends = (then.scale.low, then.scale.cap, now.scale.low, now.scale.cap)
    corners = [float(end) for end in ends if end >= then.scale.low]
    sigma = max(0.0, *(now.worth(u) - rho * then.worth(u) for u in corners))
    longer = max(1.0, _ratio(now.preferred_s, then.preferred_s))
    if longer > 1.0:  # speeds that were too small for a float may have become large enough
        if then.preferred_s < _SHORTEST_S:
            return math.inf
        score += (1.0 + math.sqrt(then.uncertainty)) * _LOST
    rounded = _PER_POWER if math.isfinite(now.alpha) else 1.0  # it is 0 or 1 then
    faster = _power(longer * rounded, now.alpha)
    return (rho * max(score, 0.0) + sigma) * faster * _SLACK + _TINY


class Candidates:
    """The best clients of the last full pass, and what has changed since."""

    def __init__(self) -> None:
        self._rows: Rows = np.empty(0, np.int64)
        self._first: Rows = self._rows  #: those of the full pass, ascending
        self._later: set[int] = set()  #: those that came in since
        self._changed: list[Rows] = []
        self._num_changed = 0  #: rows in there
        self._most = 0  #: with more candidates than this, it no longer pays
        self._below = math.inf  #: everyone else scored less
        self._then: Yardstick | None = None
        self._uses = 0  #: rounds since the last full pass
        self._depth = 1  #: so many times as many per pick are kept, where they wear out soon
        self._patience = _LONG  #: rounds before fewer are tried again
        self._is_deep = False  #: the pool reaches further down than the best few thousand
        self._rest = 0  #: rounds to sit out, where scores are too flat for this to help
        self.hint = 0.0  #: about where the next cut-off will be: it saves time, nothing else
        self.pace = 0.0  #: about when exploration will end, per client: the same
        self.full_passes = 0  #: how many were made: what tests count

    def note(self, rows: Rows) -> None:
        """These rows have changed."""
        if self._then is None:
            return
        self._changed.append(rows)
        self._num_changed += rows.size
        if self._num_changed > self._most:
            self._drop()

    def pool(
        self,
        wanted: int,
        share: float,
        now: Yardstick,
        *,
        among: Callable[[Rows], Pool],
        best: Best,
    ) -> Pool | None:
        """Everyone who reaches the cut-off for ``wanted`` picks; nothing, if it takes a full pass.

        Args:
            wanted: How many will be picked.
            share: The share of the ``wanted``-th best score that admits a client.
            now: What scores are made with in this round.
            among: The pool, if there were only these rows.
            best: Rows and scores of explored clients, pickable or not: everyone with a share of
                the score of the so-manieth best, which takes a full pass, and less time where
                that is about what is said.
        """
        if self._rest > 0:
            self._rest -= 1
            return None
        self._uses += 1
        if self._depth > 1 and self._uses > self._patience:  # fewer may do
            self._depth //= 2
            self._drop()
        pool, stale = self._known_pool(wanted, now, among)
        if pool is None and (stale or self._uses > _LONG):
            self._remember(best, wanted, share, now)
            pool, stale = self._known_pool(wanted, now, among)
            if stale and self._wore_out_soon(wanted, now):  # too few from the beginning
                self._remember(best, wanted, share, now)
                pool, stale = self._known_pool(wanted, now, among)
            self._rest = _LONG if stale else 0
        return pool

    def _known_pool(
        self, wanted: int, now: Yardstick, among: Callable[[Rows], Pool]
    ) -> tuple[Pool | None, bool]:
        """The pool, where nobody but the candidates can be in it; else whether they are stale."""
        most = _TOO_MANY * self._how_many(wanted)
        if self._uses <= _LONG:  # a smaller round may stand between two large ones
            most = max(most, self._most)
        self._take_changed(most)
        if self._then is None or self._rows.size > most:
            return None, True
        pool = among(self._rows)
        if len(pool) < wanted:
            return None, False
        if self._below < 0 or pool.cutoff >= highest_possible(self._below, self._then, now):
            return pool, False
        return None, True

    def _take_changed(self, most: int) -> None:
        """Rows that changed become candidates, unless they are so many that it does not pay."""
        if not self._changed:
            return
        if self._num_changed > most:
            self._drop()
            return
        changed = np.concatenate(self._changed)
        self._changed, self._num_changed = [], 0
        if self._first.size:
            places = np.minimum(self._first.searchsorted(changed), self._first.size - 1)
            changed = changed[self._first[places] != changed]
        new = dict.fromkeys(row for row in changed.tolist() if row not in self._later)
        if new:
            self._later.update(new)
            self._rows = np.concatenate([self._rows, np.array([*new], np.int64)])

    def _remember(
        self,
        best: Best,
        wanted: int,
        share: float,
        now: Yardstick,
    ) -> None:
        hint = NEARLY * self._below if 0 < self._below < math.inf else 0.0
        if self._were_for_fewer(wanted):
            hint = 0.0
        elif self._wore_out_soon(wanted, now):
            self._depth = 2 * self._depth if self._uses else _DEEPEST
            self._patience *= 2
            hint *= NEARLY
        self._drop()
        self._uses, count = 0, self._how_many(wanted)
        self._most = _TOO_MANY * count
        was_deep = self._is_deep
        found = self._down_to_the_bar(best, wanted, share) if was_deep else None
        if found is None:
            rows, scores = best(count, 1.0, hint)
            self.full_passes += 1
            found = rows, scores, -1.0 if rows.size < count else float(scores.min())
            if 0 < rows.size <= self._most and not was_deep:
                top = arrays.cutoff(scores, min(wanted, scores.size), np.float32(share))
                if found[2] > NEARLY * top:  # the best are alike: the pool reaches further down
                    found = self._down_to_the_bar(best, wanted, share) or found
        rows, _, below = found
        if rows.size > self._most:  # too many are the best alike
            return
        self._rows = self._first = rows
        self._then, self._below = now, below

    def _down_to_the_bar(
        self, best: Best, wanted: int, share: float
    ) -> tuple[Rows, Single, float] | None:
        """All down to a little below the cut-off, unless they are too few or too many to keep."""
        rows, scores = best(wanted, NEARLY * share, NEARLY * self.hint)
        self.full_passes += 1
        self._is_deep = self._how_many(wanted) <= rows.size <= self._most
        if not self._is_deep:
            return None
        return rows, scores, float(scores.min())

    def _wore_out_soon(self, wanted: int, now: Yardstick) -> bool:
        """Whether so few were kept that picks, not a leap of T, used them up in a few rounds.

        Not where no more would be kept anyway.
        """
        if self._then is None or self._uses > _SOON:
            return False
        if _DEEPEST * _PER_PICK * wanted <= self._how_many(wanted):
            return False
        return highest_possible(self._below, self._then, now) * NEARLY < self._below

    def _were_for_fewer(self, wanted: int) -> bool:
        """Whether the last full pass was made for fewer picks, and kept fewer candidates."""
        return self._most < _TOO_MANY * self._how_many(wanted)

    def _how_many(self, wanted: int) -> int:
        """How many candidates a full pass keeps."""
        return max(_FEWEST, self._depth * _PER_PICK * wanted)

    def _drop(self) -> None:
        """Remember nobody, until the next full pass."""
        self._rows = self._first = np.empty(0, np.int64)
        self._later = set()
        self._changed, self._num_changed, self._then = [], 0, None


def _power(base: float, exponent: float) -> float:
    """A power that becomes infinite instead of raising."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.inf


def _ratio(now: float, then: float) -> float:
    """How much something has grown; infinite where it came from nothing."""
    if now == then:
        return 1.0
    return now / then if then > 0 else math.inf
