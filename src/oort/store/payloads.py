"""Changes as bytes, and back. No pickle: nothing in a journal can run.

    byte 0     version of the payload
    …          the fields of the change, in the order written here; numbers are 8 bytes, columns
               say their type, their form and their length before their values

A column is as narrow as its values allow. One that holds one value throughout, or counts up by
one, as the rows of newcomers do, is stored as its first value.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from oort.clients.changes import Hinted, Joined, Marked, Removed, Returned
from oort.clients.id_columns import IdColumn
from oort.store.testing_changes import (
    Dropped,
    Enrolled,
    Informed,
    Planned,
    Reachable,
    read_ids,
    read_informed,
    read_planned,
    read_reachable,
    write_ids,
    write_informed,
    write_planned,
    write_reachable,
)
from oort.training.changes import Change, Forgotten, Reported, Selected, Switched
from oort.training.intake import Taken
from oort.types import Rows

VERSION: Final = 1

_RAW: Final = 0
_CONSTANT: Final = 1
_COUNTING: Final = 2
_NUMBER: Final = struct.Struct("<q")
_COLUMN: Final = struct.Struct("<BBQ")
_TYPES: Final = tuple(np.dtype(code) for code in ("u1", "<u2", "<u4", "<i8", "<u8", "<f4", "<f8"))
_NARROW: Final = _TYPES[:3]
_MODES: Final = ("guided", "uniform")
_HINTS: Final = ("num_samples", "duration_s")

Array = npt.NDArray[Any]
AnyChange: TypeAlias = Change | Enrolled | Dropped | Reachable | Informed | Planned


class Writer:
    """Fields, one after the other."""

    def __init__(self) -> None:
        self._parts: list[bytes] = [bytes([VERSION])]

    def number(self, value: int) -> None:
        """One whole number."""
        self._parts.append(_NUMBER.pack(value))

    def column(self, values: Array) -> None:
        """One column."""
        values = _narrowed(np.ascontiguousarray(values))
        form = _form(values)
        stored = values if form == _RAW else values[:1]
        self._parts.append(_COLUMN.pack(_TYPES.index(values.dtype), form, values.size))
        self._parts.append(stored.tobytes())

    def done(self) -> bytes:
        """All of it."""
        return b"".join(self._parts)


class Reader:
    """The fields that a writer wrote.

    Raises:
        ValueError: The bytes are not such fields. (Checksums come first, so this is a bug or a
            payload of a newer version.)
    """

    def __init__(self, data: bytes) -> None:
        if not data or data[0] != VERSION:
            got = data[0] if data else "nothing"
            message = f"a payload must be of version {VERSION}; got {got}"
            raise ValueError(message)
        self._data = data
        self._at = 1

    def number(self) -> int:
        """The next number."""
        (value,) = _NUMBER.unpack(self._take(_NUMBER.size))
        return int(value)

    def column(self, dtype: str) -> Array:
        """The next column, widened to a type."""
        code, form, count = _COLUMN.unpack(self._take(_COLUMN.size))
        if code >= len(_TYPES) or form > _COUNTING:
            message = f"a column must be of a known type and form; got {code} and {form}"
            raise ValueError(message)
        kind = _TYPES[code]
        held = count if form == _RAW else min(count, 1)
        values = np.frombuffer(self._take(held * kind.itemsize), kind)
        if form == _CONSTANT:
            return np.full(count, values[0] if count else 0, dtype)
        if form == _COUNTING:
            return np.arange(values[0], int(values[0]) + count).astype(dtype)
        return values.astype(dtype)

    def end(self) -> None:
        """Nothing may be left over."""
        if self._at != len(self._data):
            message = (
                f"a payload must end with its fields; {len(self._data) - self._at} bytes more"
            )
            raise ValueError(message)

    def _take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            message = f"a payload must hold {size} more bytes; it ends"
            raise ValueError(message)
        self._at += size
        return self._data[self._at - size : self._at]


@dataclass(frozen=True, slots=True)
class _Kind:
    change: type
    write: Callable[[Any, Writer], None]
    read: Callable[[Reader], AnyChange]


def encode(change: AnyChange) -> tuple[str, bytes]:
    """The kind of a change, and its bytes.

    >>> kind, data = encode(Switched("uniform"))
    >>> kind, decode(kind, data)
    ('switched', Switched(mode='uniform'))
    """
    kind = _KIND_OF[type(change)]
    writer = Writer()
    KINDS[kind].write(change, writer)
    return kind, writer.done()


def decode(kind: str, data: bytes) -> AnyChange:
    """The change that ``encode`` was given.

    Raises:
        ValueError: The bytes are not such a change.
    """
    if kind not in KINDS:
        message = f"an entry must be of a known kind; got {kind!r:.40}"
        raise ValueError(message)
    reader = Reader(data)
    change = KINDS[kind].read(reader)
    reader.end()
    return change


# One pair of functions per kind


def _write_joined(change: Joined, out: Writer) -> None:
    for column in (change.ids.kind, change.ids.number, change.ids.length, change.ids.text):
        out.column(column)


def _read_joined(given: Reader) -> Joined:
    kind, number, length = given.column("u1"), given.column("u8"), given.column("i8")
    return Joined(IdColumn(kind, number, length, given.column("u1")))


def _write_hinted(change: Hinted, out: Writer) -> None:
    out.number(_HINTS.index(change.column))
    out.column(change.rows)
    out.column(change.values)


def _read_hinted(given: Reader) -> Hinted:
    if given.number() == 0:
        return Hinted("num_samples", _rows(given), given.column("u4"))
    return Hinted("duration_s", _rows(given), given.column("f4"))


def _write_marked(change: Marked, out: Writer) -> None:
    out.number(int(change.online))
    out.number(int(change.rows is None))
    if change.rows is not None:
        out.column(change.rows)


def _read_marked(given: Reader) -> Marked:
    online, everyone = bool(given.number()), bool(given.number())
    return Marked(None if everyone else _rows(given), online)


def _write_selected(change: Selected, out: Writer) -> None:
    for value in (change.round_number, change.draw, change.pacer_steps, change.wanted):
        out.number(value)
    out.column(change.rows)
    out.number(int(change.history is not None))
    if change.history is not None:
        sums, counts = [v[0] for v in change.history.values()], change.history.values()
        out.column(np.array(list(change.history), np.int64))
        out.column(np.array(sums, np.float64))
        out.column(np.array([count for _, count in counts], np.int64))


def _read_selected(given: Reader) -> Selected:
    number, draw, steps, wanted = (given.number() for _ in range(4))
    rows = _rows(given)
    history = None
    if given.number():
        rounds = given.column("i8").tolist()
        entries = zip(given.column("f8").tolist(), given.column("i8").tolist(), strict=True)
        history = dict(zip(rounds, entries, strict=True))
    return Selected(number, draw, rows, steps, wanted, history)


def _write_reported(change: Reported, out: Writer) -> None:
    taken = change.taken
    out.number(change.round_number)
    for column in (taken.rows, taken.outcome, taken.utility, taken.duration_s, taken.num_samples):
        out.column(column)
    out.column(taken.outdated)
    width = 0 if taken.sketch is None else taken.sketch.shape[1]
    out.number(width)
    if taken.sketch is not None:
        out.column(taken.sketch.reshape(-1))


def _read_reported(given: Reader) -> Reported:
    number, rows = given.number(), _rows(given)
    outcome, utility, duration_s = given.column("u1"), given.column("f4"), given.column("f4")
    num_samples, outdated, width = given.column("i8"), _rows(given), given.number()
    sketch = given.column("f4").reshape(-1, width) if width else None
    return Reported(
        number, Taken(rows, outcome, utility, duration_s, num_samples, sketch, outdated)
    )


def _rows(given: Reader) -> Rows:
    return given.column("i8")


def _only_rows(kind: type) -> _Kind:
    return _Kind(kind, lambda change, out: out.column(change.rows), lambda r: kind(_rows(r)))


KINDS: Final[dict[str, _Kind]] = {
    "joined": _Kind(Joined, _write_joined, _read_joined),
    "returned": _only_rows(Returned),
    "hinted": _Kind(Hinted, _write_hinted, _read_hinted),
    "removed": _only_rows(Removed),
    "forgotten": _only_rows(Forgotten),
    "marked": _Kind(Marked, _write_marked, _read_marked),
    "selected": _Kind(Selected, _write_selected, _read_selected),
    "reported": _Kind(Reported, _write_reported, _read_reported),
    "enrolled": _Kind(Enrolled, write_ids, lambda given: Enrolled(read_ids(given))),
    "dropped": _Kind(Dropped, write_ids, lambda given: Dropped(read_ids(given))),
    "reachable": _Kind(Reachable, write_reachable, read_reachable),
    "informed": _Kind(Informed, write_informed, read_informed),
    "planned": _Kind(Planned, write_planned, read_planned),
    "switched": _Kind(
        Switched,
        lambda change, out: out.number(_MODES.index(change.mode)),
        lambda given: Switched(_MODES[given.number()]),
    ),
}
_KIND_OF: Final = {kind.change: name for name, kind in KINDS.items()}


def _narrowed(values: Array) -> Array:
    """The same values in the narrowest type that we store."""
    if values.dtype.kind == "f":
        return values.astype("<f4" if values.dtype.itemsize == 4 else "<f8", copy=False)
    if values.dtype.kind not in "iub":
        message = f"a column must hold numbers; got {values.dtype}"
        raise ValueError(message)
    if values.size == 0:
        return values.astype("u1")
    low, high = int(values.min()), int(values.max())
    for narrow in _NARROW:
        if low >= 0 and high <= np.iinfo(narrow).max:
            return values.astype(narrow, copy=False)
    return values.astype("<u8" if high >= 2**63 else "<i8", copy=False)


def _form(values: Array) -> int:
    if values.size < 2:
        return _RAW
    bits = values.view(f"u{values.dtype.itemsize}")
    if bits[1] == bits[0]:
        return _CONSTANT if bool((bits == bits[0]).all()) else _RAW
    if values.dtype.kind == "f" or values[1] < values[0] or values[1] - values[0] != 1:
        return _RAW
    return _COUNTING if bool((np.diff(values) == 1).all()) else _RAW
