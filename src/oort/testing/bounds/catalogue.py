"""Every bound with its source, what it assumes, and what has to be known to use it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from oort.testing.bounds import tails
from oort.testing.bounds.question import Question
from oort.types import Floats

_SIMPLE_RANDOM = (
    "participants are drawn without replacement, every set of n clients equally likely"
)
_RANGE = "no client holds more than range_of_capacity above the smallest count"
_MEAN = "mean and min_capacity are those of the population"
_STD = "std is the population's standard deviation (divisor N)"
_ENDS = "mean and min_capacity, where given, are those of the population"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One inequality: how to evaluate it, and what it takes to believe it."""

    name: str
    title: str
    source: str  #: authors, year, theorem
    assumptions: tuple[str, ...]
    needs: tuple[
        str, ...
    ]  #: inputs beyond range and number of clients, by the names of ``Question``
    log_failure: Callable[[Floats, Question], Floats] = field(repr=False)
    automatic: bool = True  #: whether it may be chosen unasked

    def lacks(self, question: Question) -> tuple[str, ...]:
        """The inputs that are missing.

        >>> import numpy as np
        >>> one = np.ones(1)
        >>> q = Question(num_clients=9, deviation=one, span=one, allowed_failure=0.05)
        >>> BOUNDS["kl"].lacks(q)
        ('mean', 'low')
        """
        return tuple(name for name in self.needs if getattr(question, name) is None)


_ALL = (
    Bound(
        name="paper",
        title="the lemma as printed",
        source="Lai et al. (OSDI 2021), Appendix C; one-sided: proves 2δ − 1, not δ",
        assumptions=(_SIMPLE_RANDOM, _RANGE),
        needs=(),
        log_failure=tails.paper,
        automatic=False,
    ),
    Bound(
        name="serfling",
        title="Hoeffding–Serfling",
        source="Serfling (1974), Annals of Statistics 2, Corollary 1.1, in both directions",
        assumptions=(_SIMPLE_RANDOM, _RANGE),
        needs=(),
        log_failure=tails.serfling,
    ),
    Bound(
        name="kl",
        title="Chernoff–Hoeffding with the mean (KL)",
        source="Hoeffding (1963), JASA 58, Theorem 1; without replacement by his Theorem 4",
        assumptions=(_SIMPLE_RANDOM, _RANGE, _MEAN),
        needs=("mean", "low"),
        log_failure=tails.kl,
    ),
    Bound(
        name="bennett",
        title="Bennett",
        source="Bennett (1962), JASA 57; without replacement by Hoeffding (1963), Theorem 4",
        assumptions=(_SIMPLE_RANDOM, _RANGE, _STD, _ENDS),
        needs=("std",),
        log_failure=tails.bennett,
    ),
    Bound(
        name="bernstein-serfling",
        title="Bernstein–Serfling",
        source="Bardenet & Maillard (2015), Bernoulli 21, Theorem 3.5",
        assumptions=(_SIMPLE_RANDOM, _RANGE, _STD),
        needs=("std",),
        log_failure=tails.bernstein_serfling,
    ),
    Bound(
        name="empirical-bernstein-serfling",
        title="empirical Bernstein–Serfling",
        source="Bardenet & Maillard (2015), Bernoulli 21, Theorem 4.3",
        assumptions=(
            _SIMPLE_RANDOM,
            _RANGE,
            "expected_std only plans: what holds is computed from the std of those who took part",
        ),
        needs=("expected_std",),
        log_failure=tails.empirical_bernstein_serfling,
        automatic=False,  # it promises the target only if the guess turns out right
    ),
    Bound(
        name="l1-subsets",
        title="Serfling over all sets of categories",
        source="Weissman et al. (2003), HPL-2003-97, with Serfling (1974), Corollary 1.1, per set",
        assumptions=(
            _SIMPLE_RANDOM,
            "no client holds more than max_total samples",
            "mean_total is the population's mean number of samples per client",
        ),
        needs=("max_total", "total_deviation"),
        log_failure=tails.l1_subsets,
    ),
)

#: name → bound, in the order in which ties are broken: fewer assumptions first
BOUNDS: dict[str, Bound] = {bound.name: bound for bound in _ALL}
