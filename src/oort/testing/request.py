"""What the user asks for, checked once, and the same in samples per client.

    unit              a target of ε means, for every category at once, samples           the mean
    count per participant is within ε of that over all clients share_of_range    … within ε times
    the range of capacity share_of_mean     … within ε times the mean over all clients l1
    Σ over categories of |share among participants − share among all| is at most ε

The l1 distance is at most 2 · Σ_j |X̄_j − μ_j| / μ, μ the mean number of samples per client, so a
target is split over the categories in proportion to their standard deviations, or to their ranges
where these are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oort.clients.id_columns import id_list
from oort.errors import InvalidArgumentError
from oort.testing.arguments import number, numbers, one_of, refuse, whole
from oort.testing.bounds import Question
from oort.types import ClientId, Floats, Mask

UNITS = ("samples", "share_of_range", "share_of_mean", "l1")
_LARGEST_TARGET = {"share_of_range": 1.0, "l1": 2.0}
_MOST_CLIENTS = 2**53  #: beyond, floats no longer tell one client from the next
_ROUNDED = 1e-3  #: how far a sum of means may be from the total that is told beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeAll:
    """A stratum of the largest clients, all of which take part; the rest is drawn.

    A few clients that hold far more than the others make every bound pessimistic. Taking these few
    for certain leaves a population with a much shorter range. What is estimated then is the
    weighted mean: a client of the stratum stands for itself, a drawn one for as many as were drawn
    from.

    >>> TakeAll(num_clients=50, range_of_rest=400.0).num_clients
    50
    """

    num_clients: int | None = field(
        default=None, metadata={"doc": "how many; may be left out where clients are named"}
    )
    range_of_rest: Any = field(
        metadata={"doc": "range of capacity among all others, per category"}
    )
    clients: Sequence[ClientId] = field(
        default=(), metadata={"doc": "who they are; needed where participants are drawn"}
    )
    min_of_rest: Any = field(
        default=None,
        metadata={"doc": "where range_of_rest begins, per category; with mean_of_rest allows KL"},
    )
    mean_of_rest: Any = field(
        default=None, metadata={"doc": "mean among all others, per category"}
    )
    std_of_rest: Any = field(
        default=None, metadata={"doc": "standard deviation among all others, per category"}
    )
    max_total_of_rest: float | None = field(
        default=None,
        metadata={"doc": "most samples over all categories that any of the others holds"},
    )

    def __post_init__(self) -> None:
        clients = _ids(self.clients)
        if len(set(clients)) != len(clients):
            refuse("TakeAll.clients", "distinct", list(clients))
        size = (
            len(clients)
            if self.num_clients is None
            else whole("TakeAll.num_clients", self.num_clients, 1)
        )
        if size < 1 or (clients and size != len(clients)):
            refuse(
                "TakeAll.num_clients",
                "at least 1 and the number of clients named",
                self.num_clients,
            )
        object.__setattr__(self, "clients", clients)
        object.__setattr__(self, "num_clients", size)
        for name in ("range_of_rest", "min_of_rest", "mean_of_rest", "std_of_rest"):
            value = getattr(self, name)
            if value is not None or name == "range_of_rest":
                object.__setattr__(self, name, numbers(f"TakeAll.{name}", value, 0, np.inf))
        if self.max_total_of_rest is not None:
            number("TakeAll.max_total_of_rest", self.max_total_of_rest, 0, np.inf)

    @property
    def size(self) -> int:
        """How many clients the stratum has."""
        return int(self.num_clients or 0)


@dataclass(frozen=True, kw_only=True)
class DeviationRequest:
    """A checked request for a representative subset; vectors have one entry per category."""

    dev_target: Floats
    range_of_capacity: Floats
    total_num_clients: int
    unit: str = "samples"
    confidence: float = 0.95
    bound: str = "auto"
    category_names: tuple[str, ...] = ()
    mean: Floats | None = None
    std: Floats | None = None
    min_capacity: Floats | None = None
    expected_std: Floats | None = None
    mean_total: float | None = None
    max_total: float | None = None
    take_all: tuple[TakeAll, ...] = ()
    range_given: bool = True  #: false where the unit made it unnecessary: counts mean nothing then

    @property
    def num_categories(self) -> int:
        """Categories that must hold at once."""
        return len(self.range_of_capacity)

    @property
    def allowed_failure(self) -> float:
        """α = 1 − confidence."""
        return 1.0 - self.confidence

    def with_target(self, dev_target: Floats) -> DeviationRequest:
        """The same request with another target."""
        return replace(self, dev_target=np.asarray(dev_target, dtype=np.float64))

    def question(self, take_all: TakeAll | None = None) -> Question:
        """The question about the clients to draw from: all, or the rest beside a take-all stratum.

        With the stratum observed, |X̄ − μ| = (N_rest / N) · |X̄_rest − μ_rest|: the rest may
        deviate by more.
        """
        whole_population = Question(
            num_clients=self.total_num_clients,
            deviation=self._deviation_in_samples(),
            span=self.range_of_capacity,
            allowed_failure=self.allowed_failure,
            low=self.min_capacity,
            mean=self.mean,
            std=self.std,
            expected_std=self.expected_std,
            max_total=self.max_total if self.unit == "l1" else None,
            total_deviation=float(self.dev_target[0] * self.total_mean() / 2.0)
            if self.unit == "l1"
            else None,
        )
        return whole_population if take_all is None else self._rest(whole_population, take_all)

    def total_mean(self) -> float:
        """The mean number of samples per client, over all categories.

        Raises:
            InvalidArgumentError: Neither it nor the categories' means are known.
        """
        if self.mean_total is not None:
            return self.mean_total
        if self.mean is None or not np.sum(self.mean) > 0:
            refuse("mean_total (or mean)", 'given and above 0 for unit="l1"', self.mean)
        return float(np.sum(self.mean))

    def _deviation_in_samples(self) -> Floats:
        """The target per category, in samples per client."""
        if self.unit == "samples":
            return self.dev_target
        if self.unit == "share_of_range":
            return self.dev_target * self.range_of_capacity
        if self.unit == "share_of_mean":
            if self.mean is None or not np.all(self.mean > 0):
                refuse("mean", 'given and above 0 for unit="share_of_mean"', self.mean)
            return self.dev_target * self.mean
        return split_target(self.dev_target[0] * self.total_mean() / 2.0, self.range_of_capacity)

    def _rest(self, question: Question, take_all: TakeAll) -> Question:
        """The question about all clients but the stratum.

        Its range need not begin where that of all clients does, so nothing is said of its smallest
        count unless the stratum tells it.
        """
        m = self.num_categories
        rest = self.total_num_clients - take_all.size
        growth = self.total_num_clients / rest
        total = question.total_deviation
        return replace(
            question,
            num_clients=rest,
            deviation=question.deviation * growth,
            span=per_category("TakeAll.range_of_rest", take_all.range_of_rest, m),
            low=_optional(take_all.min_of_rest, "TakeAll.min_of_rest", m),
            mean=_optional(take_all.mean_of_rest, "TakeAll.mean_of_rest", m),
            std=_optional(take_all.std_of_rest, "TakeAll.std_of_rest", m),
            expected_std=None,
            max_total=take_all.max_total_of_rest,
            total_deviation=None if total is None else total * growth,
        )


def deviation_request(
    *,
    dev_target: object,
    range_of_capacity: object,
    total_num_clients: object,
    unit: object = "samples",
    confidence: object = 0.95,
    bound: str = "auto",
    categories: int | Sequence[str] | None = None,
    mean: object = None,
    std: object = None,
    min_capacity: object = None,
    expected_std: object = None,
    mean_total: object = None,
    max_total: object = None,
    take_all: TakeAll | Sequence[TakeAll] = (),
) -> DeviationRequest:
    """Check what the user passed and bring it into one form.

    Raises:
        InvalidArgumentError: A value is wrong; the message names it, what is allowed, and what was
            given.

    >>> request = deviation_request(dev_target=0.05, range_of_capacity=300,
    ...                             total_num_clients=14_477, unit="share_of_range")
    >>> float(request.question().deviation[0])
    15.0
    """
    unit = one_of("unit", unit, UNITS)
    range_given = range_of_capacity is not None
    if not range_given and unit == "share_of_range":
        range_of_capacity = 1.0
    given = {
        "dev_target": numbers("dev_target", dev_target, 0, _LARGEST_TARGET.get(unit, np.inf)),
        "range_of_capacity": numbers("range_of_capacity", range_of_capacity, 0, np.inf),
    }
    for name, value in (
        ("mean", mean),
        ("std", std),
        ("min_capacity", min_capacity),
        ("expected_std", expected_std),
    ):
        if value is not None:
            given[name] = numbers(name, value, 0, np.inf)
    names, m = _categories(categories, given)
    if unit == "l1" and len(given["dev_target"]) > 1:
        refuse("dev_target", 'one number for unit="l1"', dev_target)
    values: dict[str, Any] = {
        name: v if unit == "l1" and name == "dev_target" else per_category(name, v, m)
        for name, v in given.items()
    }
    totals = {"mean_total": mean_total, "max_total": max_total}
    values |= {
        k: number(k, v, 0, np.inf, low_open=True) for k, v in totals.items() if v is not None
    }
    request = DeviationRequest(
        total_num_clients=whole("total_num_clients", total_num_clients, 1, _MOST_CLIENTS),
        unit=unit,
        confidence=number("confidence", confidence, 0, 1, low_open=True, high_open=True),
        bound=bound,
        category_names=names,
        range_given=range_given,
        take_all=_strata(take_all),
        **values,
    )
    _agree(request)
    return request


def split_target(total: float, weights: Floats) -> Floats:
    """One deviation per category, in proportion to how much each is expected to vary.

    Any split is valid; a category that hardly varies still gets a little.

    >>> split_target(9.0, np.array([1.0, 2.0]))
    array([3., 6.])
    """
    if not np.any(weights > 0):
        return np.full(len(weights), total / len(weights))
    shares = np.maximum(weights, 1e-3 * np.max(weights))
    split: Floats = total * shares / np.sum(shares)
    return split


def per_category(name: str, value: object, num_categories: int) -> Floats:
    """One value per category, a single one standing for all.

    >>> per_category("std", np.array([2.0]), 3)
    array([2., 2., 2.])
    """
    array = np.atleast_1d(np.asarray(value, dtype=np.float64))
    if len(array) not in (1, num_categories):
        refuse(
            name,
            f"one number, or one for each of the {num_categories} categories",
            f"{len(array)} numbers",
        )
    return np.array(np.broadcast_to(array, (num_categories,)))


def _categories(
    categories: int | Sequence[str] | None, given: dict[str, Floats]
) -> tuple[tuple[str, ...], int]:
    """The categories' names, where they have any, and their number."""
    longest = max(len(v) for v in given.values())
    if categories is None:
        return (), longest
    if isinstance(categories, str):
        refuse("categories", "a number of categories, or their names", categories)
    if isinstance(categories, Sequence):
        names = tuple(categories)
        if not names or len(set(names)) != len(names):
            refuse("categories", "a number of categories, or their distinct names", categories)
        return names, len(names)
    return (), whole("categories", categories, 1)


