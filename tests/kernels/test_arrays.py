"""The hot loops in NumPy against plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oort.kernels.arrays import admit, lower_quantile, quantile_place, race

values = st.lists(st.floats(0.0, float(np.float32(1e30)), width=32), min_size=1, max_size=50)


@given(values, st.floats(0.0, 1.0))
def test_the_lower_quantile_is_the_order_statistic_at_or_below(
    given_values: list[float], level: float
) -> None:
    expected = sorted(given_values)[math.floor(level * (len(given_values) - 1))]
    assert lower_quantile(np.array(given_values, np.float32), level) == expected


@given(st.integers(2, 10_000), st.floats(0.0, 0.999))
def test_the_largest_of_several_is_never_the_quantile_below_1(count: int, level: float) -> None:
    assert quantile_place(count, level) < count - 1


def test_the_quantile_does_not_disturb_its_input() -> None:
    array = np.array([3.0, 1.0, 2.0])
    lower_quantile(array, 0.5)
    admit(array, 2, 0.9)
    assert array.tolist() == [3.0, 1.0, 2.0]


@given(values, st.data())
def test_admission_is_by_the_wanted_th_largest(
    given_values: list[float], data: st.DataObject
) -> None:
    scores = np.array(given_values, np.float32)
    wanted = data.draw(st.integers(1, scores.size))
    share = data.draw(st.sampled_from([0.0, 0.5, 0.95, 1.0]))
    places, bar = admit(scores, wanted, share)
    kth = sorted(scores.tolist(), reverse=True)[wanted - 1]
    assert bar == float(np.float32(share) * np.float32(kth))
    assert places.tolist() == [i for i, s in enumerate(scores) if s >= np.float32(bar)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(st.lists(st.sampled_from([0.0, 1e-45, 1e-30, 1.0, 1e30]), max_size=12), st.integers(0, 15))
def test_the_race_has_as_many_distinct_winners_as_wanted_and_zeros_last(
    dtype: type, weights: list[float], wanted: int
) -> None:
    array = np.array(weights, dtype)
    winners = race(array, wanted, np.random.default_rng(5)).tolist()
    assert len(set(winners)) == len(winners) == min(wanted, array.size)
    positive = [array[w] > 0 for w in winners]
    assert positive == sorted(positive, reverse=True)
    assert sum(positive) == min(wanted, int((array > 0).sum()))


def test_the_order_of_arrival_does_not_depend_on_how_many_are_wanted() -> None:
    weights = np.arange(1.0, 40.0)
    everyone = race(weights, 39, np.random.default_rng(9)).tolist()
    for wanted in (0, 1, 5, 38):
        assert race(weights, wanted, np.random.default_rng(9)).tolist() == everyone[:wanted]
