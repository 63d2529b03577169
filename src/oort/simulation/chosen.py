"""The test set that the testing selector chooses among clients' own data.

By deviation: as many clients as it takes for their data to look like everyone's. By category: so
many samples of each label, from the clients that give them soonest. It is chosen once, before the
first round, so that what is measured on it can be compared from round to round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from oort.errors import ConfigError, InfeasibleRequestError, InvalidRequestError, require
from oort.randomness import generator_for
from oort.simulation.world import World
from oort.testing.category import Balanced, Representative, TestPlan
from oort.testing.category.request import Request
from oort.testing.selector import create_testing_selector
from oort.types import Rows

MOST_SAMPLES_PER_CLIENT = 100
TOLERANCE = 0.05  #: how far a test may be from the fastest; a closer search may look at the clock


@dataclass(frozen=True)
class TestSet:
    """Clients, and the samples of theirs that are tested on."""

    clients: Rows
    places: Rows  #: of the samples among all that these clients hold, in their order
    plan: TestPlan | None = None  #: where it was chosen by category

    def __len__(self) -> int:
        return len(self.places)


def chosen_test_set(world: World) -> TestSet:
    """The test set that the settings ask for; empty where they ask for none.

    Raises:
        ConfigError: The clients lack the samples asked for, or what they hold is not known.
    """
    settings = world.config.evaluation
    if settings.chosen_categories is not None:
        return _by_category(world)
    if settings.chosen_deviation is not None:
        return first_samples(world, _by_deviation(world, settings.chosen_deviation))
    return first_samples(world, np.zeros(0, np.int64))


def first_samples(world: World, clients: Rows) -> TestSet:
    """The first few samples of each of these clients."""
    if len(clients) == 0:
        return TestSet(clients, np.zeros(0, np.int64))
    sizes = np.asarray(world.data.sizes)[clients]
    start = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    spans = zip(start, np.minimum(sizes, MOST_SAMPLES_PER_CLIENT), strict=True)
    return TestSet(clients, np.concatenate([np.arange(s, s + n) for s, n in spans]))


def _by_deviation(world: World, share: float) -> Rows:
    """Clients drawn at random, as many as the target takes; one where all hold as many."""
    spread = float(np.ptp(np.asarray(world.data.sizes)))
    count = 1
    if spread:
        plan = create_testing_selector().select_by_deviation(
            dev_target=share * spread,
            range_of_capacity=spread,
            total_num_clients=world.num_clients,
        )
        count = min(int(plan.num_participants), world.num_clients)
    rng = generator_for(world.seed, 0, "chosen clients")
    return np.sort(rng.permutation(world.num_clients)[:count])


def _by_category(world: World) -> TestSet:
    """So many samples of each label, from the clients that give them soonest."""
    plan = _planned(world)
    clients = np.asarray(plan.participants, np.int64)
    order = np.argsort(clients)
    cohort = world.data.cohort(clients[order])
    labels = np.asarray(plan.categories, np.int64)
    places = []
    for place, row in enumerate(order.tolist()):
        begin, end = int(cohort.start[place]), int(cohort.start[place + 1])
        own = cohort.labels[begin:end]
        for entry in range(int(plan.indptr[row]), int(plan.indptr[row + 1])):
            of_label = np.flatnonzero(own == labels[plan.category[entry]])
            places.append(begin + of_label[: int(plan.samples[entry])])
    return TestSet(clients[order], np.concatenate(places), plan)


def _planned(world: World) -> TestPlan:
    settings, devices = world.config.evaluation, world.devices
    counts = world.data.label_counts()
    require(
        counts is not None,
        "evaluation.chosen_categories",
        f"unset for {world.data.name}, whose labels are not known beforehand",
        settings.chosen_categories,
    )
    tester = create_testing_selector(categories=range(world.data.num_classes))
    tester.update_clients_info(
        np.arange(world.num_clients),
        counts,
        samples_per_s=1000.0 / devices.compute_ms_per_sample,
        bandwidth_mbps=devices.bandwidth_kbps / 1000.0,
    )
    wanted = settings.chosen_categories
    try:
        request: Request
        if isinstance(wanted, Mapping):
            request = {int(label): count for label, count in wanted.items()}
        else:
            kind = Representative if wanted == "representative" else Balanced
            request = kind(settings.chosen_samples)
        return tester.select_by_category(
            request,
            {
                "budget": settings.chosen_budget,
                "transfer_mb": world.transfer_mb,
                "tolerance": TOLERANCE,
            },
        )
    except (InfeasibleRequestError, InvalidRequestError) as error:
        message = f"evaluation.chosen_categories must be met by the clients' data; got: {error}"
        raise ConfigError(message) from error
