"""Kills a child that drives a durable selector, again and again, and looks at what is left.

    python -m tests.store.killing training|testing URL-PATTERN KILLS SEED

``URL-PATTERN`` is formatted with the number of the history, which is a job of its own. A child is
forked from this process, which is warm and has no other threads; it opens the store, plays a
history (see ``histories`` and ``testing_histories``) and says after each call that it returned. It
is killed by SIGKILL at a random moment: while it opens, in the middle of a call, during a
background snapshot. Then, without the lease, the store is read and compared with a twin that was
never interrupted: everything acknowledged must be there, the call under way must be there as a
whole or not at all, and the next answer must be the twin's. The next child takes over from the
dead one and goes on with the same history.

Writes what it saw to stdout as JSON, and how far it is to stderr.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import oort
from oort.store import jobs, recovery, schema
from oort.store.database import Database, connect
from oort.store.schema import Job
from tests.store import histories, testing_histories

STEPS = 90
STORE = oort.StoreConfig(snapshot_entries=9, lease_s=5.0)
_SAY_EVERY_S = 10.0

Place = tuple[str, str]  # the address of the store, the name of the job


@dataclass(frozen=True, slots=True)
class Subject:
    """What is killed, and what must be left of it."""

    open: Callable[[Place], Any]
    twin: Callable[[], Any]
    play: Callable[[Any, int, int], Any]
    state_of: Callable[[Any], Any]
    next_answer: Callable[[Any], Any]
    plans: Callable[[Database, Job], Any]


SUBJECTS = {
    "training": Subject(
        open=lambda at: oort.open_selector(at[0], job=at[1], config=histories.CONFIG, store=STORE),
        twin=lambda: oort.create_training_selector(histories.CONFIG),
        play=histories.play,
        state_of=histories.state_of,
        next_answer=lambda selector: selector.preview(9).participants,
        plans=lambda database, job: None,
    ),
    "testing": Subject(
        open=lambda at: oort.open_testing_selector(
            at[0], job=at[1], seed=testing_histories.SEED, store=STORE
        ),
        twin=testing_histories.Twin,
        play=testing_histories.play,
        state_of=testing_histories.state_of,
        next_answer=testing_histories.next_answer,
        plans=testing_histories.stored_plans,
    ),
}


def main(what: str, pattern: str, kills: int, seed: int) -> Counter[str]:
    """Kill so many children; raises on the first thing that does not hold."""
    subject, counts = SUBJECTS[what], Counter[str]()
    warm = subject.twin()  # what is imported or compiled late is so before the first fork
    for step in range(30):
        subject.play(warm, 0, step)
    started_s = said_s = time.monotonic()
    while counts["killed"] < kills:
        counts["histories"] += 1
        number = counts["histories"]
        place = (pattern.format(number), f"{what}-{number}")
        History(subject, place, seed * 100_003 + number, counts).run(kills)
        if time.monotonic() - said_s > _SAY_EVERY_S:
            said_s = time.monotonic()
            sys.stderr.write(f"{what}: {counts['killed']} of {kills} kills\n")
            sys.stderr.flush()
    counts["seconds"] = round(time.monotonic() - started_s)
    return counts


class History:
    """One history from beginning to end, whatever it takes, and its twin."""

    def __init__(self, subject: Subject, place: Place, seed: int, counts: Counter[str]) -> None:
        self.subject, self.place, self.seed, self.counts = subject, place, seed, counts
        self.chance = random.Random(seed)
        self.twin = subject.twin()

    def run(self, kills: int) -> None:
        """Play, kill, compare, until all steps are done or enough children are dead."""
        done = 0
        while done < STEPS and self.counts["killed"] < kills:
            acknowledged, died = self.run_child(done)
            self.counts["killed" if died else "finished"] += 1
            self.counts["calls acknowledged"] += acknowledged - done
            for step in range(done, acknowledged):
                self.subject.play(self.twin, self.seed, step)
            done = self.compare(acknowledged)

    def run_child(self, start: int) -> tuple[int, bool]:
        """Fork, let it play, kill it; gives how many steps it acknowledged, and if it died."""
        hears, tells = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(hears)
                self.child(start, tells)
                status = 0
            except BaseException as error:
                sys.stderr.write(f"child: {error!r}\n")
            finally:
                os._exit(status)
        os.close(tells)
        acknowledged, status = start, 0
        if self.chance.random() < 0.25:
            time.sleep(self.chance.uniform(0, 0.02))  # most likely while it opens the store
        else:
            for _ in range(self.chance.randint(1, 12)):
                if not os.read(hears, 1):
                    break
                acknowledged += 1
            time.sleep(self.chance.uniform(0, 0.004))
        os.kill(pid, signal.SIGKILL)
        while more := os.read(hears, 4096):
            acknowledged += len(more)
        os.close(hears)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            self.fail(f"a child failed after step {acknowledged}")
        return acknowledged, os.WIFSIGNALED(status)

    def child(self, start: int, tells: int) -> None:
        """Drive the store; one byte for each call that returned."""
        with self.subject.open(self.place) as selector:
            for step in range(start, STEPS):
                self.subject.play(selector, self.seed, step)
                os.write(tells, b".")

    def compare(self, acknowledged: int) -> int:
        """Hold what is on disk against the twin; gives the number of steps that are there."""
        found = self.read_back()
        if found is None:
            if acknowledged:
                self.fail(f"{acknowledged} steps acknowledged, but there is no job")
            return 0
        selector, plans = found
        there, state_of = acknowledged, self.subject.state_of
        if (state_of(selector), plans) != (state_of(self.twin), self.twins_plans()):
            self.subject.play(self.twin, self.seed, acknowledged)
            there = acknowledged + 1
            self.counts["whole though not acknowledged"] += 1
        if (state_of(selector), plans) != (state_of(self.twin), self.twins_plans()):
            self.fail(f"after {acknowledged} steps the store holds neither this nor one more")
        ours, theirs = (self.subject.next_answer(each) for each in (selector, self.twin))
        if ours != theirs:
            self.fail(f"next would be {ours}, the twin's is {theirs}")
        return there

    def twins_plans(self) -> Any:
        """The plans that must be stored."""
        return getattr(self.twin, "plans", None)

    def read_back(self) -> tuple[Any, Any] | None:
        """The selector and the plans that are on disk, without touching them."""
        url, name = self.place
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
            selector = jobs.blank(job)
            found = recovery.recover(database, job, selector)
            self.counts["from a snapshot"] += found.snapshot is not None
            self.counts["unfinished snapshots"] += bool(_unfinished(database, job.number))
            if found.problems:
                self.fail(str(found.problems))
            return selector, self.subject.plans(database, job)
        finally:
            database.close()

    def fail(self, what: str) -> None:
        """Something does not hold."""
        message = f"seed {self.seed}, {self.place[0]}: {what}"
        raise AssertionError(message)


def _unfinished(database: Database, job: int) -> list[Any]:
    """Chunks that a killed child left behind."""
    sql = (
        "SELECT DISTINCT sequence FROM oort_chunks WHERE job = ? AND sequence NOT IN "
        "(SELECT sequence FROM oort_snapshots WHERE job = ?)"
    )
    return database.query(sql, job, job)


if __name__ == "__main__":
    result = main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.write(json.dumps(result))
