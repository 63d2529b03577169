"""Runs on disk: stopped, killed, gone on with."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from oort.errors import ConfigError, DamagedFileError
from oort.simulation import (
    Job,
    SimulationConfig,
    StrategyConfig,
    create,
    read_runs,
    run,
    strategies,
)
from oort.simulation.aggregation import ServerState
from oort.simulation.engine import JobState
from oort.simulation.history import RoundRecord
from oort.simulation.store import (
    WRITE_EVERY_S,
    CellFolder,
    read_checkpoint,
    write_checkpoint,
)
from tests.simulation.examples import small

FILES = ("history.csv", "participations.csv")
LONG = {
    "rounds": {"count": 60, "participants": 8},
    "learner": {"steps": 20, "batch_size": 32},
    "output": {"checkpoint_every": 5},
    "devices": {"dropout_rate": 0.1},
    "availability": {"kind": "daily"},
    "data": {"clients": 400},
    "server": {"aggregation": "fedyogi"},
}


def contents(folder: Path) -> dict[str, bytes]:
    return {
        f"{cell.name}/{name}": (cell / name).read_bytes()
        for cell in sorted(folder.iterdir())
        if cell.is_dir()
        for name in FILES
    }


def rounds_played(folder: Path, cell: str = "oort-seed0") -> int:
    path = folder / cell / "history.csv"
    return path.read_bytes().count(b"\n") - 1 if path.is_file() else 0


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    config = small(availability={"kind": "daily"}, data={"clients": 400})
    assert run(config, tmp_path / "whole")
    played = 0

    def after_three() -> bool:
        nonlocal played
        played += 1
        return played % 3 == 0

    while not run(config, tmp_path / "parts", stop=after_three):
        pass
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


def test_complete_runs_are_not_run_again(tmp_path: Path) -> None:
    run(small(), tmp_path)
    before = contents(tmp_path)
    seen: list[object] = []
    assert run(small(), tmp_path, progress=lambda *a: seen.append(a))
    assert seen == []
    assert contents(tmp_path) == before


def test_a_run_can_be_given_more_rounds(tmp_path: Path) -> None:
    run(small(), tmp_path / "longer")
    longer = small(rounds={"count": 9})
    run(longer, tmp_path / "longer")
    run(longer, tmp_path / "whole")
    histories = [
        (tmp_path / name / "oort-seed0" / "participations.csv").read_bytes()
        for name in ("longer", "whole")
    ]
    assert histories[0] == histories[1]


def test_another_experiment_does_not_go_on_in_the_same_folder(tmp_path: Path) -> None:
    run(small(), tmp_path)
    with pytest.raises(ConfigError, match=r"data.clients was 60 there; got 61 \(give another"):
        run(small(data={"clients": 61}), tmp_path)


# Whoever waits for its eighth round has time to see it, however busy the machine is.
SLOW_FROM_ROUND_8 = """
import json, sys, time
from pathlib import Path
from oort.cli import main, simulate
from oort.simulation import SimulationConfig
from oort.simulation.store import CellFolder

note = CellFolder.append

def note_slowly(self, result):
    note(self, result)
    time.sleep(0.3 if result.record.round >= 8 else 0.0)

