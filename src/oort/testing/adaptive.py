"""Recruiting in batches until the answer is precise enough.

How many participants a given precision takes is not known beforehand: it depends on how much
clients differ. Looking at an ordinary interval after every batch and stopping when it is short
makes it too short too often. The interval here is a confidence sequence: it holds at all batches
at once, so it may be looked at, and acted on, at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice
from threading import RLock
from typing import Any

from oort.errors import InvalidArgumentError, InvalidFeedbackError
from oort.randomness import generator_for
from oort.testing.arguments import refuse, whole
from oort.testing.estimate import Design, Estimate, estimate
from oort.testing.results import AnyResult, Results, result_items
from oort.testing.roster import reach_notes
from oort.types import ClientId


class AdaptivePlan:
    """One adaptive test: ask a batch, add what came back, until it is done.

    Made by ``select_adaptively`` of a testing selector.

    >>> import oort
    >>> tester = oort.create_testing_selector(seed=1)
    >>> tester.register_clients([f"phone-{i}" for i in range(2_000)])
    >>> plan = tester.select_adaptively(half_width=0.05, max_samples=20, batch_size=50)
    >>> while not plan.done:
    ...     answer = plan.add({client: (20, 17) for client in plan.next_batch()})
    >>> plan.num_results, plan.reason
    (50, 'the interval is short enough')
    """

    def __init__(
        self,
        design: Design,
        *,
        half_width: float,
        confidence: float,
        batch_size: int,
        max_participants: int,
        metric_range: tuple[float, float] = (0.0, 1.0),
        candidates: Callable[[], Iterable[ClientId]] | None = None,
    ) -> None:
        self._design = design
        self.half_width = half_width
        self.confidence = confidence
        self.batch_size = batch_size
        self.max_participants = max_participants
        self._metric_range = metric_range
        self._candidates = candidates
        self._asked: dict[ClientId, None] = {}
        self._results: dict[ClientId, AnyResult] = {}
        self._within: dict[str | None, tuple[float, float]] = {}
        self._estimate: Estimate | None = None
        self._exhausted = False
        self._reachable = design.num_clients if candidates is None else len(list(candidates()))
        self._lock = RLock()

    @property
    def estimate(self) -> Estimate | None:
        """The value and its interval so far, valid at any time; none before the first results."""
        return self._estimate

    @property
    def notes(self) -> tuple[str, ...]:
        """What the draw could not do."""
        reachable = min(self._reachable, len(self._asked)) if self._exhausted else self._reachable
        return reach_notes(reachable, self._design.num_clients)

    @property
    def num_results(self) -> int:
        """Participants that have answered."""
        return len(self._results)

    @property
    def num_invited(self) -> int:
        """Participants that were asked."""
        return len(self._asked)

    @property
    def done(self) -> bool:
        """Whether to stop: the interval is short enough, or there is nobody left to ask."""
        return self.reason is not None

    @property
    def reason(self) -> str | None:
        """Why the test is done; none while it is not."""
        if self._estimate is not None and self._estimate.half_width <= self.half_width:
            return "the interval is short enough"
        if max(self.num_invited, self.num_results) >= self.max_participants:
            return "max_participants were asked"
        return "everybody who is online was asked" if self._exhausted else None

    def next_batch(self, size: int | None = None) -> list[ClientId]:
        """Draw the next participants, at random among the clients online that were not asked yet.

        Raises:
            InvalidArgumentError: The clients' ids are not known: recruit any ``batch_size`` at
                random instead.
        """
        with self._lock:
            if self._candidates is None:
                message = (
                    "next_batch must know ids (register_clients); without them, recruit at random"
                )
                raise InvalidArgumentError(message)
            asked = self.batch_size if size is None else whole("size", size, 1)
            wanted = max(0, min(asked, self.max_participants - len(self._asked)))
            fresh = (client for client in self._candidates() if client not in self._asked)
            found = list(islice(fresh, wanted + 1))
            batch, self._exhausted = found[:wanted], len(found) <= wanted
            self._asked.update(dict.fromkeys(batch))
            return batch

    def add(self, results: Results) -> Estimate:
        """Take in what a batch reported; returns the estimate so far.

        A client's first answer counts; whoever does not answer may do so with a later batch, and
        then counts where it was asked, so that being late changes nothing. While some are silent
        the interval supposes that this is unrelated to results; ``worst_case`` does not, and holds
        at all times at once whatever comes late. Without ids a batch must have been recruited at
        random; the order of its results does not matter.

        Raises:
            InvalidFeedbackError: A result cannot be used, or is from a client that was not asked.
        """
        with self._lock:
            fresh, asked = self._named(results)
            merged = {**self._results, **fresh}
            answer = estimate(
                self._grown(asked),
                merged,
                confidence=self.confidence,
                metric_range=self._metric_range,
                anytime=True,
                within=self._scaled_within(),
            )
            self._results, self._asked, self._estimate = merged, asked, answer
            self._within = {None: answer.worst_case}
            self._within |= {name: part.worst_case for name, part in answer.slices.items()}
            return answer

    def run(self, evaluate: Callable[[list[ClientId]], Mapping[Any, AnyResult]]) -> Estimate:
        """Ask batch after batch through a function that evaluates clients and returns results."""
        while not self.done:
            batch = self.next_batch()
            if not batch:
                break
            self.add(evaluate(batch))
        return self._estimate if self._estimate is not None else self.add({})

    def _named(self, results: Results) -> tuple[dict[ClientId, AnyResult], dict[ClientId, None]]:
        """New results by client, and everybody asked, in the order drawn.

        Anonymous clients get a running number, and each batch an order at random.
        """
        items = result_items(results)
        if self._candidates is None:
            start = len(self._results)
            rng = generator_for(self._design.seed, start, "order of a batch")
            order = (start + rng.permutation(len(items))).tolist()
            fresh: dict[ClientId, AnyResult] = {start + i: v for i, (_, v) in enumerate(items)}
            return fresh, {**self._asked, **dict.fromkeys(order)}
        if not isinstance(results, Mapping):
            refuse("results", "a mapping from client id to result", results)
        for client in results:
            if client not in self._asked:
                message = f"client {client!r} must be one of those asked; it is not"
                raise InvalidFeedbackError(message)
        return {c: value for c, value in items if c not in self._results}, self._asked

    def _grown(self, asked: Mapping[ClientId, None]) -> Design:
        """The design up to now."""
        return replace(
            self._design,
            num_invited=len(asked),
            participants=tuple(asked),
            notes=self.notes,
        )

    def _scaled_within(self) -> dict[str | None, tuple[float, float]]:
        """What earlier batches left possible, with the metric's range brought to [0, 1]."""
        low, high = self._metric_range
        return {
            k: ((a - low) / (high - low), (b - low) / (high - low))
            for k, (a, b) in self._within.items()
        }
