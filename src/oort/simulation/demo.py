"""The experiment behind ``oort demo``: real digits, a phone for each of 14,477 clients.

A population as large as OpenImage's in the paper (Table 1), with its client sizes; devices as in
the trace of 51,496 phones; a few digits per client (Dirichlet, α = 0.05); a model of 8 MB on the
wire; 50 updates a round out of 65 selected. Selectors are told what each phone is likely to need,
with an error (log-normal, σ = 0.5). The 1,347 training images are shared: clients draw overlapping
samples. How much the result owes to these choices is measured by ``benchmarks/demo.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from oort.simulation.config import SimulationConfig
from oort.simulation.experiment import Progress, run
from oort.simulation.report import Curve, read_runs

SETTINGS: dict[str, Any] = {
    "name": "demo",
    "seeds": [1, 2, 3],
    "data": {
        "dataset": "digits",
        "clients": 14_477,
        "partition": "dirichlet",
        "alpha": 0.05,
        "sizes": "openimage",
    },
    "devices": {"transfer_mb": 8.0, "hints": "noisy"},
    "learner": {"model": "mlp", "hidden": [64], "learning_rate": 0.04, "steps": 10},
    "rounds": {"count": 400, "participants": 50, "max_clock_s": 21_600},
    "evaluation": {"every": 2, "clients": 200, "target_accuracy": 0.94},
    "strategies": [{"kind": "oort"}, {"kind": "random"}],
}


def config(*, seeds: tuple[int, ...] = (1, 2, 3)) -> SimulationConfig:
    """The demo's settings."""
    return SimulationConfig.from_dict({**SETTINGS, "seeds": list(seeds)})


def play(
    into: str | Path,
    *,
    seeds: tuple[int, ...] = (1, 2, 3),
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[Curve]:
    """Run the demo into a folder; gives its curves."""
    run(config(seeds=seeds), into, progress=progress, stop=stop)
    return read_runs([into])
