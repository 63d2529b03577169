"""A partition of ``flwr-datasets``: its partitioners, its datasets.

With ``data.path`` the dataset is one saved by ``datasets`` (``save_to_disk``) with splits "train"
and "test"; with ``data.name`` it is fetched from the hub by ``flwr-datasets``. In Python,
``from_partitioner`` takes any partitioner.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oort.errors import require
from oort.simulation.config import DataConfig
from oort.simulation.data.base import Encoding, PooledData, Samples
from oort.simulation.data.missing import missing_data

FEATURES = ("image", "img", "x", "features")
LABELS = ("label", "labels", "y", "character")


def load(config: DataConfig, *, seed: int) -> PooledData:
    """The dataset under the partitioner that ``data.partition`` names.

    Raises:
        MissingDataError: ``flwr-datasets`` is not installed, or the dataset is not at its path.
    """
    try:
        import datasets
        from flwr_datasets import FederatedDataset, partitioner
    except ImportError:
        missing_data("flower", "flwr-datasets", "pip install 'oort-fl[datasets]'")
    clients = config.clients or 100
    if config.path:
        try:
            splits = datasets.load_from_disk(config.path)
        except (OSError, ValueError):
            missing_data(
                "flower",
                config.path,
                "save a datasets.DatasetDict with save_to_disk, or set data.name",
            )
        _, label = _columns(splits["train"])
        chosen = _partitioner(partitioner, config, clients, label, seed)
        chosen.dataset = splits["train"]
        return from_partitioner(chosen, splits["test"], name=str(config.path))
    chosen = _partitioner(partitioner, config, clients, "label", seed)
    fetched = FederatedDataset(dataset=str(config.name), partitioners={"train": chosen})
    fetched.load_partition(0)
    return from_partitioner(chosen, fetched.load_split("test"), name=str(config.name))


def from_partitioner(partitioner: Any, test: Any, *, name: str = "flower") -> PooledData:
    """Any partitioner of ``flwr-datasets`` (its dataset set) as clients, with a test split.

    Args:
        partitioner: Knows ``num_partitions`` and ``load_partition(i)``.
        test: A ``datasets.Dataset`` with the same columns.
        name: What reports call it.
    """
    parts = [_samples(partitioner.load_partition(i)) for i in range(partitioner.num_partitions)]
    pool = Samples(np.concatenate([p.x for p in parts]), np.concatenate([p.y for p in parts]))
    start = np.concatenate([[0], np.cumsum([len(p) for p in parts])]).astype(np.int64)
    encoding = Encoding(scale=1 / 255) if pool.x.dtype == np.uint8 else Encoding()
    return PooledData(
        name, pool, test=_samples(test), index=np.arange(len(pool)), start=start, encoding=encoding
    )


def _partitioner(module: Any, config: DataConfig, clients: int, label: str, seed: int) -> Any:
    if config.partition == "iid":
        return module.IidPartitioner(num_partitions=clients)
    if config.partition == "shards":
        return module.PathologicalPartitioner(
            num_partitions=clients,
            partition_by=label,
            num_classes_per_partition=config.shards,
            seed=seed,
        )
    allowed = "one of 'iid', 'dirichlet', 'shards' for flower"
    require(config.partition == "dirichlet", "data.partition", allowed, config.partition)
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
