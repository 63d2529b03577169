"""Noise on the client's side."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oort import privacy
from oort.errors import ConfigError, InvalidArgumentError


def test_noise_has_the_size_that_was_asked_for() -> None:
    generator = np.random.default_rng(5)
    values = [privacy.noisy_utility(10.0, 2.0, generator) for _ in range(20_000)]
    assert np.mean(values) == pytest.approx(10.0, abs=0.06)
    assert np.std(values) == pytest.approx(2.0, rel=0.03)


def test_noise_without_a_generator_differs_from_call_to_call() -> None:
    assert len({privacy.noisy_utility(0.0, 1.0) for _ in range(10)}) == 10


@given(
    epsilon=st.floats(1e-3, 50.0),
    delta=st.floats(1e-12, 0.5),
)
def test_the_calibrated_noise_is_the_least_that_keeps_the_promise(
    epsilon: float, delta: float
) -> None:
    sigma = privacy.noise_multiplier(epsilon, delta)
    assert privacy.leaked_delta(sigma, epsilon) <= delta
    assert privacy.leaked_delta(sigma * (1 - 1e-6), epsilon) > delta * (1 - 1e-9)


def test_the_leak_agrees_with_a_numerical_integral() -> None:
    sigma, epsilon = 1.3, 0.7
    x = np.linspace(-15, 15, 2_000_001)

    def density(mean: float) -> npt.NDArray[np.float64]:
        return np.exp(-0.5 * ((x - mean) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))

    excess = np.maximum(0.0, density(1.0) - math.exp(epsilon) * density(0.0))
    expected = float(excess.sum() * (x[1] - x[0]))
    assert privacy.leaked_delta(sigma, epsilon) == pytest.approx(expected, rel=1e-6)


def test_utilities_are_clipped_before_the_noise() -> None:
    mechanism = privacy.GaussianMechanism(epsilon=8.0, delta=1e-3, clip=5.0)
    one, two = np.random.default_rng(1), np.random.default_rng(1)
    assert mechanism.privatise(1e9, one) == mechanism.privatise(5.0, two)


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.0, "delta": 1e-5, "clip": 1.0},
        {"epsilon": math.nan, "delta": 1e-5, "clip": 1.0},
        {"epsilon": 1.0, "delta": 0.0, "clip": 1.0},
        {"epsilon": 1.0, "delta": 1.0, "clip": 1.0},
        {"epsilon": 1.0, "delta": 1e-5, "clip": -1.0},
    ],
)
def test_impossible_promises_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="GaussianMechanism"):
        privacy.GaussianMechanism(**settings)


@pytest.mark.parametrize(("value", "sigma"), [(math.nan, 1.0), (1.0, -1.0), (1.0, math.inf)])
def test_noise_on_what_is_no_number_is_refused(value: float, sigma: float) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a finite number"):
        privacy.noisy_utility(value, sigma)
