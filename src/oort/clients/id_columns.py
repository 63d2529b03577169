"""Client ids as columns: any collection of them, without a Python object per id where it has none.

Lists, ranges, NumPy arrays of integers or text, Arrow arrays and pandas columns all become one
form: a kind and a 64-bit number per id, and the text of those that are text, in UTF-8, end to end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeGuard

import numpy as np
import numpy.typing as npt

from oort.clients.hashing import text_hashes
from oort.errors import InvalidClientIdError
from oort.types import ClientId, Rows

LOWEST: Final = -(2**63)
HIGHEST: Final = 2**64 - 1

GONE: Final = 0  #: a row whose client was forgotten
INT: Final = 1  #: an integer below 2⁶³
UINT: Final = 2  #: an integer from 2⁶³ up
TEXT: Final = 3

_PART: Final = 1 << 16

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class IdColumn:
    """Many ids: their kinds, the bits of the integers, and the texts end to end."""

    kind: npt.NDArray[np.uint8]
    number: Numbers  #: 0 for text
    length: npt.NDArray[np.int64]  #: bytes of text; 0 for integers
    text: Bytes

    def __len__(self) -> int:
        return self.kind.size

    @cached_property
    def is_text(self) -> bool:
        """Whether any of them is text."""
        return self.text.size > 0 or bool((self.kind == TEXT).any())

    @cached_property
    def key(self) -> Numbers:
        """What each id is compared by first: its number, or the hash of its text."""
        if not self.is_text:
            return self.number
        hashes = text_hashes(self.text, self.start, self.length)
        return np.where(self.kind == TEXT, hashes, self.number)

    @cached_property
    def start(self) -> npt.NDArray[np.int64]:
        """Where the text of each begins."""
        return np.cumsum(self.length) - self.length

    @cached_property
    def has_equal_keys(self) -> bool:
        """Whether any two have the same key, as repeats have."""
        ordered = np.sort(self.key)
        return bool((ordered[1:] == ordered[:-1]).any())

    def take(self, places: Rows) -> IdColumn:
        """Some of them, places ascending."""
        if places.size == len(self):
            return self
        text = self.text
        if text.size:
            keep = np.zeros(len(self), np.bool_)
            keep[places] = True
            text = text[np.repeat(keep, self.length)]
        taken = IdColumn(self.kind[places], self.number[places], self.length[places], text)
        if "key" in self.__dict__:
            taken.__dict__["key"] = self.key[places]
        return taken


def checked_id(value: object) -> ClientId:
    """The id as a plain string or integer.

    Raises:
        InvalidClientIdError: It is neither, or out of range.

    >>> checked_id(np.int64(17)), checked_id("phone-17")
    (17, 'phone-17')
    >>> checked_id(True)
    Traceback (most recent call last):
    oort.errors.InvalidClientIdError: a client id must be a string or an integer ...; got True ...
    """
    if type(value) is str or (type(value) is int and LOWEST <= value <= HIGHEST):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # not str(value): an enum of strings prints as its name
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if whole and LOWEST <= int(value) <= HIGHEST:  # type: ignore[call-overload]
        return int(value)  # type: ignore[call-overload, no-any-return]
    text = repr(value)
    shown = text if len(text) <= 80 else f"{text[:79]}…"
    if isinstance(value, bool | np.bool_):
        shown += " (a mask over rows must be a NumPy array of booleans)"
    message = f"a client id must be a string or an integer from -2**63 to 2**64-1; got {shown}"
    raise InvalidClientIdError(message)


def id_list(values: Any) -> list[ClientId]:
    """Any collection of ids as a list of plain strings and integers.

    >>> id_list(np.array([3, 1])), id_list(("a", 2))
    ([3, 1], ['a', 2])
    """
    items = plain_items(values)
    if set(map(type, items)) == {int} and LOWEST <= min(items) <= max(items) <= HIGHEST:
        return list(items)
    return [checked_id(value) for value in items]


def id_column(values: Any) -> IdColumn:
    """Any collection of ids as columns.

    Raises:
        InvalidClientIdError: One of them is no id, or this is no collection.

    >>> column = id_column(["a", 7])
    >>> column.kind.tolist(), column.number.tolist(), column.text.tobytes()
    ([3, 1], [0, 7], b'a')
    """
    if isinstance(values, range):
        fits = _fits(values)
        values = np.arange(values.start, values.stop, values.step) if fits else list(values)
    chunks = getattr(values, "chunks", None)
    if isinstance(chunks, list):
        return joined([id_column(chunk) for chunk in chunks])
    if hasattr(values, "buffers") and hasattr(values, "type"):
        return _from_arrow(values)
    if hasattr(type(values), "array") and hasattr(values, "to_numpy"):
        return _from_pandas(values)
    if is_integers(values):
        return _from_integers(values)
    if _is_plain_array(values):
        if values.dtype.kind == "U" and values.size:
            return _from_fixed_width(values)
        if values.dtype.kind == "T":
            return _from_parts(values)
    return _from_list(plain_items(values))


def is_integers(values: Any) -> TypeGuard[npt.NDArray[np.integer]]:
    """Whether this is an array of integers, none of them hidden.

    >>> is_integers(np.array([3, 1])), is_integers(np.ma.array([3, 1], mask=[True, False]))
    (True, False)
    """
    return _is_plain_array(values) and values.dtype.kind in "iu"


def joined(columns: Sequence[IdColumn]) -> IdColumn:
    """Several columns as one."""
    if not columns:
        return _from_list([])
    return IdColumn(
        np.concatenate([c.kind for c in columns]),
        np.concatenate([c.number for c in columns]),
        np.concatenate([c.length for c in columns]),
        np.concatenate([c.text for c in columns]),
    )


def id_at(kind: int, number: int, text: bytes) -> ClientId:
    """One id out of its parts.

    >>> id_at(INT, 2**64 - 5, b""), id_at(TEXT, 0, b"phone")
    (-5, 'phone')
    """
    if kind == TEXT:
        return text.decode("utf-8", "surrogatepass")
    return number - 2**64 if kind == INT and number >= 2**63 else number


def plain_items(values: Any) -> Sequence[Any]:
    """A collection as a list or tuple, whatever is in it.

    Raises:
        InvalidClientIdError: It is no collection.
    """
    if isinstance(values, str | bytes):
        kind = type(values).__name__
        message = f"client ids must be a collection of ids, not one {kind}; got {values!r:.80}"
        raise InvalidClientIdError(message)
    if getattr(values, "ndim", 1) > 1:  # a table of pandas would give the names of its columns
        message = f"client ids must be a collection of ids, not a table; got {values!r:.80}"
        raise InvalidClientIdError(message)
    try:
        for unpack in ("to_pylist", "tolist"):
            listed: object = getattr(values, unpack, list)()
            if listed and isinstance(listed, list):
                return listed
    except UnicodeDecodeError as error:
        message = f"client ids must be text in UTF-8; got {error.object[:20]!r}"
        raise InvalidClientIdError(message) from error
    try:
        return values if isinstance(values, list | tuple) else list(values)
    except TypeError as error:
        message = f"client ids must be a collection of ids; got {values!r:.80}"
        raise InvalidClientIdError(message) from error


def _is_plain_array(values: Any) -> TypeGuard[npt.NDArray[Any]]:
    """Whether this is an array of one dimension that hides nothing."""
    is_array = isinstance(values, np.ndarray) and values.ndim == 1
    return is_array and not isinstance(values, np.ma.MaskedArray)


def _from_list(items: Any) -> IdColumn:
    types = set(map(type, items))
    if types == {int}:
        try:
            return _from_integers(np.array(items, np.int64))
        except OverflowError:
            pass
    elif types == {str}:
        return _from_texts(items)
    ids = [checked_id(item) for item in items]
    kind = np.fromiter((_kind_of(i) for i in ids), np.uint8, len(ids))
    number = np.array([i % 2**64 if isinstance(i, int) else 0 for i in ids], np.uint64)
    return _with_text(kind, number, [i if isinstance(i, str) else "" for i in ids])


def _from_texts(texts: Sequence[str]) -> IdColumn:
    kind = np.full(len(texts), TEXT, np.uint8)
    return _with_text(kind, np.zeros(len(texts), np.uint64), texts)


def _with_text(kind: Bytes, number: Numbers, texts: Sequence[str]) -> IdColumn:
    whole = "".join(texts)
    if whole.isascii():
        encoded, lengths = whole.encode("ascii"), map(len, texts)
    else:
        parts = [text.encode("utf-8", "surrogatepass") for text in texts]
        encoded, lengths = b"".join(parts), map(len, parts)
    length = np.fromiter(lengths, np.int64, len(texts))
    return IdColumn(kind, number, length, np.frombuffer(encoded, np.uint8))


def _from_integers(values: npt.NDArray[Any]) -> IdColumn:
    kind = np.full(values.size, INT, np.uint8)
    if values.dtype.kind == "u":
        number = values.astype(np.uint64, copy=False)
        kind[number >= np.uint64(2**63)] = UINT
    else:
        number = np.ascontiguousarray(values, np.int64).view(np.uint64)
    return IdColumn(kind, number, np.zeros(values.size, np.int64), np.empty(0, np.uint8))


def _from_fixed_width(values: npt.NDArray[np.str_]) -> IdColumn:
    """NumPy text of fixed width: four bytes a character, filled up with zeros."""
    width = values.dtype.itemsize // 4
    native = np.ascontiguousarray(values).astype(f"=U{max(width, 1)}", copy=False)
    characters = native.view(np.uint32).reshape(values.size, max(width, 1))
    if characters.max(initial=0) >= 128:
        return _from_parts(values)
    used = characters != 0
    length = np.where(used.any(axis=1), width - np.argmax(used[:, ::-1], axis=1), 0)
    inside = np.arange(width) < length[:, None]
    text = characters.astype(np.uint8)[inside]
    kind = np.full(values.size, TEXT, np.uint8)
    return IdColumn(kind, np.zeros(values.size, np.uint64), length.astype(np.int64), text)


def _from_parts(values: npt.NDArray[Any]) -> IdColumn:
    """NumPy text by way of Python's, which is there for a part of the ids at a time."""
    starts = range(0, values.size, _PART)
    return joined([_from_list(values[start : start + _PART].tolist()) for start in starts])


