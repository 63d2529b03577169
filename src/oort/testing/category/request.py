"""What a tester asks for: samples of each category."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np

from oort.errors import InvalidRequestError, UnknownCategoryError
from oort.testing.category.information import Category, ClientInformation
from oort.testing.category.problem import Int64s


@dataclass(frozen=True, slots=True)
class Representative:
    """So many samples in all, each category with its share of the data of all known clients."""

    samples: int
    categories: Sequence[Category] | None = None  #: of these alone; none: of all


@dataclass(frozen=True, slots=True)
class Balanced:
    """So many samples in all, the same of each category; none: as many as the scarcest has."""

    samples: int | None = None
    categories: Sequence[Category] | None = None  #: of these alone; none: of all


Request: TypeAlias = Mapping[Category, int] | Sequence[int] | Representative | Balanced


def quotas(request: Request, known: ClientInformation, supply: Int64s) -> Int64s:
    """The samples wanted of each known category.

    Args:
        request: A mapping, a list with one number per category in their order, or one of the two
            classes above.
        known: The clients, which know the categories and what there is of each.
        supply: Samples of each category that those clients hold who may be asked.

    Raises:
        InvalidRequestError: The request is empty, or a number in it is wrong.
        UnknownCategoryError: It names a category that nobody was said to have.
    """
    if isinstance(request, Representative):
        chosen = _chosen(request.categories, known)
        wanted = shares(known.totals()[chosen], _whole(request.samples, "Representative.samples"))
    elif isinstance(request, Balanced):
        chosen = _chosen(request.categories, known)
        if request.samples is None:
            wanted = _as_the_scarcest(chosen, known, supply)
        else:
            wanted = evenly(_whole(request.samples, "Balanced.samples"), len(chosen))
    elif isinstance(request, Mapping):
        chosen = np.array([_column(name, known) for name in request], np.int64)
        wanted = np.array(
            [_whole(n, f"request[{name!r}]") for name, n in request.items()], np.int64
        )
    else:
        chosen, wanted = _in_order(request, known)
    result = np.zeros(len(known.categories), np.int64)
    np.add.at(result, chosen, wanted)
    if not result.any():
        message = f"a request must ask for at least one sample; got {request!r:.80}"
        raise InvalidRequestError(message)
    return result


def _as_the_scarcest(chosen: Int64s, known: ClientInformation, supply: Int64s) -> Int64s:
    """As many of each as the scarcest of them has."""
    least = int(supply[chosen].min(initial=0 if not len(chosen) else 2**53))
    if least == 0:
        names = known.categories
        scarcest = repr(names[chosen[int(np.argmin(supply[chosen]))]]) if len(chosen) else "any"
        message = (
            "Balanced() must find samples of each category among the clients that may be asked; "
            f"got none of {scarcest:.80}"
        )
        raise InvalidRequestError(message)
    return np.full(len(chosen), least)


def shares(totals: Int64s, samples: int) -> Int64s:
    """Whole numbers in proportion to ``totals`` that sum to ``samples``, by largest remainders.

    >>> shares(np.array([600, 300, 100]), 15)
    array([9, 5, 1])
    """
    everything = int(totals.sum())
    if everything == 0:
        return np.zeros(len(totals), np.int64)
    exact = [int(t) * samples for t in totals]
    floors = np.array([e // everything for e in exact], np.int64)
    remainders = np.array([e % everything for e in exact], np.float64)
    largest = np.argsort(-remainders, kind="stable")[: samples - int(floors.sum())]
    floors[largest] += 1
    return floors


def evenly(samples: int, number: int) -> Int64s:
    """Whole numbers as equal as can be, the first ones larger.

    >>> evenly(7, 3)
    array([3, 2, 2])
    """
    return np.array([samples // number + (i < samples % number) for i in range(number)], np.int64)


def _chosen(categories: Sequence[Category] | None, known: ClientInformation) -> Int64s:
    """The columns of some categories, or of all."""
    if categories is None:
        return np.arange(len(known.categories))
    columns = [_column(name, known) for name in categories]
    return np.array(list(dict.fromkeys(columns)), np.int64)


def _in_order(request: Sequence[int], known: ClientInformation) -> tuple[Int64s, Int64s]:
    """A list of numbers, one per category."""
    if isinstance(request, str | bytes) or not isinstance(request, Sequence | np.ndarray):
        message = (
            f"a request must be a mapping, a list, Representative or Balanced; got {request!r:.80}"
        )
        raise InvalidRequestError(message)
    if len(request) != len(known.categories):
        message = (
            f"a request list must have one number per category ({len(known.categories)}); got "
            f"{len(request)}"
        )
        raise InvalidRequestError(message)
    wanted = [_whole(n, f"request[{place}]") for place, n in enumerate(request)]
    return np.arange(len(wanted)), np.array(wanted, np.int64)


def _column(name: object, known: ClientInformation) -> int:
    """The column of a category that somebody was said to have."""
    named = isinstance(name, str | int | np.integer) and not isinstance(name, bool)
    column = known.column(cast(Category, name)) if named else None
    if column is None:
        names = known.categories
        listed = ", ".join(repr(n) for n in names[:8]) + (
            f" and {len(names) - 8} more" if len(names) > 8 else ""
        )
        message = (
            f"a request must name known categories ({listed or 'there are none'}); got "
            f"{name!r:.80}"
        )
        raise UnknownCategoryError(message)
    return column


def _whole(value: object, where: str) -> int:
    """A number of samples."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = int(value) if isinstance(value, float) and value.is_integer() else -1
    if not 0 <= number <= 2**53:
        try:
            shown = f"{value!r:.80}"
        except ValueError:  # an integer of more digits than Python writes
            shown = f"a {type(value).__name__} too long to show"
        message = f"{where} must be a whole number from 0 to 2**53; got {shown}"
        raise InvalidRequestError(message)
    return number
