"""Paper Fig. 19: category requests to millions of clients, from one category to all of them.

population    generated clients: few categories each, devices of the trace
measure       requests of one per cent of the data, with and without a budget
verdict       what the numbers say of the paper's sentence
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from experiments.milp.measure import environment
from experiments.scale.measure import MILP_CLIENTS, SWEEP, asked, load, overstayed
from experiments.scale.population import POPULATIONS
from experiments.scale.verdict import as_markdown
from experiments.workers import Task, add_worker_arguments, measured
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
        default=120.0,
        help="seconds for each request by the paper's greedy and MILP (default 120; 0: without)",
    )
    parser.add_argument(
        "--milp-limit",
        type=float,
        default=120.0,
        help="seconds for the straw-man MILP, tried once where small (default 120; 0: without)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the generated data")
    add_worker_arguments(parser)
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
    """Measure, write numbers and picture as they come, say what they mean."""
    if options.quick:
        options.populations, options.paper_limit, options.milp_limit = ["openimage-like"], 5.0, 5.0
    options.out.mkdir(parents=True, exist_ok=True)
    results = _begun(options)
    started_s = time.monotonic()
    for tasks, workers in _phases(options, results):
        settings = {"data": options.data, "seed": options.seed}
        for task, answer in measured(tasks, load, asked, settings, workers=workers):
            made, rows = ({}, [overstayed(task)]) if answer is None else answer
            population = results["populations"][task.group]
            population |= made
            population["cases"] += [{"population": task.group, **row} for row in rows]
            for row in rows:
                print(
                    f"{time.monotonic() - started_s:6.0f} s  {task.group} {row['method']}, "
                    f"{row['categories']} categories, budget {row['budget_kind']}: "
                    f"{row['outcome']}, {row['spent_s']:.3g} s",
                    flush=True,
                )
            _write(results, options.out)
    cases = [c for p in results["populations"].values() for c in p["cases"]]
    if cases:
        draw_scale(cases, options.out / "scale.png")
    print((options.out / "results.md").read_text())
    return 0


def _begun(options: argparse.Namespace) -> dict[str, Any]:
    """Results without any answer, or those of a run that was cut off."""
    results: dict[str, Any] = {
        "command": (
            f"python -m experiments.scale --workers {options.workers} "
            f"--paper-limit {options.paper_limit:g} --milp-limit {options.milp_limit:g}"
        ),
        "seed": options.seed,
        "paper_limit_s": options.paper_limit,
        "milp_limit_s": options.milp_limit,
        "devices": "trace" if options.data else "lognormal",
        "workers": options.workers,
        "environment": environment(),
        "populations": {
            name: {
                "clients": POPULATIONS[name][0],
                "categories": POPULATIONS[name][1],
                "cases": [],
            }
            for name in options.populations
        },
    }
    file = options.out / "scale.json"
    if options.resume and file.exists():
        old = json.loads(file.read_text())
        results["earlier_environment"] = old["environment"]
        same = ("seed", "paper_limit_s", "milp_limit_s", "devices")
        if all(old.get(key) == results[key] for key in same):
            results["populations"] |= old["populations"]
        for population in results["populations"].values():
            population["cases"] = [
                case for case in population["cases"] if case["method"] not in options.again
            ]
    return results


def _phases(options: argparse.Namespace, results: dict[str, Any]) -> list[tuple[list[Task], int]]:
    """Ours first, with cores to spare; then what takes long. The largest first."""
    ours, others = [], []
    for name in reversed(options.populations):
        number, categories = POPULATIONS[name]
        known = {(c["method"], c["categories"]) for c in results["populations"][name]["cases"]}
        for wanted in [categories, *(k for k in reversed(SWEEP) if k < categories)]:
            if ("oort", wanted) not in known:
                ours.append(Task(name, ("oort", wanted, None), 900.0))
            if options.paper_limit > 0 and ("paper", wanted) not in known:
                limit_s = options.paper_limit
                others.append(Task(name, ("paper", wanted, limit_s), 1.5 * limit_s + 15.0))
        if options.milp_limit > 0 and number <= MILP_CLIENTS and ("milp", 1) not in known:
            limit_s = options.milp_limit
            others.append(Task(name, ("milp", 1, limit_s), 1.5 * limit_s + 15.0))
    return [(ours, max(1, options.workers // 3)), (others, options.workers)]


def _write(results: dict[str, Any], folder: Path) -> None:
    """Numbers, and what they say, as far as they go."""
    for name, text in (
        ("scale.json", json.dumps(results, indent=1) + "\n"),
        ("results.md", as_markdown(results)),
    ):
        fresh = folder / f".{name}"
        fresh.write_text(text)
        fresh.replace(folder / name)
