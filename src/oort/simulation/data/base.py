"""What every dataset offers, and the one kind of dataset that most are.

Samples          inputs and labels
Encoding         what stored inputs mean: pixels to be scaled, or numbers of tokens
Cohort           the samples of some clients: rows of a pool, and each sample's label
FederatedData    the interface
PooledData       one pool in memory of which each client holds some rows
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from oort.types import Integers, Rows

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Samples:
    """Inputs and labels, one entry per sample in each."""

    x: Array
    y: Rows

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class Encoding:
    """What stored inputs mean.

    >>> Encoding(scale=0.5).dense(np.array([[[2, 4]]], np.uint8)).tolist()
    [[[1.0, 2.0]]]
    >>> Encoding(num_tokens=3).dense(np.array([[[2, 0]]], np.uint8)).tolist()
    [[[0.0, 0.0, 1.0, 1.0, 0.0, 0.0]]]
    """

    scale: float = 1.0  #: stored values times this are the inputs
    num_tokens: int = 0  #: where above 0, stored values are numbers of tokens

    def dense(self, stored: Array) -> npt.NDArray[np.float32]:
        """Inputs as vectors: the last axis holds one sample's features."""
        if not self.num_tokens:
            flat = stored.reshape(*stored.shape[:2], -1).astype(np.float32)
            return flat if self.scale == 1.0 else flat * np.float32(self.scale)
        one_hot = np.zeros((*stored.shape, self.num_tokens), np.float32)
        np.put_along_axis(one_hot, stored[..., None].astype(np.int64), 1.0, axis=-1)
        return one_hot.reshape(*stored.shape[:2], -1)

    def num_features(self, sample_shape: tuple[int, ...]) -> int:
        """How many features ``dense`` gives a sample."""
        return int(np.prod(sample_shape)) * (self.num_tokens or 1)


@dataclass(frozen=True)
class Cohort:
    """The samples of some clients.

    Client ``j`` holds places ``start[j]`` to ``start[j + 1]``; the sample at a place has input
    ``pool[index[place]]`` and label ``labels[place]``. The pool is shared, labels are the client's
    own: the same image may be mislabelled by one client alone.
    """

    pool: Array
    index: Rows
    labels: Rows
    start: Rows

    def __len__(self) -> int:
        return len(self.start) - 1

    @property
    def sizes(self) -> Rows:
        """Samples that each client holds."""
        return np.diff(self.start)


class FederatedData(Protocol):
    """Samples spread over clients. Clients are the numbers from 0 to ``num_clients`` − 1."""

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def num_clients(self) -> int:
        """How many clients there are."""

    @property
    def num_classes(self) -> int:
        """How many labels there are."""

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one stored input."""

    @property
    def encoding(self) -> Encoding:
        """What stored inputs mean."""

    @property
    def sizes(self) -> Integers:
        """Samples that each client holds."""

    @property
    def test(self) -> Samples:
        """Samples that no client trains on."""

    def cohort(self, clients: Rows) -> Cohort:
        """The samples of these clients."""

    def label_counts(self) -> Rows | None:
        """Samples of each client (row) and label (column); nothing where that is not known."""


class PooledData:
    """One pool in memory of which each client holds some rows.

    >>> pool = Samples(np.arange(6).reshape(6, 1), np.array([0, 0, 1, 1, 2, 2]))
    >>> index, start = np.array([0, 1, 2, 5]), np.array([0, 3, 4])
    >>> data = PooledData("six", pool, test=pool, index=index, start=start)
    >>> data.sizes.tolist(), data.cohort(np.array([1])).labels.tolist()
    ([3, 1], [2])
    """

    def __init__(
        self,
        name: str,
        pool: Samples,
        *,
        test: Samples,
        index: Rows,
        start: Rows,
        encoding: Encoding | None = None,
        num_classes: int | None = None,
    ) -> None:
        self.name = name
        self.pool = pool
        self.test = test
        self.encoding = encoding or Encoding()
        self.num_classes = num_classes or int(max(pool.y.max(), test.y.max())) + 1
        self._index = np.asarray(index, np.int64)
        self._start = np.asarray(start, np.int64)

    @property
    def num_clients(self) -> int:
        """How many clients there are."""
        return len(self._start) - 1

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one stored input."""
        shape: tuple[int, ...] = self.pool.x.shape[1:]
        return shape

    @property
    def sizes(self) -> Integers:
        """Samples that each client holds."""
        return np.diff(self._start)

    def cohort(self, clients: Rows) -> Cohort:
        """The samples of these clients; inputs are not copied."""
        index, start = gathered(self._index, self._start, clients)
        return Cohort(self.pool.x, index, self.pool.y[index], start)

    def label_counts(self) -> Rows:
        """Samples of each client (row) and label (column)."""
        owner = np.repeat(np.arange(self.num_clients), self.sizes)
        cells = owner * self.num_classes + self.pool.y[self._index]
        return np.bincount(cells, minlength=self.num_clients * self.num_classes).reshape(
            -1, self.num_classes
        )


def gathered(index: Rows, start: Rows, clients: Rows) -> tuple[Rows, Rows]:
    """The parts of a list of lists that belong to these clients, and where each begins.

    >>> gathered(np.array([7, 8, 9]), np.array([0, 1, 3]), np.array([1, 0]))
    (array([8, 9, 7]), array([0, 2, 3]))
    """
    sizes = start[clients + 1] - start[clients]
    begins = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    places = np.arange(begins[-1]) - np.repeat(begins[:-1] - start[clients], sizes)
    return index[places], begins
