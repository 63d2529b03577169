"""What durability costs: a commit, recovery, a snapshot under way, bytes on disk.

    python -m benchmarks.store [--clients N] [--rounds N] [--folder FOLDER] [--out FOLDER]

Works on SQLite in ``--folder``, which should be on the disk that you would use: syncing is most of
what is measured. Writes ``store.json``, and ``store.md``, the table in the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import oort
from benchmarks import machine
from benchmarks.population import draw
from oort.store import keeper
from oort.store.database import connect
from oort.store.journal import Journal
from oort.store.payloads import encode

CLIENTS = 1_660_820
FEW = 14_477
REPORTS = 1_300
NEVER = oort.StoreConfig(snapshot_entries=10**9, snapshot_bytes=10**15)
_RESULTS = Path(__file__).parent / "results"


def spread(seconds: list[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum, milliseconds."""
    values = np.array(seconds) * 1e3
    return {
        "median_ms": round(float(np.median(values)), 3),
        "p95_ms": round(float(np.quantile(values, 0.95)), 3),
        "max_ms": round(float(values.max()), 3),
    }


def report(selector: Any, picks: Any, generator: np.random.Generator) -> None:
    """Everyone picked reports."""
    count = len(picks)
    selector.update_clients(
        picks,
        utility=draw(count, generator),
        duration_s=draw(count, generator),
        num_samples=generator.integers(1, 300, count),
    )


def commits(folder: Path, repeats: int = 300) -> dict[str, Any]:
    """1,300 reports at a time: the commit, the call around it, a sync of as many bytes alone."""
    generator = np.random.default_rng(1)
    inside: list[float] = []
    sizes: list[int] = []
    plain = Journal.commit

    def timed(journal: Journal, changes: Any, along: Any = None) -> None:
        start = time.perf_counter()
        plain(journal, changes, along)
        inside.append(time.perf_counter() - start)
        sizes.append(sum(len(encode(change)[1]) for change in changes))

    calls, syncs = [], []
    with oort.open_selector(f"sqlite:///{folder}/commit.db", store=NEVER) as selector:
        selector.register_clients(np.arange(FEW), expected_duration_s=draw(FEW, generator))
        Journal.commit = timed  # type: ignore[method-assign, assignment]
        try:
            for _ in range(repeats):
                picks = selector.select(REPORTS).participants
                inside.clear()
                sizes.clear()
                start = time.perf_counter()
                report(selector, picks, generator)
                calls.append((time.perf_counter() - start, inside[0]))
                syncs.append(sync_alone(folder / "plain", sizes[0]))
        finally:
            Journal.commit = plain  # type: ignore[method-assign]
    beyond = [commit - sync for (_, commit), sync in zip(calls, syncs, strict=True)]
    return {
        "clients": FEW,
        "reports": REPORTS,
        "payload_bytes": sizes[0],
        "repeats": repeats,
        "sync_alone": spread(syncs),
        "commit": spread([commit for _, commit in calls]),
        "commit_beyond_sync_median_ms": round(float(np.median(beyond)) * 1e3, 3),
        "whole_call": spread([call for call, _ in calls]),
        "in_memory_call": spread(in_memory(repeats)),
    }


def in_memory(repeats: int) -> list[float]:
    """The same call on the selector in memory."""
    generator = np.random.default_rng(1)
    selector = oort.create_training_selector()
    selector.register_clients(np.arange(FEW), expected_duration_s=draw(FEW, generator))
    seconds = []
    for _ in range(repeats):
        picks = selector.select(REPORTS).participants
        start = time.perf_counter()
        report(selector, picks, generator)
        seconds.append(time.perf_counter() - start)
    return seconds


def sync_alone(path: Path, size: int) -> float:
    """Seconds to append so many bytes to a file that exists, and to sync it."""
    data = os.urandom(size)
    with path.open("ab", buffering=0) as file:
        start = time.perf_counter()
        file.write(data)
        os.fdatasync(file.fileno())
        return time.perf_counter() - start


