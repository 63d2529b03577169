"""Why Oort ends below random selection on the synthetic task: it is told to prefer much data.

A client's utility grows with the samples that it holds, so that those with many are trained more
often; the task's test set counts every client alike. Here the model that each strategy ends with
is tested three ways: on that test set, on every client's own samples with every client counted
alike, and on all samples of all clients counted alike; with sizes as they are, with updates that
count alike, and with equal sizes. ``python -m experiments.pacer.sizes`` writes ``sizes.json`` and
``sizes.md`` beside the other results.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from experiments.pacer import ROUNDS, TASKS
from oort.simulation import Job, SimulationConfig, StrategyConfig, World, create
from oort.simulation.experiment import known_threads

CLIENTS = 500
#: what is changed, and how
WORLDS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "updates count alike": {"server": {"weighting": "equal"}},
    "all hold 350 samples": {"data": {"sizes": "equal", "mean_size": 350}},
}
FIGURES = ("test_set", "by_client", "by_sample", "share_of_largest")


def settings(changes: dict[str, Any]) -> SimulationConfig:
    """The synthetic task of 500 clients, with something changed."""
    task = TASKS["synthetic"]
    return SimulationConfig.from_dict(
        {
            "data": {**task["data"], "clients": CLIENTS, **changes.get("data", {})},
            "server": changes.get("server", {}),
            "devices": {"transfer_mb": 8.0},
            "learner": task["learner"],
            "rounds": {"count": ROUNDS, "participants": 20},
            "evaluation": {"every": 2},
        }
    )


def measured(world: World, kind: str) -> dict[str, float]:
    """What one strategy ends with, in one world."""
    with known_threads(world.config):
        job = Job(world, StrategyConfig(kind=kind))
        results = list(job.rounds())
        job.close()
        everyone = world.data.cohort(np.arange(world.num_clients))
        inputs = everyone.pool[everyone.index]
        _, right = world.learner.losses(job.state.params, inputs, everyone.labels)
    owner = np.repeat(np.arange(world.num_clients), everyone.sizes)
    done = [p.client for r in results for p in r.participations if p.outcome == "completed"]
    used = np.bincount(done, minlength=world.num_clients)
    largest = np.argsort(-everyone.sizes, kind="stable")[: world.num_clients // 5]
    tested = [r.record.accuracy for r in results if np.isfinite(r.record.accuracy)]
    return {
        "test_set": float(np.mean(tested[-10:])),
        "by_client": float((np.bincount(owner, right) / everyone.sizes).mean()),
        "by_sample": float(right.mean()),
        "share_of_largest": float(used[largest].sum() / used.sum()),
    }


def table(lines: list[dict[str, Any]]) -> str:
    """Means over seeds."""
    rows = [
        "| world | strategy | test set | own data, by client | by sample | updates of top 5th |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name in WORLDS:
        for kind in ("oort", "random"):
            some = [v for v in lines if (v["world"], v["strategy"]) == (name, kind)]
            means = (f"{np.mean([v[f] for v in some]):.3f}" for f in FIGURES)
            rows.append(f"| {name} | {kind} | {' | '.join(means)} |")
    return "\n".join(rows) + "\n"


def main() -> None:
    """Run every world under every seed; write numbers and a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="how many (default 5)")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    lines = []
    for name, changes in WORLDS.items():
        for seed in range(1, options.seeds + 1):
            world = create(settings(changes), seed=seed)
            for kind in ("oort", "random"):
                found = {k: round(v, 4) for k, v in measured(world, kind).items()}
                lines.append({"world": name, "strategy": kind, "seed": seed, **found})
                print(lines[-1], flush=True)
    written = ",\n".join(json.dumps(line) for line in lines)
    (options.out / "sizes.json").write_text(f"[\n{written}\n]\n")
    (options.out / "sizes.md").write_text(table(lines))
    print(table(lines))


if __name__ == "__main__":
    main()
