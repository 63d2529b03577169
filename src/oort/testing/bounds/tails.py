"""One function per inequality: at most how likely a draw of n deviates by ε or more.

Each takes an array of n and a :class:`Question` and returns natural logarithms, so that 10⁻⁴⁰⁰ and
2⁵⁰⁰⁰ events are as good as other numbers. Both directions and all categories are summed (union
bound), each with its own range and spread; that needs no independence between categories. With
everything equal the sum is the familiar L = ln(2m/α).

Which of these hold for drawing without replacement? Serfling's and the two Bernstein–Serfling ones
were proved for it. Chernoff's and Bennett's bound E[exp(λ·sum)] of independent draws; Hoeffding
(1963, Theorem 4) shows that the expectation of any convex function of the sum, so also this one,
is no larger without replacement.
"""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np

from oort.testing.bounds.question import Question
from oort.types import Floats, Mask

_T = TypeVar("_T")
_LOG_2 = math.log(2.0)


def paper(n: Floats, question: Question) -> Floats:
    """Serfling's inequality for one direction of the worst category: the printed lemma.

    >>> from oort.testing.bounds import Question
    >>> q = Question(num_clients=100, deviation=np.array([0.1]), span=np.array([1.0]),
    ...              allowed_failure=0.05)
    >>> paper(np.array([50.0]), q).round(3)
    array([-1.961])
    """
    least: Floats = np.min(_serfling_exponent(n, question), axis=-1)
    return -least


def serfling(n: Floats, question: Question) -> Floats:
    """Serfling (1974), Corollary 1.1: exp(−2nε² / ((1 − (n−1)/N) R²)) per direction and category.

    >>> from oort.testing.bounds import Question
    >>> q = Question(num_clients=100, deviation=np.array([0.1]), span=np.array([1.0]),
    ...              allowed_failure=0.05)
    >>> serfling(np.array([50.0, 90.0]), q).round(3)
    array([ -1.268, -15.67 ])
    """
    exponent = _serfling_exponent(n, question)
    impossible = (
        question.deviation >= question.span
    )  # a mean is never a whole range away from the mean of all
    return _log_sum(np.where(impossible, -np.inf, _LOG_2 - exponent))


def kl(n: Floats, question: Question) -> Floats:
    """Chernoff's bound, as Hoeffding (1963) has it in Theorem 1.

    exp(−n · KL) with KL the divergence between coins of p ± ε/R and p = (μ − min)/R.

    >>> from oort.testing.bounds import Question
    >>> q = Question(num_clients=10_000, deviation=np.array([0.02]), span=np.array([1.0]),
    ...              allowed_failure=0.05, mean=np.array([0.02]), low=np.array([0.0]))
    >>> np.exp(kl(np.array([500.0]), q)).round(4)
    array([0.019])
    """
    mean, low = _given(question.mean), _given(question.low)
    with np.errstate(all="ignore"):
        p = np.where(question.span > 0, (mean - low) / question.span, 0.5)
        t = np.where(question.span > 0, question.deviation / question.span, 2.0)
    known = _within(p, 0.0, 1.0)
    p = p.clip(0.0, 1.0)
    above = -_outer(n, np.where(known, _kl_above(p, t), 0.0))
    below = -_outer(n, np.where(known, _kl_above(1.0 - p, t), 0.0))
    return _log_sum(np.concatenate([above, below], axis=-1))


def bennett(n: Floats, question: Question) -> Floats:
    """Bennett (1962): exp(−(nσ²/B²) · h(Bε/σ²)), h(u) = (1+u) ln(1+u) − u.

    No value is further than B from the mean: B is the range, or the distance of the mean to
    either end where mean and minimum are known.

    >>> from oort.testing.bounds import Question
    >>> q = Question(num_clients=10_000, deviation=np.array([0.02]), span=np.array([1.0]),
    ...              allowed_failure=0.05, std=np.array([0.05]))
    >>> np.exp(bennett(np.array([150.0]), q)).round(4)
    array([0.0242])
    """
    up, down = _reach(question)
    std = _given(question.std)
    tails = [-_outer(n, _bennett_rate(question.deviation, std, reach)) for reach in (up, down)]
    return _log_sum(np.concatenate(tails, axis=-1))


