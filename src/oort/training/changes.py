"""What can happen to a job, as values: everything that a call changes, it changes through these.

    Joined, Returned, Hinted, Removed, Marked    who is there (see ``clients.changes``)
    Forgotten                                    clients are erased
    Selected                                     a round opens, or is topped up, with these clients
    Reported                                     what clients of a round reported
    Switched                                     the kill switch

A change holds what was decided, not what was asked, so that making it so again later, elsewhere,
from a journal, gives the same state to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from oort.clients.changes import RosterChange
from oort.clients.table import ClientTable
from oort.training import intake
from oort.training.intake import Taken
from oort.training.rounds import History, RoundBook
from oort.types import Rows


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Clients are erased, with all that is known of them."""

    rows: Rows

    def apply(self, table: ClientTable, book: RoundBook) -> None:
        """Make it so."""
        book.forget(self.rows)
        table.forget(self.rows)


@dataclass(frozen=True, slots=True)
class Selected:
    """A round opens with these participants, or, from the second draw on, gets more."""

    round_number: int
    draw: int
    rows: Rows
    pacer_steps: int
    wanted: int  #: how many were asked for
    history: History | None  #: entries that changed; ``None``: the history rests

    def apply(self, table: ClientTable, book: RoundBook) -> None:
        """Make it so."""
        if self.draw:
            book.top_up(self.rows)
        else:
            book.open(self.round_number, self.rows, self.wanted)
            book.pacer_steps = self.pacer_steps
            if self.history is not None:
                book.take_history(self.history)
        table.pick(self.rows)


@dataclass(frozen=True, slots=True)
class Reported:
    """What clients reported of one round."""

    round_number: int
    taken: Taken

    def apply(self, table: ClientTable, book: RoundBook) -> None:
        """Make it so."""
        taken = self.taken
        book.note(self.round_number, taken.rows)
        if taken.outdated.size:
            book.note(self.round_number, taken.outdated)
        intake.write(table, book, self.round_number, taken)


@dataclass(frozen=True, slots=True)
class Switched:
    """The kill switch is on ("uniform") or off ("guided")."""

    mode: str


_OF_ROUNDS: Final = (Selected, Reported, Forgotten)
Change: TypeAlias = RosterChange | Forgotten | Selected | Reported | Switched


def apply(change: Any, table: ClientTable, book: RoundBook) -> None:
    """Make a change of clients or rounds so."""
    if isinstance(change, _OF_ROUNDS):
        change.apply(table, book)
    else:
        change.apply(table)
