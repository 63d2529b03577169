"""What can happen to a testing job, as values; written down like the changes of a training job."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from oort.clients.id_columns import GONE, IdColumn, id_at
from oort.testing.category.information import NUMBERS, Category
from oort.types import ClientId


@dataclass(frozen=True, slots=True)
class Enrolled:
    """Clients become known."""

    ids: IdColumn


@dataclass(frozen=True, slots=True)
class Dropped:
    """Clients are erased."""

    ids: IdColumn


@dataclass(frozen=True, slots=True)
class Reachable:
    """Clients can be asked, or cannot."""

    ids: IdColumn | None  #: ``None``: all
    online: bool


@dataclass(frozen=True, slots=True)
class Informed:
    """What is now known of clients, all of it."""

    ids: IdColumn
    categories: list[Category]  #: new ones
    known: dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan was drawn up."""

    num_draws: int  #: so far
    num_plans: int


def plain_ids(ids: IdColumn) -> list[ClientId]:
    """The ids of a column."""
    text, ends = ids.text.tobytes(), np.cumsum(ids.length).tolist()
    begins = [0, *ends][: len(ends)]
    columns = zip(ids.kind.tolist(), ids.number.tolist(), begins, ends, strict=True)
    return [id_at(kind, number, text[a:b]) for kind, number, a, b in columns if kind != GONE]


# As bytes; the writer and the reader are those of ``payloads``


def write_ids(change: Any, out: Any) -> None:
    """Ids alone."""
    for column in (change.ids.kind, change.ids.number, change.ids.length, change.ids.text):
        out.column(column)


def read_ids(given: Any) -> IdColumn:
    """The ids that ``write_ids`` wrote."""
    kind, number, length = given.column("u1"), given.column("u8"), given.column("i8")
    return IdColumn(kind, number, length, given.column("u1"))


def write_reachable(change: Reachable, out: Any) -> None:
    """Who, and whether."""
    out.number(int(change.online))
    out.number(int(change.ids is None))
    if change.ids is not None:
        write_ids(change, out)


def read_reachable(given: Any) -> Reachable:
    """What ``write_reachable`` wrote."""
    online, everyone = bool(given.number()), bool(given.number())
    return Reachable(None if everyone else read_ids(given), online)


def write_informed(change: Informed, out: Any) -> None:
    """Who, new categories, counts, numbers."""
    write_ids(change, out)
    out.column(np.frombuffer(json.dumps(change.categories).encode(), np.uint8))
    for name in ("length", "category", "count", *NUMBERS):
        out.column(change.known[name])


def read_informed(given: Any) -> Informed:
    """What ``write_informed`` wrote."""
    ids = read_ids(given)
    categories = json.loads(given.column("u1").tobytes())
    known = {name: given.column("i8") for name in ("length", "category", "count")}
    return Informed(ids, categories, {**known, **{n: given.column("f8") for n in NUMBERS}})


def write_planned(change: Planned, out: Any) -> None:
    """Two counts."""
    out.number(change.num_draws)
    out.number(change.num_plans)


def read_planned(given: Any) -> Planned:
    """What ``write_planned`` wrote."""
    return Planned(given.number(), given.number())