CellFolder.append = note_slowly
simulate.load = lambda path: SimulationConfig.from_dict(json.loads(Path(path).read_text()))
sys.exit(main(sys.argv[1:]))
"""


def start(tmp_path: Path, into: Path) -> subprocess.Popen[str]:
    """A real ``oort simulate`` in a process of its own, once it has played some rounds."""
    config = tmp_path / "job.json"
    config.write_text(json.dumps(small(**LONG).to_dict()))
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_FROM_ROUND_8, "simulate", str(config), "--into", str(into)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    patience = time.monotonic() + 60
    while rounds_played(into) < 8 and process.poll() is None and time.monotonic() < patience:
        time.sleep(0.005)
    return process


def resume(into: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from oort.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "simulate", "--resume", str(into)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    into = tmp_path_factory.mktemp("whole")
    assert run(SimulationConfig.from_dict(small(**LONG).to_dict()), into)
    return contents(into)


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_ctrl_c_leaves_a_run_that_goes_on_to_the_same_end(
    tmp_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
    into = tmp_path / "run"
    process = start(tmp_path, into)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "--resume" in out.replace("\n", "")
    assert 8 <= rounds_played(into) < 60
    done = resume(into)
    assert done.returncode == 0, done.stderr
    assert contents(into) == uninterrupted


@pytest.mark.skipif(os.name != "posix", reason="signals as POSIX has them")
def test_kill_9_costs_rounds_since_the_checkpoint_and_nothing_else(
    tmp_path: Path, uninterrupted: dict[str, bytes]
) -> None:
    pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
    into = tmp_path / "run"
    process = start(tmp_path, into)
    process.kill()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert rounds_played(into) < 60
    done = resume(into)
    assert done.returncode == 0, done.stderr
    assert contents(into) == uninterrupted


def test_a_torn_last_line_is_played_again(tmp_path: Path) -> None:
    run(small(), tmp_path / "whole")
    calls = iter([False] * 4 + [True])
    run(small(), tmp_path / "torn", stop=lambda: next(calls))
    history = tmp_path / "torn" / "oort-seed0" / "history.csv"
    history.write_bytes(history.read_bytes() + b"6,12.5,0.0,3.")
    run(small(), tmp_path / "torn")
    assert contents(tmp_path / "torn") == contents(tmp_path / "whole")


def test_a_history_shorter_than_its_checkpoint_is_refused(tmp_path: Path) -> None:
    calls = iter([False] * 3 + [True])
    run(small(), tmp_path, stop=lambda: next(calls))
    history = tmp_path / "oort-seed0" / "history.csv"
    history.write_bytes(b"".join(history.read_bytes().splitlines(keepends=True)[:2]))
    with pytest.raises(DamagedFileError, match="must hold the 4 rounds of its checkpoint; got 1"):
        run(small(), tmp_path)


def test_participations_fewer_than_their_checkpoint_counts_are_refused(tmp_path: Path) -> None:
    calls = iter([False] * 3 + [True])
    run(small(), tmp_path, stop=lambda: next(calls))
    parts = tmp_path / "oort-seed0" / "participations.bin"
    parts.write_bytes(parts.read_bytes()[:-3])
    with pytest.raises(DamagedFileError, match="must hold everyone selected in the 4 rounds"):
        run(small(), tmp_path)


def test_a_run_that_is_through_leaves_tables_alone(tmp_path: Path) -> None:
    run(small(), tmp_path)
    left = {path.name for path in (tmp_path / "oort-seed0").iterdir()}
    assert left == {
        "history.csv",
        "participations.csv",
        "timings.csv",
        "checkpoint.npz",
        "complete",
    }


def test_a_selector_that_picks_otherwise_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter([False] * 3 + [True])
    run(small(), tmp_path, stop=lambda: next(calls))
    create = strategies.create
    other = {"seed": 77}
    monkeypatch.setattr(strategies, "create", lambda s, **given: create(s, **given | other))
    with pytest.raises(ConfigError, match="round 1 must be picked again as it was"):
        run(small(), tmp_path)


def stopped(folder: Path) -> Path:
    """The files of a run that was stopped after its fourth round."""
    calls = iter([False] * 3 + [True])
    assert not run(small(), folder, stop=lambda: next(calls))
    return folder / "oort-seed0"


@pytest.mark.parametrize("name", ["history.csv", "participations.bin"])
def test_a_run_does_not_go_on_from_a_file_in_which_a_bit_has_flipped(
    tmp_path: Path, name: str
) -> None:
    path = stopped(tmp_path / "run") / name
    content = path.read_bytes()
    for place in range(7, len(content), len(content) // 40):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(DamagedFileError, match=f"{path.parent}"):
            run(small(), tmp_path / "run")
    path.write_bytes(content)
    assert run(small(), tmp_path / "run")


def test_a_digit_that_makes_no_difference_to_its_number_is_a_damage_too(tmp_path: Path) -> None:
    path = stopped(tmp_path) / "history.csv"
    content = path.read_bytes()
    number = next(n for n in re.findall(rb"\d\.\d{16,}", content) if same_when_flipped(n))
    path.write_bytes(content.replace(number, flipped(number), 1))
    with pytest.raises(DamagedFileError, match="must be as it was written"):
        run(small(), tmp_path)


def test_a_run_that_is_through_is_not_reported_from_a_history_that_has_changed(
    tmp_path: Path,
) -> None:
    assert run(small(), tmp_path)
    path = tmp_path / "oort-seed0" / "history.csv"
    content = path.read_bytes()
    path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    with pytest.raises(DamagedFileError, match=r"history\.csv must be as it was written"):
        read_runs([tmp_path])
    path.write_bytes(content)
    assert len(read_runs([tmp_path])[0].records) == 6


def test_a_run_that_is_named_twice_or_by_a_dot_is_one_run_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(small(), tmp_path / "phones")
    monkeypatch.chdir(tmp_path / "phones")
    curves = read_runs([".", tmp_path / "phones"])
    assert {curve.run for curve in curves} == {"phones"}
    assert len(curves) == len(read_runs([tmp_path / "phones"]))


def flipped(number: bytes) -> bytes:
    """With another last bit of its last digit."""
    return number[:-1] + bytes([number[-1] ^ 1])


def same_when_flipped(number: bytes) -> bool:
    return float(flipped(number)) == float(number)


def test_a_run_of_a_version_without_checksums_goes_on(tmp_path: Path) -> None:
    checkpoint = stopped(tmp_path) / "checkpoint.npz"
    state, checksums = read_checkpoint(checkpoint)
    assert sorted(checksums) == ["history.csv", "participations.bin"]
    write_checkpoint(checkpoint, state)
    assert run(small(), tmp_path)


@pytest.mark.parametrize("name", ["history.csv", "timings.csv", "participations.csv"])
def test_bytes_that_are_no_text_are_a_damage_like_any_other(tmp_path: Path, name: str) -> None:
    assert run(small(), tmp_path)
    path = tmp_path / "oort-seed0" / name
    path.write_bytes(path.read_bytes().replace(b",", b"\xff,", 200))
    longer = small(rounds={"count": 7})
    if name == "timings.csv":
        assert run(longer, tmp_path)
        return
    for read in (lambda: run(longer, tmp_path), lambda: read_runs([tmp_path])):
        with pytest.raises(DamagedFileError, match=name):
            read()


def test_an_outcome_that_there_is_not_is_a_damage(tmp_path: Path) -> None:
    run(small(), tmp_path)
    path = tmp_path / "oort-seed0" / "participations.csv"
    path.write_text(path.read_text().replace("completed", "completep", 1))
    with pytest.raises(DamagedFileError, match=r"must hold whole rows; got .*completep"):
        read_runs([tmp_path])


@pytest.mark.parametrize("content", [b"", b"PAR1 nonsense PAR1", None])
def test_a_damaged_parquet_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    run(small(output={"format": "parquet"}), tmp_path)
    path = tmp_path / "oort-seed0" / "history.parquet"
    other = path.with_name("participations.parquet").read_bytes()
    path.write_bytes(other if content is None else content)
    with pytest.raises(DamagedFileError, match=r"history.parquet must be a table of RoundRecord"):
        read_runs([tmp_path])


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    checkpoint = stopped(tmp_path) / "checkpoint.npz"
    state, checksums = read_checkpoint(checkpoint)
    other = dataclasses.replace(state, params={"w0": np.zeros((2, 2), np.float32)})
    write_checkpoint(checkpoint, other, checksums)
    with pytest.raises(ConfigError, match="the model to go on with must be of shapes"):
        run(small(), tmp_path)


def test_a_checkpoint_gives_back_what_was_put_in(tmp_path: Path) -> None:
    params = {"w": np.array([1.5, np.pi], np.float32)}
    server = ServerState({"w": np.array([0.1, 0.2])}, {"w": np.array([0.3, 0.4])})
    write_checkpoint(tmp_path / "c.npz", JobState(7, 1.0 / 3.0, params, server))
    state, _ = read_checkpoint(tmp_path / "c.npz")
    assert (state.round, state.clock_s) == (7, 1.0 / 3.0)
    np.testing.assert_array_equal(state.params["w"], params["w"])
    np.testing.assert_array_equal(state.server.second["w"], server.second["w"])


def test_what_a_checkpoint_counts_on_is_on_the_disk_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    files = CellFolder(tmp_path)
    files.restore()
    files.checkpoint(JobState(params={"weights": np.ones(3, np.float32)}))
    assert synced == ["history.csv", "participations.bin", "checkpoint.tmp"]


def test_a_damaged_checkpoint_is_explained(tmp_path: Path) -> None:
    (tmp_path / "c.npz").write_bytes(b"PK nonsense")
    with pytest.raises(DamagedFileError, match=r"c.npz must be a checkpoint; got"):
        read_checkpoint(tmp_path / "c.npz")
    write_checkpoint(tmp_path / "c.npz", JobState(7, 1.0, {"w": np.zeros(2)}))
    content = (tmp_path / "c.npz").read_bytes()
    for place in range(len(content)):
        flipped = bytes([content[place] ^ 32])
        (tmp_path / "c.npz").write_bytes(content[:place] + flipped + content[place + 1 :])
        with contextlib.suppress(DamagedFileError):
            read_checkpoint(tmp_path / "c.npz")


def test_a_run_stopped_at_its_target_stays_stopped(tmp_path: Path) -> None:
    """Killed between the last round and the note that it was the last one."""
    target = {"target_accuracy": 0.01, "stop_at_target": True, "every": 2, "clients": 0}
    config = small(evaluation=target)
    run(config, tmp_path)
    before = contents(tmp_path)
    (tmp_path / "oort-seed0" / "complete").unlink()
    assert run(config, tmp_path)
    assert contents(tmp_path) == before
    assert rounds_played(tmp_path) == 2


def test_a_parquet_history_does_not_outlive_its_run(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    run(small(output={"format": "parquet"}), tmp_path)
    assert (tmp_path / "oort-seed0" / "history.parquet").is_file()
    longer = small(output={"format": "parquet"}, rounds={"count": 8})
    calls = iter([True])
    run(longer, tmp_path, stop=lambda: next(calls))
    assert not (tmp_path / "oort-seed0" / "history.parquet").is_file()
    assert len(read_runs([tmp_path])[0].records) == 7


def test_a_run_still_being_written_can_be_reported(tmp_path: Path) -> None:
    calls = iter([False] * 3 + [True])
    run(small(), tmp_path, stop=lambda: next(calls))
    with (tmp_path / "oort-seed0" / "participations.bin").open("ab") as stream:
        stream.write(b"5,1")
    assert len(read_runs([tmp_path])[0].records) == 4


def test_short_rounds_are_written_together_and_long_ones_as_they_end(tmp_path: Path) -> None:
    files = CellFolder(tmp_path / "oort-seed0")
    files.restore()
    job = Job(create(small(), seed=0), StrategyConfig(kind="oort"))
    files.append(job.play())
    assert rounds_played(tmp_path) == 0
    files._written_at -= WRITE_EVERY_S
    files.append(job.play())
    assert rounds_played(tmp_path) == 2
    files.append(job.play())
    assert rounds_played(tmp_path) == 2
    files.flush()
    assert rounds_played(tmp_path) == 3


def test_rounds_before_an_error_are_on_disk(tmp_path: Path) -> None:
    def fail(_: object, record: RoundRecord) -> None:
        if record.round == 2:
            message = "no more"
            raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="no more"):
        run(small(), tmp_path, progress=fail)
    assert rounds_played(tmp_path) == 2


ONE = [{"kind": "random"}]


@pytest.mark.parametrize("damage", [None, "junk\n"])
def test_timings_are_no_part_of_a_run_and_do_not_stop_it(
    tmp_path: Path, damage: str | None
) -> None:
    assert not run(small(strategies=ONE), tmp_path, stop=lambda: True)
    timings = tmp_path / "random-seed0" / "timings.csv"
    if damage is None:
        timings.unlink()
    else:
        timings.write_text(timings.read_text() + damage)
    assert run(small(strategies=ONE), tmp_path)


@pytest.mark.parametrize("name", ["history.csv", "participations.bin"])
def test_a_file_of_a_run_that_is_gone_is_named(tmp_path: Path, name: str) -> None:
    assert not run(small(strategies=ONE), tmp_path, stop=lambda: True)
    (tmp_path / "random-seed0" / name).unlink()
    with pytest.raises(DamagedFileError, match=name):
        run(small(strategies=ONE), tmp_path)


def test_a_kill_before_the_settings_were_written_leaves_a_folder_that_can_be_used(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.tmp").write_text('{"na')
    assert run(small(strategies=ONE), tmp_path)
