"""Rounds per second of simulators on one CPU workload: Oort's, Flower's, pfl-research's.

Same model (a perceptron 64–64–10), same data (digits, 320 samples on each of 1,000 clients), same
work (10 steps of 32 samples, SGD at 0.04, FedAvg weighted by samples), same cohort size (100 a
round). Nothing is evaluated. Every engine runs in a process of its own, one after the other and
three times in turn, and is timed from the end of its first round to the end of its last.

    python -m benchmarks.simulation             all engines -> benchmarks/results/simulation.json
    python -m benchmarks.simulation --engine E  one of them, as one line of JSON
    python -m benchmarks.simulation --show      the results as the documentation's table

What differs: Flower and pfl-research train each client with torch, as their users do, and are told
nothing of its losses; ours trains chunks of the cohort at once, measures the loss of every sample
and selects with Oort (they select at random). Flower has a worker process on every core, each of
which makes the data once; our NumPy model has a thread on every core; our torch model and
pfl-research have one process. Torch uses one thread per process everywhere, which is fastest here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import describe

CLIENTS, SAMPLES, COHORT = 1000, 320, 100
STEPS, BATCH, RATE, HIDDEN = 10, 32, 0.04, 64
ROUNDS = {"oort-numpy": 100, "oort-torch": 50, "flower": 6, "pfl": 12}
RESULTS = Path(__file__).parent / "results" / "simulation.json"


def oort_config(model: str) -> Any:
    """The workload as a config of Oort's simulator."""
    from oort.simulation import SimulationConfig

    learner: dict[str, Any] = {"model": "mlp", "hidden": [HIDDEN]}
    if model == "torch":
        learner = {"model": "benchmarks.simulation_model:Perceptron"}
    return SimulationConfig.from_dict(
        {
            "data": {
                "dataset": "digits",
                "clients": CLIENTS,
                "mean_size": SAMPLES,
                "partition": "iid",
            },
            "learner": {**learner, "learning_rate": RATE, "steps": STEPS, "batch_size": BATCH},
            "rounds": {"count": 1000, "participants": COHORT, "overcommit": 1.0},
            "evaluation": {"every": 1000},
            "executor": {"workers": 1, "chunk_size": 50} if model == "torch" else {},
        }
    )


@cache
def client_arrays() -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    """Every client's inputs and labels, as the other engines want them."""
    from oort.simulation import data

    clients = data.load(oort_config("numpy").data, seed=0)
    cohort = clients.cohort(np.arange(CLIENTS))
    x = clients.encoding.dense(cohort.pool[cohort.index][None])[0]
    spans = zip(cohort.start, cohort.start[1:], strict=False)
    return [(x[a:b], cohort.labels[a:b]) for a, b in spans]


def run_oort(rounds: int, *, model: str) -> dict[str, Any]:
    """Our simulator with what it writes to disk; says also where the time of a round goes."""
    from oort.simulation import Job, StrategyConfig, create
    from oort.simulation.experiment import known_threads
    from oort.simulation.store import CellFolder

    config = oort_config(model)
    job = Job(create(config, seed=0), StrategyConfig(kind="oort"))
    spent: dict[str, float] = {"write": 0.0}
    with known_threads(config), tempfile.TemporaryDirectory() as name:
        files = CellFolder(Path(name))
        files.restore()
        job.play()
        began = time.perf_counter()
        for _ in range(rounds):
            result = job.play()
            played = time.perf_counter()
            files.append(result)
            spent["write"] += time.perf_counter() - played
            for what, seconds in result.timings_s.items():
                spent[what] = spent.get(what, 0.0) + seconds
        took_s = time.perf_counter() - began
    job.close()
    overhead = (spent["select"] + spent["bookkeeping"] + spent["write"]) / took_s
    return {
        "rounds_per_s": rounds / took_s,
        "selection_and_bookkeeping_share": overhead,
        "ms_per_round": {k: 1000 * v / rounds for k, v in spent.items()},
    }


def run_flower(rounds: int) -> dict[str, Any]:
    """Flower's simulation engine: its message API, its FedAvg, its Ray backend on every core."""
    import torch
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    from benchmarks.simulation_model import Perceptron, train

    client, server = ClientApp(), ServerApp()
    ends: list[float] = []

    @client.train()  # type: ignore[untyped-decorator]
    def fit(message: Message, context: Context) -> Message:
        # Imported here, so that each worker process makes the data once instead of being sent it.
        from benchmarks.simulation import client_arrays

        torch.set_num_threads(1)
        model = Perceptron()
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        x, y = client_arrays()[int(context.node_config["partition-id"])]
        train(model, x, y, steps=STEPS, batch=BATCH, rate=RATE)
        content = {
            "arrays": ArrayRecord(model.state_dict()),
            "metrics": MetricRecord({"num-examples": len(y)}),
        }
        return Message(content=RecordDict(content), reply_to=message)

    class Timed(FedAvg):  # type: ignore[misc]
        def aggregate_train(self, *arguments: Any, **keywords: Any) -> Any:
            result = super().aggregate_train(*arguments, **keywords)
            ends.append(time.perf_counter())
            return result

    @server.main()  # type: ignore[untyped-decorator]
    def main(grid: Grid, context: Context) -> None:
        strategy = Timed(fraction_train=COHORT / CLIENTS, fraction_evaluate=0.0)
        first = ArrayRecord(Perceptron().state_dict())
        strategy.start(grid=grid, initial_arrays=first, num_rounds=rounds + 1)

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server, client, num_supernodes=CLIENTS, backend_config=resources)
    return {"rounds_per_s": (len(ends) - 1) / (ends[-1] - ends[0])}


