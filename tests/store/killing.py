"""Kills a child that drives a durable selector, again and again, and looks at what is left.

    python -m tests.store.killing URL-PATTERN KILLS SEED

``URL-PATTERN`` is formatted with the number of the history, which is a job of its own. A child is
forked from this process, which is warm and has no other threads; it opens the store, plays a
history (see ``histories``) and says after each call that it returned. It is killed by SIGKILL at
a random moment: while it opens, in the middle of a call, during a background snapshot. Then,
without the lease, the store is read and compared with a twin that was never interrupted:
everything acknowledged must be there, the call under way must be there as a whole or not at all,
and the next selection must be the twin's. The next child takes over from the dead one and goes on
with the same history.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter

import oort
from oort.store import recovery, schema
from oort.store.database import connect
from oort.training.bookkeeping import BookkeepingSelector
from tests.store import histories

STEPS = 90
Place = tuple[str, str]  # the address of the store, the name of the job
STORE = oort.StoreConfig(snapshot_entries=9, lease_s=5.0)


def main(pattern: str, kills: int, seed: int) -> Counter[str]:
    """Kill so many children; raises on the first thing that does not hold."""
    counts: Counter[str] = Counter()
    history = 0
    while counts["killed"] < kills:
        history += 1
        one_history(
            (pattern.format(history), f"kb-{history}"), seed * 100_003 + history, counts, kills
        )
    return counts


def one_history(place: Place, seed: int, counts: Counter[str], kills: int) -> None:
    """One history from beginning to end, whatever it takes."""
    chance = random.Random(seed)
    twin = oort.create_training_selector(histories.CONFIG)
    done = 0
    while done < STEPS and counts["killed"] < kills:
        acknowledged, died = run_child(place, seed, done, chance)
        counts["killed" if died else "finished"] += 1
        for step in range(done, acknowledged):
            histories.play(twin, seed, step)
        done = compare(place, seed, acknowledged, twin, counts)


def run_child(place: Place, seed: int, start: int, chance: random.Random) -> tuple[int, bool]:
    """Fork, let it play, kill it; gives how many steps it acknowledged, and whether it died."""
    hears, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(hears)
            child(place, seed, start, tells)
            status = 0
        except BaseException as error:
            sys.stderr.write(f"child: {error!r}\n")
        finally:
            os._exit(status)
    os.close(tells)
    acknowledged, status = start, 0
    if chance.random() < 0.25:
        time.sleep(chance.uniform(0, 0.02))  # most likely while it opens the store
    else:
        for _ in range(chance.randint(1, 12)):
            if not os.read(hears, 1):
                break
            acknowledged += 1
        time.sleep(chance.uniform(0, 0.004))
    os.kill(pid, signal.SIGKILL)
    while more := os.read(hears, 4096):
        acknowledged += len(more)
    os.close(hears)
    _, status = os.waitpid(pid, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        message = f"a child of seed {seed} failed after step {acknowledged}"
        raise AssertionError(message)
    return acknowledged, os.WIFSIGNALED(status)


def child(place: Place, seed: int, start: int, tells: int) -> None:
    """Drive the store; one byte for each call that returned."""
    url, job = place
    with oort.open_selector(url, job=job, config=histories.CONFIG, store=STORE) as selector:
        for step in range(start, STEPS):
            histories.play(selector, seed, step)
            os.write(tells, b".")


def compare(
    place: Place, seed: int, acknowledged: int, twin: BookkeepingSelector, counts: Counter[str]
) -> int:
    """Hold what is on disk against the twin; gives the number of steps that are there."""
    found = read_back(place, counts)
    if found is None:
        if acknowledged:
            message = f"seed {seed}: {acknowledged} steps acknowledged, but there is no job"
            raise AssertionError(message)
        return 0
    there = acknowledged
    if histories.state_of(found) != histories.state_of(twin):
        histories.play(twin, seed, acknowledged)
        there = acknowledged + 1
        counts["whole though not acknowledged"] += 1
    if histories.state_of(found) != histories.state_of(twin):
        message = (
            f"seed {seed}: after {acknowledged} steps the store holds neither this nor one more"
        )
        raise AssertionError(message)
    ours, theirs = found.preview(9).participants, twin.preview(9).participants
    if ours != theirs:
        message = f"seed {seed}: next would be {ours}, the twin's is {theirs}"
        raise AssertionError(message)
    return there


def read_back(place: Place, counts: Counter[str]) -> recovery.Replayed | None:
    """The selector that is on disk, without touching it."""
    url, name = place
    try:
        database = connect(url)
    except oort.StoreError:
        return None
    try:
        if "oort_meta" not in database.tables():
            return None
        job = schema.job_named(database, name)
        if job is None:
            return None
        selector = recovery.Replayed(recovery.config_of(job))
        found = recovery.recover(database, job, selector)
        counts["from a snapshot"] += found.snapshot is not None
        counts["unfinished snapshots"] += bool(unfinished(database, job.number))
        if found.problems:
            raise AssertionError(found.problems)
        return selector
    finally:
        database.close()


def unfinished(database: object, job: int) -> list[object]:
    """Chunks that a killed child left behind."""
    sql = (
        "SELECT DISTINCT sequence FROM oort_chunks WHERE job = ? AND sequence NOT IN "
        "(SELECT sequence FROM oort_snapshots WHERE job = ?)"
    )
    return list(database.query(sql, job, job))  # type: ignore[attr-defined]


if __name__ == "__main__":
    result = main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    sys.stdout.write(json.dumps(result))
