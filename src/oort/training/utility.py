"""What each client is worth (paper Eq. 1, Algorithm 1 lines 9–14, §4.4 on fairness).

    score = (scaled utility + staleness bonus) × speed factor, blended with fairness

All in 4-byte floats, in this order of operations: compiled kernels repeat it to the last bit.

The utility and the fairness are pluggable: a function of :class:`~oort.types.ClientColumns`,
registered under a name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from oort.clients.columns import LARGEST_STORED
from oort.errors import ConfigError, InvalidArgumentError
from oort.types import ClientColumns, Floats, Integers

Single: TypeAlias = npt.NDArray[np.float32]
ColumnFunction: TypeAlias = Callable[[ClientColumns], Floats]


@dataclass(frozen=True, slots=True)
class Measure:
    """A named utility: which report it reads, and how columns become worth."""

    name: str
    #: "loss", "gradient_norm" or "any": which means a client may report; a ready utility is always
    #: taken
    reads: str
    function: ColumnFunction | None = None  #: ``None``: as reported


_UTILITIES: Final[dict[str, Measure]] = {
    "loss": Measure("loss", "loss"),
    "gradient_norm": Measure("gradient_norm", "gradient_norm"),
    "noised": Measure("noised", "any"),
}
_FAIRNESS: Final[dict[str, ColumnFunction]] = {}


def register_utility(name: str) -> Callable[[ColumnFunction], ColumnFunction]:
    """Register a utility under a name for ``TrainingConfig(utility=name)``.

    >>> @register_utility("worth per second")
    ... def worth_per_second(clients):
    ...     return clients.utility / np.maximum(clients.duration_s, 1.0)
    """

    def register(function: ColumnFunction) -> ColumnFunction:
        if name in ("loss", "gradient_norm", "noised"):
            message = f"a utility's name must not be a built-in one; got {name!r}"
            raise InvalidArgumentError(message)
        _UTILITIES[name] = Measure(name, "any", function)
        return function

    return register


def register_fairness(name: str) -> Callable[[ColumnFunction], ColumnFunction]:
    """Register a fairness under a name for ``TrainingConfig(fairness=name, fairness_weight=…)``.

    >>> @register_fairness("long unheard")
    ... def long_unheard(clients):
    ...     return clients.round_number - clients.last_round
    """

    def register(function: ColumnFunction) -> ColumnFunction:
        if name == "participations" and name in _FAIRNESS:
            message = f"a fairness's name must not be a built-in one; got {name!r}"
            raise InvalidArgumentError(message)
        _FAIRNESS[name] = function
        return function

    return register


@register_fairness("participations")
def fewer_participations(clients: ClientColumns) -> Floats:
    """Whoever took part less often is owed more: the most participations minus one's own."""
    counts = clients.participations.astype(np.float32)
    return np.asarray(counts.max(initial=0) - counts)


SMALLEST_NORMAL: Final = np.finfo(np.float32).tiny


def utility_named(name: str) -> Measure:
    """The utility registered under a name.

    Raises:
        ConfigError: There is none; the message lists those there are.
    """
    _require_name(_UTILITIES, name, "TrainingConfig.utility")
    return _UTILITIES[name]


def fairness_named(name: str) -> ColumnFunction:
    """The fairness registered under a name.

    Raises:
        ConfigError: There is none; the message lists those there are.
    """
    _require_name(_FAIRNESS, name, "TrainingConfig.fairness")
    return _FAIRNESS[name]


@dataclass(frozen=True, slots=True)
class Scale:
    """How utilities are clipped and scaled: the range of the explored, after clipping."""

    low: np.float32
    cap: np.float32
    inverse_range: np.float32  #: 0 where everyone is worth the same

    @classmethod
    def between(cls, low: float, cap: float) -> Scale:
        """The scale from the lowest utility of the explored to the clipping quantile."""
        low4, cap4 = np.float32(low), np.float32(cap)
        spread = cap4 - low4
        divisible = spread >= SMALLEST_NORMAL  # 1 over a subnormal is infinite
        return cls(low4, cap4, np.float32(1) / spread if divisible else np.float32(0))


