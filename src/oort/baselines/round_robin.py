"""Selection in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from oort.config import TrainingConfig
from oort.training.bookkeeping import BookkeepingSelector, Decision, Question


class RoundRobinSelector(BookkeepingSelector):
    """Picks whoever comes next in row order, and starts over at the end.

    >>> selector = RoundRobinSelector()
    >>> _ = selector.register_clients(["a", "b", "c"])
    >>> selector.select_participant(2), selector.select_participant(2)
    (['a', 'b'], ['c', 'a'])
    """

    strategy: ClassVar[str] = "round_robin"

    def __init__(self, config: TrainingConfig | Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._next_row = 0

    def _decide(self, question: Question) -> Decision:
        rows = self._ready_rows(question.allowed)
        start = int(np.searchsorted(rows, self._next_row))
        picked = np.roll(rows, -start)[: question.wanted]
        return self._plain_decision(picked, "in turn")

    def _carry_out(self, question: Question, decision: Decision) -> None:
        super()._carry_out(question, decision)
        self._next_row = int(decision.rows[-1]) + 1

    def _extra_state(self) -> dict[str, Any]:
        return {"next_row": self._next_row}

    def _restore_extra(self, meta: Mapping[str, Any]) -> None:
        self._next_row = int(meta["next_row"])
