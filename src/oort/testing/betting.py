"""Intervals for a ratio, from clients drawn without replacement, by betting on its value.

Each client brings c_i correct of s_i samples; the population's accuracy is θ = Σc / Σs. Fix a
candidate a and look at z_i = c_i − a·s_i. Its mean over all N clients is 0 if and only if a = θ,
and given the clients drawn so far the next one has mean μ_t = −(z_1 + … + z_{t−1}) / (N − t + 1).
So with bets ℓ_t that depend on the past alone,

    K_t(a) = Π (1 + ℓ_t · (z_t − μ_t))

is a non-negative martingale with mean 1 when a = θ, and by Ville's inequality it ever exceeds 2/α
with probability at most α/2. The values of a where it does not, form the interval: valid for any N
and n, any sizes, at any stopping time.

Sources: Waudby-Smith & Ramdas, "Confidence sequences for sampling without replacement" (NeurIPS
2020), and "Estimating means of bounded random variables by betting" (JRSS B 2024), section 6; the
ratio and its take-all stratum are ours. The lower limit is found by bisection, which is exact: z_t
− μ_t falls as a grows, and where the bet is held back to c / (μ_t + a·S), S the most samples a
client may have, the factor is 1 − c + c·(z_t + a·S)/(μ_t + a·S), a ratio (c_t + a(S − s_t)) / (βa
− γ) with γ ≥ 0, which falls too. The upper limit is the lower one of the wrong answers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from oort.types import Floats, Mask

HELD_BACK = 0.9  #: share of what may be bet at most: at 1, one unlucky client would end the game
_STEPS = 30  #: halvings of [0, 1]: finer than any reported digit


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Clients in the order in which they were drawn, after those that were taken for certain.

    ``most`` has one entry more than there are clients: what was known before each draw, and after
    the last, of the largest number of samples that one client may have.
    """

    correct: Floats
    samples: Floats
    most: Floats
    num_clients: int  #: N, the taken ones included
    num_taken: int = 0  #: how many, at the front, were taken for certain
    seen: Mask | None = None  #: False where a client did not answer and a worst case stands in

    def swapped(self) -> Draws:
        """The same with right and wrong exchanged."""
        return replace(self, correct=self.samples - self.correct)


def fixed_interval(draws: Draws, confidence: float) -> tuple[float, float]:
    """An interval for a number of participants that was settled beforehand.

    >>> rng = np.random.default_rng(0)
    >>> s = np.full(200, 50.0); c = rng.binomial(50, 0.9, 200).astype(float)
    >>> draws = Draws(correct=c, samples=s, most=np.full(201, 50.0), num_clients=5_000)
    >>> low, high = fixed_interval(draws, 0.95)
    >>> bool(low < c.sum() / s.sum() < high), round(high - low, 3)
    (True, 0.028)
    """
    level = math.log(2.0 / (1.0 - confidence))
    up, down = _planned_bets(draws, level), _planned_bets(draws.swapped(), level)
    return _limits(draws, up, down, level, (0.0, 1.0))


def anytime_interval(
    draws: Draws, confidence: float, within: tuple[float, float] = (0.0, 1.0)
) -> tuple[float, float]:
    """An interval that holds at every moment at once, so that one may stop when it is short.

    ``within`` is the interval found earlier on the same draws; the result never leaves it.

    >>> rng = np.random.default_rng(0)
    >>> s = np.full(200, 50.0); c = rng.binomial(50, 0.9, 200).astype(float)
    >>> draws = Draws(correct=c, samples=s, most=np.full(201, 50.0), num_clients=5_000)
    >>> low, high = anytime_interval(draws, 0.95)
    >>> bool(low < c.sum() / s.sum() < high), round(high - low, 3)
    (True, 0.032)
    """
    level = math.log(2.0 / (1.0 - confidence))
    bets = _spread_bets(draws, level)
    return _limits(draws, bets, bets, level, within)


def _limits(
    draws: Draws, up: Floats, down: Floats, level: float, within: tuple[float, float]
) -> tuple[float, float]:
    """Both ends: the second is the first with right and wrong exchanged."""
    low = _lower_limit(draws, up, level, within[0])
    high = 1.0 - _lower_limit(draws.swapped(), down, level, 1.0 - within[1])
    return low, high


