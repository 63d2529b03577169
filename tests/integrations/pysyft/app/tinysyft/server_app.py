"""A data scientist's job, once for each of Flower's APIs; writes what came of each round."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context
from flwr.common import ndarrays_to_parameters
from flwr.server import ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg as ClassicFedAvg
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import oort
from oort.integrations.flower import RoundSummary
from oort.integrations.pysyft import OortClassicStrategy, OortStrategy

SETTINGS = {"num_participants": 2, "over_commit": 1.5, "node_wait_s": 60.0}
message = ServerApp()
selector = oort.create_training_selector()


def keep(summary: RoundSummary) -> None:
    line = {"round": summary.round_number, "ended_by": summary.ended_by}
    for outcome in ("completed", "failed", "unused"):
        line[outcome] = sorted(summary.clients(outcome))
    known = summary.clients("completed")
    line["utility"] = selector.columns(known).utility.tolist()
    with Path(os.environ["OORT_ROUNDS"]).open("a") as log:
        log.write(json.dumps(line) + "\n")


@message.main()
def main(grid: Grid, context: Context) -> None:
    strategy = OortStrategy(FedAvg(fraction_evaluate=0.0), selector, SETTINGS, after_round=keep)
    strategy.start(grid, ArrayRecord([np.zeros(2)]), num_rounds=2, timeout=100.0)


def server_fn(context: Context) -> ServerAppComponents:
    inside = ClassicFedAvg(
        fraction_evaluate=0.0, initial_parameters=ndarrays_to_parameters([np.zeros(2)])
    )
    strategy = OortClassicStrategy(inside, selector, SETTINGS, after_round=keep)
    config = ServerConfig(num_rounds=2, round_timeout=100.0)
    return ServerAppComponents(strategy=strategy, config=config)


classic = ServerApp(server_fn=server_fn)
