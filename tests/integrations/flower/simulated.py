"""Runs jobs on Flower's simulation engine; started as a process by ``test_simulation.py``.

Takes names of ``APPS``; prints one line of JSON for each: what each round was, and the model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import LegacyContext, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg as ClassicFedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation

import oort
from oort.baselines import UniformSelector
from oort.integrations.flower import OortClassicStrategy, OortStrategy, RoundSummary, oort_mod
from tests.integrations.flower.apps import client_app, phones, usual

NUM_NODES = 6
# The engine connects its nodes while the server app is starting: without waiting for all of them,
# the first round may see only some.
ALL_NODES: Any = {"min_available_nodes": NUM_NODES}
ALL_CLIENTS: Any = {"min_available_clients": NUM_NODES}
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
            FedAvg(fraction_train=0.5, fraction_evaluate=0.5, **ALL_NODES),
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
            **ALL_CLIENTS,
        )
        selector = oort.create_training_selector({"seed": 1})
        strategy = OortClassicStrategy(inside, selector, after_round=keep)
        config = ServerConfig(num_rounds=2, round_timeout=120.0)
        return ServerAppComponents(strategy=strategy, config=config)

    return ServerApp(server_fn=server_fn)


def secure_app(answer: dict[str, Any]) -> ServerApp:
    """SecAgg+ as Flower's own example runs it: a workflow in a server app's main."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        rounds: list[RoundSummary] = []
        inside = ClassicFedAvg(
            fraction_evaluate=0.0,
            initial_parameters=ndarrays_to_parameters([np.zeros(3)]),
            **ALL_CLIENTS,
        )
        selector = oort.create_training_selector({"seed": 1})
        strategy = OortClassicStrategy(
            inside,
            selector,
            {"num_participants": 4, "over_commit": 1.0},
            after_round=rounds.append,
        )
        legacy = LegacyContext(context, config=ServerConfig(num_rounds=2), strategy=strategy)
        workflow = SecAggPlusWorkflow(3, 2, clipping_range=64.0, timeout=120.0)
        DefaultWorkflow(fit_workflow=workflow)(grid, legacy)
        answer["rounds"] = told(rounds)
        answer["models"] = [parameters_to_ndarrays(r.arrays)[0].tolist() for r in rounds]
        answer["known"] = int(np.isfinite(selector.columns().duration_s).sum())

    return app


def private_app(answer: dict[str, Any]) -> ServerApp:
    """Differential privacy on the server's side, in the message API."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        rounds: list[RoundSummary] = []
        inside = DifferentialPrivacyServerSideFixedClipping(
            FedAvg(fraction_train=0.5, fraction_evaluate=0.0, **ALL_NODES),
            noise_multiplier=1e-6,
            clipping_norm=1.0,
            num_sampled_clients=3,
        )
        selector = oort.create_training_selector({"seed": 1})
        strategy = OortStrategy(inside, selector, after_round=rounds.append)
        result = strategy.start(grid, ArrayRecord([np.zeros(3)]), num_rounds=2, timeout=120.0)
        answer["rounds"] = told(rounds)
        answer["model"] = result.arrays.to_numpy_ndarrays()[0].tolist()

    return app


def moving(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
    arrays, metrics = usual(partition, message)
    return [array + 1.0 for array in arrays], metrics  # Flower divides by an update's norm


APPS: dict[str, tuple[Callable[[dict[str, Any]], ServerApp], ClientApp]] = {
    "message": (message_app, client_app()),
    "classic": (classic_app, phones()),
    "secure": (secure_app, phones(mods=[secaggplus_mod, oort_mod])),
    "private": (private_app, client_app(moving)),
}


if __name__ == "__main__":
    for make, app in (APPS[name] for name in sys.argv[1:]):
        found: dict[str, Any] = {}
        run_simulation(make(found), app, NUM_NODES, backend_config=BACKEND)
        sys.stdout.write(f"\n::{json.dumps(found)}\n")
        sys.stdout.flush()
