"""What is known of the clients that could test: sparse counts, speed, bandwidth.

Counts lie one client after the other in two flat arrays, so that a million clients with ten
categories each take about a hundred megabytes, and a request reads them as a CSR matrix without a
copy. A client that is updated later overwrites its own place where the new counts fit, and moves
to the end where they do not; the gaps are closed once they outweigh the rest. Every update is
checked as a whole before anything is written.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from oort.clients.id_columns import checked_id, id_list
from oort.clients.ids import ClientIds
from oort.errors import InvalidArgumentError, InvalidClientInfoError, UnknownClientError
from oort.types import Among, ClientId, ClientInfo, Mask, RowNumbers, Rows

Category: TypeAlias = str | int
Counts: TypeAlias = Any  # a SciPy sparse matrix or array, or anything that NumPy takes

_MOST = 2**53  # counts are exact in float64 up to here

#: The numbers kept of each client: name, lowest, highest, what unknown means.
NUMBERS: dict[str, tuple[float, float]] = {
    "samples_per_s": (1e-9, 1e15),
    "bandwidth_mbps": (1e-9, 1e15),
    "transfer_mb": (0.0, 1e12),
    "max_samples": (0, _MOST),
}


class ClientInformation:
    """The clients of one testing selector.

    Args:
        categories: The categories that there are, in order. None: they are taken in as clients
            name them.

    May be used from several threads. Rows are never renumbered: a client that is removed leaves an
    empty row, and takes a new one if it comes back.

    >>> known = ClientInformation()
    >>> known.update("cam-3", ClientInfo(samples={"cat": 120, "dog": 30}, samples_per_s=25))
    >>> known.categories, known.samples_of("cam-3")
    (['cat', 'dog'], {'cat': 120, 'dog': 30})
    """

    def __init__(self, categories: Iterable[Category] | None = None) -> None:
        self.lock = (
            threading.RLock()
        )  #: held while something is read that must not change meanwhile
        self._ids = ClientIds()
        self._column_of: dict[Category, int] = {}
        self._fixed = categories is not None
        for name in categories or ():
            self._column_of.setdefault(_category(name, "categories"), len(self._column_of))
        self._begin = _Column(np.int64)
        self._length = _Column(np.int64)
        self._numbers = {name: _Column(np.float64) for name in NUMBERS}
        self._online = _Column(np.bool_)
        self._present = _Column(np.bool_)
        self._category = _Column(np.int32)
        self._count = _Column(np.int32)
        self._wasted = 0

    @property
    def categories(self) -> list[Category]:
        """The categories, in order."""
        return list(self._column_of)

    @property
    def num_clients(self) -> int:
        """Clients known and not removed."""
        return int(self._present.values.sum())

    @property
    def num_rows(self) -> int:
        """Rows ever given out: the length of a mask for ``among``."""
        return len(self._present)

    def column(self, category: Category) -> int | None:
        """The place of a category; none where it is unknown."""
        return self._column_of.get(category)

    def update(self, client_id: ClientId, info: ClientInfo | Mapping[str, Any]) -> None:
        """Take in what is said of one client; what is left out stays as it was.

        Raises:
            InvalidClientInfoError: A value cannot be used; nothing was changed.
        """
        own = checked_id(client_id)
        given = info if isinstance(info, ClientInfo) else _from_mapping(own, info)
        counts = None if given.samples is None else self._checked_counts(own, given.samples)
        numbers = {
            name: _number(own, name, getattr(given, name))
            for name in NUMBERS
            if getattr(given, name) is not None
        }
        with self.lock:
            row = int(self._rows_for([own])[0])
            for name, value in numbers.items():
                self._numbers[name].values[row] = value
            if counts is not None:
                columns = [
                    self._column_of.setdefault(name, len(self._column_of)) for name in counts
                ]
                self._write(
                    row,
                    np.array(columns, np.int32),
                    np.fromiter(counts.values(), np.int64, len(counts)),
                )

    def update_many(
        self,
        client_ids: Among,
        counts: Counts = None,
        *,
        categories: Sequence[Category] | None = None,
        samples_per_s: npt.ArrayLike | None = None,
        bandwidth_mbps: npt.ArrayLike | None = None,
        transfer_mb: npt.ArrayLike | None = None,
        max_samples: npt.ArrayLike | None = None,
    ) -> RowNumbers:
        """Take in what is said of many clients at once; returns their rows.

        Args:
            client_ids: One id per client, no two the same.
            counts: Samples, one row per client and one column per category: a SciPy sparse matrix,
                an array, a DataFrame or an Arrow table. None: as they were.
            categories: What the columns are; default: the columns' own names, else the categories
                known, or 0, 1, … where none are.
            samples_per_s: One number for all or one per client, as the other three; None in a
                list: as it was.
            bandwidth_mbps: Megabits per second.
            transfer_mb: Megabytes to move for one test.
            max_samples: The most samples one may be asked for.

        Raises:
            InvalidClientInfoError: A value cannot be used, or an id is given twice; nothing was
                changed.
        """
        ids = id_list(client_ids)
        _refuse_duplicates(ids)
        given = {
            "samples_per_s": samples_per_s,
            "bandwidth_mbps": bandwidth_mbps,
            "transfer_mb": transfer_mb,
            "max_samples": max_samples,
        }
        numbers = {
            name: _numbers(ids, name, value) for name, value in given.items() if value is not None
        }
        categories = _column_names(counts) if categories is None else categories
        matrix = None if counts is None else _matrix(ids, counts)
        names = [] if matrix is None else self._checked_columns(matrix.shape[1], categories)
        table = None if matrix is None else _table(ids, matrix, names)
        with self.lock:
            rows = self._rows_for(ids)
            for name, values in numbers.items():
                column = self._numbers[name].values
                column[rows] = np.where(np.isnan(values), column[rows], values)
            if table is not None:
                columns = [self._column_of.setdefault(n, len(self._column_of)) for n in names]
                self._write_many(rows, *_in_order(np.array(columns, np.int32), *table))
        return RowNumbers(rows)

    def remove(self, client_ids: Among) -> int:
        """Take clients out; returns how many were in.

        Whoever is updated later is back, with nothing known of before.
        """
        with self.lock:
            rows = self.rows(client_ids)
            number = int(self._present.values[rows].sum())
            self._present.values[rows] = False
            self._wasted += int(self._length.values[rows].sum())
            self._length.values[rows] = 0
            for column in self._numbers.values():
                column.values[rows] = np.nan
            self._ids.forget(np.unique(rows))
            return number

    def mark(self, client_ids: Among | None, *, online: bool) -> None:
        """These clients (none: all) may be asked, or may not until they are marked online."""
        with self.lock:
            place = slice(None) if client_ids is None else np.asarray(self.rows(client_ids))
            self._online.values[place] = online

    def rows(self, client_ids: Among) -> RowNumbers:
        """The rows of known clients; row numbers are taken as they are.

        Raises:
            UnknownClientError: One of them was never updated, or was removed.
        """
        if isinstance(client_ids, RowNumbers):
            rows = np.asarray(client_ids)
            known = (rows >= 0) & (rows < self.num_rows)
            shown: Sequence[Any] = [f"row {row}" for row in rows.tolist()]
        else:
            shown = id_list(client_ids)
            rows = self._ids.find(shown)
            known = rows >= 0
        known[known] = self._present.values[rows[known]]
        if not known.all():
            message = (
                f"client {shown[int(np.argmin(known))]!r:.80} is not known; update its info first"
            )
            raise UnknownClientError(message)
        return RowNumbers(rows)

    def knows(self, client_id: ClientId) -> bool:
        """Whether a client was updated and not removed."""
        row = int(self._ids.find([checked_id(client_id)])[0])
        return row >= 0 and bool(self._present.values[row])

    def ids_of(self, rows: Rows) -> list[ClientId]:
        """The ids of some rows."""
        return self._ids.of(rows)

    def samples_of(self, client_id: ClientId) -> dict[Category, int]:
        """The samples that one client holds of each category."""
        with self.lock:
            row = int(self.rows([client_id])[0])
            begin = int(self._begin.values[row])
            place = slice(begin, begin + int(self._length.values[row]))
            names = self.categories
            pairs = zip(
                self._category.values[place].tolist(),
                self._count.values[place].tolist(),
                strict=True,
            )
            return {names[column]: count for column, count in pairs}

    def available(self, among: Among | None = None) -> Mask:
        """Who may be asked: present, online, and one of ``among``.

        ``among`` is ids, a mask over rows, or row numbers; none: everybody.
        """
        mask: Mask = self._present.values & self._online.values
        if among is None:
            return mask
        if isinstance(among, np.ndarray) and among.dtype == np.bool_:
            if among.shape != (self.num_rows,):
                got = len(among) if among.ndim == 1 else f"shape {among.shape}"
                message = (
                    f"a mask for among must have one entry per row ({self.num_rows}); got {got}"
                )
                raise InvalidArgumentError(message)
            return mask & among
        chosen = np.zeros(self.num_rows, np.bool_)
        chosen[self.rows(among)] = True
        return mask & chosen

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """One number of every row, NaN where unknown."""
        return self._numbers[name].values

    def matrix(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any], npt.NDArray[Any]]:
        """All counts as CSR: where rows begin, categories and counts. Not to be written to."""
        with self.lock:
            self._compact()
            indptr = np.concatenate([[0], np.cumsum(self._length.values)]).astype(np.int64)
            return indptr, self._category.values, self._count.values

    def totals(self) -> npt.NDArray[np.int64]:
        """Samples of each category over all clients."""
        _, category, count = self.matrix()
        return np.bincount(category, count, minlength=len(self._column_of)).astype(np.int64)

    def known_of(self, client_ids: Among) -> dict[str, npt.NDArray[Any]]:
        """All that is known of some clients: numbers, and counts as CSR without where rows begin.

        What :meth:`take_known` takes.
        """
        with self.lock:
            rows = np.asarray(self.rows(client_ids))
            length = self._length.values[rows]
            places = np.repeat(self._begin.values[rows] - (np.cumsum(length) - length), length)
            places = places + np.arange(int(length.sum()))
            return {
                "length": length,
                "category": self._category.values[places],
                "count": self._count.values[places],
                **{name: column.values[rows] for name, column in self._numbers.items()},
            }

    def take_known(
        self,
        client_ids: Any,
        known: Mapping[str, npt.NDArray[Any]],
        categories: Iterable[Category],
    ) -> None:
        """Know of some clients what :meth:`known_of` gave elsewhere, under these categories."""
        with self.lock:
            for name in categories:
                self._column_of.setdefault(name, len(self._column_of))
            rows = self._rows_for(client_ids)
            for name, column in self._numbers.items():
                column.values[rows] = known[name]
            indptr = np.concatenate([[0], np.cumsum(known["length"])])
            self._write_many(rows, indptr, known["category"].astype(np.int32), known["count"])

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything but the names of the categories, as arrays for a file."""
        with self.lock:
            _, category, count = self.matrix()
            columns = {
                "length": self._length.values,
                "online": self._online.values,
                "present": self._present.values,
                "category": category,
                "count": count,
                **{name: column.values for name, column in self._numbers.items()},
            }
            return {**self._ids.to_arrays(), **{f"info_{n}": v for n, v in columns.items()}}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, npt.NDArray[Any]], categories: Iterable[Category], *, fixed: bool
    ) -> ClientInformation:
        """What ``to_arrays`` gave, under the same categories.

        Raises:
            ValueError: The arrays do not fit together.
        """
        known = cls(categories)
        known._fixed = fixed
        known._ids = ClientIds.from_arrays(arrays)
        length = arrays["info_length"]
        named = {"length": known._length, "online": known._online, "present": known._present}
        for name, column in {**named, **known._numbers}.items():
            column.set(arrays[f"info_{name}"].astype(column.values.dtype))
        known._begin.set(np.cumsum(length) - length)
        known._category.set(arrays["info_category"].astype(np.int32))
        known._count.set(arrays["info_count"].copy())
        whole = int(length.sum()) == len(known._category) == len(known._count)
        if not whole or {len(c) for c, _ in known._columns()} != {len(known._ids)}:
            message = "the columns of the client information have different lengths"
            raise ValueError(message)
        return known

    def _checked_counts(
        self, client_id: ClientId, samples: Mapping[Any, Any]
    ) -> dict[Category, int]:
        """Positive counts by category, in the order given."""
        if not isinstance(samples, Mapping):
            _refuse(client_id, "samples", "a mapping from categories to counts", samples)
        counts = {}
        for name, value in samples.items():
            category = _category(name, f"client {client_id!r:.80}: samples")
            if self._fixed and category not in self._column_of:
                _refuse(
                    client_id, "samples", f"of the categories {_listed(self.categories)}", name
                )
            if (number := _count(client_id, category, value)) > 0:
                counts[category] = number
        return counts

    def _checked_columns(
        self, width: int, categories: Sequence[Category] | None
    ) -> list[Category]:
        """What the columns of a table of counts are."""
        if categories is None:
            names = self.categories or list(range(width))
        else:
            names = [_category(name, "categories") for name in categories]
        if len(names) != width or len(set(names)) != width:
            message = (
                f"categories must name each of the {width} columns of counts once; got "
                f"{_listed(names)}"
            )
            raise InvalidClientInfoError(message)
        if (
            self._fixed
            and (strange := next((n for n in names if n not in self._column_of), None)) is not None
        ):
            message = f"categories must be among {_listed(self.categories)}; got {strange!r}"
            raise InvalidClientInfoError(message)
        return names

    def _rows_for(self, ids: Sequence[ClientId]) -> Rows:
        """Rows for ids, new ones where there were none."""
        rows = self._ids.add(ids)
        grown = len(self._ids) - len(self._present)
        for column, unknown in self._columns():
            column.append(np.full(grown, unknown))
        back = rows[~self._present.values[rows]]
        self._present.values[back] = True
        self._online.values[back] = True
        return rows

    def _columns(self) -> list[tuple[_Column, Any]]:
        """Every column with one value per client, and what a new client has there."""
        fixed: list[tuple[_Column, Any]] = [
            (self._begin, 0),
            (self._length, 0),
            (self._online, True),
            (self._present, False),
        ]
        return fixed + [(column, np.nan) for column in self._numbers.values()]

    def _write(
        self, row: int, category: npt.NDArray[np.int32], count: npt.NDArray[np.int64]
    ) -> None:
        """Replace the counts of one client, in its own place where they fit."""
        order = np.argsort(category)
        before, number = int(self._length.values[row]), len(order)
        if number > before:
            self._begin.values[row] = len(self._category)
            self._category.append(np.zeros(number, np.int32))
            self._count.append(np.zeros(number, np.int32))
            self._wasted += before
        else:
            self._wasted += before - number
        self._count.hold(int(count.max(initial=0)))
        begin = int(self._begin.values[row])
        self._category.values[begin : begin + number] = category[order]
        self._count.values[begin : begin + number] = count[order]
        self._length.values[row] = number

    def _write_many(
        self,
        rows: Rows,
        indptr: npt.NDArray[np.int64],
        category: npt.NDArray[np.int32],
        count: npt.NDArray[Any],
    ) -> None:
        """Replace the counts of many clients: written at the end, leaving gaps where they were."""
        lengths = np.diff(indptr)
        self._wasted += int(self._length.values[rows].sum())
        self._count.hold(int(count.max(initial=0)))
        self._begin.values[rows] = len(self._category) + indptr[:-1]
        self._length.values[rows] = lengths
        self._category.append(category)
        self._count.append(count)
        if 2 * self._wasted > len(self._category):
            self._compact()

    def _compact(self) -> None:
        """Close the gaps, and put the clients into the order of their rows."""
        begin, length = self._begin.values, self._length.values
        tidy = np.concatenate([[0], np.cumsum(length)])
        filled = length > 0
        if tidy[-1] == len(self._category) and np.array_equal(begin[filled], tidy[:-1][filled]):
            return
        places = np.arange(tidy[-1]) + np.repeat(begin - tidy[:-1], length)
        self._category.set(self._category.values[places])
        self._count.set(self._count.values[places])
        begin[:] = tidy[:-1]
        self._wasted = 0


