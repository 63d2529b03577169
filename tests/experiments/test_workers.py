"""Measurements in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from experiments.workers import Task, WorkerFailed, measured

ROOT = Path(__file__).parents[2]


def prepare(group: str, settings: Any) -> tuple[str, Any, int]:
    return group, settings, os.getpid()


def work(shared: tuple[str, Any, int], what: Any) -> Any:
    if what == "hang":
        time.sleep(600)
    if what == "fail":
        message = "no such measurement"
        raise ValueError(message)
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}
    return (*shared, what, len(cores))


def test_each_task_is_answered_in_a_process_of_its_group_on_one_core() -> None:
    tasks = [Task(group, n, 60.0) for group in ("one", "two") for n in range(3)]
    answers = list(measured(tasks, prepare, work, "settings", workers=2))
    assert sorted(answer[3] for _, answer in answers) == [0, 0, 1, 1, 2, 2]
    processes: dict[str, set[int]] = {"one": set(), "two": set()}
    for task, (group, settings, process, what, cores) in answers:
        assert (group, settings, what, cores) == (task.group, "settings", task.what, 1)
        processes[group].add(process)
    assert not processes["one"] & processes["two"]


def test_a_task_that_overstays_its_limit_is_ended_and_the_others_go_on() -> None:
    tasks = [Task("one", "hang", 0.5), Task("one", 1, 60.0)]
    answers = dict(measured(tasks, prepare, work, None, workers=1))
    assert answers[tasks[0]] is None
    assert answers[tasks[1]][3] == 1


def test_an_error_in_a_worker_is_told_with_its_traceback() -> None:
    with pytest.raises(WorkerFailed, match="no such measurement"):
        list(measured([Task("one", "fail", 60.0)], prepare, work, None, workers=1))


ONE_PEAK_AFTER_ANOTHER = """
from experiments.workers import forget_peak_memory, peak_memory_gb

large = b"x" * 400_000_000
first = peak_memory_gb()
del large
forget_peak_memory()
between = peak_memory_gb()
smaller = b"x" * 200_000_000
print(first, between, peak_memory_gb())
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="needs Linux's /proc")
def test_the_peak_of_memory_can_begin_anew() -> None:
    # In a process of its own: here, other tests' memory may be given back in between.
    command = [sys.executable, "-c", ONE_PEAK_AFTER_ANOTHER]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    first, between, again = map(float, printed.split())
    assert first - between > 0.35
    assert 0.15 < again - between < 0.25
