"""The question that every bound answers: how many clients keep their mean within ε of all.

Everything here is in samples per client, whatever unit the user asked in, with one entry per
category. The population is fixed and finite; the only randomness is which n clients are drawn, all
sets of n being equally likely.
"""

from __future__ import annotations

from dataclasses import dataclass

from oort.types import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One sampling question: what is asked, and what is known.

    ``std`` is the population's, with divisor N. The l1 fields are set where the target is the
    distance between distributions.
    """

    num_clients: int  #: N
    deviation: Floats  #: ε per category, samples per client
    span: Floats  #: R per category: largest − smallest count that a client can hold
    allowed_failure: float  #: α = 1 − confidence
    low: Floats | None = None  #: smallest count that a client can hold
    mean: Floats | None = None  #: the population's mean
    std: Floats | None = None  #: the population's standard deviation
    expected_std: Floats | None = None  #: a guess at it, or what the drawn ones turned out to have
    max_total: float | None = None  #: most samples that one client holds over all categories
    total_deviation: float | None = None  #: l1 target · mean total / 2

    @property
    def num_categories(self) -> int:
        """Categories whose deviations must hold at once."""
        return len(self.span)
