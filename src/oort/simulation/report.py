"""What runs say: curves, time and rounds to an accuracy, and the speed-up between strategies.

Curve          one strategy under one seed
read_runs      the curves in some runs' folders
by_strategy    the curves that belong together: a strategy's, in one run
time_to        when a curve first reaches an accuracy
compare        strategies beside a baseline, with the spread over seeds
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oort.errors import ConfigError
from oort.simulation.experiment import cells
from oort.simulation.history import Participation, RoundRecord, Row, read_csv, read_table
from oort.simulation.store import CellFolder, RunFolder
from oort.types import Floats, Integers


@dataclass(frozen=True)
class Curve:
    """One strategy under one seed."""

    run: str
    strategy: str
    seed: int
    records: Sequence[RoundRecord]
    participations: Sequence[Participation]
    num_clients: int  #: as many as are known of, where the settings do not say
    complete: bool

    def column(self, name: str) -> Floats:
        """One column of the history."""
        return np.array([getattr(r, name) for r in self.records], dtype=np.float64)

    def tested(self, name: str = "accuracy") -> tuple[Floats, Floats, Floats]:
        """Rounds, clock and value where the model was tested."""
        value = self.column(name)
        there = np.isfinite(value)
        return self.column("round")[there], self.column("clock_s")[there], value[there]

    def counts(self) -> Integers:
        """How often each client's update was used."""
        used = [p.client for p in self.participations if p.outcome == "completed"]
        return np.bincount(np.array(used, np.int64), minlength=self.num_clients)


@dataclass(frozen=True)
class Line:
    """One strategy's row of a comparison; lists have one entry per seed."""

    strategy: str
    seeds: tuple[int, ...]
    hours_to_target: tuple[float, ...]
    rounds_to_target: tuple[float, ...]
    speedup: tuple[float, ...]  #: how many times sooner than the baseline, under the same seed
    final_accuracy: tuple[float, ...]
    mean_round_s: tuple[float, ...]
    wasted_share: tuple[float, ...]


def read_runs(paths: Sequence[str | Path]) -> list[Curve]:
    """The curves in these folders, also of runs that are not through.

    Raises:
        ConfigError: A folder is not that of a run, or holds no round yet.
        DamagedFileError: A file in it is not as it was written.
    """
    folders = {Path(path).resolve(): Path(path) for path in paths}  # each once
    same_name = len({f.name for f in folders}) < len(folders)
    curves = [
        c
        for f, given in folders.items()
        for c in _read_run(f, str(given) if same_name else f.name)
    ]
    if not any(curve.records for curve in curves):
        message = f"{', '.join(map(str, paths))} must hold at least one round; got none"
        raise ConfigError(message)
    return [curve for curve in curves if curve.records]


def time_to(curve: Curve, target: float) -> tuple[float, float]:
    """Simulated hours and rounds until a test first reaches the target, or infinity."""
    rounds, clock_s, accuracy = curve.tested()
    reached = np.flatnonzero(accuracy >= target)
    if len(reached) == 0:
        return math.inf, math.inf
    return float(clock_s[reached[0]]) / 3600.0, float(rounds[reached[0]])


def usual_target(curves: Sequence[Curve]) -> float:
    """The highest accuracy that every curve reaches, rounded down to a whole per cent."""
    best = [tested.max() for c in curves if len(tested := c.tested()[2])]
    return math.floor(min(best) * 100) / 100 if best else 0.0


def by_strategy(curves: Sequence[Curve]) -> dict[str, list[Curve]]:
    """Each strategy's curves; where there are several runs, each run's by itself."""
    many_runs = len({c.run for c in curves}) > 1
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        name = f"{curve.strategy} ({curve.run})" if many_runs else curve.strategy
        groups.setdefault(name, []).append(curve)
    return groups


def usual_baseline(curves: Sequence[Curve]) -> str:
    """What strategies are compared with: "random" where there is such a one, else the last."""
    names = [c.strategy for c in curves]
    return "random" if "random" in names else names[-1]


def compare(curves: Sequence[Curve], target: float, *, baseline: str | None = None) -> list[Line]:
    """Each strategy's time to the target, beside the baseline's under the same seed.

    The baseline is "random" where there is such a strategy, else the last one; that of the same
    run, or another run's where it has none.
    """
    base = baseline or usual_baseline(curves)
    hours = {(c.run, c.seed): time_to(c, target)[0] for c in curves if c.strategy == base}
    elsewhere = {seed: value for (_, seed), value in hours.items()}
    return [
        _line(name, some, target, [hours.get((c.run, c.seed), _other(c, elsewhere)) for c in some])
        for name, some in by_strategy(curves).items()
    ]


def _other(curve: Curve, hours_by_seed: dict[int, float]) -> float:
    return hours_by_seed.get(curve.seed, math.nan)


def _line(name: str, curves: Sequence[Curve], target: float, base_hours: Sequence[float]) -> Line:
    reached = [time_to(c, target) for c in curves]
    return Line(
        strategy=name,
        seeds=tuple(c.seed for c in curves),
        hours_to_target=tuple(hours for hours, _ in reached),
        rounds_to_target=tuple(rounds for _, rounds in reached),
        speedup=tuple(
            _ratio(base, hours) for base, (hours, _) in zip(base_hours, reached, strict=True)
        ),
        final_accuracy=tuple(_final(c) for c in curves),
        mean_round_s=tuple(float(c.column("duration_s").mean()) for c in curves),
        wasted_share=tuple(
            float(c.column("wasted_s").sum() / (c.column("wasted_s") + c.column("used_s")).sum())
            for c in curves
        ),
    )


def _ratio(base: float, own: float) -> float:
    """How many times sooner; unknown unless both got there."""
    return base / own if math.isfinite(base) and math.isfinite(own) and own > 0 else math.nan


def _final(curve: Curve) -> float:
    """Mean of the last five tests, fewer where there are less than 25: the last fifth."""
    accuracy = curve.tested()[2]
    last = max(1, min(5, len(accuracy) // 5))
    return float(accuracy[-last:].mean()) if len(accuracy) else math.nan


def _read_run(path: Path, name: str) -> list[Curve]:
    config = RunFolder.config_of(path)
    curves = []
    for cell in cells(config):
        files = RunFolder(path).cell(cell.strategy, cell.seed)
        if not (files.path / "history.csv").is_file():
            continue
        files.require_as_written()
        parts = _participations(files)
        records = _rows(files, "history", RoundRecord)
        met = [p.client + 1 for p in parts] + [r.online for r in records]
        curves.append(
            Curve(
                run=name,
                strategy=cell.strategy.label,
                seed=cell.seed,
                records=records,
                participations=parts,
                num_clients=max(config.data.clients or 0, *met, 0),
                complete=files.is_complete,
            )
        )
    return curves


def _participations(files: CellFolder) -> list[Participation]:
    """What everyone did so far."""
    if files.is_complete:
        return read_table(files.path, "participations", Participation)
    return [part for some in files.attendance() for part in some]


def _rows(files: CellFolder, name: str, kind: type[Row]) -> list[Row]:
    """The rows of a file; of one that is still being written, those that are whole."""
    if files.is_complete:
        return read_table(files.path, name, kind)
    return read_csv(files.path / f"{name}.csv", kind, until=sys.maxsize)
