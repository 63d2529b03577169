"""Which samples a client takes in which step.

A client goes through its data in passes, each in a new random order; a step takes the next batch,
the last one whatever is left. The order depends on seed, round and client alone.
"""

from __future__ import annotations

import numpy as np

from oort.simulation.data.base import Cohort
from oort.simulation.learners.base import Chunk
from oort.simulation.streams import ClientGenerators
from oort.types import Floats, Integers, Rows


def passes(size: int, samples: int, rng: np.random.Generator) -> Rows:
    """The first ``samples`` places of endless passes over ``size`` samples.

    >>> sorted(passes(3, 6, np.random.default_rng(0))[:3].tolist())
    [0, 1, 2]
    """
    if samples <= size:
        return rng.permutation(size)[:samples]
    count = -(-samples // size)
    return np.concatenate([rng.permutation(size) for _ in range(count)])[:samples]


def chunk_for(
    cohort: Cohort,
    clients: Rows,
    members: Rows,
    samples: Integers,
    *,
    batch_size: int,
    weights: Floats,
    seed: int,
    round_number: int,
) -> tuple[Chunk, Rows]:
    """The chunk that these members of a cohort make.

    Args:
        cohort: Samples of all clients of the round.
        clients: Their numbers, in the cohort's order.
        members: Places in the cohort that go into this chunk.
        samples: How many samples each client of the cohort processes.
        batch_size: Samples per step.
        weights: How much each client of the cohort counts.
        seed: Same seed, same order of samples.
        round_number: The round.

    Returns:
        The chunk, and the places in the cohort of its clients in the chunk's order.
    """
    steps = -(-samples[members] // batch_size)
    members = members[np.argsort(-steps, kind="stable")]
    rows = np.full((len(members), int(steps.max()) * batch_size), -1, np.int64)
    labels = rows.copy()
    generators = ClientGenerators(seed, round_number, "batches")
    begins, ends = cohort.start[members].tolist(), cohort.start[members + 1].tolist()
    wanted, numbers = samples[members].tolist(), clients[members].tolist()
    for line, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        places = begin + passes(end - begin, wanted[line], generators(numbers[line]))
        rows[line, : len(places)] = cohort.index[places]
        labels[line, : len(places)] = cohort.labels[places]
    shape = (len(members), -1, batch_size)
    return Chunk(rows.reshape(shape), labels.reshape(shape), weights[members]), members
