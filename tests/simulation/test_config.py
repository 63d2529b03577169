from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from oort.errors import ConfigError
from oort.simulation import SimulationConfig, load
from oort.simulation.config import SECTIONS
from tests.simulation.examples import small

EXAMPLES = Path(__file__).parents[2] / "examples"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "[data]\ndataset = 'cifar'",
            "data.dataset must be one of 'digits', 'synthetic', 'mnist'",
        ),
        ("[data]\nalpha = -1", "data.alpha must be a number above 0, up to 1e12; got -1"),
        ("[data]\nalpha = 'x'", "data.alpha must be a number above 0, up to 1e12; got 'x'"),
        ("[data]\nalfa = 1", r"\[data\] has no key 'alfa'; did you mean 'alpha'\? the keys are"),
        ("[dta]\nalpha = 1", "the config has no key 'dta'; did you mean 'data'"),
        ("[rounds]\ncount = 0", "rounds.count must be a whole number from 1 to 1000000000; got 0"),
        (
            "[rounds]\ncount = true",
            "rounds.count must be a whole number from 1 to 1000000000; got True",
        ),
        ("[rounds]\ncount = 1.5", "rounds.count must be a whole number"),
        (
            "[rounds]\novercommit = 0.9",
            "rounds.overcommit must be a number from 1 to 1e12; got 0.9",
        ),
        (f"[rounds]\ncount = {10**30}", "rounds.count must be a whole number from 1 to 10000000"),
        ("[rounds]\novercommit = 1e308", "rounds.overcommit must be a number from 1 to 1e12"),
        (f"[server]\ntau = {10**400}", "server.tau must be a number above 0, up to 1e12; got 1"),
        (
            "[learner]\nhidden = 3",
            "learner.hidden must be a list of layer widths, each a whole number from 1 to",
        ),
        ("[learner]\nlearning_rate = nan", "learner.learning_rate must be a number above 0"),
        ("[availability]\nkind = 'weekly'", "availability.kind must be one of 'always', 'daily'"),
        (
            "[availability]\nkind = 'trace'",
            "availability.path must be set where availability.kind",
        ),
        ("[devices]\nhints = 'good'", "devices.hints must be one of 'none', 'noisy', 'exact'"),
        ("[server]\naggregation = 'sum'", "server.aggregation must be one of 'fedavg', 'fedprox'"),
        ("[evaluation]\nstop_at_target = true", "evaluation.target_accuracy must be set where"),
        ("[evaluation]\nstop_at_target = 1", "stop_at_target must be true or false; got 1"),
        ("[data]\npartition = 'counts'", "data.counts must be set where data.partition is"),
        ("[data]\ndataset = 'folder'", "data.path must be set where data.dataset is 'folder'"),
        ("[data]\ndataset = 'folder'\nname = 'x'", "data.path must be set where data.dataset is"),
        (
            "[data]\nsizes = 'openimg'",
            "data.sizes must be one of 'equal', 'lognormal', 'openimage'",
        ),
        ("[devices]\nsource = 'phone'", "devices.source must be one of 'phones', 'equal', or a"),
        ("[learner]\nmodel = 'cnnn'", "learner.model must be one of 'softmax', 'mlp', 'cnn'"),
        ("[[strategies]]\nkind = 'rand'", "strategies.kind must be one of 'oort', 'random'"),
        ("[data]\nlargest_size = 2", "data.largest_size must be at least data.smallest_size"),
        ("seeds = []", "seeds must be a list of seeds, each a whole number from 0"),
        (
            "seeds = [9223372036854775808]",
            "seeds must be a list of seeds, each a whole number from 0",
        ),
        ("seeds = [1, 1]", "seeds must be all different"),
        ("data = 3", "data must be a table; got 3"),
        ("strategies = 3", r"strategies must be a list of tables \[\[strategies\]\]; got 3"),
        (f"name = '{'é' * 101}'", "name must be a name of letters, .*, 200 bytes at most; got"),
        (
            f"[[strategies]]\nname = '{'x' * 201}'",
            "strategies.name must be a name in one line, 200 bytes at most; got 'xxx",
        ),
        (
            '[[strategies]]\nname = "two\\nlines"',
            "strategies.name must be a name in one line, 200 bytes at most; got 'two",
        ),
        ("[[strategies]]\n[[strategies]]", "strategies.name must be different for each strategy"),
        ("seeds = [", "not valid TOML"),
    ],
)
def test_a_bad_setting_names_the_file_the_key_and_what_is_allowed(
    tmp_path: Path, text: str, says: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=says) as raised:
        load(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_a_file_that_is_not_there_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.toml: cannot be read \(No such file"):
        load(tmp_path / "nowhere.toml")


def test_paths_in_a_file_are_relative_to_it(tmp_path: Path) -> None:
    text = "[data]\ndataset = 'folder'\npath = 'mine'\n[devices]\nsource = 'phones.csv'"
    config = load(written(tmp_path, text))
    assert config.data.path == str(tmp_path / "mine")
    assert config.devices.source == str(tmp_path / "phones.csv")


def test_paths_do_not_depend_on_where_the_command_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[data]\ndataset = 'folder'\npath = '../mine'\nsizes = './sizes.npy'"
    there = written(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    near = load(there.name)
    assert near.data.path == str(tmp_path.parent / "mine")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert load(Path("..") / there.name) == near == load(there)


def test_settings_survive_being_stored() -> None:
    config = small(seeds=[4, 5], strategies=[{"kind": "oort", "settings": {"alpha": 3.0}}])
    assert SimulationConfig.from_dict(config.to_dict()) == config


def test_fedprox_has_a_proximal_term_unless_told_otherwise() -> None:
    assert small().proximal == 0.0
    assert small(server={"aggregation": "fedprox"}).proximal == 0.01
    assert small(server={"aggregation": "fedprox"}, learner={"proximal": 0.5}).proximal == 0.5


@pytest.mark.parametrize("section", SECTIONS.values(), ids=lambda s: s.section)
def test_every_setting_says_what_it_means_and_has_a_default_that_is_allowed(section: Any) -> None:
    for field in dataclasses.fields(section):
        assert field.metadata["doc"], field.name
    if section.section != "data":
        section()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda p: p.stem)
def test_every_example_is_a_valid_config(path: Path) -> None:
    config = load(path)
    assert SimulationConfig.from_dict(config.to_dict()) == config
