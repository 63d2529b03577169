"""Ours beside the published Oort, in one run.

    python -m benchmarks.published --oort PATH

PATH is a checkout of the published code (it is not part of this repository); its training
selector is read from ``oort/oort.py``. Both get the same clients, utilities, durations and
eligible set, and both report and select in turn. The result is the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import time
import types
from pathlib import Path
from typing import Any

import numpy as np

import oort
from benchmarks import machine
from benchmarks.population import draw

_RESULTS = Path(__file__).parent / "results"
_SETTINGS = {
    "exploration_factor": 0.9,
    "exploration_decay": 0.98,
    "exploration_min": 0.2,
    "exploration_alpha": 0.3,
    "round_threshold": 30,
    "sample_window": 5.0,
    "pacer_step": 20,
    "pacer_delta": 5,
    "blacklist_rounds": -1,
    "blacklist_max_len": 0.3,
    "clip_bound": 0.98,
    "round_penalty": 2.0,
    "cut_off_util": 0.95,
}


def published_selector(checkout: Path) -> Any:
    """A training selector of the published code, without the solver that its module imports."""
    path = checkout / "oort" / "oort.py"
    source = path.read_text()
    lines = [line for line in source.splitlines() if not line.startswith("from .utils")]
    module = types.ModuleType("published_oort")
    exec(compile("\n".join(lines), str(path), "exec"), module.__dict__)
    return module.create_training_selector(types.SimpleNamespace(**_SETTINGS))


def compare(checkout: Path, clients: int, rounds: int, wanted: int = 100) -> dict[str, Any]:
    """Time both on the same job: half of the clients have reported, 90 % are eligible."""
    generator = np.random.default_rng(clients)
    utility, duration_s = draw(clients, generator), draw(clients, generator)
    eligible = generator.random(clients) < 0.9
    known = np.flatnonzero(generator.random(clients) < 0.5)

    theirs = published_selector(checkout)
    for client in range(clients):
        theirs.register_client(client, {"reward": 10, "duration": float(duration_s[client])})
    theirs.training_round = 1
    for client in known.tolist():
        report = {"reward": float(utility[client]), "duration": float(duration_s[client])}
        theirs.update_client_util(client, {**report, "time_stamp": 1, "status": True})

    ours = oort.create_training_selector({"seed": 1})
    ours.register_clients(np.arange(clients), expected_duration_s=duration_s)
    ours.select(1)
    ours.update_clients(
        oort.RowNumbers(known), utility=utility[known], duration_s=duration_s[known]
    )
    feasible = set(np.flatnonzero(eligible).tolist())
    times = {
        "published": [_round_of_theirs(theirs, feasible, wanted, r) for r in range(2, 2 + rounds)],
        "ours": [_round_of_ours(ours, eligible, wanted) for _ in range(20 * rounds + 3)][3:],
    }
    medians = {name: float(np.median(values)) for name, values in times.items()}
    return {
        "clients": clients,
        "select_s": medians,
        "ratio": round(medians["published"] / medians["ours"]),
    }


def _round_of_theirs(selector: Any, feasible: set[int], wanted: int, number: int) -> float:
    start = time.perf_counter()
    picked = selector.select_participant(wanted, feasible)
    elapsed = time.perf_counter() - start
    for client in picked:
        report = {"reward": 15.0, "duration": 20.0, "time_stamp": number, "status": True}
        selector.update_client_util(int(client), report)
    return elapsed


def _round_of_ours(selector: Any, eligible: Any, wanted: int) -> float:
    start = time.perf_counter()
    selection = selector.select(wanted, among=eligible)
    elapsed = time.perf_counter() - start
    selector.update_clients(selection.participants, utility=15.0, duration_s=20.0)
    return elapsed


def main() -> None:
    """Compare at the sizes of the paper's data sets and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oort", type=Path, required=True, help="checkout of the published code")
    parser.add_argument("--clients", type=int, nargs="+", default=[2_618, 14_477, 1_660_820])
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": machine.describe(), "select": []}
    for clients in options.clients:
        result = compare(options.oort, clients, rounds=5 if clients > 10**6 else 15)
        results["select"].append(result)
        print(
            f"{clients:>12,} clients: published {result['select_s']['published'] * 1e3:10.2f} ms, "
            f"ours {result['select_s']['ours'] * 1e3:8.3f} ms, {result['ratio']:,} times faster"
        )
    _RESULTS.mkdir(exist_ok=True)
    (_RESULTS / "published.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
