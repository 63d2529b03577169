"""Paper Fig. 18: category requests on real counts, ours beside the paper's two ways.

queries    the real counts with real devices, and the grid of requests
measure    one request by one method
verdict    what the whole grid says
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

from experiments.milp.measure import asked, environment, load, overstayed
from experiments.milp.queries import TRANSFER_MB, WORKLOADS, Query, grid, stratified
from experiments.milp.verdict import as_markdown, summary
from experiments.workers import Task, add_worker_arguments, measured
from oort.plots.plans import draw_comparison

HELP = "Fig. 18: end-to-end time of category requests, against the paper's greedy and its MILP"
_EVERY_S = 10.0  # how often results are written meanwhile


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
        default=60.0,
        help="seconds for each request by the paper's greedy and simplified MILP (default 60)",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the devices' assignment")
    add_worker_arguments(parser)
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
    if options.data is None:
        print("oort reproduce milp needs the real counts: set OORT_DATA or give --data")
        return 2
    if options.quick:
        options.queries, options.milp_queries = 20, 2
        options.milp_limit = options.paper_limit = 10.0
    options.out.mkdir(parents=True, exist_ok=True)
    results = _begun(options)
    written_s, started_s = time.monotonic(), time.monotonic()
    for tasks, workers in _phases(options, results):
        settings = {"data": options.data, "seed": options.seed}
        done = measured(tasks, load, asked, settings, workers=workers)
        for number, (task, answer) in enumerate(done, 1):
            row = overstayed(task) if answer is None else answer
            results["workloads"][task.group]["answers"].append(row)
            print(
                f"{time.monotonic() - started_s:6.0f} s  {number}/{len(tasks)}  {task.group} "
                f"{row['method']} X={row['samples']} B={row['budget']}: {row['outcome']}, "
                f"{row['spent_s']:.3g} s",
                flush=True,
            )
            if time.monotonic() - written_s > _EVERY_S:
                _write(results, options.out)
                written_s = time.monotonic()
        _write(results, options.out)
    _draw(results, options.out)
    print((options.out / "results.md").read_text())
    return 0


def _begun(options: argparse.Namespace) -> dict[str, Any]:
    """Results without any answer, or those of a run that was cut off."""
    results: dict[str, Any] = {
        "command": (
            f"python -m experiments.milp --workers {options.workers} "
            f"--paper-limit {options.paper_limit:g} --milp-limit {options.milp_limit:g}"
        ),
        "queries": options.queries,
        "milp_queries": options.milp_queries,
        "milp_limit_s": options.milp_limit,
        "paper_limit_s": options.paper_limit,
        "transfer_mb": TRANSFER_MB,
        "seed": options.seed,
        "workers": options.workers,
        "environment": environment(),
        "workloads": {name: {"answers": []} for name in WORKLOADS},
    }
    file = options.out / "milp.json"
    if options.resume and file.exists():
        old = json.loads(file.read_text())
        results["earlier_environment"] = old["environment"]
        if all(old.get(key) == results[key] for key in ("transfer_mb", "seed")):
            same = {m for m in ("paper", "milp") if old[f"{m}_limit_s"] == results[f"{m}_limit_s"]}
            kept = (same | {"oort"}) - set(options.again)
            wanted = {(m, q.samples, q.budget) for m in kept for q in _requests(options)[m]}
            for name in WORKLOADS:
                results["workloads"][name]["answers"] = [
                    row
                    for row in old["workloads"][name]["answers"]
                    if (row["method"], row["samples"], row["budget"]) in wanted
                ]
    return results


def _requests(options: argparse.Namespace) -> dict[str, list[Query]]:
    """What each method is asked, in the order in which it is."""
    requests = grid(options.queries)
    return {
        "oort": requests,
        "milp": stratified(requests, options.milp_queries),
        "paper": sorted(requests, key=lambda query: -query.samples),
    }


def _phases(options: argparse.Namespace, results: dict[str, Any]) -> list[tuple[list[Task], int]]:
    """Ours first, with cores to spare; then what takes long, the longest first."""
    known = {
        (name, row["method"], row["samples"], row["budget"])
        for name, content in results["workloads"].items()
        for row in content["answers"]
    }
    requests = _requests(options)
    limits = {"oort": None, "paper": options.paper_limit, "milp": options.milp_limit}

    def tasks(method: str) -> list[Task]:
        limit_s = limits[method]
        most_s = 600.0 if limit_s is None else 1.5 * limit_s + 15.0
        return [
            Task(name, (method, query, limit_s), most_s)
            for name in WORKLOADS
            for query in requests[method]
            if (name, method, query.samples, query.budget) not in known
        ]

    few = max(1, options.workers // 3)
    return [(tasks("oort"), few), (tasks("milp") + tasks("paper"), options.workers)]


def _write(results: dict[str, Any], folder: Path) -> None:
    """Numbers, and what they say, as far as they go."""
    for content in results["workloads"].values():
        content["summary"] = summary(content["answers"])
    for name, text in (
        ("milp.json", json.dumps(results, indent=1) + "\n"),
        ("results.md", as_markdown(results)),
    ):
        fresh = folder / f".{name}"
        fresh.write_text(text)
        fresh.replace(folder / name)


def _draw(results: dict[str, Any], folder: Path) -> None:
    """One picture per workload."""
    for name, content in results["workloads"].items():
        answered = {
            method: [
                a for a in content["answers"] if a["method"] == method and a["outcome"] == "plan"
            ]
            for method in ("oort", "paper", "milp")
        }
        title = f"{name}, {results['queries']} requests"
        draw_comparison(answered, folder / f"{name}.png", title=title)