def run_pfl(rounds: int) -> dict[str, Any]:
    """pfl-research: its simulated backend with FedAvg on a torch model."""
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    from benchmarks.simulation_model import Perceptron

    torch.set_num_threads(1)  # faster for so small a model, as for ours and Flower's
    arrays = client_arrays()
    datasets = {
        i: Dataset(raw_data=[torch.tensor(x), torch.tensor(y)]) for i, (x, y) in enumerate(arrays)
    }
    sampler = get_user_sampler("random", list(datasets))
    federated = FederatedDataset(datasets.__getitem__, sampler)
    ends: list[float] = []

    class Timed(TrainingProcessCallback):  # type: ignore[misc]
        def after_central_iteration(self, *_: Any, **__: Any) -> tuple[bool, Any]:
            ends.append(time.perf_counter())
            return False, Metrics()

    module = Perceptron()
    model = PyTorchModel(
        model=module,
        local_optimizer_create=torch.optim.SGD,
        central_optimizer=torch.optim.SGD(module.parameters(), lr=1.0),
    )
    FederatedAveraging().run(
        NNAlgorithmParams(
            central_num_iterations=rounds + 1,
            evaluation_frequency=10**9,
            train_cohort_size=COHORT,
            val_cohort_size=0,
        ),
        SimulatedBackend(training_data=federated, val_data=federated),
        model,
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=RATE, local_batch_size=BATCH),
        None,
        [Timed()],
        send_metrics_to_platform=False,
    )
    return {"rounds_per_s": (len(ends) - 1) / (ends[-1] - ends[0])}


ENGINES: dict[str, Callable[[int], dict[str, Any]]] = {
    "oort-numpy": lambda rounds: run_oort(rounds, model="numpy"),
    "oort-torch": lambda rounds: run_oort(rounds, model="torch"),
    "flower": run_flower,
    "pfl": run_pfl,
}


def measure(engine: str) -> dict[str, Any]:
    """One engine in a process of its own; says why where it cannot run."""
    command = [sys.executable, "-m", "benchmarks.simulation", "--engine", engine]
    root = str(Path(__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def summary(runs: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """The median of every engine's runs, all of them, and how many times faster ours is."""
    found: dict[str, Any] = {}
    for name, several in runs.items():
        good = sorted((r for r in several if "rounds_per_s" in r), key=_speed)
        if not good:
            found[name] = several[-1] if several else {"error": "not run yet"}
            continue
        found[name] = good[len(good) // 2] | {"all": [round(_speed(r), 3) for r in several]}
    for ours in ("oort-numpy", "oort-torch"):
        for result in found.values():
            if "rounds_per_s" in result and "rounds_per_s" in found[ours]:
                result[f"{ours}_is_times_faster"] = _speed(found[ours]) / _speed(result)
    return found


def shown(report: dict[str, Any]) -> str:
    """The results as a table in Markdown."""
    engines, versions = report["engines"], report["versions"]
    names = {
        "oort-numpy": "Oort, NumPy model",
        "oort-torch": "Oort, torch module",
        "flower": f"Flower {versions['flwr']}, torch",
        "pfl": f"pfl-research {versions['pfl']}, torch",
    }
    lines = [
        "| engine | rounds per second (each run) | ours in NumPy is faster | in torch |",
        "|---|---|---|---|",
    ]
    for name, label in names.items():
        result = engines[name]
        if "rounds_per_s" not in result:
            lines.append(f"| {label} | {result['error']} | | |")
            continue
        runs = ", ".join(f"{v:.3g}" for v in result["all"])
        times = (f"{result[f'oort-{m}_is_times_faster']:.3g}×" for m in ("numpy", "torch"))
        speed = f"{_speed(result):.3g} ({runs})"
        lines.append(f"| {label} | {speed} | {' | '.join(times)} |")
    return "\n".join(lines)


def _speed(result: dict[str, Any]) -> float:
    return float(result.get("rounds_per_s", float("nan")))


def main() -> None:
    """Measure one engine, or all and write the results as they come."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", choices=list(ENGINES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(ENGINES[options.engine](ROUNDS[options.engine])))
        return
    if options.show:
        print(shown(json.loads(RESULTS.read_text())))
        return
    packages = ("oort-fl", "numpy", "torch", "flwr", "ray", "pfl")
    report: dict[str, Any] = {
        "workload": f"{COHORT} of {CLIENTS} clients a round, {STEPS} steps of {BATCH}, perceptron",
        "machine": describe(),
        "versions": {p: _version(p) for p in packages},
    }
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in ENGINES}
    RESULTS.parent.mkdir(exist_ok=True)
    for repeat in range(options.repeats):
        for name in ENGINES:
            result = measure(name)
            runs[name].append(result)
            said = f"{_speed(result):8.2f} rounds/s" if "rounds_per_s" in result else result
            print(f"{repeat + 1}/{options.repeats} {name:12} {said}", flush=True)
            report["engines"] = summary(runs)
            RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    for name, result in report["engines"].items():
        for ours in ("oort-numpy", "oort-torch"):
            times = result.get(f"{ours}_is_times_faster")
            if times is not None and name not in ("oort-numpy", "oort-torch"):
                print(f"{ours} is {times:.1f} times as fast as {name}", flush=True)
    print(f"wrote {RESULTS.name}")


if __name__ == "__main__":
    main()