def _lower_limit(draws: Draws, bets: Floats, level: float, start: float) -> float:
    """The largest value found that the bets refute, all smaller ones being refuted with it."""
    if _log_wealth(draws, bets, start) < level:
        return start
    refuted, open_ = start, 1.0
    for _ in range(_STEPS):
        middle = (refuted + open_) / 2.0
        if _log_wealth(draws, bets, middle) >= level:
            refuted = middle
        else:
            open_ = middle
    return refuted


def _log_wealth(draws: Draws, bets: Floats, a: float) -> float:
    """The logarithm of K(a), the columns of bets mixed evenly; infinite if a is impossible."""
    z = draws.correct - a * draws.samples
    before = np.concatenate([[0.0], np.cumsum(z)])
    left = draws.num_clients - np.arange(len(z) + 1, dtype=np.float64)
    mean = -before / np.maximum(left, 1.0)
    bounded = np.isfinite(draws.most)
    room = np.where(bounded, mean + a * np.where(bounded, draws.most, 0.0), np.inf)
    drawn = slice(draws.num_taken, None)
    if np.any(room[drawn] < -1e-9 * (1.0 + np.where(bounded, draws.most, 0.0)[drawn])):
        return math.inf
    n = len(z)
    with np.errstate(divide="ignore"):
        at_most = np.where(room[:n] > 0, HELD_BACK / room[:n], np.inf)
    gain = (z - mean[:n])[drawn]
    stake = np.minimum(bets[drawn], at_most[drawn, None])
    with np.errstate(invalid="ignore"):
        factors = np.where(gain[:, None] == 0.0, 0.0, stake * gain[:, None])
    total = np.sum(np.log1p(np.maximum(factors, -HELD_BACK)), axis=0)
    top = float(np.max(total, initial=-math.inf))
    if not math.isfinite(top):
        return top
    return top + math.log(float(np.mean(np.exp(total - top))))


def _growth(draws: Draws) -> Floats:
    """How much louder a wrong value is heard as the population is used up: N / (N − t + 1)."""
    drawn = draws.num_clients - draws.num_taken
    index = np.arange(len(draws.samples), dtype=np.float64) - draws.num_taken
    growth: Floats = drawn / np.maximum(drawn - np.maximum(index, 0.0), 1.0)
    return growth


def _planned_bets(draws: Draws, level: float) -> Floats:
    """One strategy: √(2L / (n·variance)), the variance of z estimated from the clients before."""
    use = np.ones(len(draws.samples), dtype=bool) if draws.seen is None else draws.seen.copy()
    use[: draws.num_taken] = False
    c, s = np.where(use, draws.correct, 0.0), np.where(use, draws.samples, 0.0)
    seen = _so_far(use.astype(np.float64))
    total_c, total_s, squares = _so_far(c), _so_far(s), _so_far(s * s)
    ratio = np.divide(total_c, total_s, out=np.full_like(c, 0.5), where=total_s > 0)
    spread = _so_far(c * c) - 2.0 * ratio * _so_far(c * s) + ratio**2 * squares
    # One imagined client of average size, half of it right, keeps the first bets small.
    variance = (np.maximum(spread, 0.0) + 0.25 * squares / np.maximum(seen, 1.0)) / (seen + 1.0)
    growth = _growth(draws)
    information = float(np.sum(np.square(growth[draws.num_taken :])))
    with np.errstate(divide="ignore"):
        bets = np.where(
            variance > 0, growth * np.sqrt(2.0 * level / (variance * max(information, 1.0))), 0.0
        )
    bets[: draws.num_taken] = 0.0
    return bets[:, None]


def _spread_bets(draws: Draws, level: float) -> Floats:
    """Many strategies at once, each constant but for the growth, a factor of two apart."""
    smallest = math.sqrt(8.0 * level / max(draws.num_clients, 8.0 * level))
    scale = np.geomspace(smallest, 64.0, math.ceil(math.log2(64.0 / smallest)) + 1)
    known = np.where(np.isfinite(draws.most[:-1]) & (draws.most[:-1] > 0), draws.most[:-1], np.inf)
    bets: Floats = (_growth(draws) / known)[:, None] * scale
    bets[: draws.num_taken] = 0.0
    return bets


def _so_far(values: Floats) -> Floats:
    """Running sums without the present entry."""
    return np.cumsum(values) - values
