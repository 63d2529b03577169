"""Files that others wrote: what reading one can raise, and how it is read.

UNREADABLE    what a file raises that cannot be used
unpacked      its bytes, where it may be gzipped
arrays        what an .npy or .npz file holds
"""

from __future__ import annotations

import gzip
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

#: what a file raises that is missing, cut off, of another kind, or without what is looked for
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    OverflowError,
    RuntimeError,  # a .npz that claims to be encrypted, or of a version that zipfile does not know
    SyntaxError,  # the header of an .npy file, like the next
    tokenize.TokenError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def unpacked(path: Path) -> bytes:
    """The bytes of a file; those that were compressed where its name ends in .gz."""
    content = path.read_bytes()
    return gzip.decompress(content) if path.suffix == ".gz" else content


def arrays(path: Path, *names: str) -> list[npt.NDArray[Any]]:
    """The arrays of these names in an .npz file; without names the one in an .npy file."""
    with path.open("rb") as stream:  # np.load leaves a damaged file open that it opened itself
        content = np.load(stream)
        return [np.asarray(content[name]) for name in names] if names else [np.asarray(content)]
