"""Interrupts calls of a durable selector as Ctrl-C does, at any moment, and looks at what is left.

    python -m tests.store.interrupting training|testing URL INTERRUPTS SEED

A timer raises ``KeyboardInterrupt`` somewhere inside a call, or after it. Afterwards memory and
store must say the same, and the selector's lock must be free. Writes how many calls it took.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import threading
import warnings
from contextlib import closing, suppress
from typing import Any

from oort.errors import StoreError
from oort.store import jobs, recovery, schema
from oort.store.database import connect
from tests.store.killing import SUBJECTS

_MOST_STEPS = 10_000

# Made before the first interrupt, in a job of their own: these import all that calls import when
# first used, and an import that was interrupted cannot be made again (NumPy's parts refuse it).
_STEPS_THAT_IMPORT = 60


def main(what: str, url: str, interrupts: int, seed: int) -> int:
    """Interrupt so many calls; gives how many were made."""
    subject, chance, step = SUBJECTS[what], random.Random(seed), 0
    with subject.open((url, "imports")) as selector:
        for step in range(_STEPS_THAT_IMPORT):
            subject.play(selector, seed, step)
    signal.signal(signal.SIGALRM, _interrupt)
    with subject.open((url, "kb")) as selector:
        for step in range(_MOST_STEPS):
            if interrupts == 0:
                break
            try:
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.00005, 0.004))
                subject.play(selector, seed, step)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts -= 1
            _settled(selector)
            assert _is_free(selector), f"step {step}: the lock is still held"
            ours, stored = subject.state_of(selector), subject.state_of(_read_back(url))
            assert ours == stored, f"step {step}: memory and store differ"
    assert interrupts == 0, f"calls are too fast to be interrupted: {interrupts} are left"
    return step


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _settled(selector: Any) -> None:
    """A call, before which the selector sees what came of the last one; twice for a server."""
    for _ in range(3):
        selector._tried_s = -100.0
        with suppress(StoreError), selector._lock:
            return


def _is_free(selector: Any) -> bool:
    """Whether another thread could make a call."""
    got: list[bool] = []

    def attempt() -> None:
        got.append(selector._call_lock.plain.acquire(timeout=20))
        selector._call_lock.plain.release()

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return got == [True]


def _read_back(url: str) -> Any:
    with closing(connect(url)) as database:
        job = schema.job_named(database, "kb")
        assert job is not None
        selector = jobs.blank(job)
        recovery.recover(database, job, selector)
        return selector


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    number = main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    sys.stdout.write(json.dumps(number))
