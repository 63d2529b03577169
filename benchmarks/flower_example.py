"""What ``examples/flower`` shows: Oort beside random selection in Flower's simulation engine.

``python -m benchmarks.flower_example`` runs the example as its README says (``flwr run .``), once
per seed and with and without hints of clients' speed, and writes
``benchmarks/results/flower_example.json`` after every run: rounds and simulated minutes to the
target for each selector, and accuracy at the end. Simulated time does not depend on the machine.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.integrations.flower.processes import flwr_run

from benchmarks.machine import describe

RESULTS = Path(__file__).parent / "results" / "flower_example.json"
ROW = re.compile(r"^(oort|random)\s+(\d+|–)\s+([\d.]+|never)\s+([\d.]+)%", re.MULTILINE)
LIMIT_S = 1800.0


def run_example(seed: int, hints: bool, folder: Path) -> dict[str, Any]:
    """One ``flwr run``; gives the rows of the table that it prints."""
    config = f"seed={seed} speed-hints={str(hints).lower()}"
    printed = flwr_run("flower", folder, config, nodes=100, limit_s=LIMIT_S)
    rows = {name: cells for name, *cells in ROW.findall(printed)}
    if set(rows) != {"oort", "random"}:
        message = f"flwr run printed no table:\n{printed[-3000:]}"
        raise RuntimeError(message)
    return {name: _figures(*cells) for name, cells in rows.items()}


def _figures(rounds: str, minutes: str, accuracy: str) -> dict[str, float | None]:
    reached = minutes != "never"
    return {
        "rounds": int(rounds) if reached else None,
        "minutes": float(minutes) if reached else None,
        "final_accuracy_percent": float(accuracy),
    }


def main() -> None:
    """Run the example for every seed; what came out is written as it comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=6, help="how many (default 6)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where results go")
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": describe(), "runs": []}
    for seed in range(1, options.seeds + 1):
        for hints in (True, False):
            began = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                selectors = run_example(seed, hints, Path(folder))
            took_s = round(time.perf_counter() - began, 1)
            report["runs"].append(
                {"seed": seed, "hints": hints, "real_seconds": took_s, **selectors}
            )
            options.out.write_text(json.dumps(report, indent=1) + "\n")
            print(f"seed {seed}, hints {hints}: {selectors}, {took_s} s", flush=True)


if __name__ == "__main__":
    main()
