"""How rounds are run: how many, how long, and under which ids."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, TypeAlias

from oort.errors import ConfigError, require
from oort.types import ClientId

PACER: Final = "pacer"
ARRIVAL: Final = "arrival"
DURATION: Final = "duration"
IDENTITIES: Final = ("auto", "name", "partition-id", "node-id")

Identify: TypeAlias = Callable[[Any], ClientId | None]
"""Who a node is: takes Flower's ``NodeInfo`` (classic: ``ClientProxy``), gives an id or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowerConfig:
    """How Oort runs the rounds of a Flower job.

    >>> FlowerConfig(num_participants=100, deadline="pacer").over_commit
    1.3
    >>> FlowerConfig(over_commit=0.5)
    Traceback (most recent call last):
    oort.errors.ConfigError: FlowerConfig.over_commit must be a finite number, 1 or more; got 0.5
    """

    num_participants: int | None = field(
        default=None,
        metadata={
            "doc": "K, how many results make a round; left out, as many as the strategy's own "
            "settings ask for (`fraction_train` and `min_train_nodes`, or `fraction_fit` and "
            "`min_fit_clients`)"
        },
    )
    over_commit: float = field(
        default=1.3,
        metadata={"doc": "how many are asked for each result that is needed: first K of 1.3 K"},
    )
    first_by: str = field(
        default=ARRIVAL,
        metadata={
            "doc": 'who is first: by "arrival" of the result; or by the "duration" that clients '
            "report, for simulations in which time is simulated too (everyone is waited for)"
        },
    )
    deadline: float | str | None = field(
        default=None,
        metadata={
            "doc": 'when a round ends even without K results: seconds after sending, or "pacer" '
            "for the pacer's preferred duration; left out, at the timeout only"
        },
    )
    grace_s: float = field(
        default=0.0,
        metadata={
            "doc": "seconds added to the pacer's deadline for what clients do not measure: "
            "transport and queueing"
        },
    )
    min_replies: int = field(
        default=1,
        metadata={"doc": "a deadline does not end a round before as many results are there"},
    )
    node_wait_s: float = field(
        default=600.0,
        metadata={
            "doc": "how long to wait for the strategy's minimum of connected nodes; then the "
            "round starts with those there are, or, with none, the job ends with an error"
        },
    )
    reply_timeout_s: float = field(
        default=3600.0,
        metadata={"doc": "how long to wait for results at most, if the engine sets no less"},
    )
    identify: str | Identify = field(
        default="auto",
        metadata={
            "doc": 'which id a client is known by: "name" (of the SuperNode), "partition-id" (the '
            'client is asked), "node-id" (lost when a SuperNode or a simulation restarts), a '
            'function, or "auto": name, else partition id, else node id with a warning'
        },
    )
    identify_timeout_s: float = field(
        default=120.0, metadata={"doc": "how long to wait when clients are asked who they are"}
    )
    loss_key: str | None = field(
        default=None,
        metadata={
            "doc": "the metric that holds a client's mean training loss, where clients do not use "
            "our helper; left out: `train_loss`, `train-loss` or `loss`"
        },
    )
    drop_bad_replies: bool = field(
        default=False,
        metadata={
            "doc": "whether a result whose report is refused (NaN) is kept from the strategy too"
        },
    )

    def __post_init__(self) -> None:
        wanted = self.num_participants
        _require(
            wanted is None or (_is_whole(wanted) and wanted >= 1),
            "num_participants",
            "a whole number, 1 or more, or None",
            wanted,
        )
        _require(
            _is_finite(self.over_commit) and self.over_commit >= 1,
            "over_commit",
            "a finite number, 1 or more",
            self.over_commit,
        )
        either = (ARRIVAL, DURATION)
        _require(self.first_by in either, "first_by", "'arrival' or 'duration'", self.first_by)
        _require(
            self.deadline in (None, PACER) or _is_above_0(self.deadline),
            "deadline",
            "seconds above 0, 'pacer' or None",
            self.deadline,
        )
        grace = _is_finite(self.grace_s) and self.grace_s >= 0
        _require(grace, "grace_s", "seconds, 0 or more", self.grace_s)
        fewest = _is_whole(self.min_replies) and self.min_replies >= 0
        _require(fewest, "min_replies", "a whole number, 0 or more", self.min_replies)
        for name in ("node_wait_s", "reply_timeout_s", "identify_timeout_s"):
            value = getattr(self, name)
            _require(_is_above_0(value), name, "seconds above 0", value)
        _require(
            callable(self.identify) or self.identify in IDENTITIES,
            "identify",
            f"a function or one of {', '.join(IDENTITIES)}",
            self.identify,
        )

    @classmethod
    def of(cls, given: FlowerConfig | Mapping[str, Any] | None) -> FlowerConfig:
        """Settings from what a user may pass: settings, a dict of them, or nothing.

        >>> FlowerConfig.of({"num_participants": 5}).num_participants
        5
        """
        if isinstance(given, FlowerConfig):
            return given
        allowed = [f.name for f in fields(cls)]
        values = dict(given or {})
        unknown = sorted(set(values) - set(allowed), key=str)
        if unknown:
            message = f"FlowerConfig has no setting {unknown[0]!r}; they are {', '.join(allowed)}"
            raise ConfigError(message)
        return cls(**values)

    def deadline_s(self, preferred_s: float) -> float:
        """Seconds from sending to the end of a round with this preferred duration.

        >>> FlowerConfig(deadline="pacer", grace_s=5).deadline_s(60.0)
        65.0
        """
        if self.deadline is None:
            return math.inf
        if self.deadline == PACER:
            return preferred_s + self.grace_s
        return float(self.deadline)


def _require(holds: bool, name: str, must_be: str, got: object) -> None:
    require(holds, f"FlowerConfig.{name}", must_be, got)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]


def _is_above_0(value: object) -> bool:
    return _is_finite(value) and value > 0  # type: ignore[operator]
