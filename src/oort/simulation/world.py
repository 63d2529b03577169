"""Everything of a simulation that no strategy can change: data, devices, availability, learner.

Strategies compared under one seed share one world, so that they meet the same clients with the
same data, speed and luck.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from oort.errors import require
from oort.simulation import availability, data, learners, population
from oort.simulation.availability import Availability
from oort.simulation.config import DevicesConfig, SimulationConfig
from oort.simulation.data.base import FederatedData
from oort.simulation.learners.base import Learner, num_bytes
from oort.simulation.population import Devices
from oort.types import Floats, Rows


@dataclass(frozen=True)
class World:
    """What strategies are compared in."""

    config: SimulationConfig
    seed: int
    data: FederatedData
    devices: Devices
    availability: Availability
    learner: Learner
    transfer_mb: float  #: each way
    samples: Rows  #: that every client processes in a round, repeats counted
    hint_s: Floats | None  #: what selectors are told of clients' speed beforehand

    @property
    def num_clients(self) -> int:
        """How many clients there are."""
        return self.data.num_clients


def create(config: SimulationConfig, *, seed: int) -> World:
    """The world that the settings describe; same seed, same world."""
    clients = data.load(config.data, seed=seed)
    least, there = config.rounds.least_online, clients.num_clients
    require(least <= there, "rounds.least_online", f"at most {there}, all clients", least)
    learner = learners.create(config, clients)
    given_mb = config.devices.transfer_mb
    transfer_mb = num_bytes(learner.initial(seed)) / 1e6 if given_mb is None else given_mb
    devices = population.draw_devices(
        config.devices,
        clients.num_clients,
        seed=seed,
        coupled_with=_coupled_with(config.devices, clients),
    )
    rows = np.arange(clients.num_clients, dtype=np.int64)
    planned = population.planned_samples(config.learner, clients.sizes)
    samples = population.capped_samples(
        planned, config.learner, devices, rows, transfer_mb=transfer_mb
    )
    expected_s = population.expected_duration_s(devices, rows, samples, transfer_mb=transfer_mb)
    return World(
        config=config,
        seed=seed,
        data=clients,
        devices=devices,
        availability=availability.create(config.availability, clients.num_clients, seed=seed),
        learner=learner,
        transfer_mb=transfer_mb,
        samples=samples,
        hint_s=population.speed_hints(config.devices, expected_s, seed=seed),
    )


def _coupled_with(config: DevicesConfig, clients: FederatedData) -> Floats | None:
    """What of the data device speed goes with: samples held, or the commonest label."""
    if config.coupling == "independent":
        return None
    if config.coupled_to == "size":
        return np.asarray(clients.sizes, np.float64)
    counts = clients.label_counts()
    require(
        counts is not None,
        "devices.coupled_to",
        f"'size' for {clients.name}, whose labels are not known beforehand",
        config.coupled_to,
    )
    return np.asarray(np.asarray(counts).argmax(axis=1).astype(np.float64))
