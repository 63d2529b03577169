"""A run on disk: what it is, what happened, and where it can go on.

    RUN/config.json                          the settings
    RUN/<strategy>-seed<seed>/history.csv    a row per round, appended within a second
                              timings.csv
                              participations.bin    a record per client selected; in the end they
                                                    become participations.csv
                              checkpoint.npz    the model, every few rounds
                              complete          empty; there once the run is through

A kill costs the rounds since the last checkpoint: they are cut from the files and played again,
and because everything is derived from the seed, they come out the same. A checkpoint knows the
checksums of what was written until then: what was told to the selector is told to it again, and a
single flipped bit would lead to another end.
"""

from __future__ import annotations

import json
import os
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from oort.errors import ConfigError, DamagedFileError
from oort.simulation.aggregation import ServerState
from oort.simulation.config import SimulationConfig, StrategyConfig
from oort.simulation.engine import JobState, RoundResult
from oort.simulation.files import UNREADABLE
from oort.simulation.history import (
    Attendance,
    Participation,
    RoundRecord,
    header,
    line,
    read_csv,
    write_parquet,
)

CONFIG = "config.json"
HISTORY = "history.csv"
PARTICIPATIONS = "participations.bin"
TIMINGS = ("select", "plan", "train", "aggregate", "evaluate", "bookkeeping")
WRITE_EVERY_S = 1.0  #: short rounds are written together
TIMINGS_HEADER = f"round,{','.join(f'{t}_s' for t in TIMINGS)}\n"
MAY_CHANGE = ("rounds.count", "rounds.max_clock_s", "output.", "evaluation.target_accuracy")


class CellFolder:
    """The files of one strategy and seed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten: list[RoundResult] = []
        self._written_at = time.monotonic()
        self._checksums: dict[str, int] = {}  # of what a checkpoint counts on, as far as written

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
        state, checksums = read_checkpoint(stored)
        self._require_files()
        records = read_csv(self.path / HISTORY, RoundRecord, until=state.round)
        rounds = [r for r in self.attendance() if r.round <= state.round]
        self._require_whole(state, records, rounds)
        self._cut(records, rounds, checksums)
        outdated = ("complete", "history.parquet", "participations.parquet", "participations.csv")
        for name in outdated:
            (self.path / name).unlink(missing_ok=True)
        return state, list(zip(records, rounds, strict=True))

    def attendance(self) -> list[Attendance]:
        """What everyone did in every round that was written down so far."""
        path = self._participations
        if path.name == PARTICIPATIONS:
            return Attendance.from_bytes(path.read_bytes(), of=path)
        parts = read_csv(path, Participation, until=sys.maxsize)
        return [Attendance.of(list(some)) for _, some in groupby(parts, key=lambda p: p.round)]

    @property
    def _participations(self) -> Path:
        """Where participations are: those of a run that is through in a table."""
        running, through = self.path / PARTICIPATIONS, self.path / "participations.csv"
        return through if through.is_file() and not running.is_file() else running

    def _require_files(self) -> None:
        """Refuse a checkpoint without what happened until then."""
        for path in (self.path / HISTORY, self._participations):
            if not path.is_file():
                message = f"{path} must be there beside its checkpoint; got nothing"
                raise DamagedFileError(message)

    def require_as_written(self) -> None:
        """Refuse a run that is through and whose history has changed since.

        Raises:
            DamagedFileError: It has, or its checkpoint cannot be read.
        """
        stored = self.path / "checkpoint.npz"
        if not (self.is_complete and stored.is_file()):
            return
        expected = read_checkpoint(stored)[1].get(HISTORY)
        path = self.path / HISTORY
        if expected is not None and zlib.crc32(path.read_bytes()) != expected:
            raise _damaged(path)

    def _require_whole(
        self, state: JobState, records: Sequence[RoundRecord], rounds: Sequence[Attendance]
    ) -> None:
        """Refuse files that lack rounds of their checkpoint."""
        if len(records) != state.round:
            message = (
                f"{self.path / HISTORY} must hold the {state.round} rounds of its "
                f"checkpoint; got {len(records)}"
            )
            raise DamagedFileError(message)
        expected = [(r.round, r.selected) for r in records]
        if [(r.round, len(r)) for r in rounds] != expected:
            message = (
                f"{self._participations} must hold everyone selected in the {state.round} "
                f"rounds of its checkpoint; got {sum(map(len, rounds))} of "
                f"{sum(count for _, count in expected)}"
            )
            raise DamagedFileError(message)

    def append(self, result: RoundResult) -> None:
        """Note a finished round; it is written within a second of rounds, or by ``flush``."""
        self._unwritten.append(result)
        if time.monotonic() - self._written_at >= WRITE_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Write what was noted."""
        results, self._unwritten = self._unwritten, []
        if results:
            history = "".join(line(r.record) for r in results)
            self._append(HISTORY, history.encode())
            self._append(PARTICIPATIONS, b"".join(r.participations.to_bytes() for r in results))
            _append(self.path / "timings.csv", "".join(map(_laps, results)).encode())
        self._written_at = time.monotonic()

    def checkpoint(self, state: JobState) -> None:
        """Keep the model and all rounds so far, so that a killed run can go on from here."""
        self.flush()
        for name in self._checksums:  # a checkpoint must not outlive what it counts on
            _sync(self.path / name)
        write_checkpoint(self.path / "checkpoint.npz", state, self._checksums)

    def complete(self, state: JobState, *, fmt: str) -> None:
        """Note that the run is through; writes Parquet beside the CSV files where asked to."""
        self.checkpoint(state)
        parts = [part for some in self.attendance() for part in some]
        _replace(
            self.path / "participations.csv", header(Participation) + "".join(map(line, parts))
        )
        _sync(self.path / "participations.csv")  # before the records that it is made of go
        if fmt == "parquet":
            rounds = read_csv(self.path / HISTORY, RoundRecord)
            write_parquet(self.path / "history.parquet", RoundRecord, rounds)
            write_parquet(self.path / "participations.parquet", Participation, parts)
        (self.path / "complete").touch()
        (self.path / PARTICIPATIONS).unlink()

    def _begin(self) -> None:
        (self.path / "participations.csv").unlink(missing_ok=True)
        for name, content in ((HISTORY, header(RoundRecord).encode()), (PARTICIPATIONS, b"")):
            (self.path / name).write_bytes(content)
            self._checksums[name] = zlib.crc32(content)
        (self.path / "timings.csv").write_text(TIMINGS_HEADER)

    def _append(self, name: str, content: bytes) -> None:
        _append(self.path / name, content)
        self._checksums[name] = zlib.crc32(content, self._checksums.get(name, 0))

    def _cut(
        self,
        records: Sequence[RoundRecord],
        rounds: Sequence[Attendance],
        checksums: Mapping[str, int],
    ) -> None:
        """Leave in the files what the checkpoint knows.

        Raises:
            DamagedFileError: Something else stands in them.
        """
        history = (header(RoundRecord) + "".join(map(line, records))).encode()
        kept = {HISTORY: history, PARTICIPATIONS: b"".join(some.to_bytes() for some in rounds)}
        self._checksums = {name: zlib.crc32(content) for name, content in kept.items()}
        for name, expected in checksums.items():
            path = self._participations if name == PARTICIPATIONS else self.path / name
            if path.name == name:  # its own bytes: two numbers of a CSV file may read the same
                found = zlib.crc32(path.read_bytes()[: len(kept[name])])
            else:
                found = self._checksums[name]
            if found != expected:
                raise _damaged(path)
        for name, content in kept.items():
            _replace(self.path / name, content)
        self._cut_timings(records[-1].round if records else 0)

    def _cut_timings(self, last: int) -> None:
        """Keep the timings of rounds so far; they are no part of the history, and may be gone."""
        path = self.path / "timings.csv"
        content = path.read_bytes().decode("ascii", "replace") if path.is_file() else ""
        lines = content.splitlines(keepends=True)
        rounds = [(t.partition(",")[0], t) for t in lines[1:] if t.endswith("\n")]
        kept = [t for number, t in rounds if number.isdecimal() and int(number) <= last]
        _replace(path, "".join([TIMINGS_HEADER, *kept]))


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
        begun = {CONFIG, Path(CONFIG).with_suffix(".tmp").name}  # the second is left by a kill
        if not (self.path / CONFIG).is_file() and {p.name for p in self.path.iterdir()} - begun:
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
            len(history.read_bytes().splitlines()) > 1
            for history in self.path.glob(f"*/{HISTORY}")
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


