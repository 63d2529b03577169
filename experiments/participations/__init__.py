"""How often may one client take part? What the paper's limit of 10 costs, and what it saves.

Real training on digits, in a job with many clients and in one with few, each with honest clients
and with one in twenty whose labels are all wrong. Every limit runs under the same seeds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from oort.simulation.config import SimulationConfig
from oort.simulation.experiment import run as simulate
from oort.simulation.report import read_runs, time_to

HELP = "how often one client may take part: limits on participations, with and without bad labels"

LIMITS: list[int | str | None] = [None, 10, 20, 50, 100, 200, "auto"]
JOBS = {"many clients": 2000, "few clients": 200}
CORRUPT = {"honest": 0.0, "5 % bad labels": 0.05}
TARGET = 0.90


def settings(clients: int, corrupt: float, limit: int | str | None, seed: int) -> dict[str, Any]:
    """One run: digits, 20 participants a round; "random" is the baseline."""
    strategy: dict[str, Any] = {"kind": "random"}
    if limit != "random":
        strategy = {"kind": "oort", "settings": {"max_participations": limit}}
    return {
        "name": "participations",
        "seeds": [seed],
        "data": {
            "dataset": "digits",
            "clients": clients,
            "alpha": 0.1,
            "sizes": "openimage",
            "corrupt_clients": corrupt,
        },
        "devices": {"transfer_mb": 8.0, "hints": "noisy"},
        "learner": {"model": "mlp", "hidden": [64], "learning_rate": 0.04, "steps": 10},
        "rounds": {"count": 300, "participants": 20},
        "evaluation": {"every": 4, "clients": 100},
        "strategies": [strategy],
    }


def cell(job: str, kind: str, limit: int | str | None, seed: int) -> dict[str, Any]:
    """Run one cell and say what came of it."""
    config = SimulationConfig.from_dict(settings(JOBS[job], CORRUPT[kind], limit, seed))
    with tempfile.TemporaryDirectory() as folder:
        simulate(config, folder)
        (curve,) = read_runs([folder])
    _, _, accuracy = curve.tested()
    hours, rounds = time_to(curve, TARGET)
    return {
        "job": job,
        "labels": kind,
        "limit": limit,
        "seed": seed,
        "hours_to_target": hours if np.isfinite(hours) else None,
        "rounds_to_target": rounds if np.isfinite(rounds) else None,
        "final_accuracy": round(float(accuracy[-5:].mean()), 4),
        "most_participations": int(curve.counts().max()),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--seeds", type=int, default=5, help="how many (default 5)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default 2)")
    default = Path(__file__).parent / "results"
    parser.add_argument("--out", type=Path, default=default, help="where results go")


def run(options: argparse.Namespace) -> int:
    """Run the grid, write the numbers and a table."""
    seeds = range(1, options.seeds + 1)
    grid = list(itertools.product(JOBS, CORRUPT, ["random", *LIMITS], seeds))
    with ProcessPoolExecutor(options.workers) as pool:
        cells = list(pool.map(cell, *zip(*grid, strict=True)))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "participations.json").write_text(json.dumps(cells, indent=1) + "\n")
    (options.out / "participations.md").write_text(table(cells))
    print(table(cells))
    return 0


def table(cells: list[dict[str, Any]]) -> str:
    """Means over seeds, with the spread."""
    lines = [
        "| job | labels | limit | final accuracy | hours to 90 % | most participations |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for (job, kind, limit), group in itertools.groupby(
        cells, key=lambda c: (c["job"], c["labels"], c["limit"])
    ):
        some = list(group)
        accuracy = [c["final_accuracy"] for c in some]
        hours = [c["hours_to_target"] for c in some]
        reached = [h for h in hours if h is not None]
        shown = f"{np.mean(reached):.2f}" if len(reached) == len(hours) else "not in all"
        most = max(c["most_participations"] for c in some)
        name = {"random": "random selection", None: "Oort, no limit"}.get(limit, f"Oort, {limit}")
        spread = f"{np.mean(accuracy):.3f} ({min(accuracy):.3f}–{max(accuracy):.3f})"
        lines.append(f"| {job} | {kind} | {name} | {spread} | {shown} | {most} |")
    return "\n".join(lines) + "\n"
