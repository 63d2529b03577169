"""One round under way: who was picked, who has answered, and when it is over."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oort.types import ClientId, Feedback, Outcome, Selection


class Cohort:
    """The participants of one round. Replies may be reported from many threads.

    It is over when as many as needed have answered ("quorum"), when nobody is left to wait for
    ("everyone"), or when the time is up ("deadline", "timeout").

    >>> selection = Selection(participants=["a", "b", "c"], round_number=1)
    >>> cohort = Cohort(selection, server_round=1, quorum=2)
    >>> cohort.completed("a", Feedback(utility=3.0)), cohort.completed("b", Feedback(utility=1.0))
    (True, True)
    >>> cohort.completed("c", Feedback(utility=9.0, duration_s=70.0)), cohort.ended_by
    (False, 'quorum')
    >>> cohort.outcomes()["c"].outcome, cohort.outcomes()["c"].duration_s
    (<Outcome.UNUSED: 'unused'>, 70.0)
    """

    def __init__(
        self,
        selection: Selection,
        *,
        server_round: int,
        quorum: int,
        deadline_s: float = math.inf,
        min_replies: int = 1,
        by_duration: bool = False,
    ) -> None:
        self.selection = selection
        self.server_round = server_round
        self.ended_by: str | None = None
        self._quorum = min(quorum, len(selection))
        self._deadline_s = deadline_s
        self._by_duration = by_duration
        self._min_replies = min(min_replies, self._quorum)
        self._waited_for: set[ClientId] = set(selection)
        self._known: dict[ClientId, Feedback] = {}
        self._results: list[ClientId] = []
        self._changed = threading.Condition()
        self._started = time.monotonic()
        self._elapsed_s: float | None = None

    @property
    def num_completed(self) -> int:
        """How many results count."""
        return len(self._results)

    @property
    def elapsed_s(self) -> float:
        """Seconds since sending, up to the end of the round."""
        now = time.monotonic() - self._started
        return now if self._elapsed_s is None else self._elapsed_s

    def begin(self) -> None:
        """The work goes out now: the clock starts again."""
        self._started = time.monotonic()

    def completed(self, client: ClientId, feedback: Feedback) -> bool:
        """A result is there; whether it counts: the first, while the round is open."""
        with self._changed:
            if client not in self._waited_for:
                return False
            if self.ended_by is not None:
                self._settle(client, _unused(feedback.duration_s))
                return False
            self._results.append(client)
            if len(self._results) >= self._quorum and not self._by_duration:
                self._end("quorum")
            self._settle(client, feedback)
            if self.elapsed_s >= self._deadline_s and len(self._results) >= self._min_replies:
                self._end("deadline")
            return True

    def keep_fastest(self) -> set[ClientId]:
        """Whose results make the round: the first by reported duration, or all that came."""
        with self._changed:
            if not self._by_duration:
                return set(self._results)
            order = sorted(self._results, key=lambda c: _seconds(self._known[c].duration_s))
            for client in order[self._quorum :]:
                self._known[client] = _unused(self._known[client].duration_s)
            if len(order) >= self._quorum:
                last = self._known[order[self._quorum - 1]]
                self.ended_by, self._elapsed_s = "quorum", _seconds(last.duration_s)
            return set(order[: self._quorum])

    def failed(self, client: ClientId, duration_s: float | None = None) -> None:
        """A client has dropped out, after so many seconds if that is known."""
        with self._changed:
            if client in self._waited_for:
                self._settle(client, Feedback(outcome=Outcome.FAILED, duration_s=duration_s))

    def not_sent(self, client: ClientId) -> None:
        """A client was picked but never asked: the strategy wanted fewer."""
        with self._changed:
            if client in self._waited_for:
                self._settle(client, _unused(None))
                self._quorum = min(self._quorum, len(self._results) + len(self._waited_for))

    def amend(self, client: ClientId, feedback: Feedback) -> None:
        """Replace what is known of a client that answered: its report came with the results."""
        with self._changed:
            self._waited_for.discard(client)
            self._known[client] = feedback

    def reply_s(self, client: ClientId) -> float:
        """Seconds until a client's answer, or until now."""
        known = self._known.get(client)
        return self.elapsed_s if known is None or known.duration_s is None else known.duration_s

    def is_over(self) -> bool:
        """Whether to stop waiting; looks at the clock."""
        with self._changed:
            late = self.elapsed_s >= self._deadline_s
            if self.ended_by is None and late and len(self._results) >= self._min_replies:
                self._end("deadline")
            return self.ended_by is not None

    def end(self, reason: str) -> None:
        """Stop waiting, for a reason of the engine's."""
        with self._changed:
            self._end(reason)

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Sleep until the round is over or something is so, at most so long."""
        with self._changed:
            left_s = self._deadline_s - self.elapsed_s
            limit_s = min(seconds, left_s) if left_s > 0 else seconds
            self._changed.wait_for(lambda: self.ended_by is not None or until(), timeout=limit_s)

    def wake(self) -> None:
        """Let those who wait look again."""
        with self._changed:
            self._changed.notify_all()

    def outcomes(self) -> dict[ClientId, Feedback]:
        """How it ended for everyone picked: those never heard of failed or were cut off."""
        with self._changed:
            cut_off = self.ended_by == "quorum"
            rest = Feedback(
                outcome=Outcome.UNUSED if cut_off else Outcome.FAILED, duration_s=self.elapsed_s
            )
            return {client: self._known.get(client, rest) for client in self.selection}

    def _settle(self, client: ClientId, feedback: Feedback) -> None:
        self._known[client] = feedback
        self._waited_for.discard(client)
        if not self._waited_for:
            self._end("everyone")
        self._changed.notify_all()

    def _end(self, reason: str) -> None:
        if self.ended_by is None:
            self.ended_by, self._elapsed_s = reason, self.elapsed_s
            self._changed.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSummary:
    """What came of a round: handed to ``after_round``."""

    server_round: int  #: as Flower counts, from 1 in every run
    round_number: int  #: as the selector counts, on and on
    selection: Selection
    ended_by: str  #: "quorum", "everyone", "deadline" or "timeout"
    elapsed_s: float
    outcomes: Mapping[ClientId, Feedback]
    arrays: Any = field(default=None, repr=False)  #: the new global model, None if there is none

    def clients(self, outcome: Outcome | str) -> list[ClientId]:
        """Whom it ended for in this way."""
        return [c for c, feedback in self.outcomes.items() if feedback.outcome == outcome]


def _seconds(duration_s: float | None) -> float:
    return math.inf if duration_s is None or math.isnan(duration_s) else duration_s


def _unused(duration_s: float | None) -> Feedback:
    good = duration_s is not None and math.isfinite(duration_s) and duration_s >= 0
    return Feedback(outcome=Outcome.UNUSED, duration_s=duration_s if good else None)
