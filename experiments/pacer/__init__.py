"""How patient may a small job be? Where the preferred duration T starts, and how far it steps.

The paper lets T cover the next W·K clients. Where a job has no more clients than that, T starts at
the slowest of them, and nobody is ever too slow. Here T's step, and with it its start, is limited
to a share of the explored clients, in jobs of 50 to 2,000 clients, and measured beside random
selection in the same world under the same seed: the time until the model is as accurate as random
selection makes it in the end, less a little.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from oort.simulation.config import SimulationConfig
from oort.simulation.experiment import run as simulate
from oort.simulation.report import Curve, read_runs, time_to

HELP = "where the preferred duration starts: limits on the pacer's step, in small and larger jobs"

LIMITS = [0.1, 0.2, 0.3, 0.5, 1.0]
JOBS = {50: 10, 100: 10, 500: 20, 2000: 50}  #: clients, and how many of them make a round
TASKS: dict[str, dict[str, Any]] = {
    "digits": {
        "data": {"dataset": "digits", "alpha": 0.1, "sizes": "openimage"},
        "learner": {"model": "mlp", "hidden": [64], "learning_rate": 0.04, "steps": 10},
    },
    "synthetic": {
        "data": {
            "dataset": "synthetic",
            "sizes": "openimage",
            "feature_spread": 0.5,
            "common_model": 1.0,
        },
        "learner": {"model": "softmax", "learning_rate": 0.02, "steps": 10},
    },
}
WORLDS = [("digits", "none"), ("digits", "noisy"), ("synthetic", "none")]  #: task, speed hints
ROUNDS = 160
NEAR = 0.97  #: of random selection's final accuracy: the target


def settings(task: str, hints: str, clients: int, seed: int) -> dict[str, Any]:
    """One world: random selection, and Oort under every limit."""
    guided = [
        {"kind": "oort", "name": f"{limit:g}", "settings": {"pacer": {"largest_step": limit}}}
        for limit in LIMITS
    ]
    data = {**TASKS[task]["data"], "clients": clients}
    return {
        "name": "pacer",
        "seeds": [seed],
        "data": data,
        "devices": {"transfer_mb": 8.0, "hints": hints},
        "learner": TASKS[task]["learner"],
        "rounds": {"count": ROUNDS, "participants": JOBS[clients]},
        "evaluation": {"every": 2},
        "executor": {"workers": 1},
        "strategies": [{"kind": "random"}, *guided],
    }


def world(task: str, hints: str, clients: int, seed: int) -> list[dict[str, Any]]:
    """Run one world and say what came of it, one entry per strategy."""
    config = SimulationConfig.from_dict(settings(task, hints, clients, seed))
    with tempfile.TemporaryDirectory() as folder:
        simulate(config, folder)
        curves = {curve.strategy: curve for curve in read_runs([folder])}
    final = {name: _final(curve) for name, curve in curves.items()}
    target = NEAR * final["random"]
    where = {"task": task, "clients": clients, "hints": hints, "seed": seed}
    base_hours, _ = time_to(curves["random"], target)
    return [
        {**where, "limit": name, "target": round(target, 4), **_figures(curve, target, base_hours)}
        for name, curve in curves.items()
    ]


def _final(curve: Curve) -> float:
    return float(curve.tested()[2][-10:].mean())


def _figures(curve: Curve, target: float, base_hours: float) -> dict[str, Any]:
    hours, rounds = time_to(curve, target)
    reached = math.isfinite(hours)
    return {
        "hours": round(hours, 4) if reached else None,
        "rounds": int(rounds) if reached else None,
        "times_sooner": round(base_hours / hours, 3) if reached else None,
        "mean_round_s": round(float(curve.column("duration_s").mean()), 2),
        "final_accuracy": round(_final(curve), 4),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--seeds", type=int, default=5, help="how many (default 5)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--tasks", nargs="+", choices=[*TASKS], default=[*TASKS], help="which")
    default = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=default, help="where results go")


def run(options: argparse.Namespace) -> int:
    """Run the grid; numbers and a table are written as they come."""
    seeds = range(1, options.seeds + 1)
    worlds = [w for w in WORLDS if w[0] in options.tasks]
    grid = [(*w, clients, seed) for seed, clients, w in itertools.product(seeds, JOBS, worlds)]
    options.out.mkdir(parents=True, exist_ok=True)
    lines: list[dict[str, Any]] = []
    start = time.monotonic()
    with ProcessPoolExecutor(options.workers) as pool:
        tasks = [pool.submit(world, *place) for place in grid]
        for done, task in enumerate(as_completed(tasks), 1):
            lines += task.result()
            _write(options.out, lines)
            took = time.monotonic() - start
            print(f"{done} of {len(grid)} worlds, {took:.0f} s", flush=True)
    print(table(lines))
    return 0


def _write(folder: Path, lines: list[dict[str, Any]]) -> None:
    lines.sort(key=lambda c: (c["task"], c["clients"], c["hints"], c["seed"]))
    (folder / "pacer.json").write_text(
        "[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n"
    )
    (folder / "pacer.md").write_text(table(lines))


def table(lines: list[dict[str, Any]]) -> str:
    """All worlds of a task together, then each by itself."""
    order = ["random", *(f"{limit:g}" for limit in LIMITS)]
    tasks = sorted({c["task"] for c in lines})
    rows = [
        "| task | clients | hints | limit | times sooner | sooner in | round | final accuracy |",
        "|---|---:|---|---:|---:|---:|---:|---:|",
    ]
    for task, limit in itertools.product(tasks, order):
        some = [c for c in lines if (c["task"], c["limit"]) == (task, limit)]
        rows.append(_row((task, "all", "all"), limit, some))
    return "\n".join(rows + _by_world(lines, order)) + "\n"


def _by_world(lines: list[dict[str, Any]], order: list[str]) -> list[str]:
    """Times sooner than random selection: geometric mean and range over seeds."""
    rows: list[str] = []
    places = sorted({(c["task"], c["clients"], c["hints"]) for c in lines})
    for place, limit in itertools.product(places, order):
        rows.append(_row(place, limit, [c for c in lines if _place(c) == (*place, limit)]))
    return rows


def _place(line: dict[str, Any]) -> tuple[str, int, str, str]:
    return line["task"], line["clients"], line["hints"], line["limit"]


def _row(place: tuple[Any, ...], limit: str, some: list[dict[str, Any]]) -> str:
    sooner = [c["times_sooner"] for c in some]
    reached = [t for t in sooner if t is not None]
    missed = f", not in {len(sooner) - len(reached)}" if len(reached) < len(sooner) else ""
    ahead = f"{sum(t > 1 for t in reached)}/{len(sooner)}"
    cells = [
        *map(str, place),
        limit,
        f"{_geometric(reached)} ({_range(reached)}{missed})",
        "–" if limit == "random" else ahead,
        f"{np.mean([c['mean_round_s'] for c in some]):.0f} s",
        f"{np.mean([c['final_accuracy'] for c in some]):.3f}",
    ]
    return "| " + " | ".join(cells) + " |"


def _geometric(values: Iterable[float]) -> str:
    some = list(values)
    return f"{math.exp(np.mean(np.log(some))):.2f}" if some else "–"


def _range(values: Iterable[float]) -> str:
    some = list(values)
    return f"{min(some):.2f}–{max(some):.2f}" if some else "never"
