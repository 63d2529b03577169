"""What participants send back, in columns: results of a model, or counts per category."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NoReturn, TypeAlias

import numpy as np

from oort.errors import InvalidFeedbackError
from oort.testing.arguments import as_floats, refuse
from oort.types import ClientId, Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientResult:
    """What one participant reports of a model on its own data.

    Give ``correct`` for an accuracy, or ``metric_sum`` for any other metric that is a mean over
    samples, with the range of one sample's value told to ``estimate``. ``slices`` holds the same
    for parts of the data.

    >>> night = ClientResult(num_samples=9, correct=6)
    >>> ClientResult(num_samples=40, correct=36, slices={"night": night}).correct
    36
    """

    num_samples: float
    correct: float | None = None
    metric_sum: float | None = None
    slices: Mapping[str, Any] = field(default_factory=dict)


AnyResult: TypeAlias = ClientResult | Mapping[str, Any] | Sequence[float]
Results: TypeAlias = Mapping[Any, AnyResult] | Iterable[AnyResult]  #: by client id, or without ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Samples per client and how many are right (or a metric's sum, scaled to the same range)."""

    samples: Floats
    right: Floats

    def take(self, rows: Floats | Any) -> Scores:
        """Some clients, in an order."""
        return Scores(samples=self.samples[rows], right=self.right[rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """Results in columns, overall and per slice; ``clients`` is none where ids are unknown."""

    clients: list[ClientId] | None
    overall: Scores
    slices: dict[str, Scores]

    def __len__(self) -> int:
        return len(self.overall.samples)

    def only(self, names: Sequence[str]) -> ResultTable:
        """The same with these slices alone; one that nobody reported has no samples."""
        if isinstance(names, str) or not isinstance(names, Sequence):
            refuse("slices", "a list of names", names)
        nothing = Scores(samples=np.zeros(len(self)), right=np.zeros(len(self)))
        return replace(self, slices={name: self.slices.get(name, nothing) for name in names})


def result_table(results: Results, metric_range: tuple[float, float] = (0.0, 1.0)) -> ResultTable:
    """Columns from results in any of the accepted forms.

    Raises:
        InvalidFeedbackError: A client's result cannot be used; the message names client, field and
            value.

    >>> b = {"num_samples": 10, "correct": 5, "slices": {"night": (4, 1)}}
    >>> table = result_table({"a": (40, 36), "b": b})
    >>> table.overall.right, table.slices["night"].samples
    (array([36.,  5.]), array([0., 4.]))
    """
    low, high = checked_metric_range(metric_range)
    named = isinstance(results, Mapping)
    plain = (low, high) == (0.0, 1.0)
    parsed = [(c, _result(c, value, plain=plain)) for c, value in result_items(results)]
    names = list(dict.fromkeys(name for _, r in parsed for name in r.slices))
    overall = _scores([(c, r) for c, r in parsed], low, high)
    slices = {}
    for name in names:
        parts = [
            (c, _result(c, r.slices.get(name, (0, 0)), f"slices[{name!r}].", plain=plain))
            for c, r in parsed
        ]
        slices[name] = _scores(parts, low, high, f"slices[{name!r}].")
        _check_part(name, slices[name], overall, [c for c, _ in parsed])
    return ResultTable(
        clients=[c for c, _ in parsed] if named else None, overall=overall, slices=slices
    )


def result_items(results: Results) -> list[tuple[Any, AnyResult]]:
    """Results one by one, with the client's id, or its place where ids are unknown.

    >>> result_items([(40, 36)])
    [(0, (40, 36))]
    """
    if isinstance(results, Mapping):
        return list(results.items())
    given: object = results
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        refuse("results", "a mapping from client id to result, or a list of results", results)
    return list(enumerate(given))


def _check_part(name: str, part: Scores, overall: Scores, clients: Sequence[object]) -> None:
    """Refuse a slice with more samples, right or wrong, than its client has."""
    slack = 1e-9 * (1.0 + overall.samples)
    for field_name, inside, around in (
        ("num_samples", part.samples, overall.samples),
        ("correct", part.right, overall.right),
        ("num_samples − correct", part.samples - part.right, overall.samples - overall.right),
    ):
        too_many = inside > around + slack
        if too_many.any():
            i = int(np.argmax(too_many))
            most = f"at most the client's {around[i]:g}"
            _unusable(clients[i], f"slices[{name!r}].{field_name}", most, float(inside[i]))


def count_table(
    counts: object, num_categories: int, names: Sequence[str] = ()
) -> tuple[list[ClientId] | None, Floats]:
    """Counts per client and category from a mapping by client, or from rows without ids.

    >>> count_table({"a": 3, "b": 5}, 1)
    (['a', 'b'], array([[3.], [5.]]))
    """
    clients: list[ClientId] | None = None
    rows: list[Any] | Any = counts
    if isinstance(counts, Mapping):
        clients = list(counts)
        rows = [
            _counts(f"client {client!r}: counts", row, num_categories, names)
            for client, row in counts.items()
        ]
    array = as_floats(rows)
    if array is not None and array.size == 0:
        array = np.zeros((0, num_categories))
    if array is not None and array.ndim == 1 and num_categories == 1:
        array = array[:, None]
    if array is None or array.ndim != 2 or array.shape[1] != num_categories:
        refuse("counts", f"one row of {num_categories} counts per client", counts)
    bad = ~(np.isfinite(array) & (array >= 0))
    if bad.any():
        refuse("counts", "numbers from 0 up", float(array[bad][0]))
    return clients, array


def _counts(name: str, row: object, num_categories: int, names: Sequence[str]) -> Floats:
    """One client's counts, in the order of the categories; refused by name."""
    if isinstance(row, Mapping) and names:
        unknown = [key for key in row if key not in names]
        if unknown:
            refuse(name, f"of the categories {', '.join(names)}", unknown[0])
        row = [row.get(category, 0) for category in names]
    array = as_floats(row)
    if (
        array is None
        or array.size != num_categories
        or not bool(np.all(np.isfinite(array) & (array >= 0)))
    ):
        refuse(name, f"{num_categories} numbers from 0 up", row)
    return array.reshape(-1)


def checked_metric_range(metric_range: tuple[float, float]) -> tuple[float, float]:
    """The range of one sample's value, checked."""
    array = as_floats(metric_range)
    if (
        array is None
        or array.shape != (2,)
        or not np.all(np.isfinite(array))
        or not array[0] < array[1]
    ):
        refuse("metric_range", "two numbers, the smaller first", metric_range)
    return float(array[0]), float(array[1])


def _result(
    client: object, value: AnyResult, prefix: str = "", *, plain: bool = True
) -> ClientResult:
    """One result in the one form; a pair's second number is the metric's sum unless ``plain``."""
    if isinstance(value, ClientResult):
        if not isinstance(value.slices, Mapping):
            _unusable(client, f"{prefix}slices", "a mapping from name to result", value.slices)
        return value
    if isinstance(value, Mapping):
        allowed = [f.name for f in fields(ClientResult)]
        unknown = [k for k in value if k not in allowed]
        if unknown or "num_samples" not in value:
            _unusable(client, f"{prefix}result", f"made of {', '.join(allowed)}", dict(value))
        return _result(client, ClientResult(**value), prefix)
    array = as_floats(value)
    if array is None or array.shape != (2,):
        _unusable(
            client, f"{prefix}result", "(samples, correct), a mapping or a ClientResult", value
        )
    samples, score = float(array[0]), float(array[1])
    if plain:
        return ClientResult(num_samples=samples, correct=score)
    return ClientResult(num_samples=samples, metric_sum=score)


def _scores(
    parsed: list[tuple[Any, ClientResult]], low: float, high: float, prefix: str = ""
) -> Scores:
    """Checked columns of one slice, or of everything."""
    samples = np.zeros(len(parsed))
    right = np.zeros(len(parsed))
    for i, (client, result) in enumerate(parsed):
        samples[i] = _plain(client, f"{prefix}num_samples", result.num_samples, 0.0, np.inf)
        if (result.correct is None) == (result.metric_sum is None):
            _unusable(
                client, f"{prefix}correct", "given, or metric_sum, and not both", result.correct
            )
        if result.correct is not None and (low, high) != (0.0, 1.0):
            other = f"left out for metric_range ({low:g}, {high:g}): give metric_sum"
            _unusable(client, f"{prefix}correct", other, result.correct)
        if result.correct is not None:
            right[i] = _plain(client, f"{prefix}correct", result.correct, 0.0, samples[i])
        else:
            slack = 1e-9 * samples[i] * (high - low)
            least, most = low * samples[i], high * samples[i]
            value = _plain(
                client, f"{prefix}metric_sum", result.metric_sum, least - slack, most + slack
            )
            right[i] = min(max((value - least) / (high - low), 0.0), samples[i])
    return Scores(samples=samples, right=right)


def _plain(client: object, name: str, value: object, low: float, high: float) -> float:
    """One finite number in its range."""
    array = as_floats(value)
    if array is None or array.ndim != 0 or not np.isfinite(array) or not low <= array <= high:
        allowed = (
            f"a number from {low:g} to {high:g}"
            if np.isfinite(high)
            else f"a number from {low:g} up"
        )
        _unusable(client, name, allowed, value)
    return float(array)


def _unusable(client: object, name: str, must_be: str, got: object) -> NoReturn:
    """Raise for one client's result."""
    message = f"client {client!r}: {name} must be {must_be}; got {got!r}"
    raise InvalidFeedbackError(message)
