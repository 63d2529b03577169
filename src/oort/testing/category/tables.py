"""Client information from tables: Arrow, Parquet, CSV.

Counts are long (columns ``client``, ``category``, ``samples``) or wide (``client`` and a column
per category). Devices have ``client`` and any of the numbers that ``ClientInformation`` keeps;
these may also stand in a wide table of counts. Ids and categories of a CSV file are integers where
all of a column are written as one (7, not 007 or 7.0) of 64 bits, text otherwise; the ids of two
files are integers only where both files' are.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from oort.clients.id_columns import checked_id
from oort.errors import InvalidClientIdError, InvalidClientInfoError, missing_extra
from oort.testing.category.information import NUMBERS, ClientInformation
from oort.types import ClientId

Columns: TypeAlias = dict[str, list[Any]]

CLIENT, CATEGORY, SAMPLES = "client", "category", "samples"


def load(known: ClientInformation, counts: Any = None, devices: Any = None) -> list[ClientId]:
    """Take in one or two tables as one update; returns the clients that they tell of.

    Raises:
        InvalidClientInfoError: A column is missing or a value cannot be used; nothing was changed.
    """
    tables = [_columns(table) for table in (counts, devices) if table is not None]
    if devices is not None and not any(name in NUMBERS for name in tables[-1]):
        message = (
            f"a table of devices must have any of the columns {', '.join(NUMBERS)}; got "
            f"{', '.join(map(repr, list(tables[-1])[:8]))}"
        )
        raise InvalidClientInfoError(message)
    if not tables:
        message = "counts or devices must be given; got neither"
        raise InvalidClientInfoError(message)
    _same_kind([table for table in tables if CLIENT in table])
    ids: dict[ClientId, int] = {}
    cells: list[tuple[list[int], list[Any], list[Any]]] = []
    numbers: dict[str, dict[int, Any]] = {}
    for table in tables:
        rows = _rows(table, ids)
        for name in NUMBERS:
            if name in table:
                given = _one_each(table, rows, name)
                numbers.setdefault(name, {}).update(given)
        cells.append(_cells(table, rows, wide=table is tables[0] and counts is not None))
    _update(known, list(ids), cells, numbers)
    return list(ids)


def read_columns(path: str | PathLike[str]) -> Columns:
    """The columns of a Parquet or CSV file, as lists.

    Values of a CSV file are numbers where those of the whole column are.

    Raises:
        InvalidClientInfoError: The file is not what its name says, or its lines do not fit.
        OSError: It cannot be read.
    """
    if Path(path).suffix.lower() in {".parquet", ".pq"}:
        return _read_parquet(path)
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file, skipinitialspace=True)
            header = next(lines, [])
            body, ends = [], []
            for line in lines:
                if line not in ([], [""]):  # nothing, or nothing but spaces
                    body.append(line)
                    ends.append(lines.line_num)
    except (UnicodeDecodeError, csv.Error) as error:
        message = f"{path} must be a CSV file in UTF-8; got one that cannot be read: {error}"
        raise InvalidClientInfoError(message) from None
    _refuse_header(path, header)
    ragged = next(
        (n for n, line in zip(ends, body, strict=True) if len(line) != len(header)), None
    )
    if ragged is not None:
        message = (
            f"{path} must have {len(header)} fields in each line; got another number in line "
            f"{ragged}"
        )
        raise InvalidClientInfoError(message)
    return {
        name: _typed([line[i] for line in body], names=name in (CLIENT, CATEGORY))
        for i, name in enumerate(header)
    }


def _read_parquet(path: str | PathLike[str]) -> Columns:
    try:
        parquet = import_module("pyarrow.parquet")
    except ImportError:
        missing_extra("reading Parquet", "pyarrow", "tables")
    try:
        columns: Columns = parquet.read_table(fspath(path)).to_pydict()
    except ValueError as error:  # Arrow's own errors are ValueErrors
        message = f"{path} must be a Parquet file; got one that cannot be read: {error}"
        raise InvalidClientInfoError(message) from None
    return columns


def _refuse_header(path: str | PathLike[str], header: list[str]) -> None:
    """A CSV file needs a first line that names each column, and each once."""
    if not header:
        message = f"{path} must begin with a line that names its columns; got an empty line"
        raise InvalidClientInfoError(message)
    if "" in header:  # as pandas writes its row numbers, which are no category
        message = f"{path} must name each column; got none for column {header.index('') + 1}"
        raise InvalidClientInfoError(message)
    _refuse_repeated(str(path), header)


def _refuse_repeated(table: str, names: Iterable[Any]) -> None:
    """Of two columns with one name only one would be read."""
    twice = _first_repeated(names)
    if twice is not None:
        message = f"{table} must name each column once; got {twice!r:.80} twice"
        raise InvalidClientInfoError(message)


def _columns(table: Any) -> Columns:
    """A table as lists by column name: a path, an Arrow table, a DataFrame or a mapping."""
    if isinstance(table, str | PathLike):
        columns = read_columns(table)
    elif hasattr(table, "to_pydict"):
        _refuse_repeated("a table", table.schema.names)
        columns = table.to_pydict()
    elif hasattr(table, "to_dict"):
        _refuse_repeated("a table", table.columns)
        columns = table.to_dict(orient="list")
    elif isinstance(table, Mapping):
        columns = {name: _values(name, values) for name, values in table.items()}
    else:
        message = (
            "a table must be a path, an Arrow table, a DataFrame or a dict of columns; got "
            f"{table!r:.80}"
        )
        raise InvalidClientInfoError(message)
    if CLIENT not in columns:
        message = (
            f"a table must have a column {CLIENT!r}; got {', '.join(map(repr, list(columns)[:8]))}"
        )
        raise InvalidClientInfoError(message)
    number = len(columns[CLIENT])
    odd = next((name for name, values in columns.items() if len(values) != number), None)
    if odd is not None:
        message = (
            f"a table must have as many values in each column ({number}, as {CLIENT!r}); got "
            f"{len(columns[odd])} in {odd!r:.80}"
        )
        raise InvalidClientInfoError(message)
    return columns


def _values(name: object, values: Any) -> list[Any]:
    """One column of a mapping."""
    try:
        return values.tolist() if isinstance(values, np.ndarray) else list(values)
    except TypeError:
        message = (
            f"a table must have a list of values in each column; got {values!r:.80} in "
            f"{name!r:.80}"
        )
        raise InvalidClientInfoError(message) from None


def _typed(texts: Sequence[str], *, names: bool) -> list[Any]:
    """A column of a CSV file: integers, else numbers, else text; empty fields are None.

    Names are integers only where each is written as Python would write it, and within 64 bits as
    ids must be: "007" and "1_0" are other names than 7 and 10.

    >>> _typed(["7", "12", ""], names=True), _typed(["7", "012"], names=True)
    ([7, 12, None], ['7', '012'])
    >>> _typed(["7", "012"], names=False), _typed(["7", "1.5"], names=False)
    ([7, 12], [7.0, 1.5])
    >>> _typed(["7", "99999999999999999999"], names=True)
    ['7', '99999999999999999999']
    """
    given = [text for text in texts if text != ""]
    for kind in (int,) if names else (int, float):
        try:
            if any("_" in text or (names and not _is_whole_name(text)) for text in given):
                break
            return [kind(text) if text != "" else None for text in texts]
        except ValueError:
            continue
    return [text if text != "" else None for text in texts]


def _is_whole_name(text: str) -> bool:
    """Whether a name is an integer, as Python would write it."""
    return str(int(text)) == text and -(2**63) <= int(text) < 2**64


def _same_kind(tables: Sequence[Columns]) -> None:
    """Make the ids of all tables text, unless they are integers in all."""
    kinds = {type(client) for table in tables for client in table[CLIENT]}
    if len(tables) > 1 and kinds == {int, str}:
        for table in tables:
            table[CLIENT] = [str(client) for client in table[CLIENT]]


def _rows(table: Columns, ids: dict[ClientId, int]) -> list[int]:
    """A number for each line's client; without categories no client may stand twice."""
    clients = table[CLIENT] = _checked_ids(table[CLIENT])
    if CATEGORY not in table and len(set(clients)) < len(clients):
        twice = _first_repeated(clients)
        message = f"client {twice!r:.80}: id must be in one line of the table; got several"
        raise InvalidClientInfoError(message)
    return [ids.setdefault(client, len(ids)) for client in clients]


