"""What ``oort demo`` shows, and how far that depends on its settings.

``python -m benchmarks.demo`` writes ``benchmarks/results/demo.json``: the demo (five seeds) and
for worlds that differ from it in one thing (three seeds), hours and rounds to 94 % for each
strategy and seed, how many times sooner, and accuracy at the end. Of these worlds the demo is the
one in which Oort gains most. Worlds that are not named stay as the file has them.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.machine import describe
from oort.simulation import SimulationConfig, compare, demo, read_runs, run

RESULTS = Path(__file__).parent / "results" / "demo.json"
TARGET = 0.94
WORLDS: dict[str, tuple[tuple[int, ...], dict[str, dict[str, Any]]]] = {
    "the demo": ((1, 2, 3, 4, 5), {}),
    "no speed hints": ((1, 2, 3), {"devices": {"hints": "none"}}),
    "2,000 clients": ((1, 2, 3), {"data": {"clients": 2000}}),
    "alpha 0.5": ((1, 2, 3), {"data": {"alpha": 0.5}}),
}


def config_of(seeds: tuple[int, ...], changes: dict[str, dict[str, Any]]) -> SimulationConfig:
    """The demo's settings with some changed."""
    values = {**demo.SETTINGS, "seeds": list(seeds)}
    for section, settings in changes.items():
        values[section] = {**values[section], **settings}
    return SimulationConfig.from_dict(values)


def main() -> None:
    """Run every world, or those named, and write what came out, whatever it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="*", choices=[[], *WORLDS], help="all unless named")
    names = parser.parse_args().worlds or [*WORLDS]
    found: dict[str, Any] = json.loads(RESULTS.read_text())["worlds"] if RESULTS.exists() else {}
    for name in names:
        seeds, changes = WORLDS[name]
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            run(config_of(seeds, changes), folder)
            took_s = time.perf_counter() - began
            lines = compare(read_runs([folder]), TARGET)
        found[name] = {
            "changes": changes,
            "real_seconds": round(took_s, 1),
            "strategies": {line.strategy: dataclasses.asdict(line) for line in lines},
        }
        speedups = next(line.speedup for line in lines if line.strategy == "oort")
        print(f"{name:16} {[round(s, 2) for s in speedups]} times sooner", flush=True)
    report = {"machine": describe(), "settings": demo.SETTINGS, "target": TARGET, "worlds": found}
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
