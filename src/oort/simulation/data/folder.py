"""Your own arrays, from a folder in one of two layouts.

    one file per client    ``NAME.npz`` with ``x`` and ``y`` for each client, and ``test.npz``
    one array for all      ``x.npy``, ``y.npy``, ``client.npy`` (whose each sample is),
                           ``test_x.npy``, ``test_y.npy``

Without ids (no ``client.npy``), ``data.partition`` says how samples spread over clients. Large
arrays are mapped, not read. Labels are whole numbers from 0; inputs stored as bytes are scaled
from 0–255 to 0–1.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oort.errors import ConfigError, require
from oort.simulation.config import DataConfig
from oort.simulation.data.base import Encoding, PooledData, Samples
from oort.simulation.data.missing import missing_data
from oort.simulation.data.partition import by_owner, deal, label_counts
from oort.types import Rows

CURE = (
    "write x.npy, y.npy, client.npy, test_x.npy and test_y.npy, or one .npz with x and y for each "
    "client and test.npz"
)


def load(config: DataConfig, *, seed: int) -> PooledData:
    """The folder's samples, by its own clients or spread as the settings say."""
    folder = Path(str(config.path))
    train, test, owner = (
        _one_array(folder) if (folder / "x.npy").is_file() else _file_per_client(folder)
    )
    _checked(train, folder)
    _checked(test, folder)
    if config.partition == "natural":
        require(
            owner is not None,
            "data.partition",
            f"other than 'natural' without {folder / 'client.npy'}",
            "natural",
        )
        index, start = by_owner(
            np.asarray(owner),
            smallest_size=config.smallest_size,
            num_clients=config.clients,
            seed=seed,
        )
    else:
        share = np.bincount(train.y) / len(train)
        counts = label_counts(config, share, config.clients, seed=seed)
        index, start = deal(train.y, counts, seed=seed)
    encoding = Encoding(scale=1 / 255) if train.x.dtype == np.uint8 else Encoding()
    return PooledData(folder.name, train, test=test, index=index, start=start, encoding=encoding)


def _one_array(folder: Path) -> tuple[Samples, Samples, Rows | None]:
    arrays = {name: _array(folder / f"{name}.npy") for name in ("x", "y", "test_x", "test_y")}
    client = folder / "client.npy"
    owner = _array(client) if client.is_file() else None
    if owner is not None and len(owner) != len(arrays["y"]):
        require(False, str(client), f"as long as y.npy ({len(arrays['y'])})", len(owner))
    return Samples(arrays["x"], arrays["y"]), Samples(arrays["test_x"], arrays["test_y"]), owner


def _file_per_client(folder: Path) -> tuple[Samples, Samples, Rows]:
    files = sorted(p for p in folder.glob("*.npz") if p.name != "test.npz")
    if not files or not (folder / "test.npz").is_file():
        missing_data("folder", folder / ("test.npz" if files else "x.npy"), CURE)
    clients = [_stored(p) for p in files]
    owner = np.repeat(np.arange(len(files)), [len(c) for c in clients])
    pool = Samples(np.concatenate([c.x for c in clients]), np.concatenate([c.y for c in clients]))
    return pool, _stored(folder / "test.npz"), owner


def _stored(path: Path) -> Samples:
    try:
        with np.load(path) as archive:
            return Samples(archive["x"], archive["y"])
    except (KeyError, ValueError, OSError) as error:
        message = f"{path} must hold arrays x and y; got {error}"
        raise ConfigError(message) from error


def _array(path: Path) -> npt.NDArray[Any]:
    if not path.is_file():
        missing_data("folder", path, CURE)
    values: npt.NDArray[Any] = np.load(path, mmap_mode="r")
    return values


def _checked(samples: Samples, folder: Path) -> None:
    wanted = "whole numbers from 0"
    whole = np.issubdtype(samples.y.dtype, np.integer)
    require(whole, f"labels in {folder}", wanted, samples.y.dtype.name)
    least = int(samples.y.min()) if len(samples) else 0
    require(least >= 0, f"labels in {folder}", wanted, least)
    require(
        len(samples.x) == len(samples.y) > 0,
        f"inputs in {folder}",
        "as many as labels, and some",
        len(samples.x),
    )