def _checked_ids(clients: Sequence[object]) -> list[ClientId]:
    """The ids of a table; whoever has none is told by the line."""
    ids: list[ClientId] = []
    for line, client in enumerate(clients, 1):
        try:
            ids.append(checked_id(client))
        except InvalidClientIdError as error:
            message = f"column {CLIENT!r}, row {line} of the table: {error}"
            raise InvalidClientIdError(message) from None
    return ids


def _one_each(table: Columns, rows: list[int], name: str) -> dict[int, Any]:
    """A number for each client; several lines may repeat it, but not say another."""
    numbers: dict[int, Any] = {}
    for row, client, value in zip(rows, table[CLIENT], table[name], strict=True):
        if value is None:
            continue
        before = numbers.setdefault(row, value)
        if before is not value and before != value:
            message = (
                f"client {client!r:.80}: {name} must be the same in all lines of the client; got "
                f"{before!r:.80} and {value!r:.80}"
            )
            raise InvalidClientInfoError(message)
    return numbers


def _cells(
    table: Columns, rows: list[int], *, wide: bool
) -> tuple[list[int], list[Any], list[Any]]:
    """The counts of a table: lines, categories, samples."""
    if CATEGORY in table:
        if SAMPLES not in table:
            message = (
                f"a table with a column {CATEGORY!r} must have one named {SAMPLES!r}; got "
                f"{', '.join(table)}"
            )
            raise InvalidClientInfoError(message)
        return rows, table[CATEGORY], table[SAMPLES]
    names = [name for name in table if name != CLIENT and name not in NUMBERS] if wide else []
    values = [0 if value is None else value for name in names for value in table[name]]
    return rows * len(names), [name for name in names for _ in rows], values


