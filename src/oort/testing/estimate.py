"""What the results are worth: the population's metric, with an interval valid for the design.

The unit of sampling is the client, so clients are clusters: neither samples nor correct answers
are independent, and the intervals that count every sample as a draw are far too short. Ours come
from :mod:`oort.testing.betting`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from oort.errors import InvalidArgumentError, InvalidFeedbackError
from oort.randomness import generator_for
from oort.testing.betting import Draws, anytime_interval, fixed_interval
from oort.testing.results import Results, ResultTable, Scores, result_table
from oort.types import ClientId, Floats, Rows

_SOURCE = (
    "Waudby-Smith & Ramdas (2020, 2024), betting without replacement, on the ratio of two totals"
)

_ROUNDING = 1e-8  #: bisection ends there


@dataclass(frozen=True, kw_only=True)
class Design:
    """How the clients came to be asked."""

    num_clients: int  #: N
    num_invited: int  #: asked, the taken ones included
    participants: tuple[
        ClientId, ...
    ] = ()  #: in the order drawn, the taken ones first; empty where ids are unknown
    taken: tuple[ClientId, ...] = ()  #: asked for certain
    most: float | None = None  #: most samples that a drawn client may have, where it is known
    span: float = (
        math.inf
    )  #: range of the number of samples among the drawn, where ``most`` is not known
    most_of_taken: float | None = None  #: most samples that a taken client may have
    most_from: str = "max_samples"  #: where ``most`` or ``span`` come from, in words
    seed: int = 0
    notes: tuple[str, ...] = ()  #: what the draw could not do


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A metric over the whole population, from a sample of clients."""

    value: float  #: ratio of the weighted totals; NaN where nobody had a sample
    low: float
    high: float
    confidence: float
    num_results: int  #: participants that answered
    num_missing: int  #: participants that did not
    num_samples: float  #: samples among those that answered
    worst_case: tuple[
        float, float
    ]  #: the interval if the silent ones had the worst, or the best, possible results
    slices: Mapping[str, Estimate] = field(default_factory=dict)
    method: str = _SOURCE
    notes: tuple[str, ...] = ()

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return (self.high - self.low) / 2.0

    def __str__(self) -> str:
        lines = [
            f"{self.value:.4f}, with at least {self.confidence:.4g} confidence from "
            f"{self.low:.4f} to {self.high:.4f} ({self.num_results:,} participants, "
            f"{self.num_samples:,.0f} samples)"
        ]
        lines += [
            f"  {name}: {part.value:.4f} ({part.low:.4f} to {part.high:.4f})"
            for name, part in self.slices.items()
        ]
        return "\n".join(lines + [f"  {note}" for note in self.notes])


def estimate(
    design: Design,
    results: Results,
    *,
    confidence: float,
    metric_range: tuple[float, float] = (0.0, 1.0),
    joint: bool = False,
    slices: Sequence[str] | None = None,
    anytime: bool = False,
    within: Mapping[str | None, tuple[float, float]] | None = None,
) -> Estimate:
    """The population's value with its interval, overall and per slice.

    ``joint`` makes all intervals hold together (each at α divided by their number); otherwise each
    holds by itself. ``slices`` names those to estimate beforehand, so that their number does not
    depend on who was drawn; otherwise all that are reported. ``anytime`` gives intervals that hold
    at every number of participants at once; ``within`` those found before.

    Raises:
        InvalidFeedbackError: A result cannot be used, or comes from a client that was not drawn.

    >>> design = Design(num_clients=3, num_invited=3, most=10.0)
    >>> answer = estimate(design, [(10, 9), (10, 8), (4, 4)], confidence=0.95)
    >>> answer.value, answer.low, answer.high        # everybody answered: nothing is uncertain
    (0.875, 0.875, 0.875)
    """
    table = result_table(results, metric_range)
    table = table if slices is None else table.only(slices)
    sample = _Sample(design, table)
    each = 1.0 - (1.0 - confidence) / (1 + len(table.slices)) if joint else confidence
    known = within or {}
    everything = (0.0, 1.0)
    parts = {
        name: sample.estimate(part, each, metric_range, anytime, known.get(name, everything))
        for name, part in table.slices.items()
    }
    overall = sample.estimate(
        table.overall, each, metric_range, anytime, known.get(None, everything)
    )
    notes = (*sample.notes(each, bool(parts), joint), *overall.notes)
    return replace(overall, slices=parts, notes=notes)


