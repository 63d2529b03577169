"""Columns as callers give them: arrays, lists with holes, one value for all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oort.errors import InvalidArgumentError
from oort.types import Mask


@dataclass(frozen=True, slots=True)
class Given:
    """One number per client, as far as there is one."""

    values: npt.NDArray[np.float64]
    there: Mask  #: a value was given; ``None``, pandas' NA and what is masked are none
    broken: Mask  #: what was given is no number at all


def numbers(given: Any, count: int, name: str) -> Given:
    """Read a column of ``count`` numbers; what is not one is marked, not raised.

    Raises:
        InvalidArgumentError: There is neither one value nor one for each client.

    >>> numbers([1, None, "x"], 3, "duration_s").there.tolist()
    [True, False, True]
    """
    if isinstance(given, np.ndarray | float | int | np.number) and not isinstance(given, bool):
        array = np.asarray(given)
        if array.dtype.kind in "iuf":
            values = _one_each(array, count, name).astype(np.float64)
            return Given(values, np.ones(count, np.bool_), np.zeros(count, np.bool_))
    items = [given] * count if is_one(given) else listed(given)
    if len(items) != count:
        _wrong_length(name, count, len(items))
    values = np.full(count, np.nan)
    there, broken = np.ones(count, np.bool_), np.zeros(count, np.bool_)
    for place, item in enumerate(items):
        number = _number(item)
        if number is not None:
            values[place] = number
        elif _is_missing(item):
            there[place] = False
        else:
            broken[place] = True
    return Given(values, there, broken)


def is_one(given: Any) -> bool:
    """Whether this is one value for all clients, not a collection with one for each.

    >>> is_one(3.0), is_one("failed"), is_one([3.0])
    (True, True, False)
    """
    if isinstance(given, str | bytes | Mapping) or getattr(given, "ndim", 1) == 0:
        return True
    return not isinstance(given, Iterable)


def listed(given: Any) -> Any:
    """Something to count and to index by place: a collection may be a generator or a Series.

    >>> listed(value for value in (1.0, None))
    [1.0, None]
    >>> listed(np.ma.array([1.0, 2.0], mask=[False, True]))
    [1.0, None]
    """
    if isinstance(given, np.ma.MaskedArray):
        return given.tolist() if np.ma.is_masked(given) else given.data
    if is_one(given) or isinstance(given, list | np.ndarray):
        return given
    return list(given.to_pylist() if hasattr(given, "to_pylist") else given)


def _is_missing(item: Any) -> bool:
    """Whether there is no value: nothing, or how NumPy and pandas write that."""
    return item is None or item is np.ma.masked or type(item).__name__ == "NAType"


def _number(item: Any) -> float | None:
    """The item as a float; nothing where it is no number (text and booleans are not)."""
    if isinstance(item, str | bytes | bool | np.bool_ | np.complexfloating):
        return None
    if item is None or item is np.ma.masked:  # which would become NaN, with a warning
        return None
    try:
        return float(item)
    except (TypeError, ValueError, OverflowError):
        return None


def _one_each(array: npt.NDArray[Any], count: int, name: str) -> npt.NDArray[Any]:
    if array.ndim == 0:
        return np.full(count, array)
    if array.shape != (count,):
        _wrong_length(name, count, array.shape[0] if array.ndim == 1 else array.shape)
    return array


def _wrong_length(name: str, count: int, got: object) -> None:
    message = f"{name} must be one value, or one for each of {count} clients; got {got}"
    raise InvalidArgumentError(message)
