"""Ours beside the published Oort, in one run.

    python -m benchmarks.published --oort PATH

PATH is a checkout of the published code (it is not part of this repository); its training
selector is read from ``oort/oort.py``. Both get the same clients, utilities, durations and
eligible set, and both select and report in turn, for as many rounds; ours is told that 1,000 are
planned. The result is the ratio of the medians.
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
_REPEATS = 5
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
    """Time both on the same job, round by round; ours several times over, from the beginning.

    Half of the clients have reported and 90 % are eligible; whoever is picked reports what it is
    worth and how long it takes.
    """
    world = World(clients)
    theirs = _published_job(checkout, world)
    ours = [_our_job(world) for _ in range(_REPEATS + 1)][1:]  # the first one compiles
    times = {"published": _timed_theirs(theirs, world, rounds, wanted), "ours": []}
    for selector in ours:
        times["ours"] += _timed_ours(selector, world, rounds, wanted)
    medians = {name: float(np.median(values)) for name, values in times.items()}
    return {
        "clients": clients,
        "rounds": rounds,
        "wanted": wanted,
        "select_s": medians,
        "select_s_quartiles": {
            name: np.percentile(values, [25, 75]).tolist() for name, values in times.items()
        },
        "ratio": round(medians["published"] / medians["ours"]),
    }


class World:
    """The clients of the job: what their data is worth, how long they take, who is eligible."""

    def __init__(self, clients: int) -> None:
        generator = np.random.default_rng(clients)
        self.utility, self.duration_s = draw(clients, generator), draw(clients, generator)
        self.eligible = generator.random(clients) < 0.9
        self.known = np.flatnonzero(generator.random(clients) < 0.5)


def _published_job(checkout: Path, world: World) -> Any:
    theirs = published_selector(checkout)
    for client, duration_s in enumerate(world.duration_s.tolist()):
        theirs.register_client(client, {"reward": 10, "duration": duration_s})
    theirs.training_round = 1
    for client in world.known.tolist():
        theirs.update_client_util(client, _report(world, client, 1))
    return theirs


def _report(world: World, client: int, number: int) -> dict[str, Any]:
    worth, duration_s = float(world.utility[client]), float(world.duration_s[client])
    return {"reward": worth, "duration": duration_s, "time_stamp": number, "status": True}


def _our_job(world: World) -> Any:
    ours = oort.create_training_selector({"seed": 1, "planned_rounds": 1_000})
    ours.register_clients(np.arange(world.utility.size), expected_duration_s=world.duration_s)
    ours.select(1)
    known = world.known
    ours.update_clients(
        oort.RowNumbers(known), utility=world.utility[known], duration_s=world.duration_s[known]
    )
    ours.preview(100, among=world.eligible)
    return ours


def _timed_theirs(selector: Any, world: World, rounds: int, wanted: int) -> list[float]:
    feasible, times = set(np.flatnonzero(world.eligible).tolist()), []
    for number in range(2, 2 + rounds):
        start = time.perf_counter()
        picked = selector.select_participant(wanted, feasible)
        times.append(time.perf_counter() - start)
        for client in picked:
            selector.update_client_util(int(client), _report(world, int(client), number))
    return times


def _timed_ours(selector: Any, world: World, rounds: int, wanted: int) -> list[float]:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        selection = selector.select(wanted, among=world.eligible)
        times.append(time.perf_counter() - start)
        picked = np.array(selection.participants)
        worth, duration_s = world.utility[picked], world.duration_s[picked]
        selector.update_clients(selection.participants, utility=worth, duration_s=duration_s)
    return times


def main() -> None:
    """Compare at the sizes of the paper's data sets and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--oort", type=Path, required=True, help="checkout of the published code")
    parser.add_argument("--clients", type=int, nargs="+", default=[2_618, 14_477, 1_660_820])
    options = parser.parse_args()
    results: dict[str, Any] = {"machine": machine.describe(), "select": []}
    for clients in options.clients:
        result = compare(options.oort, clients, rounds=_rounds(clients))
        results["select"].append(result)
        print(
            f"{clients:>12,} clients: published {result['select_s']['published'] * 1e3:10.2f} ms, "
            f"ours {result['select_s']['ours'] * 1e3:8.3f} ms, {result['ratio']:,} times faster"
        )
    _RESULTS.mkdir(exist_ok=True)
    (_RESULTS / "published.json").write_text(json.dumps(results, indent=1) + "\n")
    (_RESULTS / "published.md").write_text(as_markdown(results))


def _rounds(clients: int) -> int:
    """How many: what takes minutes runs less often; a small job ends before all are tried.

    Then the published code stops with an error.
    """
    if clients > 10**6:
        return 6
    return 20 if clients > 10**4 else 10


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 1 else f"{1e3 * seconds:.3g}"


def as_markdown(results: dict[str, Any]) -> str:
    """The results as a table for people."""
    about = results["machine"]
    lines = [
        f"{about['processor']}, {about['cores']} cores; Python {about['python']}, NumPy "
        f"{about['numpy']}; load average {about['load_average']} at the start. Milliseconds of a "
        "selection, median (quartiles).",
        "",
        "| clients | published | ours | times faster |",
        "|---:|---:|---:|---:|",
    ]
    for row in results["select"]:
        cells = []
        for name in ("published", "ours"):
            low, high = row["select_s_quartiles"][name]
            shown = [_milliseconds(seconds) for seconds in (row["select_s"][name], low, high)]
            cells.append(f"{shown[0]} ({shown[1]}–{shown[2]})")
        lines.append(f"| {row['clients']:,} | {cells[0]} | {cells[1]} | {row['ratio']:,} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