def write_checkpoint(
    path: Path, state: JobState, checksums: Mapping[str, int] | None = None
) -> None:
    """Write a job's state in one step: after a crash the file is the old one or the new one.

    Args:
        path: Where to.
        state: The job's.
        checksums: Of the files beside it, by their names.
    """
    arrays: dict[str, Any] = {"round": state.round, "clock_s": state.clock_s}
    arrays |= {f"checksum/{name}": value for name, value in (checksums or {}).items()}
    moments = (("model", state.params), ("first", state.server.first))
    for kind, params in (*moments, ("second", state.server.second)):
        arrays |= {f"{kind}/{name}": value for name, value in params.items()}
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as stream:
        np.savez(stream, **arrays)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)


def read_checkpoint(path: Path) -> tuple[JobState, dict[str, int]]:
    """A job's state, and the checksums of the files beside it.

    Raises:
        DamagedFileError: The file cannot be read.
    """
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        kinds: dict[str, dict[str, Any]] = {
            kind: {} for kind in ("checksum", "model", "first", "second")
        }
        for name, value in arrays.items():
            kind, _, rest = name.partition("/")
            if rest:
                kinds[kind][rest] = value
        server = ServerState(kinds["first"], kinds["second"])
        round_number, clock_s = int(arrays["round"]), float(arrays["clock_s"])
        checksums = {name: int(value) for name, value in kinds["checksum"].items()}
        return JobState(round_number, clock_s, kinds["model"], server), checksums
    except UNREADABLE as error:
        message = f"{path} must be a checkpoint; got {error}"
        raise DamagedFileError(message) from error


def _damaged(path: Path) -> DamagedFileError:
    return DamagedFileError(f"{path} must be as it was written; got other content: it is damaged")


def _laps(result: RoundResult) -> str:
    """A line of where the real time of a round went."""
    laps = [f"{result.timings_s.get(what, 0.0):.6f}" for what in TIMINGS]
    return f"{result.record.round},{','.join(laps)}\n"


def _append(path: Path, content: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(content)


def _sync(path: Path) -> None:
    """Wait until what was written lies on the disk."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def _replace(path: Path, content: str | bytes) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(content.encode() if isinstance(content, str) else content)
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
