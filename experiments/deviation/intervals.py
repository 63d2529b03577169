"""How long the intervals of an estimate are on these clients, and how often they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from experiments.deviation.populations import Population
from oort.randomness import generator_for
from oort.testing.estimate import Design, estimate

SIZES = (100, 400)
CONFIDENCE = 0.95
_TAKEN = 0.01  #: share of all clients in the take-all stratum, but at most half of those asked
_NORMAL = 1.96


def measure_intervals(
    population: Population, draws: int, seed: int, tick: Callable[[], object]
) -> list[dict[str, Any]]:
    """Share of intervals that hold, and their length beside the textbook's.

    Sizes are the population's; which samples a model gets right is generated (accuracy 0.8, a Beta
    draw per client), because counts come without models.
    """
    samples = population.totals
    rng = generator_for(seed, 0, f"accuracy {population.name}")
    chance = rng.beta(6.4, 1.6, len(samples))
    right = rng.binomial(samples.astype(np.int64), chance).astype(np.float64)
    truth = right.sum() / samples.sum()
    rows = []
    for n in SIZES:
        for taken in (0, min(n // 2, max(1, round(_TAKEN * len(samples))))):
            found = [_one(population, right, n, taken, seed, draw, tick) for draw in range(draws)]
            table = np.array(found)
            rows.append(
                {
                    "participants": n,
                    "taken": taken,
                    "draws": draws,
                    "held": float(np.mean((table[:, 0] <= truth) & (truth <= table[:, 1]))),
                    "half_width": float(np.median(table[:, 1] - table[:, 0]) / 2),
                    "textbook": _textbook(samples, right, n, taken, population),
                }
            )
    return rows


def _one(
    population: Population,
    right: np.ndarray[Any, Any],
    n: int,
    taken: int,
    seed: int,
    draw: int,
    tick: Callable[[], object],
) -> tuple[float, float]:
    """The interval from one draw."""
    others = population.by_size[taken:]
    rows = generator_for(seed, draw, f"interval {population.name} {n} {taken}").choice(
        others, n - taken, replace=False
    )
    clients = [int(i) for i in (*population.by_size[:taken], *rows)]
    design = Design(
        num_clients=len(right),
        num_invited=n,
        participants=tuple(clients),
        taken=tuple(clients[:taken]),
        most=float(population.totals[others[0]]),
    )
    results = {i: (population.totals[i], right[i]) for i in clients}
    answer = estimate(design, results, confidence=CONFIDENCE)
    tick()
    return answer.low, answer.high


def _textbook(
    samples: np.ndarray[Any, Any],
    right: np.ndarray[Any, Any],
    n: int,
    taken: int,
    population: Population,
) -> float:
    """Half the length of the normal interval with the true variance: right in the limit only."""
    rest = population.by_size[taken:]
    apart = (right - right.sum() / samples.sum() * samples)[rest]
    drawn = n - taken
    spread = np.std(apart) * np.sqrt((1 - drawn / len(rest)) / drawn) * len(rest)
    return float(_NORMAL * spread / samples.sum())
