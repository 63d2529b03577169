"""Paper Fig. 18: category requests on real counts, ours beside the paper's two ways.

queries    the real counts with real devices, and the grid of requests
measure    one request by one method, and what the whole grid says
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from experiments.milp.measure import environment, measure, summary, verdict
from experiments.milp.queries import TRANSFER_MB, grid, load_workloads, stratified
from oort.plots.plans import draw_comparison

HELP = "Fig. 18: end-to-end time of category requests, against the paper's greedy and its MILP"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--queries", type=int, default=200, help="per workload (default 200)")
    parser.add_argument("--milp-queries", type=int, default=20, help="of the MILP (default 20)")
    parser.add_argument(
        "--milp-limit", type=float, default=120.0, help="seconds for each MILP (default 120)"
    )
    parser.add_argument(
        "--paper-limit",
        type=float,
        default=120.0,
        help="seconds for each request by the paper's greedy and simplified MILP (default 120)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the devices' assignment")
    parser.add_argument(
        "--quick", action="store_true", help="20 queries, 2 MILPs of 10 seconds, for a first look"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ["OORT_DATA"]) if "OORT_DATA" in os.environ else None,
        help="folder of the real counts and devices (default: OORT_DATA)",
    )
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results", help="where results go"
    )


def run(options: argparse.Namespace) -> int:
    """Measure, write numbers and pictures, say what they mean."""
    from rich.progress import Progress

    if options.data is None:
        print("oort reproduce milp needs the real counts: set OORT_DATA or give --data")
        return 2
    if options.quick:
        options.queries, options.milp_queries = 20, 2
        options.milp_limit = options.paper_limit = 10.0
    options.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {
        "command": "oort reproduce milp",
        "queries": options.queries,
        "milp_queries": options.milp_queries,
        "milp_limit_s": options.milp_limit,
        "paper_limit_s": options.paper_limit,
        "transfer_mb": TRANSFER_MB,
        "seed": options.seed,
        "environment": environment(),
        "workloads": {},
    }
    limits = {"oort": None, "paper": options.paper_limit, "milp": options.milp_limit}
    with Progress() as progress:
        for name, tester in load_workloads(options.data, options.seed):
            requests = grid(options.queries)
            plan = [("oort", q) for q in requests] + [("paper", q) for q in requests]
            plan += [("milp", q) for q in stratified(requests, options.milp_queries)]
            task = progress.add_task(name, total=len(plan))
            answers = []
            for method, query in plan:
                answers.append(measure(tester, method, query, limits[method]))
                progress.advance(task)
            results["workloads"][name] = {"summary": summary(answers), "answers": answers}
            _write(results, options.out)
            answered = {
                m: [a for a in answers if a["method"] == m and a["outcome"] == "plan"]
                for m in ("oort", "paper", "milp")
            }
            draw_comparison(
                answered, options.out / f"{name}.png", title=f"{name}, {len(requests)} requests"
            )
    print(verdict(results))
    return 0


def _write(results: dict[str, Any], folder: Path) -> None:
    """Numbers and verdict, after every workload."""
    (folder / "milp.json").write_text(json.dumps(results, indent=1) + "\n")
    (folder / "verdict.md").write_text(verdict(results) + "\n")
