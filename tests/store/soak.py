"""Kills durable selectors thousands of times: ``make soak``, or

    python -m tests.store.soak [--kills 5000] [--flips 1000] [--seed N] [--workers 2]

Training and testing jobs, on SQLite and on PostgreSQL where it is installed (a server of its own,
started here). The kills are shared out among the four; each is a run of ``tests.store.killing``,
which says what is compared. Then bytes of a store's files are flipped, and files cut off. Prints a
table; the exit status is 1 if anything did not hold. The same seed plays the same histories; when
a kill comes is also up to the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.store.server import Server, binaries, memory_folder

_ROOT = Path(__file__).parents[2]
_SHARES = {
    ("training", "SQLite"): 0.4,
    ("testing", "SQLite"): 0.3,
    ("training", "PostgreSQL"): 0.15,
    ("testing", "PostgreSQL"): 0.15,
}
_COLUMNS = (
    "killed",
    "histories",
    "calls acknowledged",
    "whole though not acknowledged",
    "from a snapshot",
    "unfinished snapshots",
    "seconds",
)


def _say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


def command(what: str, pattern: str, kills: int, seed: int) -> list[str]:
    """What kills one kind of selector in one kind of store."""
    numbers = [str(kills), str(seed)]
    return [sys.executable, "-m", "tests.store.killing", what, pattern, *numbers]


def _run(what: str, where: str, pattern: str, kills: int, seed: int) -> dict[str, int] | None:
    child = subprocess.Popen(
        command(what, pattern, kills, seed),
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stderr is not None
    assert child.stdout is not None
    for line in child.stderr:
        _say(f"[{where}] {line.rstrip()}")
    told = child.stdout.read()
    if child.wait():
        _say(f"[{where}] {what} FAILED; its seed is {seed}")
        return None
    return dict(json.loads(told))


def main(kills: int, flips: int, seed: int, workers: int) -> int:
    """Kill everything, flip everything; gives the exit status."""
    programs = binaries()
    server = None if programs is None else Server(programs)
    places = {k: v for k, v in _SHARES.items() if server is not None or k[1] == "SQLite"}
    _say(f"{kills:,} kills, seed {seed}, {'with' if server else 'WITHOUT'} PostgreSQL")
    results = {}
    try:
        with (
            tempfile.TemporaryDirectory(dir=memory_folder(), prefix="oort-soak-") as folder,
            ThreadPoolExecutor(workers) as pool,
        ):
            for (what, where), share in places.items():
                count = max(1, round(kills * share / sum(places.values())))
                pattern = f"sqlite:///{folder}/{what}-{{}}.db"
                if where == "PostgreSQL" and server is not None:
                    pattern = server.create(what)
                results[what, where] = pool.submit(_run, what, where, pattern, count, seed)
    finally:
        if server is not None:
            server.remove()
    counts = {place: result.result() for place, result in results.items()}
    _show(counts)
    return 0 if all(counts.values()) and _flipped(flips) else 1


def _flipped(flips: int) -> bool:
    """The tests of flipped and missing bytes, with thousands of them."""
    _say(f"\n{flips:,} flipped bytes in each file of a store, and as many places to cut one off:")
    tests = ["tests/store/test_damage.py", "-k", "flipped_byte or cut_off_anywhere"]
    with tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        plain = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--basetemp", f"{folder}/x"]
        known = {**os.environ, "OORT_FLIPS": str(flips)}
        return subprocess.run([*plain, *tests], cwd=_ROOT, env=known).returncode == 0


def _show(counts: dict[tuple[str, str], dict[str, int] | None]) -> None:
    width = max(len(name) for name in _COLUMNS)
    heads = [f"{what}, {where}" for what, where in counts]
    _say("\n" + " " * width, *(f"{head:>20}" for head in heads))
    for name in _COLUMNS:
        cells = ["FAILED" if c is None else f"{c.get(name, 0):,}" for c in counts.values()]
        _say(f"{name:<{width}}", *(f"{cell:>20}" for cell in cells))
    if all(counts.values()):
        _say("\nNothing acknowledged was lost, nothing was there by half, every twin agreed.")
    else:
        _say("\nSOMETHING DOES NOT HOLD: see FAILED above.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Kill durable selectors and look at what is left")
    parser.add_argument("--kills", type=int, default=5000)
    parser.add_argument("--flips", type=int, default=1000, help="bytes to flip in each file")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="default: the time")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    sys.exit(main(options.kills, options.flips, options.seed, options.workers))
