"""What ``oort demo`` shows, for five seeds, as figures: ``python -m benchmarks.demo``.

Writes ``benchmarks/results/demo.json``: hours and rounds to 94 % for each strategy and seed, how
many times sooner, accuracy at the end, and the real time that it took.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
import time
from pathlib import Path

from benchmarks.machine import describe
from oort.simulation import compare, demo

SEEDS = (1, 2, 3, 4, 5)
RESULTS = Path(__file__).parent / "results" / "demo.json"


def main() -> None:
    """Run and write."""
    target = demo.config().evaluation.target_accuracy
    assert target is not None
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        curves = demo.play(folder, seeds=SEEDS)
        took_s = time.perf_counter() - began
    lines = compare(curves, target)
    report = {
        "machine": describe(),
        "settings": demo.SETTINGS,
        "seeds": SEEDS,
        "real_seconds_for_all_seeds": round(took_s, 1),
        "strategies": {line.strategy: dataclasses.asdict(line) for line in lines},
    }
    RESULTS.write_text(json.dumps(report, indent=1) + "\n")
    for line in lines:
        print(f"{line.strategy:8} {[round(s, 2) for s in line.speedup]} times sooner")


if __name__ == "__main__":
    main()
