"""Row "exploration" of the table in docs/design.md, as functions of arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oort.training.explore import expected_speed, quota, rate


@given(st.floats(0, 1), st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_the_quota_is_epsilon_k_rounded_down_or_up(
    epsilon: float, wanted: int, luck: float
) -> None:
    given_quota = quota(epsilon, wanted, luck)
    assert 0 <= given_quota <= wanted
    assert abs(given_quota - epsilon * wanted) <= 1.0


def test_epsilon_0_never_explores_and_1_always() -> None:
    assert {quota(0.0, k, 0.999999) for k in range(100)} == {0}
    assert [quota(1.0, k, 0.0) for k in range(100)] == list(range(100))


def test_the_rate_decays_once_per_round_and_stops_at_its_minimum() -> None:
    rates = [rate(r, start=0.9, decay=0.98, minimum=0.2) for r in range(1, 200)]
    assert rates[0] == 0.9
    assert rates[1] == pytest.approx(0.882)
    assert rates[-1] == min(rates) == 0.2
    assert rate(10**9, start=0.9, decay=0.98, minimum=0.0) == 0.0


def test_speeds_are_finite_and_positive_whatever_the_durations() -> None:
    durations = np.array([0.0, np.nan, 1e30, 1e-30, 4.0], np.float32)
    speed = expected_speed(durations, typical_s=2.0)
    assert np.isfinite(speed).all()
    assert (speed > 0).all()
    assert speed[[1, 4]].tolist() == [0.5, 0.25]
