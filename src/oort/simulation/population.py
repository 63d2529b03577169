"""Devices: how fast clients are, how long a participation takes, and what goes wrong in it.

    draw_devices         compute time and bandwidth of every client
    planned_samples      how many samples a client processes in a round
    expected_duration_s  what that takes on an ordinary day
    participations       what it takes in one round: variation, slow-downs, drop-outs
    speed_hints          what selectors are told of it beforehand

A training step costs three times an inference, so that a client needs
``3 · samples · compute_ms_per_sample + (down + up) / bandwidth``.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.special import ndtr, ndtri

from oort.errors import ConfigError
from oort.randomness import generator_for
from oort.simulation.config import DevicesConfig, LearnerConfig
from oort.simulation.files import UNREADABLE, arrays
from oort.simulation.streams import hashed_uniforms
from oort.simulation.tables import at_quantile, table
from oort.types import Floats, Integers, Rows

TRAINING_COST = 3.0  #: a training step in inferences
LEAST, MOST = 1e-6, 1e9  #: of either column: what takes for ever is no device
COLUMNS = ("compute_ms_per_sample", "bandwidth_kbps")


@dataclass(frozen=True)
class Devices:
    """Every client's device, one entry per client in each array."""

    compute_ms_per_sample: Floats  #: of an inference
    bandwidth_kbps: Floats

    def __len__(self) -> int:
        return len(self.compute_ms_per_sample)


@dataclass(frozen=True)
class Participations:
    """What one round costs each participant, had it all the time in the world."""

    duration_s: Floats  #: from selection to the server having its update
    drops_after_s: Floats  #: when it is lost; infinite where it is not


def draw_devices(
    config: DevicesConfig, num_clients: int, *, seed: int, coupled_with: Floats | None = None
) -> Devices:
    """A device for every client, from the shipped quantiles or from a file.

    Args:
        config: Where devices come from and whether they go with the data.
        num_clients: How many.
        seed: Same seed, same devices.
        coupled_with: What speed is coupled to (say, samples held), one per client.

    >>> devices = draw_devices(DevicesConfig(), 1000, seed=1)
    >>> bool(15 <= devices.compute_ms_per_sample.min() and len(devices) == 1000)
    True
    """
    if config.source == "equal":
        figures = table("devices")
        medians = [float(np.median(figures[c])) for c in COLUMNS]
        return Devices(*(np.full(num_clients, m, np.float32) for m in medians))
    compute_quantiles, bandwidth_quantiles = _quantiles(config.source)
    rng = generator_for(seed, 0, "devices")
    slowness = 1.0 - _places(rng, num_clients, config, coupled_with)
    fastness = _places(rng, num_clients, config, coupled_with)
    return Devices(
        at_quantile(compute_quantiles, slowness).astype(np.float32),
        at_quantile(bandwidth_quantiles, fastness).astype(np.float32),
    )


def planned_samples(config: LearnerConfig, sizes: Integers) -> Rows:
    """How many samples each client processes in a round, repeats counted.

    >>> planned_samples(LearnerConfig(work="epochs", epochs=2), np.array([10, 500])).tolist()
    [20, 1000]
    >>> planned_samples(LearnerConfig(steps=5, batch_size=8), np.array([10, 500])).tolist()
    [40, 40]
    """
    if config.work == "epochs":
        return np.asarray(sizes, np.int64) * config.epochs
    return np.full(len(sizes), config.steps * config.batch_size, np.int64)


def capped_samples(
    samples: Rows, config: LearnerConfig, devices: Devices, rows: Rows, *, transfer_mb: float
) -> Rows:
    """The same under a capped round: as many as fit on an ordinary day, at least one batch.

    >>> devices = Devices(np.array([100.0]), np.array([8000.0]))
    >>> config = LearnerConfig(cap_s=32.0)
    >>> capped_samples(np.array([320]), config, devices, np.array([0]), transfer_mb=1.0)
    array([100])
    """
    if config.cap_s is None:
        return samples
    left_s = config.cap_s - transfer_s(devices.bandwidth_kbps[rows], transfer_mb)
    per_sample_s = TRAINING_COST * devices.compute_ms_per_sample[rows] / 1000.0
    fits = np.maximum(np.floor(left_s / per_sample_s), config.batch_size)
    return np.minimum(samples, fits).astype(np.int64)


def compute_s(samples: Integers, compute_ms_per_sample: Floats) -> Floats:
    """Seconds that training on so many samples takes.

    >>> compute_s(np.array([100]), np.array([20.0]))
    array([6.])
    """
    return TRAINING_COST * np.asarray(samples, np.float64) * compute_ms_per_sample / 1000.0


def transfer_s(bandwidth_kbps: Floats, transfer_mb: float) -> Floats:
    """Seconds for the model to come down and the update to go up.

    >>> transfer_s(np.array([8000.0]), 1.0)
    array([2.])
    """
    return 2.0 * transfer_mb * 8000.0 / np.asarray(bandwidth_kbps, np.float64)


