"""Whom we draw from: samples per client and category."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from oort.randomness import generator_for

_REAL = {
    "OpenImage": ("openimage_counts_12745x50.npz", "12,745 authors × the 50 commonest classes"),
    "Speech": ("google_speech_counts_2187x35.npz", "2,187 speakers × 35 words"),
    "NIST": ("nist_digits_writer_class_counts.npz", "3,579 writers × 10 digits"),
}
#: mean samples per client in the paper's Table 1 (351,523,459 / 1,660,820)
_REDDIT_MEAN = 211.7
#: √(2 ln(mean/median)) of the 10,000 Reddit sizes published with the paper's code
_REDDIT_SIGMA = 1.19
_TOPICS = 20


@dataclass(frozen=True, kw_only=True)
class Population:
    """Counts with one row per client and one column per category."""

    name: str
    source: str
    counts: npt.NDArray[np.float32]

    @cached_property
    def totals(self) -> npt.NDArray[np.float64]:
        """Samples per client."""
        return np.asarray(self.counts.sum(axis=1, dtype=np.float64))

    @cached_property
    def by_size(self) -> npt.NDArray[np.int64]:
        """Clients from the largest to the smallest."""
        return np.argsort(-self.totals, kind="stable").astype(np.int64)

    @cached_property
    def mean(self) -> float:
        """Mean samples per client."""
        return float(self.totals.mean())

    @cached_property
    def span(self) -> float:
        """Largest − smallest number of samples of a client."""
        return float(self.totals.max() - self.totals.min())

    @cached_property
    def shares(self) -> npt.NDArray[np.float64]:
        """The global distribution over categories."""
        counts = self.counts.sum(axis=0, dtype=np.float64)
        return np.asarray(counts / counts.sum())


def load_populations(folder: Path | None, generated_clients: int, seed: int) -> list[Population]:
    """The real ones, where there is a folder, and the generated one."""
    found = []
    for name, (file, source) in _REAL.items():
        if folder is not None and (folder / "counts" / file).is_file():
            with np.load(folder / "counts" / file) as data:
                counts = data["counts"].astype(np.float32)
            found.append(Population(name=name, source=source, counts=counts))
    return [*found, reddit_like(generated_clients, seed)]


def reddit_like(num_clients: int, seed: int) -> Population:
    """As many clients as Reddit has: lognormal sizes, a client's topics by a Dirichlet draw."""
    rng = generator_for(seed, 0, "reddit-like")
    median = _REDDIT_MEAN / np.exp(_REDDIT_SIGMA**2 / 2)
    sizes = np.ceil(rng.lognormal(np.log(median), _REDDIT_SIGMA, num_clients))
    popularity = 1.0 / np.arange(1, _TOPICS + 1)
    mix = rng.standard_gamma(2.0 * popularity / popularity.sum(), (num_clients, _TOPICS))
    share = mix.cumsum(axis=1)
    share /= share[:, -1:]
    # Round so that a client's topics add up to its size.
    edges = np.rint(share * sizes[:, None])
    counts = np.diff(edges, axis=1, prepend=0.0).astype(np.float32)
    source = (
        f"generated: {num_clients:,} clients, lognormal sizes with mean {_REDDIT_MEAN:g} and "
        f"σ = {_REDDIT_SIGMA:g}, {_TOPICS} topics, Dirichlet"
    )
    return Population(name="Reddit-like", source=source, counts=counts)
