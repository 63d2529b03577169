"""What hostile configs, data and folders did once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oort.cli import main
from oort.errors import ConfigError, DamagedFileError, MissingDataError
from oort.simulation import Job, SimulationConfig, StrategyConfig, read_runs, run
from oort.simulation.history import RoundRecord, read_csv
from oort.simulation.report import compare
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
    with pytest.raises(ConfigError, match="whole numbers from 0; got -4"):
        small_world(data=data)


def test_the_accuracy_at_the_end_is_not_that_of_the_beginning(tmp_path: Path) -> None:
    run(small(rounds={"count": 8}, evaluation={"every": 2}), tmp_path)
    curves = read_runs([tmp_path])
    for line, curve in zip(compare(curves, 0.1), curves, strict=True):
        assert line.final_accuracy == (curve.tested()[2][-1],)
