"""From a bound on the chance of failure to a number of participants."""

from __future__ import annotations

import math

import numpy as np

from oort.testing.bounds.catalogue import Bound
from oort.testing.bounds.question import Question


def participants_needed(bound: Bound, question: Question) -> int:
    """The smallest n found at which the bound keeps the target; N at most, where nothing deviates.

    The two forms of Serfling's inequality are solved in closed form where all categories ask the
    same, which is the lemma's formula with L = ln(1/α) as printed, ln(2m/α) corrected. The others
    are found by bisection over n; any n with a small enough bound is valid, because n is fixed
    before data is seen.

    >>> from oort.testing.bounds import BOUNDS
    >>> q = Question(num_clients=14_477, deviation=np.array([15.0]), span=np.array([300.0]),
    ...              allowed_failure=0.05)
    >>> participants_needed(BOUNDS["serfling"], q), participants_needed(BOUNDS["paper"], q)
    (703, 576)
    """
    if not np.any(question.span > 0):
        return 1
    share = _common_share(question)
    if bound.name in ("serfling", "paper") and share is not None:
        return _closed_form(bound, question, share)
    allowed = math.log(question.allowed_failure)

    def enough(n: int) -> bool:
        return bool(bound.log_failure(np.array(float(n)), question) <= allowed)

    if enough(1):
        return 1
    too_few, sufficient = 1, question.num_clients
    while sufficient - too_few > 1:
        middle = (too_few + sufficient) // 2
        too_few, sufficient = (too_few, middle) if enough(middle) else (middle, sufficient)
    return sufficient


def _common_share(question: Question) -> float | None:
    """ε/R where it is the same in all categories."""
    if not np.all(question.span > 0):
        return None
    share = question.deviation / question.span
    return float(share[0]) if np.all(share == share[0]) else None


def _closed_form(bound: Bound, question: Question, share: float) -> int:
    """ceil((N+1) / (1 + (2N/L)(ε/R)²)), at most N."""
    if bound.name == "serfling" and share >= 1.0:
        return 1
    n = question.num_clients
    events = 2 * question.num_categories if bound.name == "serfling" else 1
    log_term = math.log(events / question.allowed_failure)
    if log_term <= 0.0:  # α rounds to 1: nothing is asked for
        return 1
    return max(1, min(n, math.ceil((n + 1) / (1.0 + (2.0 * n / log_term) * share * share))))
