"""A run on disk: what it is, what happened, and where it can go on.

    RUN/config.json                          the settings
    RUN/<strategy>-seed<seed>/history.csv    a row per round, appended as rounds end
                              participations.csv, timings.csv
                              checkpoint.npz    the model, every few rounds
                              complete          empty; there once the run is through

A kill costs the rounds since the last checkpoint: they are cut from the files and played again,
and because everything is derived from the seed, they come out the same.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from oort.errors import ConfigError, DamagedFileError
from oort.simulation.aggregation import ServerState
from oort.simulation.config import SimulationConfig, StrategyConfig
from oort.simulation.engine import JobState, RoundResult
from oort.simulation.history import (
    Participation,
    RoundRecord,
    header,
    line,
    read_csv,
    write_parquet,
)

CONFIG = "config.json"
TIMINGS = ("select", "plan", "train", "aggregate", "evaluate", "bookkeeping")
MAY_CHANGE = ("rounds.count", "rounds.max_clock_s", "output.", "evaluation.target_accuracy")


class CellFolder:
    """The files of one strategy and seed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def is_complete(self) -> bool:
        """Whether the run came to its end."""
        return (self.path / "complete").is_file()

    def restore(self) -> tuple[JobState, list[tuple[RoundRecord, Sequence[Participation]]]] | None:
        """Where to go on and what was before; cuts off what came after the checkpoint.

        Returns nothing where there is no checkpoint: the run starts anew.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        stored = self.path / "checkpoint.npz"
        if not stored.is_file():
            self._begin()
            return None
        state = read_checkpoint(stored)
        records = read_csv(self.path / "history.csv", RoundRecord, until=state.round)
        parts = read_csv(self.path / "participations.csv", Participation, until=state.round)
        if len(records) != state.round:
            message = (
                f"{self.path / 'history.csv'} must hold the {state.round} rounds of its "
                f"checkpoint; got {len(records)}"
            )
            raise DamagedFileError(message)
        self._cut(records, parts)
        for outdated in ("complete", "history.parquet", "participations.parquet"):
            (self.path / outdated).unlink(missing_ok=True)
        by_round = {r: list(some) for r, some in groupby(parts, key=lambda p: p.round)}
        return state, [(record, by_round.get(record.round, [])) for record in records]

    def append(self, result: RoundResult) -> None:
        """Note a finished round."""
        _append(self.path / "history.csv", line(result.record))
        _append(self.path / "participations.csv", result.participations.lines())
        laps = [f"{result.timings_s.get(what, 0.0):.6f}" for what in TIMINGS]
        _append(self.path / "timings.csv", f"{result.record.round},{','.join(laps)}\n")

    def checkpoint(self, state: JobState) -> None:
        """Keep the model, so that a killed run can go on from here."""
        write_checkpoint(self.path / "checkpoint.npz", state)

    def complete(self, state: JobState, *, fmt: str) -> None:
        """Note that the run is through; writes Parquet beside the CSV files where asked to."""
        self.checkpoint(state)
        if fmt == "parquet":
            rounds = read_csv(self.path / "history.csv", RoundRecord)
            write_parquet(self.path / "history.parquet", RoundRecord, rounds)
            parts = read_csv(self.path / "participations.csv", Participation)
            write_parquet(self.path / "participations.parquet", Participation, parts)
        (self.path / "complete").touch()

    def _begin(self) -> None:
        (self.path / "history.csv").write_text(header(RoundRecord))
        (self.path / "participations.csv").write_text(header(Participation))
        (self.path / "timings.csv").write_text(f"round,{','.join(f'{t}_s' for t in TIMINGS)}\n")

    def _cut(self, records: Sequence[RoundRecord], parts: Sequence[Participation]) -> None:
        last = records[-1].round if records else 0
        _replace(self.path / "history.csv", header(RoundRecord) + "".join(map(line, records)))
        whole = header(Participation) + "".join(map(line, parts))
        _replace(self.path / "participations.csv", whole)
        timings = (self.path / "timings.csv").read_text().splitlines(keepends=True)
        kept = [t for t in timings[1:] if t.endswith("\n") and int(t.split(",")[0]) <= last]
        _replace(self.path / "timings.csv", "".join([*timings[:1], *kept]))


class RunFolder:
    """The folder of one experiment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, config: SimulationConfig) -> None:
        """Make the folder, or check that what is in it belongs to the same experiment.

        Settings under which no round was played yet (the data was not there, say) may change.

        Raises:
            ConfigError: It holds another experiment (the message names the first key that differs)
                or something else, or cannot be made.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            message = f"{self.path} must be a folder that can be written to; got {error}"
            raise ConfigError(message) from error
        if any(self.path.iterdir()) and not (self.path / CONFIG).is_file():
            message = f"{self.path} must be empty or the folder of a run; got other files in it"
            raise ConfigError(message)
        stored = self.path / CONFIG
        new = _flat(_as_stored(config))
        if stored.is_file() and self._has_rounds():
            old = _flat(_as_stored(self.config_of(self.path)))
            for key in sorted(old.keys() | new.keys()):
                if not key.startswith(MAY_CHANGE) and old.get(key) != new.get(key):
                    message = (
                        f"{self.path} must hold the same experiment for it to go on: {key} was "
                        f"{old.get(key)!r} there; got {new.get(key)!r} (give another --into)"
                    )
                    raise ConfigError(message)
        _replace(stored, json.dumps(config.to_dict(), indent=1) + "\n")

    @classmethod
    def config_of(cls, path: Path) -> SimulationConfig:
        """The settings of the run in a folder.

        Raises:
            ConfigError: It is not the folder of a run.
        """
        stored = path / CONFIG
        if not stored.is_file():
            message = f"{path} must be the folder of a run; got one without {CONFIG}"
            raise ConfigError(message)
        try:
            return SimulationConfig.from_dict(_settings(stored))
        except ConfigError as error:
            message = f"{stored}: {error}"
            raise ConfigError(message) from error

    def _has_rounds(self) -> bool:
        """Whether any strategy has played a round."""
        return any(
            len(history.read_text(encoding="utf-8").splitlines()) > 1
            for history in self.path.glob("*/history.csv")
        )

    def cell(self, strategy: StrategyConfig, seed: int) -> CellFolder:
        """The files of one strategy and seed."""
        return CellFolder(self.path / f"{strategy.folder}-seed{seed}")


def _as_stored(config: SimulationConfig) -> dict[str, Any]:
    """Settings as they come back from a file: lists instead of tuples."""
    values: dict[str, Any] = json.loads(json.dumps(config.to_dict()))
    return values


def _settings(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        message = f"{path} must be the settings of a run; got {error}"
        raise DamagedFileError(message) from error
    if not isinstance(content, dict):
        message = f"{path} must be the settings of a run; got something else"
        raise DamagedFileError(message)
    return content


def write_checkpoint(path: Path, state: JobState) -> None:
    """Write a job's state in one step: after a crash the file is the old one or the new one."""
    arrays: dict[str, Any] = {"round": state.round, "clock_s": state.clock_s}
    moments = (("model", state.params), ("first", state.server.first))
    for kind, params in (*moments, ("second", state.server.second)):
        arrays |= {f"{kind}/{name}": value for name, value in params.items()}
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as stream:
        np.savez(stream, **arrays)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def read_checkpoint(path: Path) -> JobState:
    """A job's state.

    Raises:
        DamagedFileError: The file cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        kinds: dict[str, dict[str, Any]] = {"model": {}, "first": {}, "second": {}}
        for name, value in arrays.items():
            kind, _, rest = name.partition("/")
            if rest:
                kinds[kind][rest] = value
        server = ServerState(kinds["first"], kinds["second"])
        return JobState(int(arrays["round"]), float(arrays["clock_s"]), kinds["model"], server)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        message = f"{path} must be a checkpoint; got {error}"
        raise DamagedFileError(message) from error


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.write(text)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def _flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """Settings by the keys that messages use."""
    if isinstance(values, dict):
        nested: Iterator[dict[str, Any]] = (
            _flat(v, f"{prefix}.{k}" if prefix else k) for k, v in values.items()
        )
        return {k: v for part in nested for k, v in part.items()}
    if isinstance(values, list) and any(isinstance(v, dict) for v in values):
        return _flat({str(i): v for i, v in enumerate(values)}, prefix)
    return {prefix: values}
