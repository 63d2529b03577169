"""Checks of what callers pass in: each names the argument, what it must be, and what it got."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from oort.errors import InvalidArgumentError
from oort.types import Floats


def refuse(name: str, must_be: str, got: object) -> NoReturn:
    """Raise the one shape of argument error.

    >>> refuse("confidence", "a number above 0 and below 1", 1)
    Traceback (most recent call last):
    oort.errors.InvalidArgumentError: confidence must be a number above 0 and below 1; got 1
    """
    try:
        shown = repr(got)
    except ValueError:  # an integer of more digits than Python writes
        shown = f"a {type(got).__name__} too long to show"
    message = f"{name} must be {must_be}; got {shown if len(shown) <= 80 else shown[:79] + '…'}"
    raise InvalidArgumentError(message)


def number(
    name: str,
    value: object,
    low: float,
    high: float,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """A finite number in a range.

    >>> number("confidence", 0.9, 0, 1, low_open=True, high_open=True)
    0.9
    """
    return float(
        numbers(name, value, low, high, low_open=low_open, high_open=high_open, single=True)[0]
    )


def numbers(
    name: str,
    value: object,
    low: float,
    high: float,
    *,
    low_open: bool = False,
    high_open: bool = False,
    single: bool = False,
) -> Floats:
    """One finite number, or one per category, each in a range; always as a vector.

    >>> numbers("std", [1, 2.5], 0, 10)
    array([1. , 2.5])
    """
    array = as_floats(value)
    upper = f" {'and below' if high_open else 'to'} {high:,g}" if math.isfinite(high) else ""
    kind = "a number" if single else "a number, or one per category,"
    allowed = f"{kind} {'above' if low_open else 'from'} {low:,g}{upper or ' up'}"
    if array is None or array.ndim > (0 if single else 1) or array.size == 0:
        refuse(name, allowed, value)
    flat = array.reshape(-1)
    inside = np.isfinite(flat)
    inside &= flat > low if low_open else flat >= low
    inside &= flat < high if high_open else flat <= high
    if not inside.all():
        refuse(name, allowed, value if array.ndim == 0 else float(flat[~inside][0]))
    return flat


def whole(name: str, value: object, low: int, high: int | None = None) -> int:
    """A whole number in a range.

    >>> whole("total_num_clients", 14_477, 1)
    14477
    """
    allowed = (
        f"a whole number, {low} or more"
        if high is None
        else f"a whole number from {low} to {high}"
    )
    if isinstance(value, bool | np.bool_):
        refuse(name, allowed, value)
    try:
        result = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        refuse(name, allowed, value)
    if result < low or (high is not None and result > high):
        refuse(name, allowed, value)
    return result


def one_of(name: str, value: object, allowed: Sequence[str]) -> str:
    """One of some names; a near miss is pointed out.

    >>> one_of("unit", "sample", ("samples", "l1"))
    Traceback (most recent call last):
    oort.errors.InvalidArgumentError: unit must be one of samples, l1 (did you mean 'samples'?);
    got 'sample'
    """
    if isinstance(value, str) and value in allowed:
        return value
    close = get_close_matches(str(value), allowed, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    refuse(name, f"one of {', '.join(allowed)}{hint}", value)


def as_floats(value: object) -> npt.NDArray[np.float64] | None:
    """The value as floats, or none where it is not made of real numbers."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        return None
    if array.dtype == object:
        try:
            return array.astype(np.float64) if not any(_odd(v) for v in array.ravel()) else None
        except (TypeError, ValueError, OverflowError):
            return None
    return array.astype(np.float64) if array.dtype.kind in "iuf" else None


def _odd(value: object) -> bool:
    """Whether a value would pass as a number without being one."""
    return value is None or isinstance(value, bool | str | bytes)