def _ids(clients: object) -> tuple[ClientId, ...]:
    """The ids of a stratum; one text is not a list of letters."""
    if isinstance(clients, str | bytes) or not isinstance(clients, Iterable):
        refuse("TakeAll.clients", "a list of client ids", clients)
    return tuple(id_list(clients))


def _strata(take_all: object) -> tuple[TakeAll, ...]:
    """One or several strata, as a tuple."""
    strata = (take_all,) if isinstance(take_all, TakeAll) else take_all
    if not isinstance(strata, Sequence) or not all(isinstance(s, TakeAll) for s in strata):
        refuse("take_all", "a TakeAll or several", take_all)
    return tuple(strata)


def _agree(request: DeviationRequest) -> None:
    """Refuse values that no population can have together: a bound on them promises nothing."""
    everybody = _Told(
        span=request.range_of_capacity,
        low=request.min_capacity,
        mean=request.mean,
        span_name="range_of_capacity",
        low_name="min_capacity",
    )
    everybody.agrees("std", request.std)
    everybody.agrees("expected_std", request.expected_std)
    for stratum in request.take_all:
        _stratum_agrees(request, stratum)
    if request.unit in ("share_of_mean", "l1"):
        request.question()
    _totals_agree(request)


@dataclass(frozen=True, kw_only=True)
class _Told:
    """What was told of a set of clients, with the names under which it was told."""

    span: Floats
    low: Floats | None
    mean: Floats | None
    span_name: str
    low_name: str
    other_names: str = "{}"  #: of the mean and the spread

    def agrees(self, name: str, std: Floats | None) -> None:
        """Refuse a mean outside the range, and a spread that the range and mean do not allow."""
        span, low, mean = self.span, self.low, self.mean
        slack = 1e-9 * (1.0 + span)
        if mean is not None and low is not None:
            outside = (mean < low - slack) | (mean > low + span + slack)
            between = f"between {self.low_name} and {self.low_name} + {self.span_name}"
            _refuse_any(self.other_names.format("mean"), outside, between, mean)
        if std is None:
            return
        said, half = self.other_names.format(name), span / 2
        first = int(np.argmax(std > half + slack))
        at_most = f"at most half of {self.span_name} ({half[first]:,g})"
        _refuse_any(said, std > half + slack, at_most, std)
        if name == "std" and mean is not None and low is not None:
            largest = np.sqrt(np.maximum((mean - low) * (low + span - mean), 0.0))
            first = int(np.argmax(std > largest + slack))
            at_most = f"at most √((mean − min)(max − mean)) = {largest[first]:,g}"
            _refuse_any(said, std > largest + slack, at_most, std)