def expected_duration_s(
    devices: Devices, rows: Rows, samples: Integers, *, transfer_mb: float
) -> Floats:
    """What a participation takes where nothing varies.

    >>> devices = Devices(np.array([20.0, 40.0]), np.array([8000.0, 4000.0]))
    >>> expected_duration_s(devices, np.array([0, 1]), np.array([100, 100]), transfer_mb=1.0)
    array([ 8., 16.])
    """
    computing = compute_s(samples, devices.compute_ms_per_sample[rows])
    return computing + transfer_s(devices.bandwidth_kbps[rows], transfer_mb)


def participations(
    config: DevicesConfig,
    devices: Devices,
    rows: Rows,
    samples: Integers,
    *,
    transfer_mb: float,
    seed: int,
    round_number: int,
) -> Participations:
    """What this round takes each participant, and who drops out of it when.

    What befalls a client in a round depends on seed, round and client alone: strategies meet the
    same luck.
    """
    keys = rows.astype(np.int64) | np.int64(round_number) << 36
    purposes = ["compute", "bandwidth"]
    purposes += ["slows", "slows at"] if config.slowdown_rate else []
    purposes += ["drops", "drops at"] if config.dropout_rate else []
    drawn = dict(zip(purposes, hashed_uniforms(seed, keys, purposes), strict=True))
    computing_s = compute_s(samples, devices.compute_ms_per_sample[rows])
    computing_s *= _varied(drawn["compute"], config.compute_variation)
    bandwidth_kbps = devices.bandwidth_kbps[rows] * _varied(
        drawn["bandwidth"], config.bandwidth_variation
    )
    duration_s = computing_s + transfer_s(bandwidth_kbps, transfer_mb)
    if config.slowdown_rate:
        slower_s = slowed_s(duration_s, drawn["slows at"], config.slowdown_factor)
        duration_s = np.where(drawn["slows"] < config.slowdown_rate, slower_s, duration_s)
    drops_after_s = np.full(len(rows), np.inf)
    if config.dropout_rate:
        drops = drawn["drops"] < config.dropout_rate
        drops_after_s[drops] = (drawn["drops at"] * duration_s)[drops]
    return Participations(duration_s, drops_after_s)


def slowed_s(duration_s: Floats, at: Floats, factor: float) -> Floats:
    """A duration of which the part after ``at`` (a share) takes ``factor`` times as long.

    >>> slowed_s(np.array([10.0]), np.array([0.5]), 4.0)
    array([25.])
    """
    return duration_s * (at + (1.0 - at) * factor)


def speed_hints(config: DevicesConfig, expected_s: Floats, *, seed: int) -> Floats | None:
    """What selectors are told of clients' speed: nothing, a noisy or the exact expectation.

    >>> speed_hints(DevicesConfig(hints="exact"), np.array([8.0]), seed=0)
    array([8.])
    """
    if config.hints == "none":
        return None
    if config.hints == "exact":
        return expected_s
    noise = generator_for(seed, 0, "speed hints").normal(0.0, config.hint_noise, len(expected_s))
    return expected_s * np.exp(noise)


def _varied(u: Floats, sigma: float) -> Floats:
    """A log-normal factor with median one from a number in [0, 1)."""
    return np.exp(sigma * ndtri(np.maximum(u, 1e-12)))


def _places(
    rng: np.random.Generator, n: int, config: DevicesConfig, coupled_with: Floats | None
) -> Floats:
    """Each client's place in the order of speed, 0 slowest; coupled by a Gaussian copula."""
    noise = rng.standard_normal(n)
    if config.coupling == "independent" or coupled_with is None:
        return ndtr(noise)
    sign = 1.0 if config.coupling == "correlated" else -1.0
    rho = sign * 2.0 * np.sin(np.pi * config.coupling_strength / 6.0)
    ranks = np.lexsort((rng.random(n), coupled_with)).argsort()
    return np.asarray(ndtr(rho * ndtri((ranks + 0.5) / n) + np.sqrt(1.0 - rho**2) * noise))


def _quantiles(source: str) -> tuple[Floats, Floats]:
    """Quantiles of both columns, shipped or of a file."""
    if source == "phones":
        figures = table("devices")
        return figures[COLUMNS[0]], figures[COLUMNS[1]]
    columns = _columns(Path(source))
    compute, bandwidth = (np.quantile(c, np.linspace(0, 1, 1001)) for c in columns)
    return compute, bandwidth


def _columns(path: Path) -> tuple[Floats, Floats]:
    """Compute time and bandwidth from an .npz or .csv file."""
    wanted = f"{path}: devices.source must be an .npz or .csv file with {' and '.join(COLUMNS)}"
    try:
        if path.suffix == ".npz":
            columns = dict(zip(COLUMNS, arrays(path, *COLUMNS), strict=True))
        else:
            with path.open(newline="") as stream:
                lines = list(csv.DictReader(stream))
            columns = {name: np.array([float(line[name]) for line in lines]) for name in COLUMNS}
    except (*UNREADABLE, csv.Error) as error:
        message = f"{wanted}; got {type(error).__name__}: {error}"
        raise ConfigError(message) from error
    for name, values in columns.items():
        there = np.asarray(values)
        usable = there.dtype.kind in "iuf" and there.ndim == 1 and len(there)
        if not usable or not np.all((there >= LEAST) & (there <= MOST)):
            message = f"{wanted}, numbers from {LEAST:g} to {MOST:g}; got others in {name}"
            raise ConfigError(message)
    return columns[COLUMNS[0]], columns[COLUMNS[1]]