def _update(
    known: ClientInformation,
    ids: list[ClientId],
    cells: list[tuple[list[int], list[Any], list[Any]]],
    numbers: dict[str, dict[int, Any]],
) -> None:
    """Hand everything over as one update."""
    columns: dict[str, Any] = {
        name: np.array([values.get(row) for row in range(len(ids))], dtype=object)
        for name, values in numbers.items()
    }
    rows = np.array([row for part in cells for row in part[0]], np.int64)
    names = [name for part in cells for name in part[1]]
    values = [value for part in cells for value in part[2]]
    if not names:
        known.update_many(ids, **columns)
        return
    _refuse_wrong(ids, rows, names, values)
    categories = list(dict.fromkeys(names))
    matrix = _matrix(rows, names, categories, values, len(ids))
    known.update_many(ids, matrix, categories=categories, **columns)


def _refuse_wrong(ids: list[ClientId], rows: Any, names: list[Any], values: list[Any]) -> None:
    """Counts must be whole numbers, and each pair of client and category may stand once."""
    for row, name, value in zip(rows.tolist(), names, values, strict=True):
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer):
            message = (
                f"client {ids[row]!r:.80}: category must be a string or an integer; got "
                f"{name!r:.80}"
            )
            raise InvalidClientInfoError(message)
        whole = (
            isinstance(value, int | float | np.integer | np.floating)
            and not isinstance(value, bool)
            and value == value // 1
        )
        if not whole or not 0 <= value <= 2**53:
            message = (
                f"client {ids[row]!r:.80}: samples[{name!r:.80}] must be a whole number from 0 to "
                f"2**53; got {value!r:.80}"
            )
            raise InvalidClientInfoError(message)
    pairs = set(zip(rows.tolist(), names, strict=True))
    if len(pairs) < len(names):
        row, name = _first_repeated(zip(rows.tolist(), names, strict=True))
        message = (
            f"client {ids[row]!r:.80}: samples[{name!r}] must be in one line of the table; got "
            "several"
        )
        raise InvalidClientInfoError(message)


def _first_repeated(values: Iterable[Any]) -> Any:
    """The first value that stood before."""
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            return value
        seen.add(value)
    return None


def _matrix(
    rows: Any, names: list[Any], categories: list[Any], values: list[Any], number: int
) -> Any:
    """Counts as a sparse matrix."""
    from scipy.sparse import coo_matrix

    place = {name: i for i, name in enumerate(categories)}
    columns = np.array([place[name] for name in names], np.int64)
    data = np.array(values, np.int64)
    return coo_matrix((data, (rows, columns)), shape=(number, len(categories))).tocsr()
