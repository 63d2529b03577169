"""What long commands share: bars with the time left, and a Ctrl-C that stops at a good place."""

from __future__ import annotations

import math
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from oort.plots.page import HEADINGS, MORE_HEADINGS, row
from oort.simulation.config import SimulationConfig
from oort.simulation.experiment import Cell, cells
from oort.simulation.history import RoundRecord
from oort.simulation.report import Curve, compare


class Stop:
    """Turned on by the first Ctrl-C; the second one interrupts at once."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """Whether to stop after this round."""
        return self.asked


@contextmanager
def stopping_at_a_round(console: Console) -> Iterator[Stop]:
    """While this lasts, Ctrl-C asks to stop at the end of the round instead of interrupting it."""
    stop = Stop()

    def handle(_number: int, _frame: FrameType | None) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True
        console.print("stopping at the end of this round (Ctrl-C again: at once) ...")

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


class Bars:
    """A bar per strategy and seed, with the newest accuracy and the time left."""

    def __init__(self, config: SimulationConfig, console: Console) -> None:
        self._config = config
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[accuracy]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._preparing: TaskID | None = None

    def __enter__(self) -> Bars:
        self._progress.start()
        self._prepare()
        return self

    def __exit__(self, *_: object) -> None:
        if self._preparing is not None:
            self._progress.remove_task(self._preparing)
        self._progress.stop()

    def __call__(self, cell: Cell, record: RoundRecord) -> None:
        """Move a bar on."""
        if self._preparing is not None:
            self._progress.remove_task(self._preparing)
            self._preparing = None
        if cell.label not in self._tasks:
            self._tasks[cell.label] = self._progress.add_task(
                escape(cell.label),
                total=self._config.rounds.count,
                completed=record.round - 1,  # rounds of an earlier process say nothing of speed
                accuracy="",
            )
        done = float(record.round)
        limit_s = self._config.rounds.max_clock_s
        total = float(self._config.rounds.count)
        if limit_s is not None and record.clock_s / limit_s > done / total:
            total = max(done, done * limit_s / max(record.clock_s, 1e-9)) // 1
        task = self._tasks[cell.label]
        self._progress.update(task, completed=done, total=total)
        if math.isfinite(record.accuracy):
            self._progress.update(task, accuracy=f"{record.accuracy:.1%}")
        if done >= total and len(self._tasks) < count_of(self._config):
            self._prepare()

    def _prepare(self) -> None:
        """A bar without an end while clients and data of the next run are made."""
        self._preparing = self._progress.add_task("preparing", total=None, accuracy="")


def table(curves: Sequence[Curve], target: float) -> Table:
    """Strategies side by side."""
    shown = Table(title=f"Until {target:.1%} of the test set is right (mean and range over seeds)")
    for heading in (*HEADINGS, MORE_HEADINGS[0]):
        shown.add_column(heading, justify="left" if heading == "strategy" else "right")
    for line in compare(curves, target):
        shown.add_row(*map(escape, row(line)[: len(HEADINGS) + 1]))
    return shown


def warn_of_divergence(curves: Sequence[Curve], console: Console) -> None:
    """Say where many updates could not be used, which a table of accuracies may hide."""
    for curve in curves:
        lost, used = curve.column("diverged").sum(), curve.column("completed").sum()
        if lost > 0.05 * (lost + used):
            console.print(
                f"{escape(curve.strategy)}, seed {curve.seed}: {lost / (lost + used):.0%} of the "
                "updates were not finite and were turned down; a smaller learner.learning_rate "
                "may help, or look for values in the data that are not numbers"
            )


def target_of(config: SimulationConfig, curves: Sequence[Curve]) -> float:
    """The target that the settings name, or the highest accuracy that all reach."""
    from oort.simulation.report import usual_target

    given = config.evaluation.target_accuracy
    return usual_target(curves) if given is None else given


def count_of(config: SimulationConfig) -> int:
    """How many runs an experiment is."""
    return len(list(cells(config)))
