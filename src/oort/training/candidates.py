"""The clients that may reach the cut-off, remembered from round to round.

In a large table almost nobody is near the cut-off, and almost nothing changes between two rounds.
So a full pass keeps the best few thousand clients and the score that all others were below.
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

from oort.training.exploit import Pool
from oort.training.utility import Scale, Single
from oort.types import Rows

_SLACK: Final = 1.00001  # scores are rounded to 4-byte floats; the bound is not
_TINY: Final = 1e-6
_FEWEST: Final = 8_192
_PER_PICK: Final = 16
_TOO_MANY: Final = 4
_LONG: Final = 32  # rounds


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
    faster = _power(max(1.0, _ratio(now.preferred_s, then.preferred_s)), now.alpha)
    return (rho * max(score, 0.0) + sigma) * faster * _SLACK + _TINY


class Candidates:
    """The best clients of the last full pass, and what has changed since."""

    def __init__(self) -> None:
        self._rows: Rows = np.empty(0, np.int64)
        self._inside: set[int] = set()  #: the same rows
        self._changed: list[Rows] = []
        self._num_changed = 0  #: rows in there
        self._most = 0  #: with more candidates than this, it no longer pays
        self._below = math.inf  #: everyone else scored less
        self._then: Yardstick | None = None
        self._uses = 0  #: rounds served since the last full pass
        self._rest = 0  #: rounds to sit out, where scores are too flat for this to help
        self.hint = 0.0  #: about where the next cut-off will be: it saves time, nothing else
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
        best: Callable[[int], tuple[Rows, Single]],
    ) -> Pool | None:
        """Everyone who reaches the cut-off for ``wanted`` picks; nothing, if it takes a full pass.

        Args:
            wanted: How many will be picked.
            share: The share of the ``wanted``-th best score that admits a client.
            now: What scores are made with in this round.
            among: The pool, if there were only these rows.
            best: Rows and scores of so many best explored clients, pickable or not: a full pass.
        """
        if self._rest > 0:
            self._rest -= 1
            return None
        self._uses += 1
        pool, stale = self._known_pool(wanted, now, among)
        if pool is None and (stale or self._uses > _LONG):
            self._remember(best, wanted, now)
            pool, stale = self._known_pool(wanted, now, among)
            self._rest = _LONG if stale else 0
        return pool

    def _known_pool(
        self, wanted: int, now: Yardstick, among: Callable[[Rows], Pool]
    ) -> tuple[Pool | None, bool]:
        """The pool, where nobody but the candidates can be in it; else whether they are stale."""
        most = _TOO_MANY * _how_many(wanted)
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
        changed, self._changed, self._num_changed = self._changed, [], 0
        inside, new = self._inside, []
        for rows in changed:
            for row in rows.tolist():
                if row not in inside:
                    inside.add(row)
                    new.append(row)
        if new:
            self._rows = np.concatenate([self._rows, np.array(new, np.int64)])

    def _remember(
        self, best: Callable[[int], tuple[Rows, Single]], wanted: int, now: Yardstick
    ) -> None:
        count = _how_many(wanted)
        rows, scores = best(count)
        self.full_passes += 1
        self._uses = 0
        self._drop()
        self._most = _TOO_MANY * count
        if rows.size > self._most:  # too many are the best alike
            return
        self._rows, self._inside, self._then = rows, set(rows.tolist()), now
        self._below = -1.0 if rows.size < count else float(scores.min())

    def _drop(self) -> None:
        """Remember nobody, until the next full pass."""
        self._rows, self._inside = np.empty(0, np.int64), set()
        self._changed, self._num_changed, self._then = [], 0, None


def _how_many(wanted: int) -> int:
    """How many candidates a full pass keeps."""
    return max(_FEWEST, _PER_PICK * wanted)


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
