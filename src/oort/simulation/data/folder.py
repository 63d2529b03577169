"""Your own arrays, from a folder in one of two layouts.

    one file per client    ``NAME.npz`` with ``x`` and ``y`` for each client, and ``test.npz``
    one array for all      ``x.npy``, ``y.npy``, ``client.npy`` (whose each sample is),
                           ``test_x.npy``, ``test_y.npy``

Clients are those of the folder, unless ``data.partition`` says how samples spread over others, as
it has to without ids (no ``client.npy``; Dirichlet where it is unset). Large arrays are mapped,
not read. Labels are whole numbers from 0; inputs stored as bytes are scaled from 0–255 to 0–1.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oort.errors import ConfigError, require
from oort.simulation.config import DataConfig
from oort.simulation.data.base import Encoding, PooledData, Samples
from oort.simulation.data.missing import missing_data
from oort.simulation.data.partition import by_owner, deal, label_counts
from oort.simulation.files import UNREADABLE, arrays
from oort.types import Rows

LARGEST_LABEL = 1_000_000  #: a model gives a score for every label up to the largest
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
    train, test = _checked(train, folder), _checked(test, folder)
    _same_shape([train, test], f"test inputs in {folder}")
    bytes_or_not = {part.x.dtype == np.uint8 for part in (train, test)}
    require(
        len(bytes_or_not) == 1,
        f"inputs in {folder}",
        "bytes to train and to test, or neither: bytes are scaled",
        (train.x.dtype.name, test.x.dtype.name),
    )
    if config.partition == "natural" or (config.partition is None and owner is not None):
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
    x, y, *test = (_array(folder / f"{name}.npy") for name in ("x", "y", "test_x", "test_y"))
    client = folder / "client.npy"
    owner = _array(client) if client.is_file() else None
    if owner is not None:
        fits = owner.shape == y.shape[:1]
        require(fits, str(client), f"a list as long as y.npy ({len(y)})", owner.shape)
    return Samples(x, y), Samples(*test), owner


def _file_per_client(folder: Path) -> tuple[Samples, Samples, Rows]:
    files = sorted(p for p in folder.glob("*.npz") if p.name != "test.npz")
    if not files or not (folder / "test.npz").is_file():
        missing_data("folder", folder / ("test.npz" if files else "x.npy"), CURE)
    clients = [_stored(p) for p in files]
    _same_shape(clients, f"inputs in {folder}")
    owner = np.repeat(np.arange(len(files)), [len(c) for c in clients])
    pool = Samples(np.concatenate([c.x for c in clients]), np.concatenate([c.y for c in clients]))
    return pool, _stored(folder / "test.npz"), owner


def _stored(path: Path) -> Samples:
    try:
        return Samples(*arrays(path, "x", "y"))
    except UNREADABLE as error:
        message = f"{path} must hold arrays x and y; got {error}"
        raise ConfigError(message) from error


def _array(path: Path) -> npt.NDArray[Any]:
    if not path.is_file():
        missing_data("folder", path, CURE)
    try:
        values: npt.NDArray[Any] = np.lib.format.open_memmap(str(path), mode="r")
    except UNREADABLE as error:
        message = f"{path} must hold an array of numbers; got {error}"
        raise ConfigError(message) from error
    return values


def _same_shape(parts: Sequence[Samples], what: str) -> None:
    """Inputs that one model can take."""
    first = parts[0].x.shape[1:]
    other = next((p.x.shape[1:] for p in parts if p.x.shape[1:] != first), first)
    require(other == first, what, f"of one shape, here {first}", other)


def _checked(samples: Samples, folder: Path) -> Samples:
    """The same, labels as whole numbers of 64 bits."""
    wanted = f"whole numbers from 0 to {LARGEST_LABEL}"
    whole = np.issubdtype(samples.y.dtype, np.integer) and samples.y.ndim == 1
    require(whole, f"labels in {folder}", wanted, (samples.y.dtype.name, samples.y.shape))
    numbers = samples.x.dtype.kind in "biuf" and samples.x.ndim > 1
    must = "numbers, a row or more axes of them per sample"
    require(numbers, f"inputs in {folder}", must, (samples.x.dtype.name, samples.x.shape))
    for label in (int(samples.y.min()), int(samples.y.max())) if len(samples) else ():
        require(0 <= label <= LARGEST_LABEL, f"labels in {folder}", wanted, label)
    require(
        len(samples.x) == len(samples.y) > 0,
        f"inputs in {folder}",
        "as many as labels, and some",
        len(samples.x),
    )
    return Samples(samples.x, samples.y.astype(np.int64))