def _from_arrow(values: Any) -> IdColumn:
    """An Arrow array, read through its own buffers."""
    if not len(values):  # of whatever type: Arrow's own for an empty list is "null"
        return _from_list([])
    name = str(values.type)
    if name.startswith("dictionary"):
        values = values.dictionary_decode()  # its keys do not tell which values are null
        name = str(values.type)
    if values.null_count:
        message = f"a client id must be a string or an integer; got {values.null_count} nulls"
        raise InvalidClientIdError(message)
    if name.startswith(("int", "uint")):
        return _from_integers(values.to_numpy(zero_copy_only=False))
    if name == "string_view":
        values, name = values.cast("large_string"), "large_string"
    if name not in ("string", "large_string"):
        if "string" in name or "int" in name:  # inside of something: its items tell
            return _from_list(values.to_pylist())
        message = f"client ids must be strings or integers; got an Arrow column of {name}"
        raise InvalidClientIdError(message)
    try:
        values.validate(full=True)  # or else what is no UTF-8 would show when it is picked
    except ValueError as error:
        message = f"client ids must be text in UTF-8; Arrow says: {error}"
        raise InvalidClientIdError(message) from error
    _, offsets, data = values.buffers()
    width = np.int32 if name == "string" else np.int64
    ends = np.frombuffer(offsets, width)[values.offset : values.offset + len(values) + 1]
    whole = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    kind = np.full(len(values), TEXT, np.uint8)
    number = np.zeros(len(values), np.uint64)
    return IdColumn(kind, number, np.diff(ends).astype(np.int64), whole[ends[0] : ends[-1]])


def _from_pandas(values: Any) -> IdColumn:
    """A pandas column: through Arrow, where it is backed by it."""
    if values.dtype == object:  # an index of several levels, for one, has no array behind it
        return id_column(values.to_numpy())
    if values.dtype.kind not in "iu":
        backed = hasattr(values.array, "__arrow_array__")
        return id_column(values.array.__arrow_array__() if backed else values.to_numpy())
    integers = values.to_numpy()
    if integers.dtype.kind not in "iu":  # some are missing, which made floats of all
        integers = values.to_numpy(object)
    return id_column(integers)


def _kind_of(client_id: ClientId) -> int:
    if isinstance(client_id, str):
        return TEXT
    return INT if client_id < 2**63 else UINT


def _fits(values: range) -> bool:
    ends = (values[0], values[-1]) if values else (0, 0)
    return min(ends) >= -(2**63) and max(ends) < 2**63
