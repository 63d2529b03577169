"""The selectors that a simulation compares, by the names that configs use."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from oort.baselines import RoundRobinSelector, UniformSelector
from oort.config import TrainingConfig
from oort.errors import ConfigError, require
from oort.protocols import TrainingSelector
from oort.simulation.config import StrategyConfig
from oort.training.selector import create_training_selector

_BASELINES: dict[str, Callable[[TrainingConfig], TrainingSelector]] = {
    "random": UniformSelector,
    "round-robin": RoundRobinSelector,
}


def create(
    strategy: StrategyConfig, *, seed: int, planned_rounds: int | None = None
) -> TrainingSelector:
    """The selector of a strategy; the run's seed is its seed unless its settings name another.

    The same with ``planned_rounds``, which one's own factories are not told of.

    Raises:
        ConfigError: The strategy's settings are wrong, or a factory of one's own is not there.

    >>> create(StrategyConfig(kind="random"), seed=3).select_participant(5)
    []
    """
    settings = {"seed": seed, **strategy.settings}
    if ":" in strategy.kind:
        return _own(strategy.kind, settings)
    try:
        config = TrainingConfig.from_dict({"planned_rounds": planned_rounds, **settings})
    except ConfigError as error:
        message = f"strategies.settings of {strategy.label!r}: {error}"
        raise ConfigError(message) from error
    if strategy.kind == "oort":
        return create_training_selector(config)
    require(
        strategy.kind in _BASELINES,
        "strategies.kind",
        "one of 'oort', 'random', 'round-robin', or 'package.module:factory'",
        strategy.kind,
    )
    return _BASELINES[strategy.kind](config)


def _own(kind: str, settings: dict[str, Any]) -> TrainingSelector:
    module, _, name = kind.partition(":")
    try:
        factory = getattr(import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        message = (
            f"strategies.kind must name a factory that can be imported; got {kind!r}: {error}"
        )
        raise ConfigError(message) from error
    try:
        selector = factory(**settings)
    except (TypeError, ValueError) as error:
        message = f"strategies.settings must be what {kind} takes; got {settings}: {error}"
        raise ConfigError(message) from error
    if not isinstance(selector, TrainingSelector):
        message = (
            f"strategies.kind must name a factory of training selectors; got {kind!r}, which "
            f"gives {type(selector).__name__}"
        )
        raise ConfigError(message)
    return selector
