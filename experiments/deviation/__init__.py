"""Paper Fig. 4a and 17: how many participants keep the data representative, and do they?

populations    the real counts, and generated ones at the scale of Reddit
measure        participants by bound, and deviations over many draws
intervals      how long the intervals of an estimate are, and how often they hold
verdict        what the numbers say of the paper's two sentences
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from experiments.deviation.intervals import measure_intervals
from experiments.deviation.measure import measure
from experiments.deviation.populations import load_populations
from experiments.deviation.verdict import pictures, verdict
from oort.plots.testing import draw_spreads

HELP = "Fig. 4a and 17: participants needed, and deviations over many draws"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--draws", type=int, default=1_000, help="per size (default 1,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the draws and of generated data")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ["OORT_DATA"]) if "OORT_DATA" in os.environ else None,
        help="folder of the real counts (default: OORT_DATA); without it, generated ones only",
    )
    parser.add_argument(
        "--clients", type=int, default=1_660_820, help="generated clients (default as in Reddit)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="where results go"
    )


def run(options: argparse.Namespace) -> int:
    """Measure, write numbers and picture, say what they mean."""
    from rich.progress import Progress

    options.out.mkdir(parents=True, exist_ok=True)
    populations = load_populations(options.data, options.clients, options.seed)
    results: dict[str, Any] = {
        "command": "oort reproduce deviation",
        "draws": options.draws,
        "seed": options.seed,
        "confidence": 0.95,
        "populations": {},
    }
    with Progress(transient=True) as progress:
        for population in populations:
            task = progress.add_task(population.name, total=None)
            asked = (population, options.draws, options.seed, partial(progress.advance, task))
            found = measure(*asked)
            found["intervals"] = measure_intervals(*asked)
            results["populations"][population.name] = found
            progress.remove_task(task)
    text = verdict(results)
    (options.out / "deviation.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "verdict.md").write_text(text)
    for name, spreads in pictures(results).items():
        draw_spreads(spreads, options.out / f"{name}.png")
    print(text)
    print(f"numbers and pictures: {options.out}")
    return 0