def bernstein_serfling(n: Floats, question: Question) -> Floats:
    """Bardenet & Maillard (2015), Theorem 3.5.

    ε = σ√(2ρL/n) + κRL/n is exceeded with probability at most 2e^(−L) in one direction.

    >>> from oort.testing.bounds import Question
    >>> q = Question(num_clients=1_000, deviation=np.array([0.02]), span=np.array([1.0]),
    ...              allowed_failure=0.05, std=np.array([0.05]))
    >>> np.exp(bernstein_serfling(np.array([400.0]), q)).round(4)
    array([0.154])
    """
    size = np.asarray(n, dtype=np.float64)
    level = _level(
        size, question, _given(question.std), _bernstein_kappa(size, question.num_clients)
    )
    return _log_sum(_certain(question, math.log(4.0) - level))


def empirical_bernstein_serfling(n: Floats, question: Question) -> Floats:
    """Bardenet & Maillard (2015), Theorem 4.3: the drawn clients' own standard deviation.

    ε = σ̂√(2ρL/n) + κRL/n is exceeded with probability at most 5e^(−L) in one direction.

    >>> from oort.testing.bounds import Question
    >>> q = Question(num_clients=2_000, deviation=np.array([0.03]), span=np.array([1.0]),
    ...              allowed_failure=0.05, expected_std=np.array([0.05]))
    >>> np.exp(empirical_bernstein_serfling(np.array([1000.0]), q)).round(4)
    array([0.0281])
    """
    size = np.asarray(n, dtype=np.float64)
    kappa = np.full_like(size, 7.0 / 3.0 + 3.0 / math.sqrt(2.0))
    level = _level(size, question, _given(question.expected_std), kappa)
    return _log_sum(_certain(question, math.log(10.0) - level))


def l1_subsets(n: Floats, question: Question) -> Floats:
    """The l1 distance as the worst of 2^m − 2 sets of categories (Weissman et al., 2003).

    ‖p̂ − p‖₁ ≥ ε iff for some set A of categories the mean of x(A) − (p(A) + ε/2) · x(all) over
    the drawn clients is not negative. Over the population it is −εμ/2, and a client's value lies
    in an interval as long as the largest total, so Serfling's inequality bounds each A, one
    direction being enough (the other is the complement of A).

    >>> from oort.testing.bounds import Question
    >>> q = Question(num_clients=10_000, deviation=np.array([1.0, 1.0]), span=np.array([9.0, 9.0]),
    ...              allowed_failure=0.05, max_total=10.0, total_deviation=1.0)
    >>> np.exp(l1_subsets(np.array([200.0]), q)).round(4)
    array([0.0338])
    """
    size = np.asarray(n, dtype=np.float64)
    m = question.num_categories
    if m == 1 or not question.max_total:
        return np.full(size.shape, -np.inf)
    log_events = m * _LOG_2 + math.log1p(-math.exp(min(0.0, (1 - m) * _LOG_2)))
    share = float(_given(question.total_deviation)) / question.max_total
    return log_events - 2.0 * size * share * share / (1.0 - (size - 1.0) / question.num_clients)


def remaining_share(n: Floats, num_clients: int) -> Floats:
    """ρ of Bardenet & Maillard: what drawing without replacement leaves of the variance.

    >>> remaining_share(np.array([1.0, 50.0, 100.0]), 100)
    array([1.  , 0.51, 0.  ])
    """
    early = 1.0 - (n - 1.0) / num_clients
    late = (1.0 - n / num_clients) * (1.0 + 1.0 / n)
    return np.where(n <= num_clients / 2, early, late)


def _serfling_exponent(n: Floats, question: Question) -> Floats:
    """2nε² / ((1 − (n−1)/N) R²) per category; infinite where R is 0."""
    size = np.asarray(n, dtype=np.float64)[..., None]
    with np.errstate(all="ignore"):
        share = np.where(question.span > 0, question.deviation / question.span, np.inf)
        exponent: Floats = 2.0 * size * share**2 / (1.0 - (size - 1.0) / question.num_clients)
    return exponent


