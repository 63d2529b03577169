"""Runs both APIs on Flower's simulation engine; started as a process by ``test_simulation.py``.

Prints one line of JSON per API: what each round was, and what the engine's own result is.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg as ClassicFedAvg
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

import oort
from oort.baselines import UniformSelector
from oort.integrations.flower import OortClassicStrategy, OortStrategy, RoundSummary
from tests.integrations.flower.fleet import client_app
from tests.integrations.flower.test_classic import phones

NUM_NODES = 6
BACKEND: Any = {
    "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    "init_args": {
        "num_cpus": 2,
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
        "object_store_memory": 80 * 1024 * 1024,
    },
}


def told(rounds: list[RoundSummary]) -> list[dict[str, Any]]:
    return [
        {o: sorted(summary.clients(o)) for o in ("completed", "failed", "unused")}
        for summary in rounds
    ]


def message_app(answer: dict[str, Any]) -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        rounds: list[RoundSummary] = []
        guided = OortStrategy(
            FedAvg(fraction_train=0.5, fraction_evaluate=0.5),
            oort.create_training_selector({"seed": 1}),
            after_round=rounds.append,
        )
        guided.start(grid, ArrayRecord([np.zeros(3)]), num_rounds=2, timeout=120.0)
        answer["rounds"] = told(rounds)
        own = FedAvg(fraction_evaluate=0.0)
        uniform = OortStrategy(FedAvg(fraction_evaluate=0.0), UniformSelector())
        for name, strategy in (("own", own), ("uniform", uniform)):
            result = strategy.start(grid, ArrayRecord([np.zeros(3)]), num_rounds=2, timeout=120.0)
            answer[name] = result.arrays.to_numpy_ndarrays()[0].tolist()

    return app


def classic_app(answer: dict[str, Any]) -> ServerApp:
    rounds: list[RoundSummary] = []

    def keep(summary: RoundSummary) -> None:
        rounds.append(summary)
        answer["rounds"] = told(rounds)
        answer["model"] = parameters_to_ndarrays(summary.arrays)[0].tolist()

    def server_fn(context: Context) -> ServerAppComponents:
        inside = ClassicFedAvg(
            fraction_fit=0.5,
            fraction_evaluate=0.0,
            initial_parameters=ndarrays_to_parameters([np.zeros(3)]),
        )
        selector = oort.create_training_selector({"seed": 1})
        strategy = OortClassicStrategy(inside, selector, after_round=keep)
        config = ServerConfig(num_rounds=2, round_timeout=120.0)
        return ServerAppComponents(strategy=strategy, config=config)

    return ServerApp(server_fn=server_fn)


if __name__ == "__main__":
    for make, app in ((message_app, client_app()), (classic_app, phones())):
        found: dict[str, Any] = {}
        run_simulation(make(found), app, NUM_NODES, backend_config=BACKEND)
        sys.stdout.write(f"\n::{json.dumps(found)}\n")
        sys.stdout.flush()
