"""What is remembered of recent rounds: who was selected, who was heard of, what they were worth.

Everything here is kept for two pacer windows and then dropped, so that the cost of a round does
not grow with the number of rounds before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.errors import DamagedFileError
from oort.savefile import column
from oort.types import Floats, Mask, Rows

History = dict[int, tuple[float, int]]

_FEW: Final = 4096


class RowSet:
    """A growing set of rows, in whatever form takes least: a set, a sorted array, a mask.

    >>> seen = RowSet()
    >>> seen.add(np.array([3, 5]))
    >>> seen.contains(np.array([5, 6])).tolist()
    [True, False]
    """

    def __init__(self) -> None:
        self._few: set[int] | None = set()
        self._some: Rows = np.empty(0, np.int64)  #: ascending
        self._many: Mask | None = None

    def add(self, rows: Rows) -> None:
        """Put rows in."""
        if self._few is not None and len(self._few) + rows.size <= _FEW:
            self._few.update(rows.tolist())
            return
        rows = np.concatenate([self.to_rows(), rows]) if self._many is None else rows
        self._few = None
        top = int(rows.max(initial=-1)) + 1
        if self._many is None and 8 * rows.size < top:
            self._some = np.unique(rows)
            return
        if self._many is None or top > self._many.size:
            held = np.zeros(0, np.bool_) if self._many is None else self._many
            self._many = np.zeros(max(top, 2 * held.size), np.bool_)
            self._many[: held.size] = held
        self._some = np.empty(0, np.int64)
        self._many[rows] = True

    def contains(self, rows: Rows) -> Mask:
        """Which of these rows are in."""
        if self._few is not None:
            few = self._few
            return np.fromiter([row in few for row in rows.tolist()], np.bool_, rows.size)
        if self._many is None:
            return np.isin(rows, self._some)
        inside = rows < self._many.size
        return np.asarray(inside & self._many[np.where(inside, rows, 0)])

    def discard(self, rows: Rows) -> None:
        """Take rows out."""
        if self._few is not None:
            self._few.difference_update(rows.tolist())
        elif self._many is None:
            self._some = self._some[~np.isin(self._some, rows)]
        else:
            self._many[rows[rows < self._many.size]] = False

    def to_rows(self) -> Rows:
        """All rows, ascending."""
        if self._few is not None:
            return np.array(sorted(self._few), np.int64)
        return self._some if self._many is None else np.flatnonzero(self._many)


def contained(rows: Rows, others: Rows) -> Mask:
    """Which rows are among the others: ``np.isin``, for a handful in a fraction of its time.

    >>> contained(np.array([3, 5]), np.array([5, 7])).tolist()
    [False, True]
    """
    if rows.size + others.size > _FEW:
        return np.isin(rows, others)
    known = set(others.tolist())
    return np.fromiter([row in known for row in rows.tolist()], np.bool_, rows.size)


@dataclass(slots=True)
class RoundBook:
    """The state of the rounds; ``memory`` is two pacer windows."""

    memory: int
    round_number: int = 0
    draws: int = 0  #: selections made in the current round: the first one and its top-ups
    pacer_steps: int = 1
    wanted: int = 0  #: how many the current round was opened for
    selected: dict[int, Rows] = field(default_factory=dict)
    received: dict[int, RowSet] = field(default_factory=dict)
    history: History = field(
        default_factory=dict
    )  #: per round: sum of clipped utilities, number of reports
    unfolded: list[tuple[int, Rows, Floats]] = field(
        default_factory=list
    )  #: reports not yet in the history

    @property
    def oldest(self) -> int:
        """The oldest round that reports are still taken for."""
        return max(0, self.round_number - self.memory)

    def cohort(self, round_number: int) -> Rows:
        """Who was selected in a round."""
        return self.selected.get(round_number, np.empty(0, np.int64))

    def was_selected(self, round_number: int, rows: Rows) -> Mask:
        """Which of these rows were selected in a round."""
        return contained(rows, self.cohort(round_number))

    def fresh(self, round_number: int, rows: Rows) -> Mask:
        """Which reports are the first for their client and round, within the batch too."""
        if rows.size <= _FEW and len(set(rows.tolist())) == rows.size:
            first = np.ones(rows.size, np.bool_)
        else:
            first = np.zeros(rows.size, np.bool_)
            first[np.unique(rows, return_index=True)[1]] = True
        seen = self.received.get(round_number)
        return first if seen is None else first & ~seen.contains(rows)

    def note(self, round_number: int, rows: Rows) -> None:
        """Remember that these clients were heard of for this round."""
        self.received.setdefault(round_number, RowSet()).add(rows)

    def folded(self, cap: float) -> History:
        """What the newest reports, each clipped at ``cap``, make of their rounds' history."""
        by_round: dict[int, list[Floats]] = {}
        for round_number, _, utility in self.unfolded:
            by_round.setdefault(round_number, []).append(utility)
        entries: History = {}
        for round_number, parts in by_round.items():
            utility = parts[0] if len(parts) == 1 else np.concatenate(parts)
            clipped = np.minimum(utility, cap)
            worth = float(clipped.cumsum(dtype=np.float64)[-1])  # in the order of the reports
            entries[round_number] = self.entry(round_number, worth, utility.size)
        return entries

    def entry(self, round_number: int, worth: float, count: int) -> tuple[float, int]:
        """The entry of a round in the history, with so many more reports that are worth this."""
        total, before = self.history.get(round_number, (0.0, 0))
        return total + worth, before + count

    def open(self, round_number: int, rows: Rows, wanted: int) -> None:
        """Begin a round with its first participants, and drop what has become too old."""
        before = self.oldest
        self.round_number = round_number
        self.wanted = min(wanted, 2**32 - 1)
        self.draws = 1
        self.selected[round_number] = rows
        oldest = self.oldest
        if oldest > before:
            for old in range(before, oldest):
                for kept in (self.selected, self.received, self.history):
                    kept.pop(old, None)
            self.unfolded = [entry for entry in self.unfolded if entry[0] >= oldest]

    def take_history(self, entries: History) -> None:
        """Replace entries of the history by those that the newest reports were folded into."""
        oldest = self.oldest
        for round_number, entry in entries.items():
            if round_number >= oldest:
                self.history[round_number] = entry
        self.unfolded = []

    def top_up(self, rows: Rows) -> None:
        """Add participants to the current round."""
        self.draws += 1
        self.selected[self.round_number] = np.concatenate([self.cohort(self.round_number), rows])

    def forget(self, rows: Rows) -> None:
        """Drop every trace of these rows; what they added to sums over many clients stays."""
        for round_number, cohort in self.selected.items():
            self.selected[round_number] = cohort[~np.isin(cohort, rows)]
        for seen in self.received.values():
            seen.discard(rows)
        kept = [(r, reported, u, ~np.isin(reported, rows)) for r, reported, u in self.unfolded]
        self.unfolded = [(r, reported[k], u[k]) for r, reported, u, k in kept if k.any()]

    def to_state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Everything, as plain values and arrays for a file."""
        numbers = {
            "round_number": self.round_number,
            "draws": self.draws,
            "pacer_steps": self.pacer_steps,
            "wanted": self.wanted,
        }
        received = {r: seen.to_rows() for r, seen in self.received.items()}
        arrays = {
            **_stacked("selected", self.selected),
            **_stacked("received", received),
            "history_round": np.array(list(self.history), np.int64),
            "history_sum": np.array([total for total, _ in self.history.values()], np.float64),
            "history_count": np.array([count for _, count in self.history.values()], np.int64),
            "unfolded_round": np.concatenate(
                [np.empty(0, np.int64), *(np.full(rows.size, r) for r, rows, _ in self.unfolded)]
            ),
            "unfolded_row": np.concatenate(
                [np.empty(0, np.int64), *(rows for _, rows, _ in self.unfolded)]
            ),
            "unfolded_utility": np.concatenate(
                [np.empty(0, np.float32), *(u for _, _, u in self.unfolded)]
            ),
        }
        return numbers, arrays

    @classmethod
    def from_state(
        cls,
        memory: int,
        numbers: Mapping[str, Any],
        arrays: Mapping[str, npt.NDArray[Any]],
        num_rows: int,
    ) -> RoundBook:
        """The book that ``to_state`` gave, of a table with so many rows.

        Raises:
            DamagedFileError: The values are not such as ``to_state`` gives.
        """
        book = cls(
            memory=memory,
            round_number=_stored_count(numbers, "round_number", 0),
            draws=_stored_count(numbers, "draws", 0),
            pacer_steps=_stored_count(numbers, "pacer_steps", 1),
            wanted=_stored_count({"wanted": 0, **numbers}, "wanted", 0),
        )
        book.selected = _unstacked("selected", arrays, num_rows)
        for round_number, rows in _unstacked("received", arrays, num_rows).items():
            book.note(round_number, rows)
        rounds = column(arrays, "history_round", np.int64)
        sums = column(arrays, "history_sum", np.float64, rounds.size).tolist()
        counts = column(arrays, "history_count", np.int64, rounds.size).tolist()
        book.history = dict(zip(rounds.tolist(), zip(sums, counts, strict=True), strict=True))
        book.unfolded = _unfolded(arrays, num_rows)
        return book


def _stacked(name: str, by_round: Mapping[int, Rows]) -> dict[str, npt.NDArray[Any]]:
    return {
        f"{name}_round": np.array(list(by_round), np.int64),
        f"{name}_count": np.array([rows.size for rows in by_round.values()], np.int64),
        f"{name}_row": np.concatenate([np.empty(0, np.int64), *by_round.values()]),
    }


def _unstacked(
    name: str, arrays: Mapping[str, npt.NDArray[Any]], num_rows: int
) -> dict[int, Rows]:
    rounds = column(arrays, f"{name}_round", np.int64)
    counts = column(arrays, f"{name}_count", np.int64, rounds.size)
    if counts.min(initial=0) < 0:
        message = f"column '{name}_count' must be counts; it has {counts.min()}"
        raise DamagedFileError(message)
    rows = _stored_rows(arrays, f"{name}_row", num_rows, size=sum(counts.tolist()))
    parts = np.split(rows, np.cumsum(counts)[:-1]) if rounds.size else []
    return dict(zip(rounds.tolist(), parts, strict=True))


def _unfolded(
    arrays: Mapping[str, npt.NDArray[Any]], num_rows: int
) -> list[tuple[int, Rows, Floats]]:
    rounds = column(arrays, "unfolded_round", np.int64)
    rows = _stored_rows(arrays, "unfolded_row", num_rows, size=rounds.size)
    utility = column(arrays, "unfolded_utility", np.float32, rounds.size)
    edges = [0, *(np.flatnonzero(np.diff(rounds)) + 1).tolist(), rounds.size]
    parts = [slice(start, end) for start, end in pairwise(edges) if end > start]
    return [(int(rounds[part.start]), rows[part], utility[part]) for part in parts]


def _stored_rows(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, num_rows: int, *, size: int
) -> Rows:
    rows = column(arrays, name, np.int64, size)
    if rows.size and not 0 <= rows.min() <= rows.max() < num_rows:
        message = f"column '{name}' must be rows from 0 to {num_rows - 1}; it has others"
        raise DamagedFileError(message)
    return rows


def _stored_count(numbers: Mapping[str, Any], name: str, least: int) -> int:
    value = numbers.get(name)
    if type(value) is not int or not least <= value < 2**32:
        message = f"'{name}' must be a whole number, {least} or more; it is {value!r:.80}"
        raise DamagedFileError(message)
    return value
