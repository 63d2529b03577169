"""Which bound, and how many: the smallest answer that the given inputs allow."""

from __future__ import annotations

from dataclasses import dataclass, replace

from oort.testing.arguments import one_of, refuse
from oort.testing.bounds import BOUNDS, Bound, Question, participants_needed
from oort.testing.request import DeviationRequest, TakeAll, split_target

_PREFIX = "take-all+"
_SAID = {"low": "min_capacity", "total_deviation": "mean_total", "span": "range_of_capacity"}
_SAID_OF_REST = _SAID | {
    "low": "min_of_rest",
    "mean": "mean_of_rest",
    "std": "std_of_rest",
    "max_total": "max_total_of_rest",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized:
    """One bound's answer: the number of participants, or the inputs that it lacks."""

    bound: Bound
    take_all: TakeAll | None = None
    num_participants: int | None = None
    lacks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The bound's name, with its stratum."""
        return self.bound.name if self.take_all is None else f"{_PREFIX}{self.bound.name}"

    @property
    def title(self) -> str:
        """The same in words."""
        if self.take_all is None:
            return self.bound.title
        return f"the {self.take_all.size:,} largest for certain, {self.bound.title} for the rest"


def all_sizes(request: DeviationRequest) -> list[Sized]:
    """Every bound's answer, with and without each take-all stratum.

    >>> from oort.testing.request import deviation_request
    >>> r = deviation_request(
    ...     dev_target=15, range_of_capacity=300, total_num_clients=14_477, std=20)
    >>> [(s.name, s.num_participants) for s in all_sizes(r) if s.num_participants]
    [('paper', 576), ('serfling', 703), ('bennett', 43), ('bernstein-serfling', 169)]
    """
    plain = [_size(bound, request, None) for bound in BOUNDS.values() if _applies(bound, request)]
    strata = [
        _size(b, request, s)
        for s in request.take_all
        for b in BOUNDS.values()
        if _applies(b, request)
    ]
    return plain + [s for s in strata if s.bound.automatic]


def best_size(request: DeviationRequest, sizes: list[Sized]) -> Sized:
    """The smallest answer, or that of the bound asked for by name.

    Raises:
        InvalidArgumentError: No such bound, or it lacks an input; the message names which.

    >>> from oort.testing.request import deviation_request
    >>> r = deviation_request(
    ...     dev_target=15, range_of_capacity=300, total_num_clients=14_477, bound="kl")
    >>> best_size(r, all_sizes(r))
    Traceback (most recent call last):
    oort.errors.InvalidArgumentError: bound must be one that the inputs allow ('kl' needs mean,
    min_capacity); got 'kl'
    """
    wanted = one_of("bound", request.bound, ["auto", "take-all", *_names(request)])
    able = [s for s in sizes if s.num_participants is not None]
    if wanted == "auto":
        able = [s for s in able if s.bound.automatic]
    elif wanted == "take-all":
        able = [s for s in able if s.take_all is not None]
        if not able:
            refuse("take_all", 'given for bound="take-all"', request.take_all)
    else:
        able = [s for s in able if s.name == wanted]
        if not able:
            lacks = next((s.lacks for s in sizes if s.name == wanted), ("take_all",))
            refuse(
                "bound", f"one that the inputs allow ({wanted!r} needs {', '.join(lacks)})", wanted
            )
    return min(able, key=lambda s: s.num_participants or 0)


def question_for(bound: Bound, request: DeviationRequest, take_all: TakeAll | None) -> Question:
    """The question as this bound answers it best.

    An l1 target is split over the categories by what the bound knows of them.
    """
    question = request.question(take_all)
    if question.total_deviation is None:
        return question
    known = [getattr(question, name) for name in ("std", "expected_std") if name in bound.needs]
    weights = known[0] if known and known[0] is not None else question.span
    return replace(question, deviation=split_target(question.total_deviation, weights))


def _names(request: DeviationRequest) -> list[str]:
    """The names that ``bound`` may take."""
    names = [b.name for b in BOUNDS.values() if _applies(b, request)]
    return names + [f"{_PREFIX}{name}" for name in names if name != "paper"]


def _applies(bound: Bound, request: DeviationRequest) -> bool:
    """Whether a bound speaks about the unit asked for at all."""
    return request.unit == "l1" or bound.name != "l1-subsets"


def _size(bound: Bound, request: DeviationRequest, take_all: TakeAll | None) -> Sized:
    """One bound's answer."""
    question = question_for(bound, request, take_all)
    lacks = bound.lacks(question)
    if lacks:
        said = _SAID if take_all is None else _SAID_OF_REST
        return Sized(
            bound=bound, take_all=take_all, lacks=tuple(said.get(name, name) for name in lacks)
        )
    taken = 0 if take_all is None else take_all.size
    return Sized(
        bound=bound,
        take_all=take_all,
        num_participants=taken + participants_needed(bound, question),
    )