def _stratum_agrees(request: DeviationRequest, stratum: TakeAll) -> None:
    """The same for the clients beside a stratum, and against all clients."""
    if stratum.size >= request.total_num_clients:
        below = f"below total_num_clients ({request.total_num_clients})"
        refuse("TakeAll.num_clients", below, stratum.size)
    m, span, bottom = request.num_categories, request.range_of_capacity, request.min_capacity
    slack = 1e-9 * (1.0 + span)
    rest = per_category("TakeAll.range_of_rest", stratum.range_of_rest, m)
    _refuse_any("TakeAll.range_of_rest", rest > span + slack, "at most range_of_capacity", rest)
    low = _optional(stratum.min_of_rest, "TakeAll.min_of_rest", m)
    mean = _optional(stratum.mean_of_rest, "TakeAll.mean_of_rest", m)
    std = _optional(stratum.std_of_rest, "TakeAll.std_of_rest", m)
    if low is not None and bottom is not None:
        outside = (low < bottom - slack) | (low > bottom + span + slack)
        _refuse_any("TakeAll.min_of_rest", outside, "in the range of all clients", low)
    _Told(
        span=rest,
        low=low,
        mean=mean,
        span_name="range_of_rest",
        low_name="min_of_rest",
        other_names="TakeAll.{}_of_rest",
    ).agrees("std", std)
    if mean is not None and request.mean is not None:
        share = 1.0 - stratum.size / request.total_num_clients
        too_much = mean * share > request.mean * (1.0 + _ROUNDED) + slack
        _refuse_any("TakeAll.mean_of_rest", too_much, "what mean leaves for the rest", mean)
    if stratum.max_total_of_rest is not None and mean is not None:
        _total_at_least("TakeAll.max_total_of_rest", stratum.max_total_of_rest, float(mean.sum()))