class _Column:
    """An array that grows at its end without being copied each time."""

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._data = np.zeros(0, dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> npt.NDArray[Any]:
        """What is in it; writing to it writes to the column."""
        return self._data[: self._size]

    def append(self, values: npt.NDArray[Any]) -> None:
        """Add values at the end."""
        size = self._size + len(values)
        if size > len(self._data):
            data = np.empty(
                max(size, self._size + self._size // 2) if self._size else size, self._data.dtype
            )
            data[: self._size] = self.values
            self._data = data
        self._data[self._size : size] = values
        self._size = size

    def set(self, values: npt.NDArray[Any]) -> None:
        """Hold these values instead."""
        self._data, self._size = values, len(values)

    def hold(self, largest: int) -> None:
        """Make room for numbers as large as this."""
        if largest > np.iinfo(self._data.dtype).max:
            self._data = self._data.astype(np.int64)


def _from_mapping(client_id: ClientId, info: Mapping[str, Any]) -> ClientInfo:
    """Client info from a plain dict; the message names the client."""
    if not isinstance(info, Mapping):
        _refuse(client_id, "info", "a ClientInfo or a dict", info)
    try:
        return ClientInfo.from_mapping(info)
    except InvalidClientInfoError as error:
        message = f"client {client_id!r:.80}: {error}"
        raise InvalidClientInfoError(message) from None


def _refuse(client_id: object, field: str, must_be: str, got: object) -> NoReturn:
    """Raise the one shape of error about a client."""
    try:
        shown = f"{got!r:.80}"
    except ValueError:  # an integer of more digits than Python writes
        shown = f"a {type(got).__name__} too long to show"
    message = f"client {client_id!r:.80}: {field} must be {must_be}; got {shown}"
    raise InvalidClientInfoError(message)


def _category(name: object, where: str) -> Category:
    """A category as a plain string or integer."""
    if isinstance(name, str):
        return str(name)
    if isinstance(name, int | np.integer) and not isinstance(name, bool):
        return int(name)
    message = f"{where} must name categories by strings or integers; got {name!r:.80}"
    raise InvalidClientInfoError(message)


def _count(client_id: ClientId, category: Category, value: object) -> int:
    """One count, checked."""
    number = -1
    if not isinstance(value, bool | np.bool_):
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            number = (
                int(value)
                if isinstance(value, float | np.floating) and float(value).is_integer()
                else -1
            )
    if not 0 <= number <= _MOST:
        _refuse(client_id, f"samples[{category!r}]", "a whole number from 0 to 2**53", value)
    return number


def _number(client_id: ClientId, name: str, value: object) -> float:
    """One of a client's numbers, checked."""
    low, high = NUMBERS[name]
    try:
        number = np.nan if isinstance(value, bool | np.bool_ | str) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    whole = name != "max_samples" or number == np.floor(number)
    if not (low <= number <= high and whole):
        _refuse(client_id, name, _allowed(name), value)
    return number


def _numbers(ids: Sequence[ClientId], name: str, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """One number for many clients, checked; NaN where None was given, which changes nothing."""
    if isinstance(values, np.ma.MaskedArray):
        values = values.tolist()  # None where masked
    try:
        given = np.asarray(values)
    except ValueError:
        message = (
            f"{name} must be one number or one per client ({len(ids)}); got rows of several "
            "lengths"
        )
        raise InvalidClientInfoError(message) from None
    if given.ndim == 0:
        return np.full(len(ids), _number(ids[0] if ids else "", name, given.item()))
    if given.shape != (len(ids),):
        message = (
            f"{name} must be one number or one per client ({len(ids)}); got shape {given.shape}"
        )
        raise InvalidClientInfoError(message)
    if given.dtype.kind in "iuf":
        numbers = given.astype(np.float64)
        low, high = NUMBERS[name]
        good = (numbers >= low) & (numbers <= high)
        if name == "max_samples":
            good &= numbers == np.floor(numbers)
        if not good.all():
            first = int(np.argmin(good))
            _refuse(ids[first], name, _allowed(name), given[first].item())
        return numbers
    return np.array(
        [
            np.nan if v is None else _number(i, name, v)
            for i, v in zip(ids, given.tolist(), strict=True)
        ]
    )


def _allowed(name: str) -> str:
    low, high = NUMBERS[name]
    if name == "max_samples":
        return "a whole number from 0 to 2**53"
    return f"a number from {low:g} to {high:g}"


def _refuse_duplicates(ids: Sequence[ClientId]) -> None:
    """No client twice in one update."""
    if len(set(ids)) == len(ids):
        return
    seen: set[ClientId] = set()
    for client_id in ids:
        if client_id in seen:
            _refuse(client_id, "id", "given once in one update", client_id)
        seen.add(client_id)


def _matrix(ids: Sequence[ClientId], counts: Counts) -> Any:
    """Counts as a CSR matrix with one row per client."""
    from scipy.sparse import csr_matrix, issparse

    if not issparse(counts):
        try:
            counts = np.asarray(counts)
        except ValueError:
            message = "counts must have as many numbers in each row; got rows of several lengths"
            raise InvalidClientInfoError(message) from None
    if counts.ndim != 2 or counts.dtype.kind not in "iuf":
        message = (
            f"counts must be a table of numbers, one row per client; got {counts.ndim} axes "
            f"of {counts.dtype}"
        )
        raise InvalidClientInfoError(message)
    if counts.shape[0] != len(ids):
        message = f"counts must have one row per client ({len(ids)}); got {counts.shape[0]}"
        raise InvalidClientInfoError(message)
    if counts.dtype == np.float16:  # which SciPy does not know
        counts = counts.astype(np.float32)
    if getattr(counts, "format", "") == "coo":
        return _as_given(counts)
    return csr_matrix(counts)


def _as_given(matrix: Any) -> Any:
    """A COO matrix as CSR, entry by entry.

    SciPy would add up what is said twice of one place, in the matrix's own type, so that a
    negative count or an overflow went unseen.
    """
    from scipy.sparse import csr_matrix

    order = np.lexsort((matrix.col, matrix.row))
    lengths = np.bincount(matrix.row, minlength=matrix.shape[0])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return csr_matrix((matrix.data[order], matrix.col[order], indptr), shape=matrix.shape)


def _column_names(counts: Counts) -> list[Any] | None:
    """The columns of a DataFrame or an Arrow table; none where they have no names of their own."""
    names = list(getattr(counts, "column_names", getattr(counts, "columns", ())))
    return None if names == list(range(len(names))) else names


def _table(
    ids: Sequence[ClientId], matrix: Any, names: Sequence[Category]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[Any]]:
    """Where rows begin, columns and counts: checked, positive, columns ascending in each row."""
    from scipy.sparse import csr_matrix

    _refuse_bad_counts(ids, matrix, names)
    if not matrix.has_canonical_format or (matrix.data == 0).any():
        # SciPy 1.9's astype adds up first, in the matrix's own type, and in the caller's matrix.
        parts = (matrix.data.astype(np.int64), matrix.indices, matrix.indptr)
        matrix = csr_matrix(parts, shape=matrix.shape, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        _refuse_bad_counts(ids, matrix, names)
    kind = np.int32 if matrix.data.max(initial=0) < 2**31 else np.int64
    return (
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(kind, copy=False),
    )


def _refuse_bad_counts(ids: Sequence[ClientId], matrix: Any, names: Sequence[Category]) -> None:
    """Each entry must be a whole number of samples."""
    good = (matrix.data >= 0) & (matrix.data <= _MOST)
    if matrix.data.dtype.kind == "f":
        good &= matrix.data == np.floor(matrix.data)
    if not good.all():
        entry = int(np.argmin(good))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        field = f"samples[{names[int(matrix.indices[entry])]!r}]"
        _refuse(ids[row], field, "a whole number from 0 to 2**53", matrix.data[entry].item())


def _in_order(
    columns: npt.NDArray[np.int32],
    indptr: npt.NDArray[np.int64],
    category: npt.NDArray[np.int32],
    count: npt.NDArray[Any],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[Any]]:
    """The same entries under the categories' own numbers, ascending in each row."""
    from scipy.sparse import csr_matrix

    renamed = columns[category]
    if (np.diff(columns) > 0).all():
        return indptr, renamed, count
    matrix = csr_matrix((count, renamed, indptr), shape=(len(indptr) - 1, int(columns.max()) + 1))
    matrix.sort_indices()
    return indptr, matrix.indices, matrix.data


def _listed(names: Sequence[object], most: int = 8) -> str:
    """Names for a message, not too many."""
    shown = ", ".join(repr(n) for n in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
