"""Client ids and their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.errors import DamagedFileError, InvalidClientIdError
from oort.types import ClientId, Mask, Rows

LOWEST: Final = -(2**63)
HIGHEST: Final = 2**64 - 1

_GONE, _INT, _UINT, _TEXT = 0, 1, 2, 3


def checked_id(value: object) -> ClientId:
    """The id as a plain string or integer.

    Raises:
        InvalidClientIdError: It is neither, or out of range.

    >>> checked_id(np.int64(17)), checked_id("phone-17")
    (17, 'phone-17')
    >>> checked_id(True)
    Traceback (most recent call last):
    oort.errors.InvalidClientIdError: a client id must be a string or an integer ...; got True
    """
    if type(value) is str or (type(value) is int and LOWEST <= value <= HIGHEST):
        return value
    if isinstance(value, str):
        return str(value)
    if (
        isinstance(value, int | np.integer)
        and not isinstance(value, bool)
        and LOWEST <= value <= HIGHEST
    ):
        return int(value)
    text = repr(value)
    shown = text if len(text) <= 80 else f"{text[:79]}…"
    message = f"a client id must be a string or an integer from -2**63 to 2**64-1; got {shown}"
    raise InvalidClientIdError(message)


def checked_ids(values: Iterable[Any]) -> list[ClientId]:
    """Every id of a collection as a plain string or integer; arrays are unpacked at C speed."""
    if isinstance(values, str | bytes):
        kind = type(values).__name__
        message = f"client ids must be a collection of ids, not one {kind}; got {values!r:.80}"
        raise InvalidClientIdError(message)
    items = values.tolist() if isinstance(values, np.ndarray) else values
    try:
        return [checked_id(value) for value in items]
    except TypeError as error:
        message = f"client ids must be a collection of ids; got {values!r:.80}"
        raise InvalidClientIdError(message) from error


class ClientIds:
    """The ids of all rows, and the row of each id."""

    def __init__(self) -> None:
        self._row_of: dict[ClientId, int] = {}
        self._id_of: list[ClientId | None] = []

    def __len__(self) -> int:
        """How many rows were ever given out."""
        return len(self._id_of)

    def find(self, ids: Sequence[ClientId]) -> Rows:
        """The row of each id, −1 where it is unknown."""
        row_of = self._row_of
        return np.fromiter((row_of.get(i, -1) for i in ids), np.int64, len(ids))

    def add(self, ids: Sequence[ClientId]) -> Rows:
        """The row of each id, giving out new rows in order to those that have none."""
        row_of, id_of = self._row_of, self._id_of
        rows = np.empty(len(ids), np.int64)
        for place, client_id in enumerate(ids):
            row = row_of.get(client_id)
            if row is None:
                row = row_of[client_id] = len(id_of)
                id_of.append(client_id)
            rows[place] = row
        return rows

    def of(self, rows: Rows) -> list[ClientId]:
        """The ids of rows that were not forgotten."""
        id_of = self._id_of
        found = [id_of[row] for row in rows.tolist()]
        return [client_id for client_id in found if client_id is not None]

    def is_forgotten(self, rows: Rows) -> Mask:
        """Which of these rows are empty."""
        id_of = self._id_of
        return np.fromiter((id_of[row] is None for row in rows.tolist()), np.bool_, rows.size)

    def forget(self, rows: Rows) -> None:
        """Erase the ids of these rows; the rows stay empty for ever."""
        for row in rows.tolist():
            client_id = self._id_of[row]
            if client_id is not None:
                del self._row_of[client_id]
                self._id_of[row] = None

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything, as arrays for a file: kind, number and text of each row's id."""
        kinds = np.fromiter((_kind(i) for i in self._id_of), np.uint8, len(self))
        numbers = [i if isinstance(i, int) else 0 for i in self._id_of]
        texts = [
            i.encode("utf-8", "surrogatepass") if isinstance(i, str) else b"" for i in self._id_of
        ]
        lengths = np.fromiter((len(t) for t in texts), np.uint32, len(self))
        return {
            "id_kind": kinds,
            "id_number": np.array([n % 2**64 for n in numbers], np.uint64),
            "id_length": lengths,
            "id_text": np.frombuffer(b"".join(texts), np.uint8),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> ClientIds:
        """The ids that ``to_arrays`` gave."""
        ids = cls()
        text = arrays["id_text"].tobytes()
        start = 0
        columns = (
            arrays["id_kind"].tolist(),
            arrays["id_number"].tolist(),
            arrays["id_length"].tolist(),
        )
        for kind, number, length in zip(*columns, strict=True):
            client_id: ClientId | None = None
            if kind == _TEXT:
                client_id = text[start : start + length].decode("utf-8", "surrogatepass")
            elif kind in (_INT, _UINT):
                client_id = number - 2**64 if kind == _INT and number >= 2**63 else number
            start += length
            if client_id is not None:
                if client_id in ids._row_of:
                    message = f"the saved ids are damaged: {client_id!r:.80} stands in two rows"
                    raise DamagedFileError(message)
                ids._row_of[client_id] = len(ids._id_of)
            ids._id_of.append(client_id)
        return ids


def _kind(client_id: ClientId | None) -> int:
    if client_id is None:
        return _GONE
    if isinstance(client_id, str):
        return _TEXT
    return _INT if client_id < 2**63 else _UINT