class _Sample:
    """Who answered, in the order drawn, and the most samples that each might have had."""

    def __init__(self, design: Design, table: ResultTable) -> None:
        self.design = design
        self.size = len(table)
        self.order, self.num_taken, self.silent_taken = self._ordered(table)
        self.drawn = self.order[self.num_taken :]
        self.num_silent = max(0, design.num_invited - self.size) - self.silent_taken
        self.most, self.bound = self._most(table.overall.samples[self.drawn])
        self.places = self._places(table)
        if self.size > design.num_clients:
            message = (
                f"results must be at most {design.num_clients:,}, one a client; got {self.size:,}"
            )
            raise InvalidArgumentError(message)

    def estimate(
        self,
        scores: Scores,
        confidence: float,
        scale: tuple[float, float],
        anytime: bool,
        within: tuple[float, float],
    ) -> Estimate:
        """The estimate from one set of scores, in the metric's own scale."""
        value = self._value(scores)
        interval, worst = self._interval(scores, confidence, anytime, within)
        notes: tuple[str, ...] = ()
        if not math.isnan(value):
            if not interval[0] - _ROUNDING <= value <= interval[1] + _ROUNDING:
                notes = ("the interval alone does not contain the value: it is extended to it",)
            interval = (min(interval[0], value), max(interval[1], value))
        worst = (min(worst[0], interval[0]), max(worst[1], interval[1]))
        low, width = scale[0], scale[1] - scale[0]
        return Estimate(
            value=low + width * value,
            low=low + width * interval[0],
            high=low + width * interval[1],
            worst_case=(low + width * worst[0], low + width * worst[1]),
            confidence=confidence,
            num_results=self.size,
            num_missing=self.num_silent + self.silent_taken,
            num_samples=float(np.sum(scores.samples)),
            notes=notes,
        )

    def notes(self, each: float, sliced: bool, joint: bool) -> tuple[str, ...]:
        """What the reader has to know beside the numbers."""
        notes = []
        missing = self.num_silent + self.silent_taken
        if missing:
            share = missing / max(self.design.num_invited, 1)
            notes.append(
                f"{missing:,} of {self.design.num_invited:,} invited ({share:.1%}) are silent; "
                "the interval supposes that this is unrelated to results, worst_case does not"
            )
        if self.silent_taken:
            notes.append(
                f"{self.silent_taken:,} of them are of the take-all stratum: "
                "the value omits them, the interval allows for any result of theirs"
            )
        notes += self.design.notes
        if sliced:
            kind = (
                "all intervals hold together"
                if joint
                else "each interval holds by itself, not all together"
            )
            notes.append(f"{kind}, with at least {each:.4g} confidence{' each' if joint else ''}")
        return tuple(notes)

    def _ordered(self, table: ResultTable) -> tuple[Rows, int, int]:
        """Rows in the order drawn (a random one where ids are unknown), taken ones first."""
        design = self.design
        shuffled = generator_for(design.seed, 0, "order of results").permutation(self.size)
        if table.clients is None:
            if design.taken:
                message = "results must name their clients beside a take-all stratum; got no names"
                raise InvalidArgumentError(message)
            return shuffled.astype(np.int64), 0, 0
        taken = {client: i for i, client in enumerate(design.taken)}
        if design.participants:
            asked = set(design.participants)
            for client in table.clients:
                if client not in asked:
                    message = f"client {client!r} must be a participant of the plan; it is not"
                    raise InvalidFeedbackError(message)
            place = {c: i for i, c in enumerate(design.participants)}
        else:
            place = {table.clients[row]: i for i, row in enumerate(shuffled)}
        # Taken ones come before all others.
        rank = [taken.get(c, len(taken) + place[c]) for c in table.clients]
        answered = sum(c in taken for c in table.clients)
        return np.argsort(rank, kind="stable").astype(np.int64), answered, len(taken) - answered

    def _most(self, samples: Floats) -> tuple[Floats, float]:
        """The most samples that each drawn client might have, as known before it, and at the end.

        Where only the range R is known: R above the fewest seen so far, which is R above the
        fewest of all or more.
        """
        most = self._most_before(samples)
        bound = float(most[-1])
        if len(samples) and np.max(samples) > bound * (1 + 1e-12):
            message = (
                f"num_samples must be at most {bound:,g} (by {self.design.most_from}); "
                f"got {np.max(samples):,g}"
            )
            raise InvalidFeedbackError(message)
        return most, bound

    def _most_before(self, samples: Floats) -> Floats:
        """The same without the check; infinitely many samples mark a client that tells nothing."""
        if self.design.most is not None:
            return np.full(len(samples) + 1, self.design.most)
        return np.minimum.accumulate(np.concatenate([[np.inf], samples])) + self.design.span

    def _places(self, table: ResultTable) -> Floats:
        """Where among all drawn the ones that answered stand, the silent ones between them."""
        total = len(self.drawn) + self.num_silent
        if table.clients is None or not self.design.participants:
            chosen = generator_for(self.design.seed, 0, "silent").permutation(total)[
                : len(self.drawn)
            ]
            return np.sort(chosen)
        taken, clients = set(self.design.taken), table.clients
        place = {c: i for i, c in enumerate(c for c in self.design.participants if c not in taken)}
        return np.array([place[clients[row]] for row in self.drawn], dtype=np.int64)

    def _value(self, scores: Scores) -> float:
        """The ratio of the estimated totals."""
        taken, drawn = scores.take(self.order[: self.num_taken]), scores.take(self.drawn)
        rest = self.design.num_clients - self.num_taken - self.silent_taken
        weight = rest / len(self.drawn) if len(self.drawn) else 0.0
        samples = float(np.sum(taken.samples) + weight * np.sum(drawn.samples))
        right = float(np.sum(taken.right) + weight * np.sum(drawn.right))
        return min(right / samples, 1.0) if samples > 0 else math.nan

    def _interval(
        self, scores: Scores, confidence: float, anytime: bool, within: tuple[float, float]
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """The interval from those that answered, and one that supposes nothing of the others."""
        ordered = scores.take(self.order)
        method = (
            partial(anytime_interval, confidence=confidence, within=within)
            if anytime
            else partial(fixed_interval, confidence=confidence)
        )
        value = self._value(scores)
        if self.size == self.design.num_clients and not math.isnan(value):
            return (value, value), (value, value)
        interval = (
            self._ends(ordered, method, 0)
            if self.silent_taken
            else method(self._filled(ordered, 0.0, 0))
        )
        if self.num_silent == 0:
            return interval, interval
        if not math.isfinite(self.bound):
            return interval, (0.0, 1.0)
        return interval, self._ends(ordered, method, self.num_silent)

    def _ends(
        self, ordered: Scores, method: Callable[[Draws], tuple[float, float]], num_silent: int
    ) -> tuple[float, float]:
        """The interval with silent clients at their worst, or best, for either end."""
        most = self.design.most_of_taken
        if self.silent_taken:
            seen = float(np.max(ordered.samples[: self.num_taken], initial=0.0))
            if most is None or seen > most:
                return 0.0, 1.0
        low = method(self._filled(ordered, 0.0, num_silent))[0]
        high = method(self._filled(ordered, 1.0, num_silent))[1]
        return low, high

    def _filled(self, ordered: Scores, accuracy: float, num_silent: int) -> Draws:
        """Who answered, and the silent: those taken and, where there are any, those drawn.

        The silent ones are as large as they may be, all wrong or all right.
        """
        front = np.full(self.silent_taken, float(self.design.most_of_taken or 0.0))
        total = len(self.drawn) + num_silent
        places = self.places if num_silent else np.arange(total)
        samples, right = np.full(total, self.bound), np.full(total, self.bound * accuracy)
        seen = np.zeros(total, dtype=bool)
        samples[places] = ordered.samples[self.num_taken :]
        right[places] = ordered.right[self.num_taken :]
        seen[places] = True
        most = self._most_before(np.where(seen, samples, np.inf))
        taken = self.num_taken + self.silent_taken
        return Draws(
            correct=np.concatenate([front * accuracy, ordered.right[: self.num_taken], right]),
            samples=np.concatenate([front, ordered.samples[: self.num_taken], samples]),
            most=np.concatenate([np.full(taken, most[0]), most]),
            num_clients=self.design.num_clients,
            num_taken=taken,
            seen=np.concatenate([np.zeros(taken, dtype=bool), seen]),
        )
