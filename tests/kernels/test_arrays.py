"""The hot loops in NumPy against plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oort.kernels import arrays
from oort.kernels.arrays import cutoff, lower_quantile, quantile_place, top_scores

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
    cutoff(np.array([3, 1, 2], np.float32), 2, np.float32(0.9))
    assert array.tolist() == [3.0, 1.0, 2.0]


@given(values, st.data())
def test_the_top_scores_are_all_that_reach_a_share_of_the_wanted_th_best(
    given_values: list[float], data: st.DataObject
) -> None:
    scores = np.array(given_values, np.float32)
    left_out = np.array(data.draw(st.lists(st.booleans(), min_size=scores.size)), bool)
    scores[left_out[: scores.size]] = -1
    wanted = data.draw(st.integers(1, scores.size + 2))
    share = np.float32(data.draw(st.sampled_from([0.0, 0.5, 0.95, 1.0])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_CHUNK", 7)
        patch.setattr(arrays, "_FEW", 3)
        rows, found = top_scores(scores.__getitem__, scores.size, wanted, share)
    counted = sorted((s for s in scores.tolist() if s >= 0), reverse=True)
    bar = share * np.float32(counted[min(wanted, len(counted)) - 1]) if counted else np.float32(0)
    assert rows.tolist() == [i for i, s in enumerate(scores) if s >= max(bar, 0)]
    assert found.tolist() == scores[rows].tolist()
    if counted:
        assert cutoff(found, min(wanted, found.size), share) == bar