def large_job(folder: Path, clients: int) -> str:
    """A store with many clients, some of whom have reported, and a snapshot of them."""
    url = f"sqlite:///{folder}/large.db"
    generator = np.random.default_rng(2)
    ids = np.char.add("client-", np.char.zfill(np.arange(clients).astype("U"), 8))
    with oort.open_selector(url, store=NEVER) as selector:
        rows = selector.register_clients(ids, expected_duration_s=draw(clients, generator))
        some = oort.RowNumbers(np.sort(generator.choice(rows, clients // 3, replace=False)))
        report(selector, some, generator)
        selector.compact()
    return url


def recovery(url: str, rounds: int, per_round: int) -> dict[str, Any]:
    """Rounds on top of the snapshot, then opening the store again and again."""
    generator = np.random.default_rng(3)
    with oort.open_selector(url, store=NEVER) as selector:
        before = _journal_bytes(url)
        for _ in range(rounds):
            picks = selector.select(per_round).participants
            report(selector, picks, generator)
        written = _journal_bytes(url) - before
        expected = selector.preview(100).participants
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        selector = oort.open_selector(url, store=NEVER)
        seconds.append(time.perf_counter() - start)
        assert selector.preview(100).participants == expected
        selector.close()
    return {
        "rounds": rounds,
        "reports_per_round": per_round,
        "journal_bytes_per_round": round(written / rounds),
        "open": spread(seconds),
    }


def stall(url: str, snapshots: int = 3) -> dict[str, Any]:
    """Selections one after the other, while snapshots are taken and while none is."""
    generator = np.random.default_rng(4)
    quiet: list[float] = []
    during: list[float] = []
    took: list[float] = []
    with oort.open_selector(url, store=NEVER) as selector:
        mask = generator.random(selector.num_rows) < 0.9

        def one(into: list[float]) -> None:
            start = time.perf_counter()
            picks = selector.select(100, among=mask).participants
            into.append(time.perf_counter() - start)
            report(selector, picks, generator)

        for _ in range(100):
            one(quiet)
        for _ in range(snapshots):
            done = threading.Event()

            def work(done: threading.Event = done) -> None:
                start = time.perf_counter()
                database = connect(url, background=True)
                keeper.snapshot(database, selector, selector._lease)
                database.close()
                took.append(time.perf_counter() - start)
                done.set()

            thread = threading.Thread(target=work)
            thread.start()
            while not done.is_set():
                one(during)
            thread.join()
            for _ in range(30):
                one(quiet)
    worst = max(during) - float(np.median(quiet))
    return {
        "snapshots": snapshots,
        "snapshot_s": round(float(np.median(took)), 2),
        "select_without": spread(quiet),
        "select_during": spread(during),
        "selections_during": len(during),
        "longest_stall_ms": round(worst * 1e3, 1),
    }


def sizes(url: str, clients: int) -> dict[str, float]:
    """Bytes of a snapshot, and of the file after compaction, per client."""
    with oort.open_selector(url, store=NEVER) as selector:
        selector.compact()
    database = connect(url)
    ((stored, chunks),) = database.query("SELECT sum(bytes), sum(chunks) FROM oort_snapshots")
    database.close()
    file = Path(url.removeprefix("sqlite:///"))
    return {
        "snapshot_bytes_per_client": round(stored / clients, 2),
        "chunks": chunks,
        "file_bytes_per_client": round(file.stat().st_size / clients, 2),
    }


def _journal_bytes(url: str) -> int:
    database = connect(url)
    ((size,),) = database.query("SELECT coalesce(sum(length(payload)), 0) FROM oort_journal")
    database.close()
    return int(size)


def table(results: dict[str, Any]) -> str:
    """What a reader wants to know, in Markdown."""
    commit, stalls = results["commit"], results["stall"]
    few, many = results["recovery"]
    opened = "opening {:,} clients and {:,} rounds of journal, {:,} reports a round"
    rows = [
        (
            "commit of 1,300 reports, median",
            f"{commit['commit']['median_ms']:.1f} ms; writing and syncing as many bytes to a "
            f"plain file: {commit['sync_alone']['median_ms']:.1f} ms",
        ),
        *(
            (
                opened.format(results["clients"], each["rounds"], each["reports_per_round"]),
                f"{each['open']['median_ms'] / 1e3:.1f} s",
            )
            for each in (few, many)
        ),
        (
            f"longest delay of a selection by a snapshot of {results['clients']:,} clients",
            f"{stalls['longest_stall_ms']:.0f} ms",
        ),
        (
            "snapshot, ids of 15 characters included",
            f"{results['snapshot']['snapshot_bytes_per_client']} bytes per client",
        ),
        (
            "journal",
            f"{few['journal_bytes_per_round']:,} bytes per round of 130 reports, "
            f"{many['journal_bytes_per_round']:,} of 1,300",
        ),
    ]
    lines = [
        "| what | measured |",
        "|---|---|",
        *(f"| {what} | {value} |" for what, value in rows),
    ]
    about = results["machine"]
    load = f"load {about['load_average']} to {results['load_average_at_end']} while measuring"
    machine_line = f"{about['processor']}, {about['cores']} cores, {load}"
    return "\n".join([*lines, "", f"SQLite on {machine_line}.", ""])


def main() -> None:
    """Measure everything and write it down."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--out", type=Path, default=_RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        results: dict[str, Any] = {"machine": machine.describe(), "clients": options.clients}
        results["commit"] = commits(folder)
        print(json.dumps(results["commit"], indent=1))
        url = large_job(folder, options.clients)
        results["snapshot"] = sizes(url, options.clients)
        results["recovery"] = [recovery(url, options.rounds, REPORTS // 10)]
        with oort.open_selector(url, store=NEVER) as selector:
            selector.compact()
        results["recovery"].append(recovery(url, options.rounds, REPORTS))
        print(json.dumps(results["recovery"], indent=1))
        results["stall"] = stall(url)
        print(json.dumps(results["stall"], indent=1))
    results["load_average_at_end"] = round(os.getloadavg()[0], 2)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "store.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "store.md").write_text(table(results))


if __name__ == "__main__":
    main()
