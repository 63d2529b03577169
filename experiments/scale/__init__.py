"""Paper Fig. 19: category requests to millions of clients, from one category to all of them.

population    generated clients: few categories each, devices of the trace
measure       requests of one per cent of the data, with and without a budget
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

from experiments.milp.measure import environment
from experiments.scale.measure import measure_population, verdict
from experiments.scale.population import POPULATIONS
from oort.plots.plans import draw_scale

HELP = "Fig. 19: category requests to up to 1.66 million clients and 5,000 categories"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--populations",
        nargs="+",
        default=list(POPULATIONS),
        choices=list(POPULATIONS),
        help="which (default: all)",
    )
    parser.add_argument(
        "--paper-limit",
        type=float,
        default=300.0,
        help="seconds for each request by the paper's greedy and MILP (default 300; 0: without)",
    )
    parser.add_argument(
        "--milp-limit",
        type=float,
        default=120.0,
        help="seconds for the straw-man MILP, tried once where small (default 120; 0: without)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the generated data")
    parser.add_argument(
        "--quick", action="store_true", help="the smallest population, MILPs of 5 seconds"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ["OORT_DATA"]) if "OORT_DATA" in os.environ else None,
        help="folder of the device trace (default: OORT_DATA); without it, lognormal devices",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="where results go"
    )


def run(options: argparse.Namespace) -> int:
    """Measure each population in a process of its own, write numbers and picture, judge them."""
    if options.quick:
        options.populations, options.paper_limit, options.milp_limit = ["openimage-like"], 5.0, 5.0
    options.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "command": "oort reproduce scale",
        "seed": options.seed,
        "paper_limit_s": options.paper_limit,
        "milp_limit_s": options.milp_limit,
        "devices": "trace" if options.data else "lognormal",
        "environment": environment(),
        "populations": {},
    }
    context = multiprocessing.get_context("spawn")
    for name in options.populations:
        print(f"{name} ...", flush=True)
        arguments = (name, options.data, options.seed, options.paper_limit, options.milp_limit)
        with context.Pool(1) as pool:
            results["populations"][name] = pool.apply(measure_population, arguments)
        (options.out / "scale.json").write_text(json.dumps(results, indent=1) + "\n")
        (options.out / "verdict.md").write_text(verdict(results) + "\n")
    cases = [c for p in results["populations"].values() for c in p["cases"]]
    draw_scale(cases, options.out / "scale.png")
    print(verdict(results))
    return 0
