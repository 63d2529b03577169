"""Lower bounds that anyone can check: prices that prove a deadline impossible.

Put a whole-number price λ_i on a sample of each category. Within T seconds client n can earn at
most

    v_n(λ, T) = max{λ·x : 0 ≤ x ≤ c_n, Σx ≤ u_n(T)},

its dearest samples first. If the B largest of these sum to less than λ·p, no B clients can meet
the request within T. Everything here is whole numbers, so the proof is exact; where the prices
come from does not matter. All prices 1 is the plain count of samples, a price of 1 on a set of
categories and 0 elsewhere is a cut, and the duals of the linear programme in ``relax`` are close
to the best there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from oort.testing.category.problem import Int64s, Problem

_STEPS = 40


@dataclass(frozen=True, slots=True)
class Certificate:
    """What proves a lower bound: below ``deadline_s`` nobody can earn ``prices · quota``.

    ``kind`` is "cut" (prices 0 and 1: these categories cannot be provided sooner by all clients
    together), "prices" (the most that the budget allows cannot earn it), or "required" (a required
    client needs as long for its transfer).
    """

    kind: str
    deadline_s: float
    prices: Int64s


def latest_impossible(
    excess: Callable[[float], int], low: float, high: float, *, accuracy: float = 1e-4
) -> float:
    """A deadline from ``low`` towards ``high`` that is proven impossible, as ``low`` is.

    Args:
        excess: What can be earned within a deadline beyond what is needed: below 0 at ``low`` and
            not at ``high``, and never falling. Nearly straight in between, so that the next
            deadline to ask is where a line would cross 0, or the middle where that is slow.
        low: A deadline that is impossible.
        high: A later one that is not.
        accuracy: How near to the last one to come, as a share of it.

    >>> round(latest_impossible(lambda t: round(1000 * (t - 3.0)), 1.0, 9.0), 2)
    3.0
    """
    below, above = excess(low), excess(high)
    for step in range(_STEPS):
        if high - low <= accuracy * low:
            break
        share = below / (below - above) if step % 3 < 2 else 0.5
        margin = 0.25 * accuracy * low
        middle = min(max(low + share * (high - low), low + margin), high - margin)
        if not low < middle < high:
            break
        reached = excess(middle)
        if reached < 0:
            low, below = middle, reached
        else:
            high, above = middle, reached
    return low


def next_finish(after_s: float, problem: Problem) -> float:
    """The first moment after ``after_s`` at which some client could finish a sample."""
    done = problem.room(after_s)
    more = done < problem.limit
    times = problem.fixed_s[more] + (done[more] + 1) / problem.speed[more]
    return float(times.min(initial=np.inf))


def last_finish(until_s: float, problem: Problem) -> float:
    """The last moment up to ``until_s`` at which some client could finish a sample; 0 if none."""
    done = problem.room(until_s)
    some = done > 0
    times = problem.fixed_s[some] + done[some] / problem.speed[some]
    return float(times.max(initial=0.0))