def _totals_agree(request: DeviationRequest) -> None:
    """Totals over categories against one another and against the categories' means."""
    if request.unit != "l1":
        return
    mean = request.total_mean()
    if request.mean is not None and abs(np.sum(request.mean) - mean) > _ROUNDED * mean:
        refuse("mean_total", f"the sum of mean ({np.sum(request.mean):,g})", request.mean_total)
    if request.max_total is not None:
        _total_at_least("max_total", request.max_total, mean)


def _total_at_least(name: str, total: float, mean: float) -> None:
    """Refuse a largest total below the mean one."""
    if total < mean * (1.0 - _ROUNDED):
        refuse(name, f"at least the mean total ({mean:,g})", total)


def _refuse_any(name: str, wrong: Mask, must_be: str, values: Floats) -> None:
    """Refuse the first wrong value, if there is one."""
    if wrong.any():
        refuse(name, must_be, float(values[wrong][0]))


def _optional(value: object, name: str, num_categories: int) -> Floats | None:
    """A per-category value that may be absent."""
    return (
        None
        if value is None
        else per_category(name, numbers(name, value, 0, np.inf), num_categories)
    )


__all__ = [
    "UNITS",
    "DeviationRequest",
    "InvalidArgumentError",
    "TakeAll",
    "deviation_request",
    "per_category",
]
