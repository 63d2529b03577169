"""What a user's strategy says of itself: how many it wants, and what it promises."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from oort.errors import ConfigError, PrivacyWarning
from oort.protocols import TrainingSelector


@dataclass(frozen=True, slots=True)
class Names:
    """What one of Flower's APIs calls its settings."""

    fraction: str
    minimum: str
    available: str


MESSAGE_API: Final = Names("fraction_train", "min_train_nodes", "min_available_nodes")
CLASSIC_API: Final = Names("fraction_fit", "min_fit_clients", "min_available_clients")

_warned_of_privacy: set[str] = set()


def layers(strategy: Any) -> Iterator[Any]:
    """A strategy and those that it wraps, as Flower's private strategies do, outermost first."""
    seen: set[int] = set()
    while strategy is not None and id(strategy) not in seen:
        seen.add(id(strategy))
        yield strategy
        strategy = getattr(strategy, "strategy", None)


def setting(strategy: Any, name: str) -> Any:
    """A setting of the strategy or of one that it wraps; None where none has it.

    >>> from types import SimpleNamespace as Some
    >>> setting(Some(strategy=Some(fraction_train=0.1)), "fraction_train")
    0.1
    """
    found = (getattr(layer, name) for layer in layers(strategy) if hasattr(layer, name))
    return next(found, None)


def wanted(strategy: Any, names: Names, num_online: int) -> int:
    """How many participants the strategy's own settings ask for.

    Raises:
        ConfigError: It has no such settings.

    >>> from types import SimpleNamespace as Some
    >>> wanted(Some(fraction_train=0.25, min_train_nodes=2), MESSAGE_API, 40)
    10
    """
    fraction, least = setting(strategy, names.fraction), setting(strategy, names.minimum)
    if fraction is None and least is None:
        message = (
            f"FlowerConfig.num_participants must be given for a {type(strategy).__name__}, "
            f"which has neither {names.fraction} nor {names.minimum}; got None"
        )
        raise ConfigError(message)
    return max(int(num_online * (fraction or 0.0)), least or 0)


@contextmanager
def choosing_is_done(strategy: Any, names: Names) -> Iterator[None]:
    """While inside, the strategy takes every node that it is shown: no sampling, no waiting."""
    relaxed = {names.fraction: 1.0, names.minimum: 1, names.available: 1}
    kept = [
        (layer, name, vars(layer)[name])
        for layer in layers(strategy)
        for name in relaxed
        if name in getattr(layer, "__dict__", {})
    ]
    try:
        for layer, name, _ in kept:
            setattr(layer, name, relaxed[name])
        yield
    finally:
        for layer, name, value in kept:
            setattr(layer, name, value)


def check_privacy(strategy: Any, selector: TrainingSelector, over_commit: float) -> None:
    """Warn, once, where a differentially private strategy relies on random sampling.

    Raises:
        ConfigError: Its accountant expects as many messages as results; over-commit sends more.
    """
    private = [layer for layer in layers(strategy) if _is_private(layer)]
    if not private:
        return
    accountant = next((a for a in (getattr(p, "accountant", None) for p in private) if a), None)
    if accountant is not None and over_commit > 1:
        message = (
            "FlowerConfig.over_commit must be 1 with a privacy accountant, which counts every "
            f"message that is sent as a participation; got {over_commit}"
        )
        raise ConfigError(message)
    if _draws_evenly(selector) or _assumes_no_amplification(accountant):
        return
    name = type(private[0]).__name__
    if name not in _warned_of_privacy:
        _warned_of_privacy.add(name)
        message = (
            f"{name}: guided selection voids amplification by sampling. Account for every "
            "participation at full cost (sampling rate 1), and noise the utilities or count them "
            "towards the budget; see the page on Flower. A uniform selector keeps amplification"
        )
        warnings.warn(message, PrivacyWarning, stacklevel=4)


def _is_private(strategy: Any) -> bool:
    names = [base.__name__ for base in type(strategy).__mro__]
    return any(name.startswith(("DifferentialPrivacy", "DPFedAvg")) for name in names)


def _draws_evenly(selector: TrainingSelector) -> bool:
    return selector.mode == "uniform" or getattr(selector, "strategy", None) == "uniform"


def _assumes_no_amplification(accountant: Any) -> bool:
    config = getattr(accountant, "config", None)
    return getattr(getattr(config, "sampling_method", None), "value", None) == "no-amplification"


def check_reachable(strategy: Any, names: Names, num_participants: int | None) -> None:
    """Fail at once, not in the first round, where nobody can tell how many are wanted."""
    if num_participants is None:
        wanted(strategy, names, 0)


def at_least(strategy: Any, names: Names) -> int:
    """How many nodes the strategy waits for."""
    return max(1, setting(strategy, names.available) or 1)


def finite_timeout(given: float | None, largest_s: float) -> float:
    """A wait that ends: the engine's timeout, or ours where it has none.

    >>> finite_timeout(None, 60.0), finite_timeout(5.0, 60.0)
    (60.0, 5.0)
    """
    return largest_s if given is None or not math.isfinite(given) else min(given, largest_s)
