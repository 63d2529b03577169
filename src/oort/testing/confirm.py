"""After the fact: how far participants' data is from the population's; did the target hold?"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from oort.testing.arguments import numbers, refuse
from oort.testing.bounds import BOUNDS, Bound
from oort.testing.request import DeviationRequest, TakeAll, per_category
from oort.testing.sizing import question_for
from oort.types import Floats


@dataclass(frozen=True, kw_only=True)
class Confirmation:
    """What the participants' counts say about the target; deviations are in the plan's unit."""

    held: bool | None  #: none where the mean is unknown and the bound does not decide
    deviation: float | None  #: largest over categories; none where the mean is unknown
    deviation_bound: float  #: at most this, with the plan's confidence, without the mean
    dev_target: float | tuple[float, ...]
    unit: str
    confidence: float
    means: tuple[
        float, ...
    ]  #: samples per client and category among participants, with design weights
    stds: tuple[float, ...]  #: their standard deviations among the drawn (divisor n)
    deviations: tuple[float, ...] | None  #: per category; for l1 the shares' differences
    num_results: int
    num_missing: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.deviation is not None:
            verdict = "held" if self.held else "was missed"
            said = f"deviation {self.deviation:.4g} ({self.unit}): the target {verdict}"
        else:
            verdict = "the target held" if self.held else "the target may or may not have held"
            said = (
                f"deviation at most {self.deviation_bound:.4g} ({self.unit}) with at least "
                f"{self.confidence:.4g} confidence: {verdict}"
            )
        return "\n".join(
            [f"{said} ({self.num_results:,} participants)", *(f"  {note}" for note in self.notes)]
        )


def confirm(
    request: DeviationRequest,
    bound: Bound,
    take_all: TakeAll | None,
    *,
    drawn: Floats,
    taken: Floats,
    num_missing: int = 0,
    mean: object = None,
) -> Confirmation:
    """Compare participants' counts, one row per client, with the population.

    >>> from oort.testing.request import deviation_request
    >>> r = deviation_request(dev_target=2, range_of_capacity=10, total_num_clients=100, mean=4)
    >>> counts = np.array([[3.0], [6.0], [5.0], [4.0]])
    >>> str(confirm(r, BOUNDS["serfling"], None, drawn=counts, taken=np.zeros((0, 1))))
    'deviation 0.5 (samples): the target held (4 participants)'
    """
    if not request.range_given:
        refuse("range_of_capacity", "given to the plan for its counts to be confirmed", None)
    known = request.mean if mean is None else numbers("mean", mean, 0, np.inf)
    known = None if known is None else per_category("mean", known, request.num_categories)
    everybody = len(drawn) + len(taken) >= request.total_num_clients
    means = _weighted_means(request, drawn, taken)
    stds = np.std(drawn, axis=0) if len(drawn) else np.full(request.num_categories, np.nan)
    broken = () if everybody else _broken(request, take_all, drawn, taken)
    factor = math.inf if broken else _bound_factor(request, bound, take_all, drawn, stds)
    nothing = known is None or bool(np.any(np.isnan(means)))  # nobody drawn has answered
    reached = None if known is None or nothing else _deviations(request, means, known)
    limits = factor * _base_target(request)
    deviation = (
        None
        if reached is None
        else float(np.sum(reached) if request.unit == "l1" else np.max(reached))
    )
    return Confirmation(
        held=_held(request, reached, limits),
        deviation=deviation,
        deviation_bound=float(np.max(limits)),
        dev_target=_plain(request.dev_target),
        unit=request.unit,
        confidence=request.confidence,
        means=tuple(means.tolist()),
        stds=tuple(stds.tolist()),
        deviations=None if reached is None else tuple(reached.tolist()),
        num_results=len(drawn) + len(taken),
        num_missing=num_missing,
        notes=(*_notes(request, means, num_missing), *broken),
    )


def _weighted_means(request: DeviationRequest, drawn: Floats, taken: Floats) -> Floats:
    """The population's means: taken clients for themselves, drawn ones for the rest."""
    total = request.total_num_clients
    others = total - len(taken)
    rest = np.mean(drawn, axis=0) if len(drawn) else np.full(request.num_categories, np.nan)
    means: Floats = (np.sum(taken, axis=0) + (others * rest if others else 0.0)) / total
    return means


def _deviations(request: DeviationRequest, means: Floats, known: Floats) -> Floats:
    """The deviation reached, per category, in the unit of the request."""
    if request.unit == "l1":
        if not np.sum(means) > 0:  # no distribution at all: as far away as one can be
            return np.full(len(means), 2.0 / len(means))
        return np.abs(means / np.sum(means) - known / np.sum(known))
    apart = np.abs(means - known)
    if request.unit == "samples":
        return apart
    scale = request.range_of_capacity if request.unit == "share_of_range" else known
    return np.divide(apart, scale, out=np.where(apart > 0, np.inf, 0.0), where=scale > 0)


