"""A server that keeps its model in a folder and its selector in a database beside it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import oort
from oort.integrations.flower import OortStrategy, RoundSummary

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    folder = Path(str(context.run_config["state-folder"]))
    with oort.open_selector(f"sqlite:///{folder}/oort.db", job="tiny") as selector:
        train(grid, folder, selector, int(context.run_config["num-server-rounds"]))
    (folder / "done").touch()


def train(grid: Grid, folder: Path, selector: oort.TrainingSelector, num_rounds: int) -> None:
    model, log = folder / "model.npy", folder / "rounds.jsonl"

    def keep(summary: RoundSummary) -> None:
        np.save(model, summary.arrays.to_numpy_ndarrays()[0])
        line = {"round": summary.round_number, "ended_by": summary.ended_by}
        for outcome in ("completed", "failed", "unused"):
            line[outcome] = summary.clients(outcome)
        with log.open("a") as out:
            out.write(json.dumps(line) + "\n")

    strategy = OortStrategy(
        FedAvg(fraction_evaluate=0.0, min_available_nodes=3),
        selector,
        {"num_participants": 2, "over_commit": 1.5, "node_wait_s": 180.0},
        after_round=keep,
    )
    start = np.load(model) if model.exists() else np.zeros(2)
    done = len(log.read_text().splitlines()) if log.exists() else 0
    strategy.start(grid, ArrayRecord([start]), num_rounds=num_rounds - done, timeout=120.0)
