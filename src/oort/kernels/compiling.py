"""How compiled functions are compiled, and when what was compiled earlier may still be used.

Numba keeps machine code on disk and reuses it as long as the file of a function is as it was. Our
compiled functions call one another across files and take constants from others, so that machine
code is reused only as long as all of these files are as they were: otherwise one file of a new
version would run with the old machine code of another.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from numba import njit

#: Every file that compiled code is made of, from the top of the package.
FILES: Final = (
    "kernels/compiling.py",
    "kernels/compiled.py",
    "kernels/compiled_draws.py",
    "kernels/draws.py",
    "randomness.py",
    "clients/columns.py",
    "clients/statistics.py",
    "clients/compiled.py",
    "training/eligibility.py",
    "training/utility.py",
    "training/compiled.py",
)


def compiled(function: Callable[..., Any]) -> Any:
    """A function that Numba compiles when it is first called; no ``fastmath``.

    Where machine code cannot be kept on disk, it is made anew in every process.
    """
    try:
        fast = njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # there is no folder that can be written to
        return njit(nogil=True, error_model="numpy")(function)
    kept: Any = getattr(getattr(fast, "_cache", None), "_cache_file", None)
    if hasattr(kept, "_source_stamp"):
        kept._source_stamp = _stamp()
    return fast


@functools.cache
def _stamp() -> tuple[str, int]:
    package, found = Path(__file__).parents[1], 0
    for name in FILES:
        path = package / name
        found = zlib.crc32(path.read_bytes() if path.exists() else b"", found)
    return "oort", found
