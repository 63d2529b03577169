"""Noise on the client's side, before a utility leaves it (paper §4.2 and Appendix B).

Two ways. The paper's: Gaussian noise of a given size, which hides the exact value and promises
nothing more. And a mechanism calibrated to (ε, δ): utilities are clipped, and the noise is the
least that makes any two clipped values hard to tell apart (differential privacy of one report;
T reports of a client compose, so divide the budget among them).

A client needs this module, NumPy and SciPy only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from oort.errors import InvalidArgumentError, require


def noisy_utility(
    value: float, sigma: float, generator: np.random.Generator | None = None
) -> float:
    """A utility with Gaussian noise of standard deviation ``sigma`` added.

    The paper takes sigma as a multiple of the mean utility, which the coordinator broadcasts. The
    result may be negative; a selector counts that as 0. Without a generator, the noise comes from
    the operating system's entropy, as it should outside of tests.

    Raises:
        InvalidArgumentError: The value is not finite, or sigma is negative or not finite.

    >>> noisy_utility(10.0, 0.0)
    10.0
    """
    _require_finite("value", value)
    if not (math.isfinite(sigma) and sigma >= 0):
        message = f"sigma must be a finite number, 0 or more; got {sigma!r}"
        raise InvalidArgumentError(message)
    source = np.random.default_rng() if generator is None else generator
    return float(value + sigma * source.standard_normal())


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianMechanism:
    """Clip to [0, clip], then add the least Gaussian noise that is (ε, δ)-differentially private.

    Two clipped utilities differ by at most ``clip``, whatever the client's data: that is the
    sensitivity. The noise is calibrated exactly (Balle and Wang, 2018, "Improving the Gaussian
    mechanism for differential privacy", Theorem 8), so it also holds for ε above 1, where the
    textbook formula does not.

    >>> mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, clip=100.0)
    >>> round(mechanism.sigma, 1)
    373.1
    """

    epsilon: float
    delta: float
    clip: float  #: utilities above count as this; public, the same for all clients
    sigma: float = field(init=False)  #: standard deviation of the noise

    def __post_init__(self) -> None:
        _require_positive("GaussianMechanism.epsilon", self.epsilon)
        require(
            0 < self.delta < 1,
            "GaussianMechanism.delta",
            "a number above 0 and below 1",
            self.delta,
        )
        _require_positive("GaussianMechanism.clip", self.clip)
        noise = self.clip * noise_multiplier(self.epsilon, self.delta)
        object.__setattr__(self, "sigma", noise)

    def privatise(self, value: float, generator: np.random.Generator | None = None) -> float:
        """The clipped utility with noise added: safe to send, to log and to compute with.

        Raises:
            InvalidArgumentError: The value is not finite.
        """
        _require_finite("value", value)
        return noisy_utility(min(max(value, 0.0), self.clip), self.sigma, generator)


def noise_multiplier(epsilon: float, delta: float) -> float:
    """The least σ, for sensitivity 1, with which Gaussian noise is (ε, δ)-differentially private.

    >>> round(noise_multiplier(1.0, 1e-5), 4)
    3.7306
    """
    low, high = 0.0, 1.0
    while leaked_delta(high, epsilon) > delta:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if leaked_delta(middle, epsilon) > delta else (low, middle)
    return high


def leaked_delta(sigma: float, epsilon: float) -> float:
    """The δ that Gaussian noise of σ leaves at ε, for sensitivity 1 (Balle and Wang, Theorem 8).

    >>> leaked_delta(3.731, 1.0) <= 1e-5 < leaked_delta(3.73, 1.0)
    True
    """
    from scipy.special import log_ndtr

    near = float(log_ndtr(1 / (2 * sigma) - epsilon * sigma))
    far = epsilon + float(log_ndtr(-1 / (2 * sigma) - epsilon * sigma))
    # exp(near) − exp(far), which cancels: far is below near, and close to it for small ε.
    return math.exp(near) * -math.expm1(min(far - near, 0.0))


def _require_finite(name: str, value: float) -> None:
    if not math.isfinite(value):
        message = f"{name} must be a finite number; got {value!r}"
        raise InvalidArgumentError(message)


def _require_positive(name: str, value: float) -> None:
    require(math.isfinite(value) and value > 0, name, "a finite number above 0", value)
