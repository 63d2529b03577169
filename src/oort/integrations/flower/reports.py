"""What a client says beside its update: written by the helper on it, read and removed here.

Both of Flower's APIs carry a client's metrics as numbers under names. Ours start with ``oort-``
and are taken out before the user's strategy sees them, so that its averages stay what they were,
and so that clients with and without the helper can take part in one job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Final, TypeAlias

from oort.types import Feedback, Outcome

PREFIX: Final = "oort-"
UTILITY: Final = "oort-utility"
MEAN_SQUARED_LOSS: Final = "oort-mean-squared-loss"
NUM_SAMPLES: Final = "oort-num-samples"
DURATION_S: Final = "oort-duration-s"

LOSS_NAMES: Final = ("train_loss", "train-loss", "loss")
COUNT_NAMES: Final = ("num-examples", "num_examples")

ReadReport: TypeAlias = Callable[[Mapping[str, Any]], Feedback | None]
"""How to read a client's metrics where neither the helper nor the usual names are used."""


def read_feedback(
    metrics: Mapping[str, Any],
    *,
    num_examples: int | None = None,
    reply_s: float | None = None,
    loss_key: str | None = None,
) -> Feedback:
    """What a client's metrics say: the helper's report, or else its mean loss.

    A mean loss stands in for √(mean loss²), which is never below it. Where there is no loss at
    all, nothing is invented: the outcome is "failed", which counts the participation only. The
    client's own duration is preferred over ``reply_s``, the time until its reply, which holds
    the engine's start-up and queueing too.

    >>> read_feedback({"train_loss": 2.0, "num-examples": 10}, reply_s=5.0).mean_squared_loss
    4.0
    >>> read_feedback({"accuracy": 0.9}, reply_s=5.0).outcome
    <Outcome.FAILED: 'failed'>
    """
    duration_s = _number(metrics.get(DURATION_S, reply_s))
    samples = _number(_first(metrics, (NUM_SAMPLES, *COUNT_NAMES)))
    count: Any = num_examples if samples is None else samples
    utility = _number(metrics.get(UTILITY))
    if utility is not None:
        return Feedback(num_samples=count, utility=utility, duration_s=duration_s)
    square = _number(metrics.get(MEAN_SQUARED_LOSS))
    if square is None:
        loss = _number(_first(metrics, LOSS_NAMES if loss_key is None else (loss_key,)))
        square = None if loss is None else loss * loss
    if square is None or count is None:
        return Feedback(outcome=Outcome.FAILED, duration_s=_seconds(duration_s))
    return Feedback(num_samples=count, mean_squared_loss=square, duration_s=duration_s)


def strip(metrics: MutableMapping[str, Any]) -> None:
    """Take out what is ours.

    >>> metrics = {"oort-duration-s": 3.0, "train_loss": 0.5}
    >>> strip(metrics)
    >>> metrics
    {'train_loss': 0.5}
    """
    for name in [name for name in metrics if name.startswith(PREFIX)]:
        del metrics[name]


def merged(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The metrics of several records as one."""
    return {name: value for record in records for name, value in record.items()}


def names_of(names: Sequence[str], limit: int = 8) -> str:
    """A few names for a message.

    >>> names_of(["a", "b", "c"], limit=2), names_of([])
    ('a, b and 1 more', 'none')
    """
    shown = ", ".join(f"{name:.40}" for name in names[:limit]) or "none"
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def _first(metrics: Mapping[str, Any], names: Iterable[str]) -> Any:
    return next((metrics[name] for name in names if name in metrics), None)


def _number(value: Any) -> Any:
    """A number as it is (a selector checks it), nothing for anything else."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    return value if good else None


def _seconds(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value >= 0 else None
