"""A small world for the demo: ten thousand clients whose losses fall as the model learns.

No model is trained. The data is made of ten kinds; every client has its own mix and amount of
them, and its own device. The loss on a kind falls with the number of its samples that a round
trained on, the more slowly the further it has fallen. What a selector sees is what it
would see in a real job: losses, sample counts and durations of those who took part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from oort.protocols import TrainingSelector

_KINDS = 10
_LEARNING_RATE = 0.35
_MODEL_MB = 20.0
_OVERCOMMIT = 1.3


@dataclass(frozen=True, slots=True)
class Population:
    """Clients: how much data of which kind, on which device."""

    num_samples: npt.NDArray[np.int64]
    mix: npt.NDArray[np.float64]  #: share of each kind, one row per client
    ms_per_sample: npt.NDArray[np.float64]
    bandwidth_mbps: npt.NDArray[np.float64]

    @classmethod
    def generate(cls, size: int, seed: int) -> Population:
        """Skewed amounts, skewed mixes, devices an order of magnitude apart."""
        generator = np.random.default_rng(seed)
        rarity = 1.0 / np.arange(1, _KINDS + 1)
        return cls(
            num_samples=np.clip(generator.lognormal(4.0, 0.9, size), 5, 2000).astype(np.int64),
            mix=generator.dirichlet(rarity, size),
            ms_per_sample=generator.lognormal(np.log(40.0), 0.6, size),
            bandwidth_mbps=generator.lognormal(np.log(8.0), 1.0, size),
        )

    @property
    def duration_s(self) -> npt.NDArray[np.float64]:
        """One pass of training (three times an inference), and the model down and up."""
        compute_s = 3 * self.num_samples * self.ms_per_sample / 1000
        return compute_s + 2 * _MODEL_MB * 8 / self.bandwidth_mbps


@dataclass(slots=True)
class Record:
    """What happened, one entry per round."""

    duration_s: list[float] = field(default_factory=list)
    utility: list[float] = field(default_factory=list)
    clock_s: list[float] = field(default_factory=list)
    mean_loss: list[float] = field(default_factory=list)


def play(
    selector: TrainingSelector, population: Population, *, rounds: int, wanted: int, seed: int
) -> Iterator[Record]:
    """Play a job with one selector; gives the record so far after each round."""
    size = population.num_samples.size
    selector.register_clients(range(size), num_samples=population.num_samples)
    generator = np.random.default_rng(seed)
    learned = np.zeros(_KINDS)
    weight = population.num_samples / population.num_samples.sum()
    usual = wanted * population.num_samples.mean()
    record = Record()
    clock_s = 0.0
    for _ in range(rounds):
        selection = selector.select(round(_OVERCOMMIT * wanted))
        picked = np.array(selection.participants, dtype=np.int64)
        took_s = population.duration_s[picked] * generator.lognormal(0.0, 0.1, picked.size)
        order = np.argsort(took_s)
        used, unused = order[:wanted], order[wanted:]
        round_s = float(took_s[used[-1]])

        loss_by_kind = np.exp(-learned)
        mean_squared_loss = population.mix[picked] @ np.square(loss_by_kind)
        report = selector.update_clients(
            picked[used],
            num_samples=population.num_samples[picked[used]],
            mean_squared_loss=mean_squared_loss[used],
            duration_s=took_s[used],
            round_number=selection.round_number,
            strict=True,
        )
        selector.update_clients(
            picked[unused],
            duration_s=round_s,
            outcome="unused",
            round_number=selection.round_number,
            strict=True,
        )

        trained = population.num_samples[picked[used]] @ population.mix[picked[used]]
        learned += _LEARNING_RATE * loss_by_kind * trained / usual
        clock_s += round_s
        worth = population.num_samples[picked[used]] * np.sqrt(mean_squared_loss[used])
        record.duration_s.append(round_s)
        record.utility.append(float(worth.sum() / report.applied))
        record.clock_s.append(clock_s)
        record.mean_loss.append(float(weight @ (population.mix @ np.exp(-learned))))
        yield record


def reached(record: Record, target: float) -> tuple[int, float] | None:
    """The first round, and its time, at which the mean loss is at most the target."""
    for number, (loss, clock_s) in enumerate(
        zip(record.mean_loss, record.clock_s, strict=True), start=1
    ):
        if loss <= target:
            return number, clock_s
    return None
