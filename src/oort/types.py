"""The values that cross Oort's borders: what clients report, what a selection says.

ClientId        a string, or an integer from −2⁶³ to 2⁶⁴−1; 1 and "1" are two clients
RowNumbers      rows of a selector, where ids would cost too much
Feedback        what one client reports after a round
Outcome         completed, failed or unused
UpdateResult    what became of a batch of reports
Selection       who was picked, and why
ClientColumns   what is known of some clients, as arrays: what a utility or a fairness sees
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from oort.errors import InvalidArgumentError, InvalidClientInfoError, InvalidFeedbackError

ClientId: TypeAlias = str | int
Floats: TypeAlias = npt.NDArray[np.floating[Any]]
Integers: TypeAlias = npt.NDArray[np.integer[Any]]
Rows: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Among: TypeAlias = Iterable[ClientId] | npt.NDArray[Any]


class RowNumbers(np.ndarray[Any, np.dtype[np.int64]]):
    """Row numbers of a selector: what ``selector.rows(ids)`` gives, taken wherever ids are.

    A plain integer array means integer *ids*; this type is how a selector tells the two apart.

    >>> RowNumbers([3, 1])
    RowNumbers([3, 1])
    """

    def __new__(cls, rows: npt.ArrayLike) -> RowNumbers:
        """Row numbers from anything that holds whole numbers.

        Raises:
            InvalidArgumentError: It holds something else, a mask for instance, or hides some.
        """
        given = np.asarray(rows)
        hides = isinstance(rows, np.ma.MaskedArray) and bool(np.ma.getmaskarray(rows).any())
        if hides or given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            message = f"row numbers must be a list of whole numbers; got {_shown(rows)}"
            raise InvalidArgumentError(message)
        return given.astype(np.int64).view(cls)


class Outcome(StrEnum):
    """How a participation ended."""

    #: trained and reported: utility and duration count
    COMPLETED = "completed"
    #: selected, but dropped out: counts as a participation, says nothing of utility
    FAILED = "failed"
    #: over-committed and cut off by the quorum: does not count as a participation
    UNUSED = "unused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What one client reports after training.

    Give the loss in the form that is at hand: ``mean_squared_loss`` with ``num_samples``, a ready
    ``utility``, or per-sample losses through :meth:`from_losses`. Values are checked when they
    reach a selector, which knows whose they are.

    >>> Feedback(num_samples=120, mean_squared_loss=1.9, duration_s=38.5).outcome
    <Outcome.COMPLETED: 'completed'>
    """

    num_samples: int | None = None
    mean_squared_loss: float | None = None
    mean_squared_gradient_norm: float | None = None
    utility: float | None = None
    duration_s: float | None = None
    outcome: Outcome | str = Outcome.COMPLETED
    sketch: Sequence[float] | None = None

    @classmethod
    def from_losses(
        cls,
        losses: npt.ArrayLike,
        *,
        duration_s: float | None = None,
        sketch: Sequence[float] | None = None,
    ) -> Feedback:
        """Feedback from the loss of every sample trained on.

        Raises:
            InvalidFeedbackError: A loss is no number.

        >>> Feedback.from_losses([1.0, 3.0], duration_s=4.0)
        Feedback(num_samples=2, mean_squared_loss=5.0, mean_squared_gradient_norm=None,
        utility=None,
                 duration_s=4.0, outcome=<Outcome.COMPLETED: 'completed'>, sketch=None)
        """
        try:
            values = np.asarray(losses, dtype=np.float64).ravel()
        except (TypeError, ValueError) as error:
            message = f"losses must be numbers, one per sample; got {_shown(losses)}"
            raise InvalidFeedbackError(message) from error
        with np.errstate(over="ignore"):  # an infinite mean is rejected with the client's name
            mean_square = float(np.mean(np.square(values))) if values.size else 0.0
        return cls(
            num_samples=values.size,
            mean_squared_loss=mean_square,
            duration_s=duration_s,
            sketch=sketch,
        )

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Feedback:
        """Feedback from a plain dict: the fields of this class, or ``losses`` for per-sample ones.

        Raises:
            InvalidFeedbackError: A key is not a field (the message lists the fields), or a loss
                is no number.

        >>> Feedback.from_mapping({"utility": 3.5, "duration_s": 2.0}).utility
        3.5
        """
        if not isinstance(values, Mapping):
            message = f"feedback must be a Feedback or a dict of its fields; got {_shown(values)}"
            raise InvalidFeedbackError(message)
        given = dict(values)
        losses = given.pop("losses", None)
        allowed = [f.name for f in fields(cls)]
        unknown = sorted(set(given) - set(allowed), key=str)
        if unknown:
            names = ", ".join(["losses", *allowed])
            message = f"feedback has no field {unknown[0]!r}; the fields are {names}"
            raise InvalidFeedbackError(message)
        if losses is not None:
            from_losses = cls.from_losses(losses)
            given.setdefault("num_samples", from_losses.num_samples)
            given["mean_squared_loss"] = from_losses.mean_squared_loss
        return cls(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientInfo:
    """What one client holds and how fast it is: what a test plan needs to know.

    What is left out stays as it was known; ``samples`` replaces all counts of the client. Values
    are checked when they reach a selector, which knows whose they are.

    >>> ClientInfo(samples={"cat": 120, "dog": 30}, samples_per_s=25).samples["cat"]
    120
    """

    samples: Mapping[Any, int] | None = (
        None  #: samples of each category, named by strings or integers
    )
    samples_per_s: float | None = None  #: how fast it tests
    bandwidth_mbps: float | None = None  #: megabits per second
    transfer_mb: float | None = (
        None  #: megabytes to move for one test, where it differs from the job's
    )
    max_samples: int | None = None  #: the most samples it may be asked for in one test

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> ClientInfo:
        """The same from a plain dict.

        Raises:
            InvalidClientInfoError: A key is not a field; the message lists the fields.

        >>> ClientInfo.from_mapping({"samples_per_s": 25}).samples_per_s
        25
        """
        allowed = [f.name for f in fields(cls)]
        unknown = sorted(set(values) - set(allowed), key=str)
        if unknown:
            message = (
                f"client info has no field {unknown[0]!r}; the fields are {', '.join(allowed)}"
            )
            raise InvalidClientInfoError(message)
        return cls(**values)


@dataclass(frozen=True, slots=True)
class Rejection:
    """One report of a batch that was not applied."""

    index: int  #: its place in the batch
    client: Any  #: the id as given
    field: str  #: which value is wrong
    value: Any  #: what it was
    reason: str  #: what it must be

    def __str__(self) -> str:
        got = _shown(self.value)
        return f"client {_shown(self.client)}: {self.field} must be {self.reason}; got {got}"


@dataclass(frozen=True, slots=True)
class UpdateResult:
    """What became of a batch of reports: every one is in exactly one of the four."""

    applied: int = 0  #: changed what is known
    repeated: int = 0  #: the same client and round had been received before
    outdated: int = 0  #: something newer was known already; noted as received
    rejected: tuple[Rejection, ...] = ()  #: not usable, with the reason


@dataclass(frozen=True, slots=True)
class Pick:
    """Why one client was picked."""

    client: ClientId
    how: str  #: "exploited", "explored", "filled" (pending or removed clients) or "uniform"
    score: float  #: what the draw was weighted with
    utility: float = float("nan")  #: clipped and scaled to [0, 1]
    staleness: float = float("nan")  #: added for not having been heard of for long
    speed: float = float("nan")  #: the factor for being slower than preferred, 1 if not
    fairness: float = float("nan")  #: scaled to [0, 1]; NaN where fairness is off
    duration_s: float = float("nan")  #: last known or expected, NaN if unknown
    participations: int = 0  #: before this round


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PickTable:
    """The same as a list of :class:`Pick`, as arrays in the order of the participants."""

    how: Sequence[str]
    score: Floats
    utility: Floats
    staleness: Floats
    speed: Floats
    fairness: Floats
    duration_s: Floats
    participations: Integers

    @classmethod
    def plain(cls, how: str, duration_s: Floats, participations: Integers) -> PickTable:
        """Picks that no score decided."""
        nothing = np.full(duration_s.size, np.nan, np.float32)
        return cls(
            how=[how] * duration_s.size,
            score=np.ones(duration_s.size, np.float32),
            utility=nothing,
            staleness=nothing,
            speed=nothing,
            fairness=nothing,
            duration_s=duration_s,
            participations=participations,
        )


@dataclass(frozen=True, kw_only=True)
class Selection:
    """The participants of one round, or of a top-up of it, and how they came to be picked."""

    participants: list[ClientId]
    round_number: int
    preferred_s: float = float(
        "inf"
    )  #: the paper's T, seconds; infinite until durations are known
    epsilon: float = math.nan  #: the share meant for exploration
    cutoff: float = math.nan  #: scores from here up were admitted to the exploitation pool
    pool_size: int = 0  #: how many were
    mode: str = "guided"
    explain: Callable[[], PickTable] | None = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self.participants)

    def __len__(self) -> int:
        return len(self.participants)

    @cached_property
    def table(self) -> PickTable | None:
        """How each participant came to be picked, as arrays; worked out when first asked for."""
        return None if self.explain is None else self.explain()

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: the table itself in the place of what works it out."""
        return {**self.__dict__, "table": self.table, "explain": None}

    def picked(self, how: str) -> list[ClientId]:
        """The participants picked in one way: "exploited", "explored", "filled" or "uniform"."""
        if self.table is None:
            return []
        return [c for c, h in zip(self.participants, self.table.how, strict=True) if h == how]

    @property
    def explored(self) -> list[ClientId]:
        """Participants that had never been tried."""
        return self.picked("explored")

    @property
    def exploited(self) -> list[ClientId]:
        """Participants picked for their utility."""
        return self.picked("exploited")

    @property
    def filled(self) -> list[ClientId]:
        """Participants taken because nobody better was left."""
        return self.picked("filled")

    @cached_property
    def why(self) -> tuple[Pick, ...]:
        """One :class:`Pick` per participant, in the same order."""
        t = self.table
        if t is None:
            return ()
        columns = [
            np.asarray(c).tolist() for c in (t.score, t.utility, t.staleness, t.speed, t.fairness)
        ]
        rest = [np.asarray(t.duration_s).tolist(), np.asarray(t.participations).tolist()]
        return tuple(
            Pick(*row) for row in zip(self.participants, t.how, *columns, *rest, strict=True)
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ClientColumns:
    """What is known of some clients, one entry per client in every array.

    This is what a user-defined utility or fairness receives. The arrays are copies: writing to
    them changes nothing.
    """

    num_samples: Integers  #: 0 where unknown
    utility: Floats  #: as reported, before clipping
    duration_s: Floats  #: last measured, or hinted; NaN where unknown
    last_round: Integers  #: the newest round reported about
    participations: Integers
    sketch: Floats | None  #: one row per client, where sketches are kept
    round_number: int  #: the round being decided

    def __len__(self) -> int:
        return len(self.utility)


def _shown(value: object, limit: int = 80) -> str:
    """A value for a message: ids may have ten thousand characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