def _kl_above(p: Floats, t: Floats) -> Floats:
    """kl(p + t, p) between coins; infinite where a mean of p + t cannot be reached."""
    q = p + t
    with np.errstate(all="ignore"):
        heads = np.where(q > 0, q * np.log1p(t / p), 0.0)
        tails = np.where(q < 1, (1.0 - q) * np.log1p(-t / (1.0 - p)), 0.0)
    # A mean that is reachable in exact arithmetic may look one rounding beyond the end.
    return np.where(q > 1.0 + 1e-12, np.inf, np.maximum(heads + tails, 0.0))


def _reach(question: Question) -> tuple[Floats, Floats]:
    """How far a count may be above and below the mean: the range, where nothing better is known.

    A mean outside the range, or a spread too large for it, contradicts what is told; then the
    range is all that is believed.
    """
    span = question.span
    if question.mean is None or question.low is None:
        return span, span
    down = question.mean - question.low
    up = span - down
    widest = np.sqrt(np.maximum(up * down, 0.0))
    possible = _within(down, 0.0, span) & _within(_given(question.std), 0.0, widest)
    return np.where(possible, up, span), np.where(possible, down, span)


def _within(value: Floats, low: float, high: Floats | float) -> Mask:
    """Whether a value is in its range, but for rounding."""
    slack = 1e-9 * (1.0 + np.abs(high))
    return np.asarray((value >= low - slack) & (value <= high + slack))


def _bennett_rate(deviation: Floats, std: Floats, reach: Floats) -> Floats:
    """The exponent per participant; infinite where no mean can be that far."""
    variance = np.square(std)
    with np.errstate(all="ignore"):
        u = np.where(variance > 0, reach * deviation / variance, np.inf)
        rate = variance / np.square(reach) * ((1.0 + u) * np.log1p(u) - u)
    rate = np.where(deviation > 0, np.where(np.isfinite(u), rate, np.inf), 0.0)
    return np.where((deviation > reach * (1.0 + 1e-12)) | (reach == 0), np.inf, rate)


def _bernstein_kappa(n: Floats, num_clients: int) -> Floats:
    """κ of Bardenet & Maillard's Theorem 3.5."""
    size = np.asarray(n, dtype=np.float64)
    share = size / num_clients
    with np.errstate(all="ignore"):
        early = np.sqrt(share / (num_clients / (size - 1.0) - 1.0))
        late = np.sqrt(np.maximum(num_clients / (size + 1.0) - 1.0, 0.0) * (1.0 - share).clip(0.0))
    return 4.0 / 3.0 + np.where(size <= num_clients / 2, np.where(size > 1, early, 0.0), late)


def _level(n: Floats, question: Question, std: Floats, kappa: Floats) -> Floats:
    """L such that ε = σ√(2ρL/n) + κRL/n: a quadratic equation in √L."""
    size = n[..., None]
    rho = remaining_share(size, question.num_clients)
    linear = std * np.sqrt(2.0 * rho / size)
    square = kappa[..., None] * question.span / size
    with np.errstate(all="ignore"):
        root = (
            2.0
            * question.deviation
            / (linear + np.sqrt(linear**2 + 4.0 * square * question.deviation))
        )
    return np.where(question.deviation > 0, np.square(np.nan_to_num(root, nan=np.inf)), 0.0)


def _certain(question: Question, log_tail: Floats) -> Floats:
    """No chance at all where the deviation is as long as the range."""
    return np.where(question.deviation >= question.span, -np.inf, log_tail)


def _outer(n: Floats, rate: Floats) -> Floats:
    """N · rate for each n and category."""
    with np.errstate(all="ignore"):
        return np.asarray(n, dtype=np.float64)[..., None] * rate


def _log_sum(log_tails: Floats) -> Floats:
    """The logarithm of the sum over the last axis."""
    top = np.max(log_tails, axis=-1, keepdims=True)
    safe = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(all="ignore"):
        total: Floats = np.log(np.sum(np.exp(log_tails - safe), axis=-1)) + safe[..., 0]
    return total


def _given(value: _T | None) -> _T:
    """A known value; the catalogue asks only bounds whose inputs are there."""
    if value is None:
        message = "a bound was asked without one of its inputs"
        raise AssertionError(message)
    return value
