"""One file that holds named arrays and a description: how a selector is saved.

    bytes 0–7    b"OORTSAVE"
    8–11         format version, little-endian
    12–15        CRC-32 of the description
    16–23        length of the description in bytes
    24–          the description: JSON with the caller's ``meta`` and, per array, name, type,
                 shape, offset and CRC-32
    …            the arrays, little-endian, each starting at a multiple of 64 bytes

A file is written beside its place, synced and renamed over it, so that a crash leaves the old file
or the new one, never half of either. There is no pickle: nothing in a file can run.
"""

from __future__ import annotations

import io
import json
import os
import struct
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.errors import DamagedFileError, NewerFileError, SaveFileError

MAGIC: Final = b"OORTSAVE"
VERSION: Final = 1
_HEADER: Final = struct.Struct("<8sIIQ")
_ALIGNMENT: Final = 64
_PLAIN_KINDS: Final = "biuf"

Arrays = Mapping[str, npt.NDArray[Any]]


def write(path: str | os.PathLike[str], meta: Mapping[str, Any], arrays: Arrays) -> None:
    """Write one file atomically.

    Raises:
        SaveFileError: The place cannot be written (the message says why); what was there before is
        untouched.
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=".tmp", dir=target.parent
        )
        try:
            with os.fdopen(handle, "wb") as file:
                _write_all(file, meta, arrays)
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(0o666 & ~_umask())
            os.replace(name, target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)
    except OSError as error:
        message = f"cannot save to {target}: {error.strerror or error}"
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
    size = os.fstat(file.fileno()).st_size
    description = file.read(length) if length <= size else b""
    if len(description) < length or zlib.crc32(description) != crc:
        _damaged(path, "its description is cut off or changed")
    content = json.loads(description)
    start = _aligned(_HEADER.size + length)
    arrays = {entry["name"]: _read_block(file, path, start, entry) for entry in content["arrays"]}
    return content["meta"], arrays


def _read_block(
    file: io.BufferedIOBase, path: str | os.PathLike[str], start: int, entry: Mapping[str, Any]
) -> npt.NDArray[Any]:
    array = np.empty(entry["shape"], np.dtype(entry["dtype"]))
    file.seek(start + entry["offset"])
    got = file.readinto(_bytes(array))
    if got < array.nbytes:
        _damaged(path, f"column '{entry['name']}' is cut off ({got:,} of {array.nbytes:,} bytes)")
    if zlib.crc32(_bytes(array)) != entry["crc32"]:
        _damaged(path, f"column '{entry['name']}' has changed bytes")
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


def _damaged(path: str | os.PathLike[str], what: str) -> None:
    message = f"{path} is damaged: {what}"
    raise DamagedFileError(message)


def _umask() -> int:
    """The process's umask; it can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system allows it."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
