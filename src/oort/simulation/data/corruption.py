"""Wrong labels (paper §7.2.3): all of them on some clients, or some of them on all."""

from __future__ import annotations

import dataclasses

import numpy as np

from oort.randomness import generator_for
from oort.simulation.config import DataConfig
from oort.simulation.data.base import Cohort, Encoding, FederatedData, Samples
from oort.simulation.streams import client_generator
from oort.types import Integers, Mask, Rows


class CorruptedData:
    """A dataset seen through clients that mislabel; the test set stays right."""

    def __init__(self, data: FederatedData, *, clients: float, labels: float, seed: int) -> None:
        self._data = data
        self._labels = labels
        self._seed = seed
        self.corrupted: Mask = np.zeros(data.num_clients, bool)
        count = round(clients * data.num_clients)
        self.corrupted[
            generator_for(seed, 0, "corrupt clients").permutation(data.num_clients)[:count]
        ] = True

    def cohort(self, clients: Rows) -> Cohort:
        """The samples of these clients with the labels that they believe in, in every round."""
        cohort = self._data.cohort(clients)
        labels = cohort.labels.copy()
        for place, client in enumerate(clients.tolist()):
            share = 1.0 if self.corrupted[client] else self._labels
            part = slice(cohort.start[place], cohort.start[place + 1])
            labels[part] = flipped(
                labels[part],
                share,
                self.num_classes,
                client_generator(self._seed, 0, client, "flipped labels"),
            )
        return dataclasses.replace(cohort, labels=labels)

    @property
    def name(self) -> str:
        """The dataset's own."""
        return self._data.name

    @property
    def num_clients(self) -> int:
        """The dataset's own."""
        return self._data.num_clients

    @property
    def num_classes(self) -> int:
        """The dataset's own."""
        return self._data.num_classes

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The dataset's own."""
        return self._data.sample_shape

    @property
    def encoding(self) -> Encoding:
        """The dataset's own."""
        return self._data.encoding

    @property
    def sizes(self) -> Integers:
        """The dataset's own."""
        return self._data.sizes

    @property
    def test(self) -> Samples:
        """The dataset's own, not corrupted."""
        return self._data.test

    def label_counts(self) -> Rows | None:
        """Counts of the labels that clients believe in, which are those that they can tell."""
        if self._data.label_counts() is None:
            return None
        everyone = self.cohort(np.arange(self.num_clients))
        owner = np.repeat(np.arange(self.num_clients), everyone.sizes)
        cells = owner * self.num_classes + everyone.labels
        return np.bincount(cells, minlength=self.num_clients * self.num_classes).reshape(
            -1, self.num_classes
        )


def corrupted(data: FederatedData, config: DataConfig, *, seed: int) -> FederatedData:
    """The dataset as the settings corrupt it; itself where they do not."""
    if config.corrupt_clients == 0.0 and config.corrupt_labels == 0.0:
        return data
    return CorruptedData(
        data, clients=config.corrupt_clients, labels=config.corrupt_labels, seed=seed
    )


def flipped(labels: Rows, share: float, num_classes: int, rng: np.random.Generator) -> Rows:
    """Labels of which a share is moved to any other, evenly.

    >>> before = np.zeros(4, np.int64)
    >>> bool((flipped(before, 1.0, 10, np.random.default_rng(1)) != before).all())
    True
    """
    moved = rng.random(len(labels)) < share
    other = (labels + rng.integers(1, max(num_classes, 2), len(labels))) % num_classes
    return np.where(moved, other, labels)
