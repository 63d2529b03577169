"""Better sets of clients, by exchanging one for another.

Where a budget is close to the fewest clients that can do it and categories are many, a request is
a hard set cover: linear programmes say little about whom to take, and their rounded solutions are
far from the best. Here a set that is as large as allowed and still lacks samples is changed one
client at a time: whoever is missed least leaves, and of those who hold a category that is short,
whoever provides most of what is lacking comes. Categories weigh the more, the longer they have
been short, which leads the search out of every dead end. This is the row weighting local search
for set covers (Gao, Weise and Li, 2015), with a maximum flow instead of a yes or no for each
category; the flow is repaired after each move rather than found again.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np

from oort import kernels
from oort.testing.category.problem import Int64s, Problem
from oort.types import Rows

_ALWAYS = 2**62
_AT_ONCE = 1_000  # steps during which nobody can interrupt
_ENTRY_S = 5e-9
_PLAIN = 100.0  # times that where nothing is compiled


class Exchange:
    """A set of clients that changes one by one.

    Args:
        problem: The clients and the request.
        required: Rows that are never exchanged.

    >>> three = Problem(
    ...     indptr=np.array([0, 1, 2, 4]), category=np.array([0, 1, 0, 1]),
    ...     count=np.array([5, 5, 4, 5]), quota=np.array([4, 5]), limit=np.array([5, 5, 9]),
    ...     fixed_s=np.zeros(3), speed=np.ones(3))
    >>> exchange = Exchange(three)
    >>> exchange.begin(np.array([0]), three.limit)
    >>> exchange.improved(budget=1, steps=10)
    array([2])
    """

    def __init__(self, problem: Problem, required: Rows | None = None) -> None:
        self._loops: Any = import_module("oort.testing.category.exchange_loops")
        self._problem = problem
        self._required = np.zeros(0, np.int64) if required is None else required
        n, m = problem.num_clients, problem.num_categories
        holders = np.argsort(problem.category, kind="stable")
        rows = problem.rows().astype(np.int64)
        held_by = np.bincount(problem.category, minlength=m)
        self._board = self._loops.Board(
            indptr=problem.indptr,
            category=problem.category.astype(np.int64),
            count=problem.count.astype(np.int64),
            row=rows,
            holders_from=np.concatenate([[0], np.cumsum(held_by)]),
            holders=rows[holders],
            quota=problem.quota,
            room=problem.limit,
        )
        self._scratch = self._loops.Scratch(
            queue=np.zeros(m, np.int64),
            reached=np.zeros(m, np.bool_),
            taken_from=np.zeros(m, np.int64),
            given_to=np.zeros(m, np.int64),
            seen=np.zeros(n + 1, np.int64),
            spare=np.zeros(m, np.int64),
            looked=np.zeros(1, np.int64),
        )
        self._generator = np.random.default_rng(0)
        self._state: Any = None
        self.steps = 0  #: moves since the search began
        self.spent_s = 0.0  #: what all searches cost, judged by their work and not by a clock

    def begin(self, rows: Rows, room: Int64s) -> None:
        """Begin again with these clients, who have room for so many samples each."""
        n, k = self._problem.num_clients, len(self._problem.category)
        rows = np.union1d(rows, self._required)
        self._board = self._board._replace(room=room)
        self._state = self._loops.State(
            chosen=np.zeros(n + 1, np.int64),
            size=np.zeros(1, np.int64),
            place=np.full(n, -1),
            given=np.zeros(k, np.int64),
            used=np.zeros(n, np.int64),
            short=self._problem.quota.copy(),
            weight=np.ones(self._problem.num_categories),
            first=np.full(self._problem.num_categories, -1),
            after=np.zeros(k, np.int64),
            before=np.zeros(k, np.int64),
            rests_until=np.full(n, -1),
            moved=np.zeros(n, np.int64),
        )
        self._state.rests_until[self._required] = _ALWAYS
        self._loops.enter_all(self._board, self._state, rows)
        self.steps = 0

    @property
    def rows(self) -> Rows:
        """The clients now in the set, ascending."""
        rows: Rows = np.sort(self._state.chosen[: self._state.size[0]])
        return rows

    def improved(self, *, budget: int, steps: int, seconds: float = math.inf) -> Rows | None:
        """The set once it lacks nothing; none where so many steps do not get there.

        Args:
            budget: How many clients it may have.
            steps: How many moves to make at most.
            seconds: What they may cost, by judgement.
        """
        last, most_s, lacking = self.steps + steps, self.spent_s + seconds, 1
        while lacking and self.steps < last and self.spent_s < most_s:
            draws = self._generator.random(min(_AT_ONCE, last - self.steps))
            begun, looked = self.steps, int(self._scratch.looked[0])
            lacking, self.steps = self._loops.exchange(
                self._board, self._state, self._scratch, budget, draws, self.steps
            )
            looked = int(self._scratch.looked[0]) - looked
            self.spent_s += (self.steps - begun) * self.step_s(budget) + looked * _looking_s()
        return self.rows if lacking == 0 and len(self.rows) <= budget else None

    def step_s(self, budget: int) -> float:
        """What a step costs at least, seconds, judged by the size of the problem."""
        m, entries = self._problem.num_categories, len(self._problem.category)
        length = entries / max(1, self._problem.num_clients)
        looked_at = 4.0 * budget * length + 8.0 * m + entries / m * length
        return looked_at * _looking_s()


def _looking_s() -> float:
    """What looking at an entry costs, seconds, roughly."""
    return _ENTRY_S * (1.0 if kernels.backend() == "numba" else _PLAIN)
