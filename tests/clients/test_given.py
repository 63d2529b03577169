"""Columns as callers give them."""

from __future__ import annotations

import decimal
import fractions
from typing import Any

import numpy as np
import pytest

import oort
from oort.clients.given import is_one, listed, numbers


@pytest.mark.parametrize(
    "one",
    [1, 1.5, None, "x", b"x", True, np.float32(2), np.array(3), {"a": 1}, object()],
)
def test_one_value_stands_for_all(one: Any) -> None:
    assert is_one(one)
    assert numbers(one, 3, "x").values.shape == (3,)


@pytest.mark.parametrize(
    "many",
    [[1, 2], (1, 2), np.array([1, 2]), range(1, 3), iter([1, 2]), {1: 0, 2: 0}.keys()],
)
def test_a_collection_has_one_for_each(many: Any) -> None:
    assert not is_one(many)
    assert numbers(many, 2, "x").values.tolist() == [1.0, 2.0]


def test_holes_and_what_is_no_number_are_marked() -> None:
    items = [1, None, "2", True, float("nan"), [3], 10**400, decimal.Decimal("1.5"), np.int8(4)]
    column = numbers(items, len(items), "x")
    assert column.there.tolist() == [item is not None for item in items]
    assert np.flatnonzero(column.broken).tolist() == [2, 3, 5, 6]
    assert column.values[[0, 7, 8]].tolist() == [1.0, 1.5, 4.0]
    assert numbers(fractions.Fraction(1, 4), 1, "x").values.tolist() == [0.25]


def test_what_a_masked_array_hides_is_missing() -> None:
    hidden = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    for column in (listed(hidden), listed(hidden.astype(int)), [1.0, np.ma.masked, 3.0]):
        read = numbers(column, 3, "x")
        assert read.there.tolist() == [True, False, True]
        assert not read.broken.any()
        np.testing.assert_array_equal(read.values, [1.0, np.nan, 3.0])
    assert listed(np.ma.masked) is None
    assert type(listed(np.ma.array([1.0, 2.0]))) is np.ndarray, "nothing is hidden: no copy"


def test_complex_numbers_are_no_numbers() -> None:
    assert numbers(np.array([1j, 2 + 0j]), 2, "x").broken.all()


@pytest.mark.parametrize("wrong", [[1], [1, 2, 3], np.ones((2, 2)), np.ones(0)])
def test_another_length_is_refused(wrong: Any) -> None:
    with pytest.raises(
        oort.InvalidArgumentError, match="width must be one value, or one for each"
    ):
        numbers(wrong, 2, "width")


def test_what_is_listed_can_be_indexed_by_place() -> None:
    array = np.array([1.0, 2.0])
    assert listed(array) is array
    assert listed(x for x in "ab") == ["a", "b"]
    assert listed("ab") == "ab"
    assert listed(None) is None
