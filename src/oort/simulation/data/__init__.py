"""Samples, and which client holds which of them.

    base          FederatedData, what datasets offer; PooledData, for those that fit in memory
    partition     label skew and size skew: who holds what
    corruption    flipped labels, on some clients or on all
    digits        8×8 images that come with scikit-learn: the demo
    synthetic     FedProx's synthetic(α, β), generated per client when asked for
    idx           reader of the file format of MNIST
    mnist         MNIST, also by writer, and Fashion-MNIST
    shakespeare   next character, by role
    flower        a partition of ``flwr-datasets``
    folder        your own arrays
    missing       what to say where a dataset's files are not there

``load`` gives the dataset that a config describes.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from oort.errors import require
from oort.simulation.config import DataConfig
from oort.simulation.data.base import Cohort, Encoding, FederatedData, PooledData, Samples
from oort.simulation.data.corruption import corrupted

__all__ = ["Cohort", "Encoding", "FederatedData", "PooledData", "Samples", "load"]

_MODULES = {"fashion-mnist": "mnist"}


def load(config: DataConfig, *, seed: int) -> FederatedData:
    """The dataset that the settings describe, spread over clients and corrupted as they say.

    Raises:
        MissingDataError: Its files are not there; the message says how to get them.
        ConfigError: The settings do not fit the dataset.
    """
    module = import_module(f"oort.simulation.data.{_MODULES.get(config.dataset, config.dataset)}")
    read: Callable[..., FederatedData] = module.load
    data = read(config, seed=seed)
    enough = f"so small that some client of {data.name} holds as many samples"
    require(data.num_clients > 0, "data.smallest_size", enough, config.smallest_size)
    return corrupted(data, config, seed=seed)
