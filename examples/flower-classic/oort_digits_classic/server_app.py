"""The server: a classic strategy as ever, wrapped in one line."""

from __future__ import annotations

import numpy as np
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.serverapp import ServerApp

import oort
from oort.integrations.flower import OortClassicStrategy


def weighted_accuracy(metrics: list[tuple[int, dict]]) -> dict:
    """The accuracy over all images tested on."""
    total = sum(count for count, _ in metrics)
    return {"accuracy": sum(count * m["accuracy"] for count, m in metrics) / total}


def server_fn(context: Context) -> ServerAppComponents:
    """The job."""
    strategy = FedAvg(
        fraction_fit=float(context.run_config["fraction-fit"]),
        fraction_evaluate=0.2,
        initial_parameters=ndarrays_to_parameters([np.zeros((64, 10))]),
        evaluate_metrics_aggregation_fn=weighted_accuracy,
    )
    strategy = OortClassicStrategy(strategy, oort.create_training_selector())  # the one line
    config = ServerConfig(
        num_rounds=int(context.run_config["num-server-rounds"]), round_timeout=600
    )
    return ServerAppComponents(strategy=strategy, config=config)


app = ServerApp(server_fn=server_fn)
