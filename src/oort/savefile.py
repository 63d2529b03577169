"""One file that holds named arrays and a description: how a selector is saved.

    bytes 0–7    b"OORTSAVE"
    8–11         format version, little-endian
    12–15        CRC-32 of the description
    16–23        length of the description in bytes
    24–          the description: JSON with the caller's ``meta`` and, per array, name, type,
                 shape, offset and CRC-32
    …            the arrays, little-endian, each starting at a multiple of 64 bytes

A file is written beside its place, synced and renamed over it, so that a crash leaves the old file
or the new one, never half of either. There is no pickle: nothing in a file can run. What a file
claims is checked before memory is set aside for it.
"""

from __future__ import annotations

import errno
import io
import json
import math
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from oort.errors import DamagedFileError, NewerFileError, SaveFileError

MAGIC: Final = b"OORTSAVE"
VERSION: Final = 1
_HEADER: Final = struct.Struct("<8sIIQ")
_ALIGNMENT: Final = 64
_PLAIN_KINDS: Final = "biuf"
_MOST_DIMENSIONS: Final = 2
_LONGEST: Final = 2**48  # NumPy refuses longer ones even where there is nothing in them

Arrays = Mapping[str, npt.NDArray[Any]]


def write(path: str | os.PathLike[str], meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Write one file atomically; where a link is, what it points to.

    Raises:
        SaveFileError: The place cannot be written (the message says why); what was there before is
        untouched.
    """
    target = Path(os.path.realpath(path))
    try:
        _refuse_other_than_files(target)
        beside = target.with_name(f".oort-{os.urandom(8).hex()}.tmp")
        try:
            with beside.open("xb") as file:
                _write_all(file, meta, arrays)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)
    except OSError as error:
        message = f"cannot save to {path}: {error.strerror or error}"
        raise SaveFileError(message) from error


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """The description and the arrays of a file, every byte of them checked.

    Raises:
        SaveFileError: The file cannot be opened or is not one of ours.
        DamagedFileError: Bytes are missing or changed; the message says which part.
        NewerFileError: A newer version wrote it.
    """
    try:
        with Path(path).open("rb") as file:
            return _read_all(file, path)
    except SaveFileError:
        raise
    except OSError as error:
        message = f"cannot read {path}: {error.strerror or error}"
        raise SaveFileError(message) from error


def column(
    arrays: Arrays, name: str, dtype: npt.DTypeLike, shape: int | tuple[int, ...] | None = None
) -> npt.NDArray[Any]:
    """One array of a file, which must have this type and shape (nothing: any length).

    Raises:
        DamagedFileError: It is missing or another.

    >>> column({"row": np.array([3, 1])}, "row", np.int64, 2)
    array([3, 1])
    """
    array = arrays.get(name)
    wanted = (shape,) if isinstance(shape, int) else shape
    fits = array is not None and array.dtype == np.dtype(dtype)
    if array is None or not fits or (array.ndim != 1 if wanted is None else array.shape != wanted):
        got = "missing" if array is None else f"{array.dtype} of shape {array.shape}"
        sized = "" if wanted is None else f" of shape {wanted}"
        message = f"column '{name}' must be {np.dtype(dtype)}{sized}; it is {got}"
        raise DamagedFileError(message)
    return array


def _refuse_other_than_files(target: Path) -> None:
    """Refuse what is there and no ordinary file: renaming over a pipe or a device removes it."""
    if target.exists() and not target.is_file():
        what = "a folder" if target.is_dir() else "no ordinary file"
        raise OSError(errno.EINVAL, f"it is {what}")


def _write_all(file: io.BufferedIOBase, meta: Mapping[str, Any], arrays: Arrays) -> None:
    blocks = {name: _plain(name, array) for name, array in arrays.items()}
    entries: list[dict[str, Any]] = []
    offset = 0
    for name, block in blocks.items():
        entries.append(
            {
                "name": name,
                "dtype": block.dtype.str,
                "shape": list(block.shape),
                "offset": offset,
                "crc32": zlib.crc32(_bytes(block)),
            }
        )
        offset = _aligned(offset + block.nbytes)
    description = json.dumps({"meta": meta, "arrays": entries}, separators=(",", ":")).encode()
    file.write(_HEADER.pack(MAGIC, VERSION, zlib.crc32(description), len(description)))
    file.write(description)
    start = _aligned(_HEADER.size + len(description))
    for entry, block in zip(entries, blocks.values(), strict=True):
        file.write(b"\0" * (start + entry["offset"] - file.tell()))
        file.write(_bytes(block))


def _read_all(
    file: io.BufferedIOBase, path: str | os.PathLike[str]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    head = file.read(_HEADER.size)
    if head[: len(MAGIC)] != MAGIC[: len(head)] or not head:
        message = f"{path} is not a saved selector"
        raise SaveFileError(message)
    if len(head) < _HEADER.size:
        _damaged(path, "it ends inside its header")
    _, version, crc, length = _HEADER.unpack(head)
    if version > VERSION:
        formats = f"format {version}; this one reads up to {VERSION}"
        message = f"{path} was written by a newer Oort ({formats})"
        raise NewerFileError(message)
    if version < 1:
        _damaged(path, f"its format is {version}, which never was one")
    size = os.fstat(file.fileno()).st_size
    description = file.read(length) if length <= size else b""
    if len(description) < length or zlib.crc32(description) != crc:
        _damaged(path, "its description is cut off or changed")
    meta, blocks = _described(description, path)
    start = _aligned(_HEADER.size + length)
    end = start + blocks[-1].offset + blocks[-1].num_bytes if blocks else _HEADER.size + length
    if size != end:
        _damaged(path, f"it has {size:,} bytes instead of {end:,}")
    return meta, {block.name: _read_block(file, path, start, block) for block in blocks}


@dataclass(frozen=True, slots=True)
class _Block:
    """Where one array lies, and of what type it is."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    offset: int
    crc32: int

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def _described(
    description: bytes, path: str | os.PathLike[str]
) -> tuple[dict[str, Any], list[_Block]]:
    """What the description says, checked: whoever wrote it may not have been us."""
    try:
        content = json.loads(description)
        meta, entries = content["meta"], content["arrays"]
        blocks: list[_Block] = []
        offset = 0
        for entry in entries:
            blocks.append(_block(entry, offset))
            offset = _aligned(offset + blocks[-1].num_bytes)
    except (KeyError, TypeError, ValueError, SyntaxError, RecursionError) as error:
        _damaged(path, f"its description makes no sense ({error})"[:200])
    if not isinstance(meta, dict) or len({block.name for block in blocks}) < len(blocks):
        _damaged(path, "its description makes no sense")
    return meta, blocks


def _block(entry: Mapping[str, Any], offset: int) -> _Block:
    """One array's entry, which has to lie where the one before ends."""
    name, dtype, shape = entry["name"], np.dtype(str(entry["dtype"])), entry["shape"]
    plain = dtype.kind in _PLAIN_KINDS and dtype.str == entry["dtype"]
    flat = len(shape) <= _MOST_DIMENSIONS
    sizes = flat and all(type(n) is int and 0 <= n < _LONGEST for n in shape)
    there = type(entry["crc32"]) is int and entry["offset"] == offset
    if not (isinstance(name, str) and plain and sizes and there):
        message = f"an array cannot be {str(entry)[:100]}"
        raise ValueError(message)
    return _Block(name, dtype, tuple(shape), offset, entry["crc32"])


def _read_block(
    file: io.BufferedIOBase, path: str | os.PathLike[str], start: int, block: _Block
) -> npt.NDArray[Any]:
    array = np.empty(block.shape, block.dtype)
    if any(file.read(max(0, start + block.offset - file.tell()))):
        _damaged(path, f"there are bytes before column '{block.name}' that should be empty")
    file.seek(start + block.offset)
    got = file.readinto(_bytes(array))
    if got < array.nbytes:
        _damaged(path, f"column '{block.name}' is cut off ({got:,} of {array.nbytes:,} bytes)")
    if zlib.crc32(_bytes(array)) != block.crc32:
        _damaged(path, f"column '{block.name}' has changed bytes")
    return array


def _plain(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array as contiguous little-endian bytes."""
    if array.dtype.kind not in _PLAIN_KINDS:
        message = f"cannot save '{name}': arrays of type {array.dtype} are not plain numbers"
        raise SaveFileError(message)
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _bytes(array: npt.NDArray[Any]) -> memoryview:
    """The bytes of a contiguous array, in place."""
    return array.reshape(-1).view(np.uint8).data


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def _damaged(path: str | os.PathLike[str], what: str) -> NoReturn:
    message = f"{path} is damaged: {what}"
    raise DamagedFileError(message)


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system allows it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
