"""What can happen to the clients, as values: decided first, then made so, all in one place each.

A call works out which changes it means and only then makes them so. In between, a selector that
keeps a journal writes them down; and what it finds in its journal later, it applies by the same
functions. Rows are named as they are once the changes before them have been made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from oort.clients.columns import EXPLORED, TIMED
from oort.clients.id_columns import IdColumn
from oort.clients.table import ClientTable
from oort.types import Rows


@dataclass(frozen=True, slots=True)
class Joined:
    """New clients take the next rows, in this order."""

    ids: IdColumn

    def apply(self, table: ClientTable) -> None:
        """Make it so."""
        table.join(self.ids)


@dataclass(frozen=True, slots=True)
class Returned:
    """Removed clients are present again."""

    rows: Rows

    def apply(self, table: ClientTable) -> None:
        """Make it so."""
        table.bring_back(self.rows)


@dataclass(frozen=True, slots=True)
class Hinted:
    """What clients are expected to have or to need, one column of it.

    It counts for those that no report has told of yet.
    """

    column: Literal["num_samples", "duration_s"]
    rows: Rows
    values: npt.NDArray[Any]

    def apply(self, table: ClientTable) -> None:
        """Make it so."""
        told = EXPLORED if self.column == "num_samples" else EXPLORED | TIMED
        unheard = (table.flags[self.rows] & told) == 0
        rows, values = self.rows[unheard], self.values[unheard]
        if self.column == "num_samples":
            table.num_samples[rows] = values
        else:
            with table.changing(_distinct(rows)):
                table.duration_s[rows] = values


@dataclass(frozen=True, slots=True)
class Removed:
    """Clients leave, but what is known of them stays."""

    rows: Rows

    def apply(self, table: ClientTable) -> None:
        """Make it so."""
        table.remove(self.rows)


@dataclass(frozen=True, slots=True)
class Marked:
    """Clients come online or go offline."""

    rows: Rows | None  #: ``None``: all there are
    online: bool

    def apply(self, table: ClientTable) -> None:
        """Make it so."""
        rows = slice(None) if self.rows is None else self.rows
        table.mark(rows, online=self.online)


RosterChange: TypeAlias = Joined | Returned | Hinted | Removed | Marked


def _distinct(rows: Rows) -> Rows:
    """Rows without repeats; most often there are none."""
    return rows if bool((np.diff(rows) > 0).all()) else np.unique(rows)
