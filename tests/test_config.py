"""Settings: what they accept, what they say of what they do not, and that they can be stored."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oort
from oort import ExplorationConfig, PacerConfig, TrainingConfig

WRONG: list[tuple[type, str, list[Any]]] = [
    (TrainingConfig, "seed", [-1, 1.5, "1", None, True]),
    (TrainingConfig, "utility", ["", None, 5]),
    (TrainingConfig, "fairness", ["", None, 5]),
    (TrainingConfig, "clip_quantile", [-0.1, 1.1, math.nan, "x", None]),
    (TrainingConfig, "staleness", [-0.1, math.inf, math.nan, None]),
    (TrainingConfig, "alpha", [-1, math.nan, "two", None, True, 10**400]),
    (TrainingConfig, "fairness_weight", [-0.1, 1.1, math.nan]),
    (TrainingConfig, "cutoff", [-0.1, 1.01, math.nan]),
    (TrainingConfig, "max_participations", [0, -1, 1.5, "10", True]),
    (TrainingConfig, "planned_rounds", [0, 1.5]),
    (TrainingConfig, "sketch_width", [-1, 1.5, None, 65_537, 10**20]),
    (TrainingConfig, "exploration", [None, 0.9, {}]),
    (TrainingConfig, "pacer", [None, 20, {}]),
    (TrainingConfig, "strict_rounds", [None, 1, "yes"]),
    (ExplorationConfig, "start", [-0.1, 1.1, math.nan, None]),
    (ExplorationConfig, "decay", [-0.1, 1.1, math.nan, None]),
    (ExplorationConfig, "minimum", [-0.1, 1.1, 0.95, math.nan, None]),
    (PacerConfig, "window", [0, -1, 1.5, None, True]),
    (PacerConfig, "smallest_step", [-0.1, 1.1, math.nan, None]),
    (PacerConfig, "largest_step", [0, -0.1, 1.1, math.nan, None]),
    (PacerConfig, "step_s", [0, -1, math.nan, "x"]),
    (PacerConfig, "preferred_s", [0, -1, math.nan, "x"]),
]


@pytest.mark.parametrize(
    ("config", "name", "value"), [(c, n, v) for c, n, values in WRONG for v in values], ids=repr
)
def test_a_wrong_setting_says_which_what_it_must_be_and_what_it_got(
    config: type, name: str, value: Any
) -> None:
    with pytest.raises(oort.ConfigError) as caught:
        config(**{name: value})
    message = str(caught.value)
    assert message.startswith(f"{config.__name__}.{name} must be ")
    assert f"; got {value!r}" in message
    assert isinstance(caught.value, ValueError)


def test_settings_are_frozen_keyword_only_and_compare_by_value() -> None:
    config = TrainingConfig(seed=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.seed = 4  # type: ignore[misc]
    with pytest.raises(TypeError):
        TrainingConfig(3)  # type: ignore[call-arg]
    assert config == TrainingConfig(seed=3) != TrainingConfig(seed=4)
    assert hash(config) == hash(TrainingConfig(seed=3))


def test_every_setting_has_a_default_and_says_what_it_does() -> None:
    for config in (TrainingConfig, ExplorationConfig, PacerConfig):
        config()
        for field in dataclasses.fields(config):
            assert field.metadata.get("doc"), f"{config.__name__}.{field.name}"


def test_the_defaults_are_those_of_the_table() -> None:
    config = TrainingConfig()
    assert (config.exploration.start, config.exploration.decay) == (0.9, 0.98)
    assert config.exploration.minimum == 0.2
    assert (config.pacer.window, config.pacer.smallest_step) == (20, 0.05)
    assert config.pacer.largest_step == 0.2
    assert (config.alpha, config.cutoff, config.clip_quantile) == (2.0, 0.95, 0.95)
    assert (config.staleness, config.fairness_weight) == (0.1, 0.0)


def test_the_papers_preset_removes_after_ten_limits_no_step_and_takes_changes() -> None:
    stated = TrainingConfig(max_participations=10, pacer=PacerConfig(largest_step=1.0))
    assert TrainingConfig.paper() == stated
    assert TrainingConfig.paper(seed=5, max_participations=20).max_participations == 20
    assert "quantile" in (TrainingConfig.paper.__doc__ or ""), "it lists where the letter is left"


def test_numbers_of_other_types_become_plain_ones() -> None:
    config = TrainingConfig(
        seed=np.int64(3),  # type: ignore[arg-type]
        alpha=Fraction(1, 2),  # type: ignore[arg-type]
        cutoff=np.float32(0.5),  # type: ignore[arg-type]
    )
    assert (type(config.seed), type(config.alpha), type(config.cutoff)) == (int, float, float)
    assert json.loads(json.dumps(config.to_dict()))["alpha"] == 0.5


settings = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 2**130),
        "alpha": st.floats(0.0, allow_nan=False) | st.just("inf"),
        "clip_quantile": st.floats(0, 1),
        "max_participations": st.none() | st.just("auto") | st.integers(1, 65_534),
        "strict_rounds": st.booleans(),
        "exploration": st.fixed_dictionaries({}, optional={"decay": st.floats(0, 1)}),
        "pacer": st.fixed_dictionaries(
            {"window": st.integers(1, 100)},
            optional={"preferred_s": st.floats(0, exclude_min=True, allow_nan=False)},
        ),
    },
)


@given(settings)
def test_settings_survive_strict_json(values: dict[str, Any]) -> None:
    config = TrainingConfig.from_dict(values)
    text = json.dumps(config.to_dict(), allow_nan=False)
    assert TrainingConfig.from_dict(json.loads(text)) == config


@given(settings)
def test_what_was_stored_means_the_same_later(values: dict[str, Any]) -> None:
    config = TrainingConfig.from_dict(values)
    assert TrainingConfig.from_stored(config.to_dict()) == config


def test_a_job_stored_before_a_setting_existed_goes_on_as_it_was() -> None:
    stored = TrainingConfig(seed=3).to_dict()
    del stored["pacer"]["largest_step"]
    assert TrainingConfig.from_stored(stored).pacer.largest_step == 1.0
    assert TrainingConfig.from_dict(stored).pacer.largest_step == 0.2


def test_infinite_settings_survive_strict_json_too() -> None:
    config = TrainingConfig(alpha=math.inf, pacer=PacerConfig(step_s=math.inf))
    text = json.dumps(config.to_dict(), allow_nan=False)
    assert TrainingConfig.from_dict(json.loads(text)) == config


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"alfa": 1}, "TrainingConfig has no setting 'alfa'; did you mean 'alpha'"),
        ({"pacer": {"windw": 1}}, "PacerConfig has no setting 'windw'; did you mean 'window'"),
        ({"zzz": 1}, "TrainingConfig has no setting 'zzz'; the settings are seed, utility"),
        ({5: 1}, "TrainingConfig has no setting 5"),
        ([("seed", 1)], "TrainingConfig must be made from a dict of settings"),
    ],
    ids=repr,
)
def test_an_unknown_setting_is_refused_with_a_hint(values: Any, says: str) -> None:
    with pytest.raises(oort.ConfigError) as caught:
        TrainingConfig.from_dict(values)
    assert says in str(caught.value)


def test_seconds_per_step_and_a_fixed_duration_exclude_one_another() -> None:
    with pytest.raises(oort.ConfigError, match="step_s must be unset where preferred_s fixes T"):
        PacerConfig(step_s=1.0, preferred_s=2.0)
