"""What every learner offers.

Params         a model: arrays by name
Chunk          some clients of a cohort: samples in the order they take them, and weights
ChunkResult    the weighted sum of their updates, and what each would report
Learner        the interface
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from oort.types import Floats, Integers, Mask, Rows

Params: TypeAlias = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Chunk:
    """Some clients of a cohort, trained together.

    ``rows[c, s, b]`` is the row of the pool that client ``c`` takes as sample ``b`` of step ``s``,
    and ``labels`` its label; −1 stands for no sample. Clients with more steps come first, so that
    those at work in a step are the first few.
    """

    rows: Rows
    labels: Rows
    weights: Floats  #: how much each client counts in the mean

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def num_steps(self) -> Integers:
        """Steps that each client takes."""
        return np.asarray(np.count_nonzero(self.rows[:, :, 0] >= 0, axis=1))


@dataclass(frozen=True)
class ChunkResult:
    """What a chunk of clients gives back, clients in the order of the chunk."""

    update: Params  #: sum over clients of weight × (trained − given), diverged ones left out
    sum_of_squares: Floats  #: of the loss of every sample seen
    sum_of_losses: Floats
    seen: Integers  #: samples seen, repeats counted
    diverged: Mask  #: a loss or a parameter is not a finite number


class Learner(Protocol):
    """Trains and tests one kind of model."""

    takes_threads: bool  #: whether chunks may be trained on several threads at once

    def initial(self, seed: int) -> Params:
        """A model to start from: same seed, same model."""

    def train(self, params: Params, pool: npt.NDArray[Any], chunk: Chunk) -> ChunkResult:
        """Train every client of the chunk from the same model."""

    def losses(self, params: Params, x: npt.NDArray[Any], y: Rows) -> tuple[Floats, Mask]:
        """The loss of every sample, and whether its label was the likeliest."""


def channels_last(sample_shape: tuple[int, ...]) -> bool:
    """Whether a stored sample is an image whose last axis holds its channels, four at most.

    >>> channels_last((32, 32, 3)), channels_last((3, 32, 32)), channels_last((28, 28))
    (True, False, False)
    """
    return len(sample_shape) == 3 and sample_shape[-1] <= 4


def num_bytes(params: Params) -> int:
    """The size of a model.

    >>> num_bytes({"w": np.zeros((2, 3), np.float32)})
    24
    """
    return sum(value.nbytes for value in params.values())
