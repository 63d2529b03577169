"""The server: a Flower strategy as ever, wrapped in one line."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

import oort
from oort.baselines import UniformSelector
from oort.integrations.flower import OortStrategy, RoundSummary
from oort_digits import task

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the same job with each selector and print them side by side."""
    runs = [Run(name, context) for name in str(context.run_config["selectors"]).split()]
    for run in runs:
        run.start(grid)
    target = float(context.run_config["target-accuracy"])
    print(f"\n{'selector':<10}{'rounds to':>12}{'simulated':>12}{'final':>10}")
    print(f"{'':<10}{f'{target:.0%}':>12}{'minutes':>12}{'accuracy':>10}")
    for run in runs:
        place = next((i for i, a in enumerate(run.accuracies) if a >= target), None)
        when = "never" if place is None else f"{run.clock_s[place] / 60:.0f}"
        print(f"{run.name:<10}{place or '–':>12}{when:>12}{run.accuracies[-1]:>10.1%}")


@dataclass
class Run:
    """One job with one selector."""

    name: str
    context: Context
    accuracies: list[float] = field(default_factory=list)
    clock_s: list[float] = field(default_factory=lambda: [0.0])

    def start(self, grid: Grid) -> None:
        """Train from a new model, or from where a killed run was."""
        config = self.context.run_config
        self.selector = self.load_selector()
        tester = oort.create_testing_selector() if config["test-by-category"] else None
        strategy = FedAvg(
            fraction_train=float(config["fraction-train"]),
            fraction_evaluate=1.0 if tester else float(config["fraction-evaluate"]),
        )
        strategy = OortStrategy(  # the one line
            strategy,
            self.selector,
            {"first_by": "duration"},  # time is simulated here: see client_app.py
            tester=tester,
            test=lambda tester: tester.select_by_category(dict.fromkeys(range(10), 5)),
            after_round=self.after_round,
        )
        left = max(0, int(config["num-server-rounds"]) - self.selector.round_number)
        strategy.start(
            grid=grid,
            initial_arrays=ArrayRecord(self.load_model()),
            num_rounds=left,
            timeout=600,
            evaluate_fn=self.evaluate,
        )

    def evaluate(self, server_round: int, arrays: ArrayRecord) -> MetricRecord:
        """The model's accuracy on images that no client has."""
        self.accuracies.append(task.accuracy(arrays.to_numpy_ndarrays(), *task.test_set()))
        return MetricRecord({"accuracy": self.accuracies[-1]})

    def after_round(self, summary: RoundSummary) -> None:
        """Add up simulated time, and keep what a killed run needs to continue."""
        self.clock_s.append(self.clock_s[-1] + summary.elapsed_s)
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        if summary.arrays is not None:
            np.savez(self.folder / "new.npz", *summary.arrays.to_numpy_ndarrays())
            os.replace(self.folder / "new.npz", self.folder / "model.npz")
        self.selector.save(self.folder / "selector.oort")

    @property
    def folder(self) -> Path | None:
        """Where this run keeps its state, if it does."""
        state = str(self.context.run_config["state-folder"])
        return Path(state) / self.name if state else None

    def load_model(self) -> list[np.ndarray]:
        """The model of a killed run, or a new one."""
        if self.folder is None or not (self.folder / "model.npz").exists():
            return task.new_model(int(self.context.run_config["seed"]))
        with np.load(self.folder / "model.npz") as saved:
            return list(saved.values())

    def load_selector(self) -> oort.TrainingSelector:
        """The selector of a killed run, or a new one."""
        settings = oort.TrainingConfig(seed=int(self.context.run_config["seed"]))
        saved = None if self.folder is None else self.folder / "selector.oort"
        if self.name == "random":
            known = saved is not None and saved.exists()
            return UniformSelector.load(saved) if known else UniformSelector(settings)
        if saved is not None and saved.exists():
            return oort.load_selector(saved)
        return oort.create_training_selector(settings)
