from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

from oort.errors import ConfigError
from oort.simulation.config import DevicesConfig, LearnerConfig
from oort.simulation.population import (
    Devices,
    capped_samples,
    draw_devices,
    expected_duration_s,
    participations,
    speed_hints,
)
from oort.simulation.tables import table

STEADY: dict[str, Any] = {"compute_variation": 0.0, "bandwidth_variation": 0.0}


def test_devices_follow_the_shipped_quantiles() -> None:
    devices = draw_devices(DevicesConfig(), 50_000, seed=1)
    figures = table("devices")
    for drawn, name in (
        (devices.compute_ms_per_sample, "compute_ms_per_sample"),
        (devices.bandwidth_kbps, "bandwidth_kbps"),
    ):
        quantiles = np.quantile(drawn, [0.1, 0.5, 0.9])
        np.testing.assert_allclose(quantiles, np.array(figures[name])[[10, 50, 90]], rtol=0.05)


def test_a_duration_is_three_inferences_per_sample_plus_both_transfers() -> None:
    devices = Devices(np.array([20.0]), np.array([4000.0]))
    duration = expected_duration_s(devices, np.array([0]), np.array([100]), transfer_mb=5.0)
    by_hand = 3 * 100 * 0.020 + 2 * 5 * 8000 / 4000
    assert duration[0] == pytest.approx(by_hand) == 26.0


@pytest.mark.parametrize(
    ("coupling", "sign"), [("correlated", 1), ("anti-correlated", -1), ("independent", 0)]
)
def test_speed_goes_with_the_data_as_asked(coupling: str, sign: int) -> None:
    sizes = np.random.default_rng(0).lognormal(4, 1, 5000)
    config = DevicesConfig(coupling=coupling, coupling_strength=0.8)
    devices = draw_devices(config, 5000, seed=1, coupled_with=sizes)
    slowness = spearmanr(sizes, devices.compute_ms_per_sample)[0]
    bandwidth = spearmanr(sizes, devices.bandwidth_kbps)[0]
    assert slowness == pytest.approx(-0.8 * sign, abs=0.05)
    assert bandwidth == pytest.approx(0.8 * sign, abs=0.05)


def luck(config: DevicesConfig, round_number: int = 1, rows: int = 4000) -> np.ndarray:
    devices = Devices(np.full(rows, 20.0), np.full(rows, 4000.0))
    found = participations(
        config,
        devices,
        np.arange(rows),
        np.full(rows, 100),
        transfer_mb=5.0,
        seed=1,
        round_number=round_number,
    )
    return np.stack([found.duration_s, found.drops_after_s])


def test_durations_vary_from_round_to_round_around_what_is_expected() -> None:
    config = DevicesConfig(compute_variation=0.2, bandwidth_variation=0.2)
    first, second = luck(config, 1)[0], luck(config, 2)[0]
    assert not np.allclose(first, second)
    assert np.median(first) == pytest.approx(26.0, rel=0.02)
    np.testing.assert_allclose(luck(DevicesConfig(**STEADY))[0], 26.0)


def test_what_befalls_a_client_does_not_depend_on_who_else_is_picked() -> None:
    config = DevicesConfig(dropout_rate=0.3, slowdown_rate=0.3)
    np.testing.assert_array_equal(luck(config, rows=4000)[:, :7], luck(config, rows=7))


def test_drop_outs_and_slow_downs_happen_as_often_as_asked() -> None:
    drops = luck(DevicesConfig(dropout_rate=0.25, **STEADY))
    assert np.isfinite(drops[1]).mean() == pytest.approx(0.25, abs=0.03)
    assert (drops[1][np.isfinite(drops[1])] <= 26.0).all()
    slow = luck(DevicesConfig(slowdown_rate=0.25, slowdown_factor=3.0, **STEADY))[0]
    assert (slow > 26.0 + 1e-9).mean() == pytest.approx(0.25, abs=0.03)
    assert slow.max() <= 3 * 26.0


def test_a_capped_round_leaves_slow_clients_part_of_their_data() -> None:
    devices = Devices(np.array([10.0, 100.0, 1000.0]), np.full(3, 8000.0))
    config = LearnerConfig(cap_s=17.0, batch_size=8)
    capped = capped_samples(np.full(3, 320), config, devices, np.arange(3), transfer_mb=1.0)
    assert capped.tolist() == [320, 50, 8], "all of it, 15 s / 0.3 s, and one batch"


def test_hints_are_nothing_exact_or_off_by_a_known_spread() -> None:
    expected = np.full(5000, 10.0)
    assert speed_hints(DevicesConfig(hints="none"), expected, seed=1) is None
    noisy = speed_hints(DevicesConfig(hints="noisy", hint_noise=0.5), expected, seed=1)
    assert noisy is not None
    assert np.log(noisy / expected).std() == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("kind", ["csv", "npz"])
def test_devices_come_from_a_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"devices.{kind}"
    if kind == "csv":
        path.write_text("compute_ms_per_sample,bandwidth_kbps\n5,100\n7,300\n")
    else:
        np.savez(path, compute_ms_per_sample=[5.0, 7.0], bandwidth_kbps=[100.0, 300.0])
    devices = draw_devices(DevicesConfig(source=str(path)), 100, seed=1)
    assert 5 <= devices.compute_ms_per_sample.min() < devices.compute_ms_per_sample.max() <= 7
    assert 100 <= devices.bandwidth_kbps.min() < devices.bandwidth_kbps.max() <= 300


@pytest.mark.parametrize(
    "text",
    [
        "compute\n5\n",
        "compute_ms_per_sample,bandwidth_kbps\n5,-1\n",
        "compute_ms_per_sample,bandwidth_kbps\n5,1e-300\n",
        "compute_ms_per_sample,bandwidth_kbps\n1e300,9\n",
        f"compute_ms_per_sample,bandwidth_kbps\n{'5' * 200_000},9\n",
        "",
        "\0",
    ],
)
def test_a_device_file_that_cannot_be_used_is_explained(tmp_path: Path, text: str) -> None:
    path = tmp_path / "devices.csv"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"devices.source must be an .npz or .csv file with"):
        draw_devices(DevicesConfig(source=str(path)), 10, seed=1)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("d.npz", b"PK\x03\x04junk"),
        ("d.npz", b""),
        ("d.csv", b"compute_ms_per_sample,bandwidth_kbps\n1\n"),
        ("d.csv", b"\xff\xfe"),
    ],
)
def test_a_device_file_that_is_damaged_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ConfigError, match=r"devices\.source must be"):
        draw_devices(DevicesConfig(source=str(tmp_path / name)), 3, seed=1)


def test_a_device_file_of_texts_or_matrices_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "devices.npz"
    for bandwidth in (np.ones((2, 2)), np.array(["fast", "slow"])):
        np.savez(path, compute_ms_per_sample=[5.0, 7.0], bandwidth_kbps=bandwidth)
        with pytest.raises(ConfigError, match=r"from 1e-06 to 1e\+09; got others in bandwidth"):
            draw_devices(DevicesConfig(source=str(path)), 10, seed=1)