def scaled_utility(utility: Single, scale: Scale) -> Single:
    """Utility clipped at the cap and scaled to [0, 1]; 1 for everyone where the range is 0.

    >>> scaled_utility(np.array([1, 3, 1e9], np.float32), Scale.between(1, 3))
    array([0., 1., 1.], dtype=float32)
    """
    if scale.inverse_range == 0:
        return np.ones_like(utility)
    return (np.minimum(utility, scale.cap) - scale.low) * scale.inverse_range


def staleness_bonus(last_round: Integers, *, round_number: int, weight: float) -> Single:
    """√(w · ln R / L): more for clients not heard of for long (Algorithm 1 line 10).

    >>> staleness_bonus(np.array([1, 100]), round_number=100, weight=0.1)
    array([0.678..., 0.0678...], dtype=float32)
    """
    heard = np.maximum(last_round, 1).astype(np.float32)
    return np.asarray(np.sqrt(uncertainty(round_number, weight) / heard))


def uncertainty(round_number: int, weight: float) -> np.float32:
    """W · ln R: what the staleness bonus of a round is made of.

    >>> float(uncertainty(1, 0.1))
    0.0
    """
    return np.float32(min(weight * math.log(max(round_number, 1)), LARGEST_STORED))


def slowness_penalty(duration_s: Floats, *, preferred_s: float, alpha: float) -> Single:
    """1 for clients inside the preferred duration or of unknown speed, then (T/t)**alpha (Eq. 1).

    >>> duration_s = np.array([5.0, 10.0, 20.0, np.nan], np.float32)
    >>> slowness_penalty(duration_s, preferred_s=10.0, alpha=2.0)
    array([1.  , 1.  , 0.25, 1.  ], dtype=float32)
    """
    duration = duration_s.astype(np.float32, copy=False)
    preferred = np.float32(min(preferred_s, LARGEST_STORED))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        ratio = np.where(duration > preferred, preferred / duration, np.float32(1))
        if alpha == 2.0:
            return np.asarray(ratio * ratio)
        return np.power(ratio.astype(np.float64), alpha).astype(np.float32)


def blended(score: Single, fairness: Single, weight: float) -> Single:
    """(1−f) · score + f · fairness, the score divided by its maximum, the fairness in [0, 1].

    >>> blended(np.array([2, 4], np.float32), np.array([1, 0], np.float32), 0.5)
    array([0.75, 0.5 ], dtype=float32)
    """
    top = score.max(initial=0)
    relative = score / top if top > 0 else score
    return np.float32(1 - weight) * relative + np.float32(weight) * fairness


def to_unit_range(values: Floats) -> Single:
    """Values scaled to [0, 1]; 1 for everyone where the range is 0.

    >>> to_unit_range(np.array([2.0, 4.0, 3.0]))
    array([0. , 1. , 0.5], dtype=float32)
    """
    low, high = values.min(initial=np.inf), values.max(initial=-np.inf)
    if not high > low:
        return np.ones(values.shape, np.float32)
    return np.asarray((values - low) / (high - low), np.float32)


def evaluated(
    function: ColumnFunction, clients: ClientColumns, what: str, *, lowest: float = 0.0
) -> Single:
    """Call a user's function and check what it gives; numbers below ``lowest`` are raised to it.

    Raises:
        InvalidArgumentError: It gives something else; the message names the function.
    """
    values = np.asarray(function(clients))
    if values.shape != (len(clients),) or values.dtype.kind not in "biuf":
        message = (
            f"{what} must give one number for each of {len(clients)} clients; got {values!r:.80}"
        )
        raise InvalidArgumentError(message)
    if not np.isfinite(values).all():
        bad = values[~np.isfinite(values)][0]
        message = f"{what} must give finite numbers; got {bad}"
        raise InvalidArgumentError(message)
    return np.clip(values, lowest, LARGEST_STORED).astype(np.float32)


def _require_name(registry: Mapping[str, object], name: str, setting: str) -> None:
    if name not in registry:
        names = ", ".join(sorted(registry))
        message = f"{setting} must be one of {names}, or registered first; got {name!r}"
        raise ConfigError(message)
