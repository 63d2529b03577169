"""What each client is worth: the parts of the score as functions, at their edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oort
from oort.training.utility import (
    Scale,
    blended,
    scaled_utility,
    slowness_penalty,
    staleness_bonus,
    to_unit_range,
)

stored = st.floats(0.0, float(np.float32(1e30)), width=32)
some = hnp.arrays(np.float32, st.integers(1, 30), elements=stored)


@given(some, stored, stored)
def test_scaled_utility_is_within_0_and_1_and_keeps_order(
    utility: np.ndarray, one: float, other: float
) -> None:
    low, cap = min(one, other), max(one, other)
    utility = np.maximum(utility, np.float32(low))
    scaled = scaled_utility(utility, Scale.between(low, cap))
    assert scaled.dtype == np.float32
    assert (scaled >= 0).all()
    assert (scaled <= 1 + 1e-6).all()
    order = np.argsort(utility, kind="stable")
    assert (np.diff(scaled[order]) >= 0).all()


@given(some, st.floats(0.0, 1e30), st.floats(0.0, 50.0))
def test_the_slowness_penalty_is_within_0_and_1_and_1_inside_t(
    duration_s: np.ndarray, preferred_s: float, alpha: float
) -> None:
    penalty = slowness_penalty(duration_s, preferred_s=preferred_s, alpha=alpha)
    assert ((penalty >= 0) & (penalty <= 1)).all()
    assert (penalty[duration_s <= np.float32(preferred_s)] == 1).all()


def test_staleness_is_0_in_the_first_round_and_falls_with_the_last_round() -> None:
    assert staleness_bonus(np.array([0, 1]), round_number=1, weight=0.1).tolist() == [0.0, 0.0]
    bonus = staleness_bonus(np.arange(1, 50), round_number=50, weight=0.1)
    assert (np.diff(bonus) < 0).all()
    assert staleness_bonus(np.array([1]), round_number=50, weight=0.0).tolist() == [0.0]


def test_fairness_0_and_1_are_the_ends_of_the_blend() -> None:
    score = np.array([2.0, 4.0, 0.0], np.float32)
    fair = np.array([1.0, 0.0, 0.5], np.float32)
    assert blended(score, fair, 0.0).tolist() == [0.5, 1.0, 0.0]
    assert blended(score, fair, 1.0).tolist() == fair.tolist()
    nothing = np.zeros(3, np.float32)
    assert blended(nothing, fair, 0.5).tolist() == [0.5, 0.0, 0.25]


def test_the_unit_range_of_equal_or_no_values() -> None:
    assert to_unit_range(np.array([3.0, 3.0])).tolist() == [1.0, 1.0]
    assert to_unit_range(np.array([])).tolist() == []
    assert to_unit_range(np.array([-2.0, 0.0, 2.0])).tolist() == [0.0, 0.5, 1.0]


def test_built_in_names_cannot_be_taken() -> None:
    for name in ("loss", "gradient_norm", "noised"):
        with pytest.raises(oort.InvalidArgumentError, match="built-in"):
            oort.register_utility(name)(lambda clients: clients.utility)
    with pytest.raises(oort.InvalidArgumentError, match="built-in"):
        oort.register_fairness("participations")(lambda clients: clients.utility)
