"""What clients report, checked row by row: one broken phone must not cost a round.

A batch goes in as the caller has it. Out come clean arrays of the good reports, and the reason
for each bad one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.clients.given import Given, is_one, listed, numbers
from oort.errors import InvalidArgumentError
from oort.types import Mask, Outcome, Rejection

COMPLETED: Final = 0
FAILED: Final = 1
UNUSED: Final = 2
_NO_OUTCOME: Final = 255
_CODES: Final[dict[str, int]] = {
    Outcome.COMPLETED: COMPLETED,
    Outcome.FAILED: FAILED,
    Outcome.UNUSED: UNUSED,
}
_LARGEST_COUNT: Final = 2**32 - 1
_LARGEST_SINGLE: Final = float(np.finfo(np.float32).max)
_SECONDS: Final = "a finite number of seconds, 0 or more"
_COUNT: Final = "a whole number from 0 to 4,294,967,295"

Values = npt.NDArray[np.float64]


@dataclass(slots=True)
class Reports:
    """Checked reports, one entry per report; those in ``bad`` hold nothing to rely on."""

    outcome: npt.NDArray[np.uint8]
    utility: Values  #: 0 or more; NaN where the outcome has none
    duration_s: Values  #: NaN where none was given
    num_samples: npt.NDArray[np.int64]  #: −1 where none was given
    bad: Mask
    sketch: Values | None = None
    reasons: dict[int, tuple[str, Any, str]] = field(default_factory=dict)

    @classmethod
    def empty(cls, outcome: npt.NDArray[np.uint8]) -> Reports:
        """Reports of which only the outcome is known."""
        count = outcome.size
        nothing = np.full(count, np.nan)
        samples = np.full(count, -1, np.int64)
        return cls(outcome, nothing, nothing.copy(), samples, np.zeros(count, np.bool_))

    def __len__(self) -> int:
        return self.outcome.size

    def reject(self, where: Mask, name: str, given: Any, must_be: str) -> None:
        """Mark reports as bad; the first reason of each stands."""
        if not where.any():
            return
        one_for_all = is_one(given)
        for place in np.flatnonzero(where & ~self.bad).tolist():
            value = given if one_for_all else given[place]
            plain = value.item() if isinstance(value, np.generic) else value
            self.reasons[place] = (name, plain, must_be)
        self.bad |= where

    def rejections(self, clients: Sequence[Any]) -> tuple[Rejection, ...]:
        """One :class:`Rejection` per bad report, in order."""
        return tuple(Rejection(i, clients[i], *self.reasons[i]) for i in sorted(self.reasons))


def check_reports(
    count: int,
    *,
    utility: Any = None,
    num_samples: Any = None,
    mean_squared_loss: Any = None,
    mean_squared_gradient_norm: Any = None,
    duration_s: Any = None,
    outcome: Any = Outcome.COMPLETED,
    sketch: Any = None,
    sketch_width: int = 0,
    reads: str = "any",
) -> Reports:
    """Check a batch of ``count`` reports and work out the utility of each.

    ``reads`` is the mean that the job's utility is made of, "loss" or "gradient_norm": a report
    of the other one is rejected, because the two cannot be compared. A ready utility is taken
    as it is.

    Raises:
        InvalidArgumentError: A column does not have one value per client. Bad values in a column
            raise nothing: they are rejected one by one.

    >>> reports = check_reports(2, utility=[3.0, float("nan")], duration_s=1.0)
    >>> reports.utility.tolist(), reports.bad.tolist()
    ([3.0, nan], [False, True])
    """
    means = {"loss": mean_squared_loss, "gradient_norm": mean_squared_gradient_norm}
    if sketch is None and count:
        sound = _sound_reports(count, outcome, utility, num_samples, means, duration_s, reads)
        if sound is not None:
            return sound
    outcome = listed(outcome)
    reports = Reports.empty(_outcomes(outcome, count))
    unknown = reports.outcome == _NO_OUTCOME
    reports.reject(unknown, "outcome", outcome, "'completed', 'failed' or 'unused'")
    _take_samples(reports, listed(num_samples))
    _take_duration(reports, listed(duration_s))
    known = _take_ready_utility(reports, listed(utility))
    for measure, given in means.items():
        known |= _take_mean(reports, measure, listed(given), known, reads)
    needed = "given for a completed report, or else mean_squared_loss with num_samples"
    reports.reject((reports.outcome == COMPLETED) & ~known, "utility", None, needed)
    _take_sketch(reports, sketch, sketch_width)
    return reports


def _sound_reports(
    count: int,
    outcome: Any,
    utility: Any,
    num_samples: Any,
    means: Mapping[str, Any],
    duration_s: Any,
    reads: str,
) -> Reports | None:
    """The same where arrays of sound numbers leave nothing to reject, in a third of the time.

    One outcome for all, and at most one of the columns that a utility follows from.
    """
    code = _CODES.get(outcome) if isinstance(outcome, str) else None
    given = {name: mean for name, mean in means.items() if mean is not None}
    if code is None or len(given) + (utility is not None) != (code == COMPLETED):
        return None
    seconds = _sound(duration_s, count, "iuf")
    if num_samples is None:
        samples: npt.NDArray[np.int64] = np.full(count, -1, np.int64)
    else:
        sizes = _sound(num_samples, count, "iu")
        if sizes is None or sizes.max() > _LARGEST_COUNT:
            return None
        samples = sizes.astype(np.int64)
    worth = _sound(utility, count, "iuf")
    for measure, column in given.items():
        mean = _sound(column, count, "iuf")
        if mean is None or num_samples is None or reads not in ("any", measure):
            return None
        worth = np.asarray(samples * np.sqrt(mean), np.float64)
    if seconds is None or worth is None:
        return None
    codes = np.full(count, code, np.uint8)
    return Reports(codes, worth, seconds, samples, np.zeros(count, np.bool_))


def _sound(given: Any, count: int, kinds: str) -> Values | None:
    """An array of finite numbers from 0, as floats; nothing where it is something else.

    NaN, where no column was given.
    """
    if given is None:
        return np.full(count, np.nan)
    if type(given) is not np.ndarray or given.shape != (count,) or given.dtype.kind not in kinds:
        return None
    values = given.astype(np.float64, copy=False)
    return values if values.min() >= 0 and values.max() < np.inf else None


def _take_samples(reports: Reports, given: Any) -> None:
    if given is None:
        return
    column = numbers(given, len(reports), "num_samples")
    good = _is_whole(column.values) & (column.values <= _LARGEST_COUNT)
    reports.reject(column.there & ~good, "num_samples", given, _COUNT)
    reports.num_samples[good] = column.values[good].astype(np.int64)


def _take_duration(reports: Reports, given: Any) -> None:
    if given is None:
        return
    column = numbers(given, len(reports), "duration_s")
    good = np.isfinite(column.values) & (column.values >= 0)
    reports.reject(column.there & ~good, "duration_s", given, _SECONDS)
    reports.duration_s[good] = column.values[good]


def _take_ready_utility(reports: Reports, given: Any) -> Mask:
    """Utilities as given, negative ones (from noise) raised to 0; where there was one."""
    if given is None:
        return np.zeros(len(reports), np.bool_)
    column, there = _of_completed(reports, given, "utility")
    good = there & np.isfinite(column.values)
    reports.reject(there & ~good, "utility", given, "a finite number")
    reports.utility[good] = np.maximum(column.values[good], 0.0)
    return there


def _take_mean(reports: Reports, measure: str, given: Any, known: Mask, reads: str) -> Mask:
    """|B| · √mean, where no utility is known yet; where there was a mean."""
    if given is None:
        return known
    name = "mean_squared_loss" if measure == "loss" else f"mean_squared_{measure}"
    column, there = _of_completed(reports, given, name)
    there = there & ~known
    if reads not in ("any", measure):
        reports.reject(there, name, given, f"left out: this selector's utility reads '{reads}'")
        return there
    good = there & np.isfinite(column.values) & (column.values >= 0)
    reports.reject(there & ~good, name, given, "a finite number, 0 or more")
    unsized = good & (reports.num_samples < 0)
    reports.reject(unsized, "num_samples", None, f"given along with {name}")
    reports.utility[good] = reports.num_samples[good] * np.sqrt(column.values[good])
    return there


def _take_sketch(reports: Reports, given: Any, width: int) -> None:
    if given is None or width == 0:
        return
    rows = [given] if is_one(given) else list(given)
    if is_one(given) or len(rows) != len(reports):
        got = f"{given!r:.80}" if is_one(given) else len(rows)
        message = f"sketch must be one for each of {len(reports)} clients; got {got}"
        raise InvalidArgumentError(message)
    sketch = np.full((len(reports), width), np.nan)
    for place, row in enumerate(rows):
        values = [] if is_one(row) else listed(row)
        if len(values) == width:
            sketch[place] = numbers(values, width, "sketch").values
    good = (np.abs(sketch) <= _LARGEST_SINGLE).all(axis=1)
    absent = np.fromiter((row is None for row in rows), np.bool_, len(rows))
    reports.reject(~good & ~absent, "sketch", rows, f"{width} finite numbers")
    reports.sketch = sketch


def _of_completed(reports: Reports, given: Any, name: str) -> tuple[Given, Mask]:
    """A column, and where completed reports have a value in it: other outcomes need none."""
    column = numbers(given, len(reports), name)
    return column, column.there & (reports.outcome == COMPLETED)


def _outcomes(given: Any, count: int) -> npt.NDArray[np.uint8]:
    """Outcome codes; one outcome stands for all."""
    if is_one(given):
        return np.full(count, _code(given), np.uint8)
    values = given.tolist() if isinstance(given, np.ndarray) else listed(given)
    if len(values) != count:
        message = f"outcome must be one, or one for each of {count} clients; got {len(values)}"
        raise InvalidArgumentError(message)
    return np.fromiter((_code(value) for value in values), np.uint8, count)


def _code(value: Any) -> int:
    try:
        return _CODES[Outcome(value)]
    except ValueError:
        return _NO_OUTCOME


def _is_whole(values: Values) -> Mask:
    with np.errstate(invalid="ignore"):
        return np.asarray((values >= 0) & (values == np.floor(values)))
