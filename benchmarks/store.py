"""What durability costs: a commit, recovery, a snapshot under way, bytes on disk.

    python -m benchmarks.store [--clients N] [--rounds N] [--folder FOLDER] [--out FOLDER]
                               [--postgres URL]

Works on SQLite in ``--folder``, which should be on the disk that you would use: syncing is most of
what is measured. What is compared is measured in turns, in the same run, on the same file system.
Writes ``store.json`` as it goes, and ``store.md``, the table in the documentation.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import oort
from benchmarks import machine
from benchmarks.population import draw
from oort.store import keeper
from oort.store.database import connect
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


class Committing:
    """A selector of its own store, whose commits are timed one by one."""

    def __init__(self, url: str, *, is_synced: bool = True) -> None:
        self.generator = np.random.default_rng(1)
        self.selector = oort.open_selector(url, store=NEVER)
        durations = draw(FEW, self.generator)
        self.selector.register_clients(np.arange(FEW), expected_duration_s=durations)
        if not is_synced:
            self.selector._database.query("PRAGMA synchronous = OFF")
        self.journal = self.selector._journal
        self._commit = self.journal.commit
        self.journal.commit = self._timed  # type: ignore[method-assign]
        self.inside: list[float] = []
        self.calls: list[float] = []
        self.commits: list[float] = []
        self.payload_bytes = 0

    def _timed(self, changes: Any, along: Any = None) -> None:
        start = time.perf_counter()
        self._commit(changes, along)
        self.inside.append(time.perf_counter() - start)
        self.payload_bytes = sum(len(encode(change)[1]) for change in changes)

    def once(self) -> None:
        """A round: select, and report what was selected, which is the commit that counts."""
        picks = self.selector.select(REPORTS).participants
        start = time.perf_counter()
        report(self.selector, picks, self.generator)
        self.calls.append(time.perf_counter() - start)
        self.commits.append(self.inside[-1])


def commits(folder: Path, repeats: int, server: str | None) -> dict[str, Any]:
    """1,300 reports at a time, in turns, on one file system, in an order that is drawn anew.

    The commit; the same commit told not to sync, which is all the work besides; and what a sync
    costs alone: as many bytes as the payload has appended to a plain file, or written over it.
    """
    kept = {
        "commit": Committing(f"sqlite:///{folder}/commit.db"),
        "commit_unsynced": Committing(f"sqlite:///{folder}/unsynced.db", is_synced=False),
    }
    if server is not None:
        kept["commit_postgresql"] = Committing(server)
    syncs: dict[str, list[float]] = {"sync_appending": [], "sync_in_place": []}
    turns: list[Callable[[], None]] = [
        *(each.once for each in kept.values()),
        lambda: syncs["sync_appending"].append(sync_alone(folder / "a", size, append=True)),
        lambda: syncs["sync_in_place"].append(sync_alone(folder / "b", size, append=False)),
    ]
    order = np.random.default_rng(5)
    size = 16_000
    for number in range(repeats):
        for place in order.permutation(len(turns)):
            turns[place]()
        size = kept["commit"].payload_bytes
        if number % 50 == 49:
            say(f"commits: {number + 1} of {repeats}")
    for each in kept.values():
        each.selector.close()
    synced, works = kept["commit"].commits, kept["commit_unsynced"].commits
    beyond = np.array(synced) - np.array(syncs["sync_appending"])
    return {
        "clients": FEW,
        "reports": REPORTS,
        "payload_bytes": size,
        "repeats": repeats,
        **{name: spread(seconds) for name, seconds in syncs.items()},
        **{name: spread(each.commits) for name, each in kept.items()},
        "beyond_sync_median_ms": round(float(np.median(beyond)) * 1e3, 3),
        "work_median_ms": round(float(np.median(works)) * 1e3, 3),
        "whole_call": spread(kept["commit"].calls),
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


def sync_alone(path: Path, size: int, *, append: bool) -> float:
    """Seconds to write so many bytes to the end or over the beginning of a file, and to sync."""
    data = os.urandom(size)
    with path.open("ab" if append or not path.exists() else "rb+", buffering=0) as file:
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
            f"{commit['commit']['median_ms']:.2f} ms, of which {commit['work_median_ms']:.2f} ms "
            "is work and the rest the sync",
        ),
        (
            "as many bytes written to a plain file and synced, median",
            f"{commit['sync_appending']['median_ms']:.2f} ms appending, "
            f"{commit['sync_in_place']['median_ms']:.2f} ms in place",
        ),
        *(
            [("the same commit in PostgreSQL, median", f"{server['median_ms']:.2f} ms")]
            if (server := commit.get("commit_postgresql"))
            else []
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
            f"{stalls['longest_stall_ms']:.0f} ms; the longest selection took "
            f"{stalls['select_during']['max_ms']:.0f} ms during snapshots, "
            f"{stalls['select_without']['max_ms']:.0f} ms without",
        ),
        (
            "snapshot, ids of 15 characters included",
            f"{results['snapshot']['snapshot_bytes_per_client']} bytes per client; the file, "
            f"spare room included, {results['snapshot']['file_bytes_per_client']}",
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


def say(*words: object) -> None:
    """How far it is, at once."""
    print(*words, flush=True)


def main() -> None:
    """Measure everything, and write each result down as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=300, help="commits to time")
    parser.add_argument("--folder", type=Path, default=None, help="on the disk to measure")
    parser.add_argument("--postgres", metavar="URL", help="also time commits to this server")
    parser.add_argument("--out", type=Path, default=_RESULTS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"machine": machine.describe(), "clients": options.clients}
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        for what, value in measured(folder, options):
            results[what] = value
            results["load_average_at_end"] = round(os.getloadavg()[0], 2)
            say(what, json.dumps(value, indent=1))
            (options.out / "store.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "store.md").write_text(table(results))


def measured(folder: Path, options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """One result after the other, by name."""
    yield "commit", commits(folder, options.repeats, options.postgres)
    say(f"storing {options.clients:,} clients")
    url = large_job(folder, options.clients)
    yield "snapshot", sizes(url, options.clients)
    recovered = [recovery(url, options.rounds, REPORTS // 10)]
    yield "recovery", recovered
    with oort.open_selector(url, store=NEVER) as selector:
        selector.compact()
    yield "recovery", [*recovered, recovery(url, options.rounds, REPORTS)]
    yield "stall", stall(url)


if __name__ == "__main__":
    main()
