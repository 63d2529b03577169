"""Small worlds for tests."""

from __future__ import annotations

from typing import Any

from oort.simulation import SimulationConfig, World, create


def small(**sections: Any) -> SimulationConfig:
    """A job of a few seconds that needs nothing but NumPy; sections given are laid over it."""
    values: dict[str, Any] = {
        "data": {"dataset": "synthetic", "clients": 60, "mean_size": 20},
        "learner": {"steps": 3, "batch_size": 8},
        "rounds": {"count": 6, "participants": 8},
        "evaluation": {"every": 2, "clients": 20},
        "output": {"checkpoint_every": 2},
        "executor": {"chunk_size": 3},
    }
    for name, section in sections.items():
        merged = isinstance(section, dict) and name in values
        values[name] = {**values[name], **section} if merged else section
    return SimulationConfig.from_dict(values)


def small_world(seed: int = 1, **sections: Any) -> World:
    """The world of such a job."""
    return create(small(**sections), seed=seed)
