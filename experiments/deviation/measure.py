"""Participants by bound, and deviations over many draws."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.deviation.populations import Population
from oort.randomness import generator_for
from oort.testing.request import TakeAll, deviation_request
from oort.testing.sizing import all_sizes

Array = npt.NDArray[np.float64]

UNITS = ("share_of_range", "share_of_mean", "l1")
TARGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
#: sizes up to this are drawn for every bound, larger ones for the targets in CHECKED alone
SMALL = 60_000
CHECKED = (0.05, 0.1, 0.2)
LARGEST_SWEPT = 40_000
#: shares of all clients that a take-all stratum may have
STRATA = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3)


def measure(
    population: Population, draws: int, seed: int, tick: Callable[[], object]
) -> dict[str, Any]:
    """Everything about one population, as plain values."""
    totals = population.totals
    sizes = _swept_sizes(len(totals))
    planned = {unit: _planned(population, unit) for unit in UNITS}
    return {
        "source": population.source,
        "clients": len(totals),
        "categories": population.counts.shape[1],
        "samples": float(totals.sum()),
        "smallest": float(totals.min()),
        "largest": float(totals.max()),
        "mean": float(totals.mean()),
        "std": float(totals.std()),
        "planned": planned,
        "swept": _sweep(population, sizes, draws, seed, tick),
        "checked": {u: _check(population, u, planned[u], draws, seed, tick) for u in UNITS},
    }


def deviation(population: Population, sums: Array, n: Array | int, unit: str) -> Array:
    """One measure for draws of n clients with these sums per category (of totals, one column)."""
    drawn = sums.sum(axis=-1)
    if unit == "l1":
        shares = sums / np.maximum(drawn, 1e-300)[..., None]
        return np.asarray(np.abs(shares - population.shares).sum(axis=-1))
    apart = np.abs(drawn / n - population.mean)
    return np.asarray(apart / (population.span if unit == "share_of_range" else population.mean))


def _swept_sizes(num_clients: int) -> list[int]:
    """Sizes from 10 on, evenly on a logarithmic scale."""
    top = max(1, min(num_clients - 1, LARGEST_SWEPT))  # all clients never deviate
    return sorted({int(n) for n in np.rint(np.geomspace(min(10, top), top, 60))})


def _sweep(
    population: Population, sizes: list[int], draws: int, seed: int, tick: Callable[[], object]
) -> dict[str, Any]:
    """Smallest, median and largest deviation over the draws of each size."""
    at = np.array(sizes)
    found: dict[str, list[Array]] = {unit: [] for unit in UNITS}
    for draw in range(draws):
        rng = generator_for(seed, draw, f"sweep {population.name}")
        rows = rng.choice(len(population.counts), at[-1], replace=False)
        sums = population.counts[rows].cumsum(axis=0, dtype=np.float64)[at - 1]
        for unit, values in found.items():
            values.append(deviation(population, sums, at, unit))
        tick()
    answer: dict[str, Any] = {"participants": sizes}
    for unit, values in found.items():
        table = np.array(values)
        answer[unit] = {
            "lowest": table.min(axis=0).tolist(),
            "median": np.median(table, axis=0).tolist(),
            "highest": table.max(axis=0).tolist(),
        }
    return answer


def _planned(population: Population, unit: str) -> dict[str, dict[str, Any]]:
    """Participants for each target, by bound, with all that secure sums can tell.

    Where a bound has several take-all strata to choose from, the best one counts.
    """
    answer: dict[str, dict[str, Any]] = {}
    known = _known(population, unit)
    for target in TARGETS:
        for sized in all_sizes(deviation_request(dev_target=target, **known)):
            n, key = sized.num_participants, f"{target:g}"
            found = answer.setdefault(sized.name, {}) if n is not None else {}
            if n is not None and (key not in found or n < found[key]["participants"]):
                taken = 0 if sized.take_all is None else sized.take_all.size
                found[key] = {"participants": n, "taken": taken}
    return answer


def _known(population: Population, unit: str) -> dict[str, Any]:
    """What is told: of totals, or, for l1, of every category."""
    table = population.counts.astype(np.float64) if unit == "l1" else population.totals[:, None]
    sizes = sorted({max(1, round(share * len(table))) for share in STRATA})
    return {
        "take_all": [_stratum(population, table, size) for size in sizes if size < len(table)],
        "expected_std": table.std(axis=0),
        "unit": unit,
        "range_of_capacity": table.max(axis=0) - table.min(axis=0),
        "total_num_clients": len(table),
        "mean": table.mean(axis=0),
        "std": table.std(axis=0),
        "min_capacity": table.min(axis=0),
        "max_total": float(population.totals.max()),
    }


def _stratum(population: Population, table: Array, size: int) -> TakeAll:
    """The largest clients for certain, and what is known of the others."""
    rest = table[population.by_size[size:]]
    return TakeAll(
        num_clients=size,
        range_of_rest=rest.max(axis=0) - table.min(axis=0),
        min_of_rest=table.min(axis=0),
        std_of_rest=rest.std(axis=0),
        mean_of_rest=rest.mean(axis=0),
        max_total_of_rest=float(population.totals[population.by_size[size]]) or None,
    )


def _check(
    population: Population,
    unit: str,
    planned: dict[str, dict[str, Any]],
    draws: int,
    seed: int,
    tick: Callable[[], object],
) -> list[dict[str, Any]]:
    """For each bound and target: the largest deviation of the draws, and how many exceed it."""
    rows = []
    drawn: dict[tuple[int, int], Array] = {}
    for bound, sizes in planned.items():
        for target, size in sizes.items():
            n, taken = size["participants"], size["taken"]
            if n > SMALL and (float(target) not in CHECKED or bound not in ("paper", "serfling")):
                continue
            if n == len(population.counts):
                continue
            if (n, taken) not in drawn:
                drawn[n, taken] = _draw(population, (n, taken), unit, draws, seed, tick)
            reached = drawn[n, taken]
            rows.append(
                {
                    "bound": bound,
                    "target": float(target),
                    "participants": n,
                    "largest": float(reached.max()),
                    "exceeded": int(np.sum(reached > float(target))),
                }
            )
    return rows


def _draw(
    population: Population,
    size: tuple[int, int],
    unit: str,
    draws: int,
    seed: int,
    tick: Callable[[], object],
) -> Array:
    """The deviation of each of many draws of n clients, some of them the largest for certain.

    Large draws are made by drawing those that are left out.
    """
    n, taken = size
    table = population.counts if unit == "l1" else population.totals[:, None]
    certain = table[population.by_size[:taken]].sum(axis=0, dtype=np.float64)
    rest = table[population.by_size[taken:]] if taken else table
    everything = rest.sum(axis=0, dtype=np.float64)
    wanted = n - taken
    few = min(wanted, len(rest) - wanted)
    found = np.empty(draws)
    for draw in range(draws):
        rng = generator_for(seed, draw, f"check {population.name} {n} {taken}")
        rows = rng.choice(len(rest), few, replace=False, shuffle=False)
        sums = rest[rows].sum(axis=0, dtype=np.float64)
        sums = sums if few == wanted else everything - sums
        weighted = certain + sums * (len(rest) / wanted)
        found[draw] = deviation(population, weighted, len(table), unit)
        tick()
    return found
