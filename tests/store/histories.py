"""Histories that anything can play: step i of seed s does the same to every selector.

What a step does depends on the seed, on its number and on what the selector answers, and selectors
that promise to be equal answer the same. So a twin in memory follows a durable selector, also one
that was killed and recovered in between.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

import oort
from oort.clients.columns import REMOVED
from oort.training.bookkeeping import BookkeepingSelector

# largest_step as in the fixtures, which are older than the setting.
CONFIG = oort.TrainingConfig(
    seed=5,
    max_participations=6,
    sketch_width=2,
    pacer=oort.PacerConfig(window=3, largest_step=1.0),
)

__all__ = ["CONFIG", "play", "state_of"]


def play(selector: Any, seed: int, step: int) -> Any:
    """Make one call, or a batch of them; gives what it answered."""
    generator = np.random.default_rng([seed, step])
    weights = np.array([weight for _, weight in _STEPS], float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if step == 0:
            return _register(selector, generator)
        choice = generator.choice(len(_STEPS), p=weights / weights.sum())
        return _STEPS[int(choice)][0](selector, generator)


def state_of(selector: BookkeepingSelector) -> str:
    """A digest of everything that a selector knows."""
    meta, arrays = selector._described()
    digest = hashlib.sha256(repr(sorted(meta.items(), key=str)).encode())
    for name, array in sorted({**selector._table.to_arrays(), **arrays}.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        if name == "flags":  # whether a limit that follows the mean is exceeded is worked out anew
            array = array & np.uint8(255 - REMOVED)
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _ids(generator: np.random.Generator, count: int) -> list[oort.ClientId]:
    numbers = generator.integers(0, 120, count).tolist()
    return [n if n % 3 else f"client-{n}" for n in numbers]


def _register(selector: Any, generator: np.random.Generator) -> Any:
    ids = _ids(generator, 30)
    durations = np.where(generator.random(30) < 0.2, np.nan, generator.uniform(1, 50, 30))
    return selector.register_clients(
        ids, num_samples=generator.integers(1, 90, 30), expected_duration_s=durations
    ).tolist()


def _select(selector: Any, generator: np.random.Generator) -> Any:
    return selector.select(int(generator.integers(1, 12))).participants


def _select_among(selector: Any, generator: np.random.Generator) -> Any:
    return selector.select(5, among=_ids(generator, 12)).participants


def _top_up(selector: Any, generator: np.random.Generator) -> Any:
    number = selector.round_number
    return selector.select(3, round_number=number).participants if number else []


def _report(selector: Any, generator: np.random.Generator) -> Any:
    number = max(0, selector.round_number - int(generator.integers(0, 3)))
    ids = _ids(generator, 14)
    outcome = generator.choice(["completed", "completed", "failed", "unused"], 14).tolist()
    utility = generator.uniform(0, 30, 14)
    utility[generator.random(14) < 0.1] = np.nan
    result = selector.update_clients(
        ids,
        utility=utility,
        duration_s=generator.uniform(1, 80, 14),
        num_samples=generator.integers(0, 50, 14),
        outcome=outcome,
        sketch=generator.uniform(-1, 1, (14, 2)).tolist(),
        round_number=number,
    )
    return (result.applied, result.repeated, result.outdated, len(result.rejected))


def _mark(selector: Any, generator: np.random.Generator) -> Any:
    ids = None if generator.random() < 0.2 else _ids(generator, 10)
    change = selector.mark_online if generator.random() < 0.7 else selector.mark_offline
    return change(ids)


def _remove(selector: Any, generator: np.random.Generator) -> Any:
    return selector.remove_clients(_ids(generator, 3))


def _forget(selector: Any, generator: np.random.Generator) -> Any:
    return selector.forget(_ids(generator, 2))


def _switch(selector: Any, generator: np.random.Generator) -> Any:
    selector.mode = "uniform" if generator.random() < 0.3 else "guided"


def _batch(selector: Any, generator: np.random.Generator) -> Any:
    with selector.batch() if hasattr(selector, "batch") else nullcontext():
        first = _select(selector, generator)
        result = _report(selector, generator)
        return first, result, _register(selector, generator)


_Step = Callable[[Any, np.random.Generator], Any]
_STEPS: list[tuple[_Step, float]] = [
    (_register, 1),
    (_select, 6),
    (_select_among, 2),
    (_top_up, 1),
    (_report, 8),
    (_mark, 2),
    (_remove, 1),
    (_forget, 0.7),
    (_switch, 0.5),
    (_batch, 2),
]
