"""Settings: frozen values, checked once, when they are built.

    TrainingConfig        everything about who trains
      .exploration        ExplorationConfig: how much is tried that was never tried
      .pacer              PacerConfig: how patient a round is

    TestingConfig         everything about who tests

Every setting has the default that we recommend. ``TrainingConfig.paper()`` holds the paper's
values. A config is storable: ``to_dict`` gives plain values, ``from_dict`` takes them back and
refuses what it does not know.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from oort.errors import ConfigError, require
from oort.types import ClientId

_Config = TypeVar("_Config")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationConfig:
    """How many participants of a round are clients that were never tried (the paper's ε)."""

    start: float = field(default=0.9, metadata={"doc": "share of the first round that explores"})
    decay: float = field(default=0.98, metadata={"doc": "factor on that share after each round"})
    minimum: float = field(default=0.2, metadata={"doc": "where the decay stops"})

    def __post_init__(self) -> None:
        for name in ("start", "decay", "minimum"):
            _number(self, name, 0.0, 1.0)
        require(
            self.minimum <= self.start,
            "ExplorationConfig.minimum",
            f"at most start ({self.start})",
            self.minimum,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PacerConfig:
    """How the preferred round duration T follows the utility collected."""

    window: int = field(
        default=20, metadata={"doc": "rounds (W) whose utility is compared with the W before"}
    )
    smallest_step: float = field(
        default=0.05,
        metadata={"doc": "least growth of T per step, as a quantile of the explored durations"},
    )
    largest_step: float = field(
        default=0.2,
        metadata={
            "doc": "the quantile at which T starts at most, and its largest growth per step; "
            "1: no limit, as in the paper"
        },
    )
    step_s: float | None = field(
        default=None,
        metadata={"doc": "grow T by this many seconds instead of by a quantile (the paper's Δ)"},
    )
    preferred_s: float | None = field(
        default=None, metadata={"doc": "a fixed T in seconds; the pacer rests"}
    )

    def __post_init__(self) -> None:
        _integer(self, "window", 1)
        _number(self, "smallest_step", 0.0, 1.0)
        _number(self, "largest_step", 0.0, 1.0, low_open=True)
        for name in ("step_s", "preferred_s"):
            if getattr(self, name) is not None:
                _number(self, name, 0.0, math.inf, low_open=True)
        both = self.step_s is not None and self.preferred_s is not None
        require(not both, "PacerConfig.step_s", "unset where preferred_s fixes T", self.step_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfig:
    """Who trains: every setting of the training selector.

    >>> TrainingConfig(seed=7).alpha
    2.0
    >>> TrainingConfig(alpha=-1)
    Traceback (most recent call last):
    oort.errors.ConfigError: TrainingConfig.alpha must be a number from 0 to inf; got -1
    """

    seed: int = field(default=0, metadata={"doc": "same seed and same calls, same picks"})
    utility: str = field(
        default="loss", metadata={"doc": "name of the utility: what a client's data is worth"}
    )
    clip_quantile: float = field(
        default=0.95,
        metadata={"doc": "utilities above this quantile of the explored count as that quantile"},
    )
    staleness: float = field(
        default=0.1, metadata={"doc": "weight of not having been heard of: √(w · ln R / L)"}
    )
    alpha: float = field(
        default=2.0,
        metadata={
            "doc": "penalty (T/t)^α for t > T; inf: whoever needs more than T is not eligible"
        },
    )
    fairness_weight: float = field(
        default=0.0, metadata={"doc": "f in (1−f) · utility + f · fairness"}
    )
    fairness: str = field(
        default="participations", metadata={"doc": "name of the fairness function"}
    )
    cutoff: float = field(
        default=0.95,
        metadata={
            "doc": "share of the k-th utility that admits a client to the exploitation pool"
        },
    )
    max_participations: int | str | None = field(
        default="auto",
        metadata={
            "doc": "a client selected more often leaves exploitation; auto: more than 20 times "
            "and more than twice the mean; none: nobody does"
        },
    )
    exploration: ExplorationConfig = field(
        default_factory=ExplorationConfig, metadata={"doc": "how much is explored"}
    )
    pacer: PacerConfig = field(
        default_factory=PacerConfig, metadata={"doc": "how patient a round is"}
    )
    strict_rounds: bool = field(
        default=False,
        metadata={"doc": "accept feedback only from clients selected in the round that it names"},
    )
    planned_rounds: int | None = field(
        default=None,
        metadata={
            "doc": "how long the job will run, if known: settings are checked against it, and "
            "from 1,000 rounds on compiled code is loaded for small tables too"
        },
    )
    sketch_width: int = field(
        default=0, metadata={"doc": "floats kept of each client's update sketch; 0: none"}
    )

    def __post_init__(self) -> None:
        _integer(self, "seed", 0)
        for name in ("utility", "fairness"):
            value = getattr(self, name)
            require(
                isinstance(value, str) and value != "", f"TrainingConfig.{name}", "a name", value
            )
        for name in ("clip_quantile", "fairness_weight", "cutoff"):
            _number(self, name, 0.0, 1.0)
        _number(self, "staleness", 0.0, math.inf, high_open=True)
        _number(self, "alpha", 0.0, math.inf)
        if self.planned_rounds is not None:
            _integer(self, "planned_rounds", 1)
        if isinstance(self.max_participations, str):
            allowed = "'auto', none, or a whole number, 1 or more"
            named = self.max_participations == "auto"
            require(named, "TrainingConfig.max_participations", allowed, self.max_participations)
        elif self.max_participations is not None:
            _integer(self, "max_participations", 1)
            countable = int(self.max_participations) < 65_535
            allowed = "at most 65,534: counts end there"
            require(
                countable, "TrainingConfig.max_participations", allowed, self.max_participations
            )
        _integer(self, "sketch_width", 0, 65_536)
        require(
            isinstance(self.exploration, ExplorationConfig),
            "TrainingConfig.exploration",
            "an ExplorationConfig",
            self.exploration,
        )
        require(
            isinstance(self.pacer, PacerConfig),
            "TrainingConfig.pacer",
            "a PacerConfig",
            self.pacer,
        )
        require(
            isinstance(self.strict_rounds, bool),
            "TrainingConfig.strict_rounds",
            "true or false",
            self.strict_rounds,
        )

    @classmethod
    def paper(cls, **changes: Any) -> TrainingConfig:
        """The values that the paper states, with ``changes`` on top.

        The same as the defaults, except that a client leaves exploitation after more than 10
        selections, and that a step of the pacer may cover everyone (§7.1). Where the paper's
        letter and ours differ, this preset follows ours too, because the letter does not work:

        - utilities are clipped and scaled to [0, 1] before the staleness bonus is added, as the
          published code does (the paper adds a bonus below 1 to utilities in the thousands, where
          it would do nothing);
        - utilities are sorted descending before the cut-off (Algorithm 1 prints ascending);
        - the pacer tests every W rounds, not in every round, and compares the mean per report, not
          the sum;
        - T is a quantile of explored durations and grows by quantiles; set ``pacer.step_s`` for
          the paper's Δ in seconds (it states no value);
        - the exploration quota is rounded at random, so that small rounds explore too.
        """
        stated = {"max_participations": 10, "pacer": PacerConfig(largest_step=1.0)}
        return cls(**{**stated, **changes})

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> TrainingConfig:
        """Settings from plain values, nested ones as dicts.

        Raises:
            ConfigError: A setting is unknown or wrong; the message names it.

        >>> TrainingConfig.from_dict({"seed": 7, "pacer": {"window": 10}}).pacer.window
        10
        >>> TrainingConfig.from_dict({"alfa": 2})
        Traceback (most recent call last):
        oort.errors.ConfigError: TrainingConfig has no setting 'alfa'; did you mean 'alpha'?
        """
        if not isinstance(settings, Mapping):
            require(False, "TrainingConfig", "made from a dict of settings", settings)
        nested = {"exploration": ExplorationConfig, "pacer": PacerConfig}
        values = {
            name: _from_mapping(nested[name], value)
            if name in nested and isinstance(value, Mapping)
            else value
            for name, value in settings.items()
        }
        return _from_mapping(cls, values)

    @classmethod
    def from_stored(cls, settings: Mapping[str, Any]) -> TrainingConfig:
        """Settings that an earlier version stored, meaning what they meant then.

        Settings that came later have the value that the job was run by, not today's default: a
        job that is opened again goes on as it was.

        >>> TrainingConfig.from_stored({"seed": 7, "pacer": {"window": 10}}).pacer.largest_step
        1.0
        """
        stored: Any = settings  # a damaged file may hold anything
        if isinstance(stored, Mapping) and isinstance(stored.get("pacer"), Mapping):
            stored = {**stored, "pacer": {"largest_step": 1.0, **stored["pacer"]}}
        return cls.from_dict(stored)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, storable as JSON (what is infinite becomes the string "inf")."""
        return {name: _storable(value) for name, value in dataclasses.asdict(self).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class TestingConfig:
    """Who tests: every setting of a category request.

    >>> TestingConfig(budget=200, transfer_mb=4).budget
    200
    >>> TestingConfig(budget=0)
    Traceback (most recent call last):
    oort.errors.ConfigError: TestingConfig.budget must be a whole number, 1 or more; got 0
    """

    budget: int | None = field(
        default=None, metadata={"doc": "the most participants; none: as many as it takes"}
    )
    transfer_mb: float = field(
        default=0.0,
        metadata={
            "doc": "megabytes moved to and from a participant, where its own info says nothing"
        },
    )
    max_samples_per_client: int | None = field(
        default=None,
        metadata={
            "doc": "the most samples one client may be asked for; its own info may say less"
        },
    )
    required: tuple[ClientId, ...] = field(
        default=(), metadata={"doc": "clients that take part in any case"}
    )
    excluded: tuple[ClientId, ...] = field(
        default=(), metadata={"doc": "clients that take no part"}
    )
    tolerance: float = field(
        default=0.01,
        metadata={
            "doc": "the gap to the proven optimum at which the search may stop; 0: optimality"
        },
    )
    time_limit_s: float | None = field(
        default=None,
        metadata={
            "doc": "seconds after which the best plan so far is given; none: a fixed effort"
        },
    )
    method: str = field(
        default="oort", metadata={"doc": '"oort", or for comparison "paper" or "milp"'}
    )
    solver: str = field(
        default="auto",
        metadata={
            "doc": 'what solves the MILPs of "paper" and "milp": "highs", "gurobi", or "auto": '
            "Gurobi where it is installed and licensed, else HiGHS"
        },
    )

    def __post_init__(self) -> None:
        for name in ("budget", "max_samples_per_client"):
            if getattr(self, name) is not None:
                _integer(self, name, 1)
        _number(self, "transfer_mb", 0.0, math.inf, high_open=True)
        _number(self, "tolerance", 0.0, math.inf, high_open=True)
        if self.time_limit_s is not None:
            _number(self, "time_limit_s", 0.0, math.inf, low_open=True)
        for name in ("required", "excluded"):
            _ids(self, name)
        for name, choices in (
            ("method", ("oort", "paper", "milp")),
            ("solver", ("highs", "gurobi", "auto")),
        ):
            value = getattr(self, name)
            require(
                value in choices, f"TestingConfig.{name}", f"one of {', '.join(choices)}", value
            )
        both = next((i for i in self.required if i in set(self.excluded)), None)
        require(
            both is None, "TestingConfig.excluded", "without the clients that are required", both
        )

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> TestingConfig:
        """Settings from plain values.

        Raises:
            ConfigError: A setting is unknown or wrong; the message names it.

        >>> TestingConfig.from_dict({"budget": 50, "required": ["cam-1"]}).required
        ('cam-1',)
        """
        return _from_mapping(cls, settings)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, storable as JSON."""
        return {
            **dataclasses.asdict(self),
            "required": list(self.required),
            "excluded": list(self.excluded),
        }


def _ids(config: object, name: str) -> None:
    """Check a collection of client ids and store it as a tuple."""
    value = getattr(config, name)
    where = f"{type(config).__name__}.{name}"
    require(
        not isinstance(value, str | bytes | Mapping), where, "a collection of client ids", value
    )
    try:
        ids = tuple(value.tolist() if hasattr(value, "tolist") else value)
    except TypeError:
        ids = (None,)
    for one in ids:
        good = isinstance(one, str) or (isinstance(one, int) and not isinstance(one, bool))
        require(good, where, "a collection of client ids", value)
    object.__setattr__(config, name, tuple(dict.fromkeys(ids)))


def _from_mapping(cls: type[_Config], values: Mapping[str, Any]) -> _Config:
    """Build a config from a mapping, refusing names that it does not have."""
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    for name in values:
        if name not in names:
            close = difflib.get_close_matches(str(name), names, n=1)
            hint = (
                f"did you mean {close[0]!r}?" if close else f"the settings are {', '.join(names)}"
            )
            message = f"{cls.__name__} has no setting {name!r}; {hint}"
            raise ConfigError(message)
    return cls(**values)


def _storable(value: Any) -> Any:
    """A setting as JSON can hold it."""
    if isinstance(value, dict):
        return {name: _storable(inner) for name, inner in value.items()}
    return "inf" if value == math.inf else value


def _number(
    config: object,
    name: str,
    low: float,
    high: float,
    *,
    low_open: bool = False,
    high_open: bool = False,
) -> None:
    """Check a real setting and store it as a float."""
    value = getattr(config, name)
    start, end = "above" if low_open else "from", "and below" if high_open else "to"
    allowed = f"a number {start} {low:g} {end} {high:g}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    inside = (low < number if low_open else low <= number) and (
        number < high if high_open else number <= high
    )
    require(inside, f"{type(config).__name__}.{name}", allowed, value)
    object.__setattr__(config, name, number)


def _integer(config: object, name: str, low: int, high: float = math.inf) -> None:
    """Check a whole setting and store it as an int."""
    value = getattr(config, name)
    allowed = f"{low} or more" if high == math.inf else f"from {low} to {high:,}"
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        number = low - 1
    inside = low <= number <= high
    require(inside, f"{type(config).__name__}.{name}", f"a whole number, {allowed}", value)
    object.__setattr__(config, name, number)
