"""The answer to "a subset within ε of the population": how many, by which bound, and who."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from oort.errors import InvalidFeedbackError
from oort.testing.arguments import number, refuse
from oort.testing.confirm import Confirmation, confirm
from oort.testing.estimate import Design, Estimate, estimate
from oort.testing.request import DeviationRequest, TakeAll
from oort.testing.results import Results, count_table
from oort.testing.sizing import Sized
from oort.types import ClientId, Mask


@dataclass(frozen=True, kw_only=True)
class DeviationPlan:
    """How many participants a target takes, and, where ids are known, who they are.

    A plan iterates over its participants. The take-all stratum, if there is one, comes first, then
    the drawn ones in the order in which they were drawn.
    """

    request: DeviationRequest = field(repr=False)
    sized: Sized = field(repr=False)
    sizes: tuple[Sized, ...] = field(repr=False)  #: every bound's answer, for comparison
    participants: tuple[ClientId, ...] = ()
    num_invited: int = 0  #: participants with those over-committed
    seed: int = 0
    notes: tuple[str, ...] = ()

    @property
    def num_participants(self) -> int:
        """How many must answer for the guarantee."""
        return int(self.sized.num_participants or 0)

    @property
    def bound(self) -> str:
        """The bound that the number comes from."""
        return self.sized.name

    @property
    def source(self) -> str:
        """Who proved it: authors, year, theorem."""
        return self.sized.bound.source

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What has to be true for the guarantee."""
        extra = (
            ()
            if self.take_all is None
            else ("range_of_rest (and what else is told of the rest) is true of it",)
        )
        return self.sized.bound.assumptions + extra

    @property
    def take_all(self) -> TakeAll | None:
        """The stratum taken for certain, if the plan uses one."""
        return self.sized.take_all

    @property
    def confidence(self) -> float:
        """The probability that is proved: what was asked for, except with the printed lemma."""
        if (
            self.sized.bound.name != "paper"
            or self.num_participants >= self.request.total_num_clients
        ):
            return self.request.confidence
        return max(0.0, 1.0 - 2.0 * self.request.num_categories * self.request.allowed_failure)

    @property
    def size_in_words(self) -> str:
        """The number of participants, as one says it."""
        return f"{self.num_participants:,} participant{'' if self.num_participants == 1 else 's'}"

    @property
    def guarantee(self) -> str:
        """The promise in one sentence."""
        return _guarantee(self)

    @property
    def weights(self) -> dict[ClientId, float]:
        """How many clients each participant stands for, if all participants answer."""
        taken = self._taken()
        drawn = len(self.participants) - len(taken)
        rest = self.request.total_num_clients - (self.take_all.size if self.take_all else 0)
        return {c: 1.0 if c in taken else rest / drawn for c in self.participants}

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self.participants)

    def __len__(self) -> int:
        return len(self.participants)

    def __str__(self) -> str:
        return "\n".join([f"{self.size_in_words}. {self.guarantee}", *self.notes])

    def confirm(self, counts: object, *, mean: object = None) -> Confirmation:
        """How far the participants' data is from the population's.

        Args:
            counts: Samples per category that each participant holds, by client id; rows of an
                array where the plan knows no ids.
            mean: The population's mean per client and category, if it has become known since.

        Raises:
            InvalidArgumentError: Counts are malformed, or from clients that were not drawn.
        """
        request = self.request
        clients, rows = count_table(counts, request.num_categories, request.category_names)
        taken = self._strata(clients, len(rows))
        most = request.total_num_clients - (self.take_all.size if self.take_all else 0)
        if len(rows) - int(taken.sum()) > most:
            refuse("counts", f"at most {most:,} drawn clients' rows, one a client", len(rows))
        return confirm(
            request,
            self.sized.bound,
            self.take_all,
            drawn=rows[~taken],
            taken=rows[taken],
            num_missing=max(0, self.num_invited - len(rows)),
            mean=mean,
        )

    def estimate(
        self,
        results: Results,
        *,
        max_samples: float | None = None,
        metric_range: tuple[float, float] = (0.0, 1.0),
        confidence: float | None = None,
        joint: bool = False,
        slices: Sequence[str] | None = None,
    ) -> Estimate:
        """The population's accuracy, or another metric's mean over samples, with a valid interval.

        Args:
            results: By client id (or a list where the plan knows no ids): ``(samples, correct)``,
                with another metric ``(samples, sum)``; a mapping, or a
                :class:`~oort.testing.results.ClientResult`, which may have slices.
            max_samples: The most samples that a client reports about; from the plan's range where
                not given.
            metric_range: The smallest and largest value that the metric can have for one sample.
            confidence: Of each interval; the plan's where not given.
            joint: Whether overall and slices must hold together.
            slices: Which slices to estimate, settled beforehand; all that are reported where not
                given.

        Raises:
            InvalidFeedbackError: A result cannot be used, or is from a client that was not drawn.
        """
        level = self.request.confidence if confidence is None else confidence
        checked = number("confidence", level, 0, 1, low_open=True, high_open=True)
        return estimate(
            self._design(max_samples),
            results,
            confidence=checked,
            metric_range=metric_range,
            joint=joint,
            slices=slices,
        )

    def _design(self, max_samples: float | None) -> Design:
        """The sampling design, for the estimate."""
        self._require_named_stratum()
        most, span = self._capacity(max_samples)
        return Design(
            num_clients=self.request.total_num_clients,
            num_invited=self.num_invited,
            participants=self.participants,
            taken=tuple(c for c in self.take_all.clients) if self.take_all else (),
            most=most,
            span=span,
            most_of_taken=self._most_of_taken(max_samples),
            most_from="the range of capacity given; pass max_samples for another limit"
            if max_samples is None
            else "max_samples",
            seed=self.seed,
            notes=self.notes,
        )

    def _capacity(self, max_samples: float | None) -> tuple[float | None, float]:
        """The most samples of a drawn client, or, where not known, the range of their number."""
        request, stratum = self.request, self.take_all
        if max_samples is not None:
            return number("max_samples", max_samples, 0, math.inf, low_open=True), math.inf
        if not request.range_given:
            refuse("max_samples", "given where the plan was told no range_of_capacity", None)
        total = request.max_total if stratum is None else stratum.max_total_of_rest
        question = request.question(stratum)
        span = float(np.sum(question.span))
        if total is None and question.low is not None:
            total = float(np.sum(question.low)) + span
        return total, span

    def _most_of_taken(self, max_samples: float | None) -> float | None:
        """The most samples of a client that is taken for certain."""
        request = self.request
        if request.max_total is not None:
            return request.max_total
        if request.min_capacity is not None:
            return float(np.sum(request.min_capacity + request.range_of_capacity))
        return max_samples

    def _require_named_stratum(self) -> None:
        """Refuse to weight clients that cannot be told apart."""
        if self.take_all is not None and not self.take_all.clients:
            refuse("TakeAll.clients", "named, so that its members can be told from the drawn", ())

    def _taken(self) -> set[ClientId]:
        """The participants that were taken for certain."""
        return set(self.take_all.clients) & set(self.participants) if self.take_all else set()

    def _strata(self, clients: list[ClientId] | None, num_rows: int) -> Mask:
        """Which rows are of the take-all stratum; refuses clients that were not drawn."""
        self._require_named_stratum()
        if clients is None:
            if self.take_all is not None:
                message = "counts must name their clients beside a take-all stratum; got no ids"
                raise InvalidFeedbackError(message)
            return np.zeros(num_rows, dtype=bool)
        if self.participants:
            drawn = set(self.participants)
            for client in clients:
                if client not in drawn:
                    message = f"client {client!r} must be a participant of the plan; it is not"
                    raise InvalidFeedbackError(message)
        taken = set(self.take_all.clients) if self.take_all else set()
        return np.array([client in taken for client in clients], dtype=bool)


