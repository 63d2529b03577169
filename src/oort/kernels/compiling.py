"""How compiled functions are compiled, and when what was compiled earlier may still be used.

Numba keeps machine code on disk and reuses it as long as the file of a function is as it was. Our
compiled functions call one another across files and take constants from others, so that machine
code is reused only as long as all of these files are as they were: otherwise one file of a new
version would run with the old machine code of another.

What is kept saves time and nothing else: where it cannot be read (a crash left half a file), has
changed, is that of other types (two processes wrote at once) or cannot be written (the disk is
full), the function is compiled again, and nobody notices but by waiting.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from contextlib import suppress
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
    "training/purposes.py",
    "training/utility.py",
    "training/compiled.py",
    "testing/category/compiled.py",
    "testing/category/cover.py",
    "testing/category/exchange_loops.py",
)

_SEAL_BYTES: Final = 4


def compiled(function: Callable[..., Any]) -> Any:
    """A function that Numba compiles when it is first called; no ``fastmath``.

    Where machine code cannot be kept on disk, it is made anew in every process.
    """
    try:
        fast = njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:  # there is no folder that can be written to
        return njit(nogil=True, error_model="numpy")(function)
    kept: Any = getattr(fast, "_cache", None)
    if hasattr(getattr(kept, "_cache_file", None), "_source_stamp"):
        kept._cache_file._source_stamp = _stamp()
        _seal(kept._cache_file)
        _make_cautious(kept)
    return fast


def _seal(file: Any) -> None:
    """Let what is written end with a checksum, which unpickling passes over, and check it.

    Not where a later Numba keeps its files in another way.
    """
    if not all(hasattr(file, name) for name in ("_dump", "_load_data", "_data_path")):
        return
    dump, load_data = file._dump, file._load_data

    def sealed(content: Any) -> bytes:
        body: bytes = dump(content)
        return body + _checksum(body)

    def load_if_unchanged(name: str) -> Any:
        content = Path(file._data_path(name)).read_bytes()
        if _checksum(content[:-_SEAL_BYTES]) != content[-_SEAL_BYTES:]:
            message = f"{name} is not as it was written"
            raise ValueError(message)
        return load_data(name)

    file._dump, file._load_data = sealed, load_if_unchanged


def _checksum(body: bytes) -> bytes:
    """Of machine code and of what it was made of."""
    return zlib.crc32(body, _stamp()[1]).to_bytes(_SEAL_BYTES, "little")


def _make_cautious(kept: Any) -> None:
    """Let what cannot be read count as never written, and what cannot be written as forgone."""
    load, save = kept.load_overload, kept.save_overload

    def load_if_whole(types: Any, target: Any) -> Any:
        with suppress(Exception):
            found = load(types, target)
            if found is None or found.signature.args == tuple(types):
                return found
        with suppress(Exception):
            kept.flush()  # so that it is written anew
        return None

    def save_if_possible(*given: Any) -> None:
        with suppress(Exception):
            save(*given)

    kept.load_overload, kept.save_overload = load_if_whole, save_if_possible


@functools.cache
def _stamp() -> tuple[str, int]:
    package, found = Path(__file__).parents[1], 0
    for name in FILES:
        path = package / name
        found = zlib.crc32(path.read_bytes() if path.exists() else b"", found)
    return "oort", found