def _held(request: DeviationRequest, reached: Floats | None, limits: Floats) -> bool | None:
    """Whether the target was reached: known, certified, or unknown."""
    slack = 1e-12 * (1.0 + request.dev_target)
    if reached is None:
        return True if np.all(limits <= request.dev_target + slack) else None
    value = np.sum(reached) if request.unit == "l1" else reached
    return bool(np.all(value <= request.dev_target + slack))


def _base_target(request: DeviationRequest) -> Floats:
    """A target above 0 to measure the bound with."""
    if np.all(request.dev_target > 0):
        return request.dev_target
    if request.unit == "samples":
        return np.maximum(request.range_of_capacity, 1e-300)
    return np.ones_like(request.dev_target)


def _bound_factor(
    request: DeviationRequest, bound: Bound, take_all: TakeAll | None, drawn: Floats, stds: Floats
) -> float:
    """How many times the target the deviation may be, at most, with the plan's confidence."""
    n = len(drawn)
    base = _base_target(request)
    population = request.total_num_clients - (0 if take_all is None else take_all.size)
    if n >= population:
        return 0.0
    if n == 0:
        return math.inf
    two_sided = BOUNDS["serfling"] if bound.name == "paper" else bound
    allowed = math.log(request.allowed_failure)

    def too_short(factor: float) -> bool:
        question = question_for(two_sided, request.with_target(base * factor), take_all)
        if two_sided.name == "empirical-bernstein-serfling":
            question = replace(question, expected_std=stds)
        return bool(two_sided.log_failure(np.array(float(n)), question) > allowed)

    low, high = 0.0, 1.0
    while too_short(high) and high < 1e12:
        high *= 2.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if too_short(middle) else (low, middle)
    return high


def _notes(request: DeviationRequest, means: Floats, num_missing: int) -> tuple[str, ...]:
    """What the reader has to know beside the numbers."""
    notes = []
    if num_missing:
        notes.append(
            f"{num_missing:,} invited are silent; this supposes that silence is unrelated to data"
        )
    if request.unit == "l1" and np.sum(means) == 0:
        notes.append("participants hold no samples: their distribution counts as 2 away")
    return tuple(notes)


def _broken(
    request: DeviationRequest, take_all: TakeAll | None, drawn: Floats, taken: Floats
) -> tuple[str, ...]:
    """Where the counts contradict what the plan was told; then it promises nothing."""
    found = []
    if take_all is not None and len(taken) < take_all.size:
        found.append(f"{take_all.size - len(taken):,} of the take-all stratum are missing")
    everybody, rest = request.question(), request.question(take_all)
    most_of_rest = request.max_total if take_all is None else take_all.max_total_of_rest
    found += _outside(np.concatenate([drawn, taken]), everybody.span, everybody.low)
    found += _above(np.concatenate([drawn, taken]), request.max_total)
    if take_all is not None:
        found += _outside(drawn, rest.span, rest.low) + _above(drawn, most_of_rest)
    return tuple(f"{what}: the plan's guarantee does not hold" for what in dict.fromkeys(found))


def _outside(counts: Floats, span: Floats, low: Floats | None) -> list[str]:
    """Counts that range further than was told, or begin or end elsewhere."""
    if not len(counts):
        return []
    least, most = np.min(counts, axis=0), np.max(counts, axis=0)
    slack = 1e-9 * (1.0 + span)
    if np.any(most - least > span + slack):
        worst = int(np.argmax(most - least - span))
        return [
            f"counts range over {most[worst] - least[worst]:,g}, more than the "
            f"{span[worst]:,g} that the plan was told"
        ]
    if low is not None and np.any(bad := (least < low - slack) | (most > low + span + slack)):
        worst = int(np.argmax(bad))
        return [
            f"counts go from {least[worst]:,g} to {most[worst]:,g}, not between the "
            f"{low[worst]:,g} and {low[worst] + span[worst]:,g} that the plan was told"
        ]
    return []


def _above(counts: Floats, most: float | None) -> list[str]:
    """Clients that hold more over all categories than was told."""
    largest = float(np.max(np.sum(counts, axis=1), initial=0.0))
    if most is None or largest <= most * (1 + 1e-9):
        return []
    return [f"a client holds {largest:,g} samples, more than the {most:,g} that the plan was told"]


def _plain(target: Floats) -> float | tuple[float, ...]:
    """The target as it was given: one number, or one per category."""
    return float(target[0]) if np.all(target == target[0]) else tuple(target.tolist())