def _guarantee(plan: DeviationPlan) -> str:
    """The promise in words."""
    request = plan.request
    what = _what(request)
    if plan.num_participants >= request.total_num_clients:
        if request.total_num_clients == 1:
            return f"The only client takes part, so {what} is exact."
        return f"All {request.total_num_clients:,} clients take part, so {what} is exact."
    weighted = (
        ""
        if plan.take_all is None
        else ", with the drawn clients weighted for all that they stand for,"
    )
    within = f"{what}{weighted} differs from the population's by at most {_target(request)}"
    if plan.sized.bound.name == "paper":
        return (
            f"The lemma as printed says that {within} with probability {request.confidence:.4g}, "
            f"but it is proved for one direction only: at least {plan.confidence:.4g} follows."
        )
    chance = f"With probability at least {request.confidence:.4g} over the draw, {within}"
    if plan.sized.bound.name == "empirical-bernstein-serfling":
        return f"{chance}, or else their standard deviation comes out above expected_std."
    return f"{chance}, by {plan.sized.title}."


def _what(request: DeviationRequest) -> str:
    """What is promised to be close."""
    if request.unit == "l1":
        return f"the participants' distribution over {request.num_categories} categories"
    if request.num_categories == 1:
        return "the participants' mean number of samples"
    each = f"each of {request.num_categories} categories at once"
    return f"the participants' mean number of samples in {each}"


def _target(request: DeviationRequest) -> str:
    """The target in words."""
    target = request.dev_target
    value = (
        f"{target[0]:,g}"
        if np.all(target == target[0])
        else f"{np.min(target):,g} to {np.max(target):,g}"
    )
    return {
        "samples": f"{value} samples",
        "share_of_range": f"{value} of the range",
        "share_of_mean": f"{value} of the mean",
        "l1": f"{value} in l1 distance",
    }[request.unit]
