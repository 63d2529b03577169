"""A server that keeps model and selector in a folder and continues from there."""

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
    saved, model = folder / "selector.oort", folder / "model.npy"
    selector = oort.load_selector(saved) if saved.exists() else oort.create_training_selector()

    def keep(summary: RoundSummary) -> None:
        np.save(model, summary.arrays.to_numpy_ndarrays()[0])
        selector.save(saved)
        line = {"round": summary.round_number, "ended_by": summary.ended_by}
        for outcome in ("completed", "failed", "unused"):
            line[outcome] = summary.clients(outcome)
        with (folder / "rounds.jsonl").open("a") as log:
            log.write(json.dumps(line) + "\n")

    strategy = OortStrategy(
        FedAvg(fraction_evaluate=0.0, min_available_nodes=3),
        selector,
        {"num_participants": 2, "over_commit": 1.5, "node_wait_s": 180.0},
        after_round=keep,
    )
    start = np.load(model) if model.exists() else np.zeros(2)
    left = int(context.run_config["num-server-rounds"]) - selector.round_number
    strategy.start(grid, ArrayRecord([start]), num_rounds=left, timeout=120.0)
    (folder / "done").touch()
