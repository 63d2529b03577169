"""Who holds what: label skew, size skew.

    draw_sizes     samples per client: equal, log-normal, as in real datasets, or from a file
    label_counts   samples per client and label: even, Dirichlet, shards, or a matrix of counts
    deal           which samples those are
    by_owner       a natural partition, by the ids that come with the samples

Samples of a label are dealt from one shuffled deck: nobody shares a sample while the deck lasts,
and once it is through it is dealt again, so that small datasets serve many clients with
overlapping samples, each used as often as any other. A client never holds a sample twice unless it
asks for more than there are.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from oort.errors import ConfigError, require
from oort.randomness import generator_for
from oort.simulation.config import DataConfig
from oort.simulation.files import UNREADABLE, arrays
from oort.simulation.settings import MOST
from oort.simulation.tables import at_quantile, table
from oort.types import Floats, Integers, Rows

USUAL_SIZE = 50.0
LOGNORMAL_SIGMA = 1.0


def draw_sizes(config: DataConfig, num_clients: int, *, seed: int) -> Rows:
    """Samples that each client holds.

    >>> sizes = draw_sizes(DataConfig(sizes="openimage", mean_size=60), 2000, seed=1)
    >>> bool(abs(sizes.mean() - 60) < 10 and sizes.max() > 10 * np.median(sizes))
    True
    """
    rng = generator_for(seed, 0, "sizes")
    if config.sizes == "equal":
        raw = np.full(num_clients, config.mean_size or USUAL_SIZE)
    elif config.sizes == "lognormal":
        raw = (config.mean_size or USUAL_SIZE) * rng.lognormal(
            -(LOGNORMAL_SIGMA**2) / 2, LOGNORMAL_SIGMA, num_clients
        )
    elif config.sizes in table("client_sizes")["sizes"]:
        raw = at_quantile(table("client_sizes")["sizes"][config.sizes], rng.random(num_clients))
    else:
        raw = rng.choice(_positive_column(Path(config.sizes)), num_clients)
    if config.mean_size is not None and config.sizes not in ("equal", "lognormal"):
        raw = raw * (config.mean_size / raw.mean())
    largest = config.largest_size if config.largest_size is not None else np.inf
    return np.asarray(np.clip(np.rint(raw), config.smallest_size, largest).astype(np.int64))


def label_counts(config: DataConfig, share: Floats, num_clients: int | None, *, seed: int) -> Rows:
    """Samples of each client (row) and label (column); none of a label that nobody has.

    Args:
        config: Kind of partition, and sizes.
        share: Each label's share of the whole dataset.
        num_clients: How many clients; where unset, as many as the matrix of counts has, else 100.
        seed: Same seed, same counts.
    """
    there = share > 0
    if not there.all():
        of_those = label_counts(config, share[there], num_clients, seed=seed)
        counts = np.zeros((len(of_those), len(share)), np.int64)
        counts[:, there] = of_those
        return counts
    if config.partition == "counts":
        return _from_matrix(config, len(share), num_clients, seed=seed)
    require(
        config.partition != "natural",
        "data.partition",
        f"one of 'iid', 'dirichlet', 'shards', 'counts' for {config.dataset}",
        config.partition,
    )
    count = num_clients or 100
    rng = generator_for(seed, 0, "label skew")
    return _rounded(
        _label_shares(config, share, count, rng), draw_sizes(config, count, seed=seed), rng
    )


def deal(labels: Integers, counts: Rows, *, seed: int) -> tuple[Rows, Rows]:
    """Rows of the dataset for one client after the other, and where each client's begin.

    >>> index, start = deal(np.array([0, 0, 1, 1]), np.array([[1, 1], [1, 0]]), seed=1)
    >>> start.tolist(), sorted((index[:2] // 2).tolist()), len(set(index.tolist()))
    ([0, 2, 3], [0, 1], 3)
    """
    rng = generator_for(seed, 0, "deal")
    owners, rows = [], []
    for label in range(counts.shape[1]):
        deck = rng.permutation(np.flatnonzero(labels == label))
        wanted = counts[:, label]
        if not wanted.any():
            continue
        require(
            len(deck) > 0,
            "data.counts",
            f"zero for label {label}, of which there is no sample",
            int(wanted.sum()),
        )
        owners.append(np.repeat(np.arange(len(counts)), wanted))
        rows.append(deck[np.arange(int(wanted.sum())) % len(deck)])
    owner, index = np.concatenate(owners), np.concatenate(rows)
    start = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=len(counts)))])
    return index[np.argsort(owner, kind="stable")], start.astype(np.int64)


def by_owner(
    owner: Integers, *, smallest_size: int = 1, num_clients: int | None = None, seed: int = 0
) -> tuple[Rows, Rows]:
    """The natural partition: a client per id, those with too few samples left out.

    >>> index, start = by_owner(np.array([9, 4, 9, 9]), smallest_size=2)
    >>> index.tolist(), start.tolist()
    ([0, 2, 3], [0, 3])
    """
    _, client, sizes = np.unique(owner, return_inverse=True, return_counts=True)
    kept = np.flatnonzero(sizes >= smallest_size)
    if num_clients is not None:
        require(
            num_clients <= len(kept),
            "data.clients",
            f"at most {len(kept)}, the number of natural clients",
            num_clients,
        )
        kept = np.sort(generator_for(seed, 0, "natural clients").permutation(kept)[:num_clients])
    order = np.argsort(client, kind="stable")
    order = order[np.isin(client[order], kept)]
    return order.astype(np.int64), np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int64)


def _label_shares(config: DataConfig, share: Floats, n: int, rng: np.random.Generator) -> Floats:
    """Each client's share of every label: rows sum to one."""
    if config.partition == "iid":
        return np.tile(share, (n, 1))
    if config.partition in (None, "dirichlet"):
        return rng.dirichlet(np.maximum(config.alpha * len(share) * share, 1e-6), n)
    num_labels = min(config.shards, len(share))
    chosen = rng.random((n, len(share))).argsort(axis=1)[:, :num_labels]
    shares = np.zeros((n, len(share)))
    np.put_along_axis(shares, chosen, 1.0 / num_labels, axis=1)
    return shares


def _rounded(shares: Floats, sizes: Rows, rng: np.random.Generator) -> Rows:
    """Whole counts with the right sums: the remainders go to labels drawn by their fractions."""
    exact = shares * sizes[:, None]
    counts = np.floor(exact).astype(np.int64)
    missing = sizes - counts.sum(axis=1)
    keys = rng.random(exact.shape) ** (1.0 / np.maximum(exact - counts, 1e-12))
    places = np.argsort(-keys, axis=1).argsort(axis=1)
    return np.asarray(counts + (places < missing[:, None]))


def _from_matrix(
    config: DataConfig, num_labels: int, num_clients: int | None, *, seed: int
) -> Rows:
    """Counts from a file: rows drawn from it where another number of clients is asked for."""
    path = Path(str(config.counts))
    try:
        (stored,) = arrays(path, "counts") if path.suffix == ".npz" else arrays(path)
    except UNREADABLE as error:
        message = (
            f"data.counts must be an .npy matrix, or an .npz with 'counts'; got {path}: {error}"
        )
        raise ConfigError(message) from error
    fits = stored.ndim == 2 and stored.shape[1] >= num_labels
    require(
        fits, "data.counts", f"a matrix of counts with {num_labels} columns or more", stored.shape
    )
    numbers = stored.dtype.kind in "biuf"
    counts = numbers and np.all((stored >= 0) & (stored <= MOST) & (stored == np.floor(stored)))
    must = f"a matrix of counts with whole numbers from 0 to {MOST}"
    require(bool(counts), "data.counts", must, f"others in {path}")
    matrix = stored.astype(np.int64)
    matrix = matrix[:, np.argsort(-matrix.sum(axis=0), kind="stable")[:num_labels]]
    matrix = matrix[matrix.sum(axis=1) >= config.smallest_size]
    require(
        len(matrix) > 0,
        "data.counts",
        f"a matrix with rows of {config.smallest_size} samples or more",
        str(path),
    )
    if num_clients is not None:
        matrix = matrix[
            generator_for(seed, 0, "counts").choice(
                len(matrix), num_clients, replace=num_clients > len(matrix)
            )
        ]
    return np.asarray(matrix)


def _positive_column(path: Path) -> Floats:
    try:
        stored = arrays(path)[0].ravel()
    except UNREADABLE as error:
        message = f"data.sizes must be one of the named sizes or an .npy file; got {path}: {error}"
        raise ConfigError(message) from error
    numbers = stored.dtype.kind in "biuf"
    values = stored[np.isfinite(stored) & (stored > 0)].astype(np.float64) if numbers else stored
    fits = numbers and len(values) > 0 and values.max() <= MOST
    require(fits, "data.sizes", f"a file with positive numbers, up to {MOST}", str(path))
    return values
