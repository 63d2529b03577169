"""A partition of ``flwr-datasets``: its partitioners, its datasets.

With ``data.path`` the dataset is one saved by ``datasets`` (``save_to_disk``) with splits "train"
and "test"; with ``data.name`` it is fetched from the hub by ``flwr-datasets``. In Python,
``from_partitioner`` takes any partitioner. ``data.partition = "natural"`` is by a column of ids;
of those with ``data.smallest_size`` samples or more, ``data.clients`` are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from oort.errors import ConfigError, require
from oort.simulation.config import DataConfig
from oort.simulation.data.base import Encoding, PooledData, Samples
from oort.simulation.data.missing import missing_data
from oort.simulation.data.partition import by_owner

FEATURES = ("image", "img", "x", "features")
LABELS = ("label", "labels", "y", "character")
OWNERS = ("client", "client_id", "user", "user_id", "writer_id", "speaker_id", "character_id")


def load(config: DataConfig, *, seed: int) -> PooledData:
    """The dataset under the partitioner that ``data.partition`` names.

    Raises:
        MissingDataError: ``flwr-datasets`` is not installed, or the dataset is not at its path.
        ConfigError: The dataset cannot be partitioned so.
    """
    try:
        import datasets
        from flwr_datasets import FederatedDataset, partitioner
    except ImportError:
        missing_data("flower", "flwr-datasets", "pip install 'oort-fl[datasets]'")
    if config.path:
        splits = _saved(datasets, config.path)
    else:
        iid = partitioner.IidPartitioner(num_partitions=1)
        splits = _fetched(FederatedDataset(dataset=str(config.name), partitioners={"train": iid}))
    _, label = _columns(splits["train"])
    chosen = _partitioner(partitioner, config, splits["train"].column_names, label, seed)
    chosen.dataset = splits["train"]
    natural = config.partition == "natural"  # others make as many as they are asked for
    try:
        return from_partitioner(
            chosen,
            splits["test"],
            name=str(config.path or config.name),
            smallest_size=config.smallest_size if natural else 1,
            num_clients=config.clients if natural else None,
            seed=seed,
        )
    except ConfigError:
        raise
    except (ValueError, IndexError) as error:
        message = (
            f"data.partition must be one that flwr-datasets can make of {config.clients or 'all'} "
            f"clients; got {config.partition or 'dirichlet'!r}: {error}"
        )
        raise ConfigError(message) from error


def _saved(datasets: Any, path: str) -> Any:
    """The splits at a path."""
    try:
        splits = datasets.load_from_disk(path)
    except (OSError, ValueError):
        missing_data(
            "flower", path, "save a datasets.DatasetDict with save_to_disk, or set data.name"
        )
    named = sorted(splits) if isinstance(splits, dict) else []
    require(
        {"train", "test"} <= set(named),
        "data.path",
        "a saved datasets.DatasetDict with splits 'train' and 'test'",
        f"{path} with {named or 'no splits'}",
    )
    return splits


def _fetched(hub: Any) -> dict[str, Any]:
    """The splits of a dataset on the hub."""
    try:
        return {name: hub.load_split(name) for name in ("train", "test")}
    except (OSError, ValueError, RuntimeError) as error:
        cure = (
            "check data.name and the connection, or save it with save_to_disk where there is one "
            f"and set data.path ({type(error).__name__}: {error})"
        )
        return missing_data("flower", "splits 'train' and 'test' from the hub", cure)


def from_partitioner(
    partitioner: Any,
    test: Any,
    *,
    name: str = "flower",
    smallest_size: int = 1,
    num_clients: int | None = None,
    seed: int = 0,
) -> PooledData:
    """Any partitioner of ``flwr-datasets`` (its dataset set) as clients, with a test split.

    Args:
        partitioner: Knows ``num_partitions`` and ``load_partition(i)``.
        test: A ``datasets.Dataset`` with the same columns.
        name: What reports call it.
        smallest_size: Partitions with fewer samples are left out.
        num_clients: How many of the others to draw; all of them by default.
        seed: Same seed, same clients.
    """
    parts = [_samples(partitioner.load_partition(i)) for i in range(partitioner.num_partitions)]
    parts = [part for part in parts if len(part)]  # a client without samples cannot train
    require(bool(parts), "a flower dataset", "a partition with samples", "none")
    pool = Samples(np.concatenate([p.x for p in parts]), np.concatenate([p.y for p in parts]))
    index, start = by_owner(
        np.repeat(np.arange(len(parts)), [len(p) for p in parts]),
        smallest_size=smallest_size,
        num_clients=num_clients,
        seed=seed,
    )
    encoding = Encoding(scale=1 / 255) if pool.x.dtype == np.uint8 else Encoding()
    return PooledData(name, pool, test=_samples(test), index=index, start=start, encoding=encoding)


def _partitioner(
    module: Any, config: DataConfig, columns: Sequence[str], label: str, seed: int
) -> Any:
    clients = config.clients or 100
    if config.partition == "natural":
        owner = next((n for n in OWNERS if n in columns), None)
        require(owner is not None, "a flower dataset's columns", f"like {OWNERS}", columns)
        return module.NaturalIdPartitioner(partition_by=owner)
    if config.partition == "iid":
        return module.IidPartitioner(num_partitions=clients)
    if config.partition == "shards":
        return module.PathologicalPartitioner(
            num_partitions=clients,
            partition_by=label,
            num_classes_per_partition=config.shards,
            seed=seed,
        )
    allowed = "one of 'iid', 'dirichlet', 'shards', 'natural' for flower"
    require(config.partition in (None, "dirichlet"), "data.partition", allowed, config.partition)
    return module.DirichletPartitioner(
        num_partitions=clients,
        partition_by=label,
        alpha=config.alpha,
        min_partition_size=config.smallest_size,
        seed=seed,
    )


def _samples(dataset: Any) -> Samples:
    feature, label = _columns(dataset)
    table = dataset.with_format("numpy")
    return Samples(np.asarray(table[feature][:]), np.asarray(table[label][:], np.int64))


def _columns(dataset: Any) -> tuple[str, str]:
    names = dataset.column_names
    feature = next((n for n in FEATURES if n in names), None)
    label = next((n for n in LABELS if n in names), None)
    require(
        feature is not None and label is not None,
        "a flower dataset's columns",
        f"like {FEATURES} and {LABELS}",
        names,
    )
    return str(feature), str(label)
