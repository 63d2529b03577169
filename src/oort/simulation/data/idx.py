"""The file format of MNIST and its kin: a type, a shape, then the numbers, plain or gzipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oort.errors import DamagedFileError
from oort.simulation.files import UNREADABLE, unpacked

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def read(path: Path) -> npt.NDArray[Any]:
    """The array in an idx file.

    Raises:
        DamagedFileError: It is not an idx file, or a part of it is missing.
    """
    try:
        raw = unpacked(path)
    except UNREADABLE as error:
        message = f"{path} must be an idx file that can be read; got {error}"
        raise DamagedFileError(message) from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _TYPES:
        message = f"{path} must be an idx file; got {raw[:4]!r} at its start"
        raise DamagedFileError(message)
    shape = np.frombuffer(raw, ">u4", count=raw[3], offset=4).astype(int)
    kind = np.dtype(_TYPES[raw[2]])
    expected = 4 + 4 * raw[3] + int(np.prod(shape)) * kind.itemsize
    if len(raw) != expected:
        message = f"{path} must have {expected} bytes; got {len(raw)}"
        raise DamagedFileError(message)
    values = np.frombuffer(raw, kind, offset=4 + 4 * raw[3]).reshape(shape)
    return values.astype(kind.newbyteorder("="))
