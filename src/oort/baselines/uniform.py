"""Uniform random selection."""

from __future__ import annotations

from typing import ClassVar

from oort.training.bookkeeping import BookkeepingSelector, Decision, Question


class UniformSelector(BookkeepingSelector):
    """Picks anyone who is there, evenly.

    >>> selector = UniformSelector({"seed": 1})
    >>> _ = selector.register_clients(range(10))
    >>> len(set(selector.select_participant(4)))
    4
    """

    strategy: ClassVar[str] = "uniform"

    def _decide(self, question: Question) -> Decision:
        return self._decide_uniformly(question)
