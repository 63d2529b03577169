"""Many measurements on many cores: processes of one thread each, results as they come.

A worker serves one group of tasks: it loads what they share once, and gives way to a new process
where the group changes, so that memory figures are the group's own. Each worker is bound to one
core, so that a solver which starts threads does not disturb the others' times. A task that
overstays its limit is ended together with its worker, and a new worker takes over.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

#: Read by the libraries below NumPy when a worker starts.
_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)

Prepare = Callable[[str, Any], Any]
Work = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Task:
    """One measurement: what to measure, and seconds after which its worker is ended."""

    group: str
    what: Any
    limit_s: float


def add_worker_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of an experiment that is measured by workers."""
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        help="processes of one core each (default 1); ours is measured with a third of them",
    )
    parser.add_argument(
        "--resume", action="store_true", help="keep what the results file has, measure the rest"
    )
    parser.add_argument(
        "--again",
        nargs="+",
        default=[],
        choices=("oort", "paper", "milp"),
        help="with --resume: measure these methods anew",
    )


class WorkerFailed(RuntimeError):  # noqa: N818
    """A task raised an error in its worker; the message is the worker's traceback."""


def measured(
    tasks: Sequence[Task], prepare: Prepare, work: Work, settings: Any, *, workers: int
) -> Iterator[tuple[Task, Any]]:
    """Each task with what ``work`` said of it, in the order in which they end.

    Args:
        tasks: Begun in this order, except that a worker prefers tasks of its group.
        prepare: Called with a group and the settings in every worker: what its tasks share.
        work: Called with that and the task's ``what``. Both are functions of a module.
        settings: What every worker needs to know.
        workers: Processes at a time.

    Yields:
        The task and its result; none where it overstayed its limit.

    Raises:
        WorkerFailed: A task raised an error.
    """
    for name in _ONE_THREAD:
        os.environ[name] = "1"
    waiting = list(tasks)
    team = [_Worker(number, prepare, work, settings) for number in range(max(1, workers))]
    try:
        while waiting or any(worker.task for worker in team):
            for worker in team:
                if worker.task is None and waiting:
                    worker.take(waiting)
            yield from _ended(team)
    finally:
        for worker in team:
            worker.end()


def _ended(team: list[_Worker]) -> Iterator[tuple[Task, Any]]:
    """What has come in within a second, and what has overstayed its limit."""
    busy = {worker.connection: worker for worker in team if worker.task is not None}
    for connection in wait(list(busy), timeout=1.0):
        done = busy[connection].received()
        if done is not None:
            yield done
    for worker in team:
        if worker.task is not None and worker.overstays():
            task, worker.task = worker.task, None
            worker.end()
            yield task, None


class _Worker:
    """One process at a time, on one core."""

    def __init__(self, number: int, prepare: Prepare, work: Work, settings: Any) -> None:
        self._core, self._arguments = number, (prepare, work, settings)
        self._process: Any = None
        self._group: str | None = None
        self._begun = float("inf")
        self.connection: Any = None
        self.task: Task | None = None

    def take(self, waiting: list[Task]) -> None:
        """Begin the first task of this worker's group, or the first of all in a new process."""
        own = [place for place, task in enumerate(waiting) if task.group == self._group]
        self.task = waiting.pop(own[0] if own else 0)
        self._begun = float("inf")
        if self.task.group != self._group:
            self.end()
            self._start(self.task.group)
        else:
            self._send()

    def _start(self, group: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        arguments = (other, self._core, group, *self._arguments)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        other.close()
        self._group = group

    def _send(self) -> None:
        assert self.task is not None
        self.connection.send(self.task.what)
        self._begun = time.monotonic()

    def received(self) -> tuple[Task, Any] | None:
        """The task and its result; none where the worker only says that it is ready."""
        try:
            kind, content = self.connection.recv()
        except EOFError:
            kind, content = "failed", f"the worker ended during {self.task}"
        if kind == "failed":
            raise WorkerFailed(content)
        if kind == "ready":
            self._send()
            return None
        task, self.task = self.task, None
        assert task is not None
        return task, content

    def overstays(self) -> bool:
        """Whether the task takes longer than it may."""
        return self.task is not None and time.monotonic() - self._begun > self.task.limit_s

    def end(self) -> None:
        """End the process, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self.connection.close()
        self._process, self._group = None, None


def _serve(
    connection: Connection, core: int, group: str, prepare: Prepare, work: Work, settings: Any
) -> None:
    """A worker's life: load, say so, then answer until it is ended."""
    try:
        if hasattr(os, "sched_setaffinity"):  # not on every system
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[core % len(cores)]})
        shared = prepare(group, settings)
        connection.send(("ready", None))
        while True:
            connection.send(("done", work(shared, connection.recv())))
    except EOFError:
        return
    except BaseException:
        connection.send(("failed", traceback.format_exc()))
        raise


def peak_memory_gb() -> float:
    """The most memory that this process had since :func:`forget_peak_memory`, or at any time."""
    import resource

    try:
        with open("/proc/self/status") as status:
            line = next(text for text in status if text.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e9
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def forget_peak_memory() -> None:
    """Let the peak begin anew at what the process has now, where the system allows it."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return
