"""Row "exploration" of the table in docs/design.md, as functions of arrays."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oort.training.explore import expected_speed, quota, rate, shares

counts = st.integers(0, 50)


@given(counts, st.data(), counts, counts)
def test_each_share_fills_what_the_other_cannot(
    wanted: int, data: st.DataObject, untried: int, explored: int
) -> None:
    to_explore = data.draw(st.integers(0, wanted))
    num_explore, num_exploit = shares(wanted, to_explore, untried=untried, explored=explored)
    assert 0 <= num_explore <= untried
    assert 0 <= num_exploit <= explored
    assert num_explore + num_exploit == min(wanted, untried + explored)
    if untried >= to_explore and explored >= wanted - to_explore:
        assert num_explore == to_explore


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
    speed = expected_speed(durations)
    assert np.isfinite(speed).all()
    assert (speed > 0).all()
    assert speed[4] == pytest.approx(0.25)


def test_unknown_durations_count_as_the_median_and_evenly_if_none_is_known() -> None:
    speed = expected_speed(np.array([1.0, 2.0, 8.0, math.nan]))
    assert speed[3] == 0.5
    assert len(set(expected_speed(np.full(4, np.nan)).tolist())) == 1
