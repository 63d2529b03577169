"""Drawing without replacement: against plain Python, against chance, compiled against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oort import kernels
from oort.kernels import draws
from oort.kernels.draws import chances, draw, logarithm, race, uniforms
from oort.randomness import mixed
from tests.support import fits

keys = st.integers(0, 2**64 - 1)
weight = st.sampled_from([0.0, 1e-45, 1e-30, 0.5, 1.0, 3.0, 1e30])


def compiled() -> Any:
    pytest.importorskip("numba", reason="compiled kernels need the extra 'fast'")
    fast = kernels.fast_kernels()
    assert fast is not None
    return fast


@given(st.floats(2.0**-53, 1.0))
def test_the_logarithm_is_the_logarithm(value: float) -> None:
    ours = logarithm(np.array([value]))[0]
    assert ours == pytest.approx(math.log(value), rel=4e-16, abs=0)


@given(keys, st.integers(0, 2**40))
def test_uniform_numbers_are_those_of_splitmix64(key: int, number: int) -> None:
    expected = mixed(key + number * 0x9E3779B97F4A7C15) >> 11
    assert uniforms(key, np.array([number]))[0] == expected * 2.0**-53


def test_chances_are_even_and_do_not_know_their_neighbours() -> None:
    values = chances(11, np.arange(200_000))
    assert values.min() > 0
    assert values.max() <= 1
    assert fits(np.bincount((values * 50).clip(max=49.9).astype(int), minlength=50), np.ones(50))
    for lag in (1, 2, 3, 4):
        assert abs(np.corrcoef(values[lag:], values[:-lag])[0, 1]) < 0.01
    other = chances(12, np.arange(200_000))
    assert abs(np.corrcoef(values, other)[0, 1]) < 0.01


@given(st.lists(weight, max_size=12), st.integers(0, 15), keys)
def test_the_race_has_as_many_distinct_winners_as_wanted_and_zeros_last(
    weights: list[float], wanted: int, key: int
) -> None:
    array = np.array(weights, np.float64)
    winners = race(np.arange(array.size) * 3, array, wanted, key).tolist()
    assert len(set(winners)) == len(winners) == min(wanted, array.size)
    positive = [array[w] > 0 for w in winners]
    assert positive == sorted(positive, reverse=True)
    assert sum(positive) == min(wanted, int((array > 0).sum()))


def test_the_order_of_arrival_depends_neither_on_how_many_are_wanted_nor_on_who_comes_first() -> (
    None
):
    names, weights = np.arange(100, 139), np.arange(1.0, 40.0)
    everyone = names[race(names, weights, 39, 9)].tolist()
    for wanted in (0, 1, 5, 38):
        assert names[race(names, weights, wanted, 9)].tolist() == everyone[:wanted]
    shuffled = np.random.default_rng(1).permutation(39)
    names, weights = names[shuffled], weights[shuffled]
    assert names[race(names, weights, 39, 9)].tolist() == everyone


def test_the_winner_of_a_race_is_drawn_in_proportion_to_weight() -> None:
    weights = np.array([1.0, 2.0, 3.0, 10.0])
    counts = np.zeros(4)
    for key in range(4000):
        counts[race(np.arange(4), weights, 1, mixed(key))[0]] += 1
    assert fits(counts, weights)


@given(st.lists(st.sampled_from([0.0, 1e-30, 0.5, 1.0]), min_size=1, max_size=60), st.data())
def test_drawing_by_proposal_gives_as_many_distinct_entrants_as_wanted(
    weights: list[float], data: st.DataObject
) -> None:
    array = np.array(weights)
    counts = np.array(data.draw(st.lists(st.booleans(), min_size=array.size))[: array.size])
    array[~counts] = 0
    wanted = data.draw(st.integers(0, array.size + 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draws, "FEW", 2)
        drawn = draw(
            array.__getitem__,
            array.size,
            highest=1.0,
            entrants=int(counts.sum()),
            everyone=lambda: np.flatnonzero(counts),
            wanted=wanted,
            keys=(1, 2),
        ).tolist()
    assert len(set(drawn)) == len(drawn) == min(wanted, int(counts.sum()))
    assert set(drawn) <= set(np.flatnonzero(counts).tolist())
    positive = int((array > 0).sum())
    assert sum(array[d] > 0 for d in drawn) == min(wanted, positive), "those of weight 0 come last"


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    size=st.sampled_from([0, 1, 7, 300, 2048, 2049, 20_000]),
    wanted=st.sampled_from([0, 1, 90, 1300, 30_000]),
    kind=st.sampled_from(["even", "spread", "zeros", "few"]),
    key=keys,
)
def test_compiled_races_have_the_same_winners(
    seed: int, size: int, wanted: int, kind: str, key: int
) -> None:
    fast = compiled()
    random = np.random.default_rng(seed)
    names = random.permutation(5 * size)[:size]
    weights = {
        "even": np.ones(size, np.float32),
        "spread": random.lognormal(0, 3, size).astype(np.float32),
        "zeros": np.zeros(size, np.float32),
        "few": np.where(random.random(size) < 0.01, 1.0, 0.0).astype(np.float32),
    }[kind]
    expected = race(names, weights, wanted, key)
    found = fast.race(names, weights, wanted, np.uint64(key))
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    size=st.sampled_from([1, 5, 1023, 1025, 9_000, 70_000, 300_000]),
    share=st.sampled_from([0.0, 0.01, 0.2, 1.0]),
    masked=st.booleans(),
    kind=st.sampled_from(["unknown", "even", "spread", "zero", "outlier"]),
    wanted=st.sampled_from([1, 90, 1300, 50_000]),
    key=keys,
)
def test_compiled_exploration_draws_the_same_rows(
    seed: int, size: int, share: float, masked: bool, kind: str, wanted: int, key: int
) -> None:
    from oort.training import explore
    from oort.training.eligibility import CARE, UNTRIED_STATE, Roles

    fast = compiled()
    random = np.random.default_rng(seed)
    flags = np.where(random.random(size) < share, UNTRIED_STATE, 15).astype(np.uint8)
    allowed = random.random(size) < 0.8 if masked else None
    duration_s = {
        "unknown": np.full(size, np.nan),
        "even": np.ones(size),
        "spread": np.where(random.random(size) < 0.2, np.nan, random.lognormal(3, 1, size)),
        "zero": np.zeros(size),
        "outlier": np.r_[1e-6, np.full(size - 1, 1e30)],
    }[kind].astype(np.float32)
    roles = Roles(flags, allowed)
    untried = int((flags == UNTRIED_STATE).sum())
    known = duration_s[(flags == UNTRIED_STATE) & ~np.isnan(duration_s)]
    expected_s = (float(known.min()), float(np.median(known))) if known.size else None
    expected = explore.sample(
        duration_s,
        roles.is_untried,
        roles.rows_untried,
        num_untried=untried,
        expected_s=expected_s,
        wanted=wanted,
        keys=(key, key ^ 12345),
    )
    highest, typical_s = explore.bounds(expected_s)
    end = 0.0
    if expected.size:
        last = expected[-1:]
        speed = explore.expected_speed(duration_s[last], typical_s)
        end = float(-logarithm(chances(key ^ 12345, last))[0] / speed[0])
    allowance = 1.1 * wanted + 3 * wanted**0.5 + 3
    for share in (0.0, 0.3, 0.6, 0.9, 0.99, 1.001, 3.0, 1e30):
        pace = share * end / allowance  # right or wrong, it draws the same
        found = fast.explore(
            duration_s,
            flags,
            kernels.as_bytes(allowed),
            CARE,
            UNTRIED_STATE,
            np.float32(typical_s),
            highest,
            untried,
            wanted,
            (np.uint64(key), np.uint64(key ^ 12345)),
            pace,
        )
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("others", [0, 5000])
def test_of_those_that_arrive_together_the_lower_names_win_wherever_it_is_drawn(
    others: int,
) -> None:
    names = np.concatenate([[30, 10, 20, 40], np.arange(100, 100 + others)])
    arrival = np.concatenate([[1.0, 1.0, 0.5, 0.4], np.full(others, 9.0)])
    weights = -logarithm(chances(5, names)) / arrival
    for wanted, first in ((2, [40, 20]), (3, [40, 20, 10]), (4, [40, 20, 10, 30])):
        assert names[race(names, weights, wanted, 5)].tolist() == first
        found = compiled().race(names, weights, wanted, np.uint64(5))
        assert names[found].tolist() == first
