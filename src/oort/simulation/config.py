"""What a simulation is: every setting, checked when it is built.

    SimulationConfig       one experiment: everything below, for several seeds and strategies
      .data                DataConfig: which samples, and which client holds them
      .devices             DevicesConfig: how fast clients are and how they misbehave
      .availability        AvailabilityConfig: when they can be picked
      .learner             LearnerConfig: what one client does in a round
      .server              ServerConfig: what becomes of their updates
      .rounds              RoundsConfig: how many, with whom, until when
      .evaluation          EvaluationConfig: how the model is tested
      .executor            ExecutorConfig: where cohorts are trained
      .output              OutputConfig: what is written
      .strategies          StrategyConfig, one per strategy compared
    load                   a SimulationConfig from a TOML file; errors name the file

The sections are tables of the file, their fields its keys.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from oort.errors import ConfigError, require
from oort.simulation.settings import (
    Settings,
    build,
    file_name,
    flag,
    label,
    maybe,
    number,
    one_of,
    quotas,
    refuse_key,
    setting,
    several,
    table,
    text,
    whole,
)

DATASETS = ("digits", "synthetic", "mnist", "fashion-mnist", "shakespeare", "flower", "folder")
SIZES = ("equal", "lognormal", "openimage", "reddit", "stackoverflow", "speech")
NUMPY_MODELS = ("softmax", "mlp")
TORCH_MODELS = ("cnn", "mobilenet", "chars")
STRATEGIES = ("oort", "random", "round-robin")
IN_A_PATH = "./\\"  #: what tells a path from a name that is misspelt


@dataclass(frozen=True, kw_only=True)
class DataConfig(Settings):
    """Which samples there are, and which client holds which of them."""

    section: ClassVar[str] = "data"
    dataset: str = setting("digits", one_of(*DATASETS), "where samples come from")
    path: str | None = setting(
        None, maybe(text("a path")), "folder that holds the dataset's files"
    )
    clients: int | None = setting(
        None,
        maybe(whole(1)),
        "how many clients; unset: all natural ones, all rows of counts, else 100 (digits: 200, "
        "synthetic: 1000)",
    )
    partition: str | None = setting(
        None,
        maybe(one_of("iid", "dirichlet", "shards", "natural", "counts")),
        "how labels spread over clients; natural: by the dataset's own ids; unset: natural for "
        "shakespeare and a folder with ids, else dirichlet",
    )
    alpha: float = setting(
        0.5, number(above=True), "dirichlet: the smaller, the fewer labels per client"
    )
    shards: int = setting(2, whole(1), "shards: label shards per client")
    counts: str | None = setting(
        None,
        maybe(text("a path to an .npy or .npz matrix")),
        "counts: samples of each client (row) and label (column)",
    )
    sizes: str = setting(
        "equal",
        one_of(*SIZES, other="a path to an .npy file of samples per client", with_any=IN_A_PATH),
        "how many samples clients hold",
    )
    mean_size: float | None = setting(
        None,
        maybe(number(1)),
        "mean samples per client; real sizes are scaled to it, unset: as they are",
    )
    smallest_size: int = setting(8, whole(1), "no client holds fewer samples")
    largest_size: int | None = setting(None, maybe(whole(1)), "no client holds more samples")
    model_spread: float = setting(
        1.0, number(), "synthetic: α, how far clients' true models differ"
    )
    feature_spread: float = setting(
        1.0, number(), "synthetic: β, how far clients' features differ"
    )
    common_model: float = setting(
        0.0, number(0, 1), "synthetic: share of the true models that all clients have in common"
    )
    context: int = setting(8, whole(1), "shakespeare: characters seen before the one to predict")
    name: str | None = setting(
        None, maybe(text("a dataset's name")), "flower: name of the dataset to partition"
    )
    corrupt_clients: float = setting(
        0.0, number(0, 1), "share of clients all of whose labels are flipped at random"
    )
    corrupt_labels: float = setting(
        0.0, number(0, 1), "share of every client's labels flipped at random"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.partition == "counts":
            require(
                self.counts is not None,
                "data.counts",
                "set where data.partition is 'counts'",
                self.counts,
            )
        named = self.dataset == "flower" and self.name is not None
        if self.dataset in ("folder", "flower") and self.path is None and not named:
            require(False, "data.path", f"set where data.dataset is {self.dataset!r}", None)
        largest = self.largest_size
        if largest is not None:
            require(
                largest >= self.smallest_size,
                "data.largest_size",
                "at least data.smallest_size",
                largest,
            )


@dataclass(frozen=True, kw_only=True)
class DevicesConfig(Settings):
    """How fast clients compute and transfer, how that varies, and how they misbehave."""

    section: ClassVar[str] = "devices"
    source: str = setting(
        "phones",
        one_of(
            "phones",
            "equal",
            other="a path to an .npz or .csv file with compute_ms_per_sample and bandwidth_kbps",
            with_any=IN_A_PATH,
        ),
        "phones: drawn from the quantiles of 51,496 real phones",
    )
    coupling: str = setting(
        "independent",
        one_of("independent", "correlated", "anti-correlated"),
        "whether clients with more data (see coupled_to) have faster devices, or slower ones",
    )
    coupled_to: str = setting(
        "size", one_of("size", "label"), "what of the data: samples held, or commonest label"
    )
    coupling_strength: float = setting(0.8, number(0, 1), "rank correlation where coupled")
    compute_variation: float = setting(
        0.1, number(0, 2), "spread (log-normal σ) of compute time from round to round"
    )
    bandwidth_variation: float = setting(
        0.3, number(0, 2), "spread (log-normal σ) of bandwidth from round to round"
    )
    slowdown_rate: float = setting(
        0.0, number(0, 1), "chance that a participant slows down in mid-round"
    )
    slowdown_factor: float = setting(
        4.0, number(1), "how many times slower the rest of its round then is"
    )
    dropout_rate: float = setting(
        0.0, number(0, 1), "chance that a participant drops out in mid-round"
    )
    transfer_mb: float | None = setting(
        None, maybe(number()), "megabytes each way; unset: the size of the model trained"
    )
    hints: str = setting(
        "none",
        one_of("none", "noisy", "exact"),
        "what selectors are told of the speed of clients never tried",
    )
    hint_noise: float = setting(0.5, number(0, 3), "spread (log-normal σ) of noisy hints")


@dataclass(frozen=True, kw_only=True)
class AvailabilityConfig(Settings):
    """When clients are online."""

    section: ClassVar[str] = "availability"
    kind: str = setting(
        "always",
        one_of("always", "daily", "trace"),
        "daily: sessions as in the FLASH traces; trace: from a file",
    )
    path: str | None = setting(
        None, maybe(text("a path")), "trace: a FLASH or FedScale availability file"
    )
    start_hour: float = setting(0.0, number(0, 24), "hour of the day at which the job starts")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind == "trace":
            require(
                self.path is not None,
                "availability.path",
                "set where availability.kind is 'trace'",
                self.path,
            )


@dataclass(frozen=True, kw_only=True)
class LearnerConfig(Settings):
    """What one client does in a round."""

    section: ClassVar[str] = "learner"
    model: str = setting(
        "softmax",
        one_of(
            *NUMPY_MODELS,
            *TORCH_MODELS,
            other="'package.module:Class' of a torch.nn.Module",
            with_any=":",
        ),
        "what is trained; softmax and mlp need NumPy alone",
    )
    hidden: tuple[int, ...] = setting(
        (64,), several(whole(1), "a list of layer widths"), "mlp: widths of hidden layers"
    )
    model_settings: dict[str, Any] = setting(dict, table(), "keyword arguments of a torch model")  # noqa: RUF009
    learning_rate: float = setting(
        0.05, number(high=1e38, above=True), "of the client's gradient steps"
    )
    batch_size: int = setting(32, whole(1), "samples per step")
    work: str = setting(
        "steps", one_of("steps", "epochs"), "whether a round is some steps or passes over the data"
    )
    steps: int = setting(
        10, whole(1), "steps: gradient steps per round, whatever the client holds"
    )
    epochs: int = setting(1, whole(1), "epochs: passes over the client's data per round")
    cap_s: float | None = setting(
        None,
        maybe(number(above=True)),
        "a capped round: clients train on as much of their data as fits (at least one batch)",
    )
    proximal: float | None = setting(
        None,
        maybe(number()),
        "FedProx's μ; unset: 0.01 where server.aggregation is 'fedprox', else 0",
    )
    device: str = setting("cpu", one_of("cpu", "cuda", "auto"), "where torch models are trained")
    cohort: str = setting(
        "auto",
        one_of("auto", "at-once", "in-turn"),
        "torch: a chunk's clients in one pass, or one by one; auto: in turn if they must",
    )
    convolutions: str = setting(
        "auto",
        one_of("auto", "grouped", "products"),
        "torch: how a chunk's convolutions are done; auto: on CUDA 1×1 as products",
    )
    precision: str = setting(
        "float32",
        one_of("float32", "tf32", "bfloat16"),
        "torch: of products and convolutions; parameters and losses stay in 32 bits",
    )

    @property
    def needs_torch(self) -> bool:
        """Whether the model is a torch module."""
        return self.model not in NUMPY_MODELS


@dataclass(frozen=True, kw_only=True)
class ServerConfig(Settings):
    """What becomes of the cohort's updates."""

    section: ClassVar[str] = "server"
    aggregation: str = setting(
        "fedavg",
        one_of("fedavg", "fedprox", "fedyogi", "fedadam"),
        "how the mean update changes the model",
    )
    weighting: str = setting(
        "samples", one_of("samples", "equal"), "how clients count in the mean"
    )
    learning_rate: float | None = setting(
        None,
        maybe(number(above=True)),
        "server's step; unset: 1, or 0.01 for fedyogi and fedadam",
    )
    beta1: float = setting(0.9, number(0, 1), "fedyogi, fedadam: memory of the first moment")
    beta2: float = setting(0.99, number(0, 1), "fedyogi, fedadam: memory of the second moment")
    tau: float = setting(1e-3, number(above=True), "fedyogi, fedadam: adaptivity floor")


@dataclass(frozen=True, kw_only=True)
class RoundsConfig(Settings):
    """How many rounds, how large, until when."""

    section: ClassVar[str] = "rounds"
    count: int = setting(100, whole(1), "rounds at most")
    participants: int = setting(100, whole(1), "updates that a round waits for (K)")
    overcommit: float = setting(1.3, number(1), "clients selected per update waited for")
    least_online: int = setting(1, whole(1), "a round waits until so many clients are online")
    deadline_s: float | None = setting(
        None,
        maybe(number(above=True)),
        "a round ends after this many seconds with what has arrived",
    )
    max_clock_s: float | None = setting(
        None, maybe(number(above=True)), "stop once the simulated clock is past this"
    )


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(Settings):
    """How the model is tested."""

    section: ClassVar[str] = "evaluation"
    every: int = setting(5, whole(1), "rounds between tests")
    clients: int = setting(
        0, whole(0), "clients on whose own data the model is tested too (worst decile); 0: none"
    )
    target_accuracy: float | None = setting(
        None, maybe(number(0, 1)), "the accuracy whose time reports compare"
    )
    stop_at_target: bool = setting(False, flag(), "stop once the target is reached")
    chosen_deviation: float | None = setting(
        None,
        maybe(number(0, 1, above=True)),
        "also test on clients picked by the testing selector: deviation, share of the range",
    )
    chosen_categories: dict[str, int] | str | None = setting(  # noqa: RUF009
        None,
        maybe(quotas("representative", "balanced", of="a table of labels, each with its samples")),
        "also test on samples of labels picked by the testing selector among clients' data",
    )
    chosen_samples: int = setting(
        1000, whole(1), "chosen_categories: how many in all where it is one of the two words"
    )
    chosen_budget: int | None = setting(
        None, maybe(whole(1)), "chosen_categories: from so many clients at most"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.chosen_deviation is None or self.chosen_categories is None,
            "evaluation.chosen_deviation",
            "unset where evaluation.chosen_categories is set",
            self.chosen_deviation,
        )


@dataclass(frozen=True, kw_only=True)
class ExecutorConfig(Settings):
    """Where cohorts are trained."""

    section: ClassVar[str] = "executor"
    kind: str = setting(
        "in-process", one_of("in-process", "ray"), "ray: chunks of the cohort on several processes"
    )
    chunk_size: int = setting(
        16, whole(1), "clients trained at once; part of what makes results reproducible"
    )
    workers: int | None = setting(
        None,
        maybe(whole(1)),
        "threads, or Ray's processes; unset: one per core (torch: as torch has it)",
    )


@dataclass(frozen=True, kw_only=True)
class OutputConfig(Settings):
    """What is written beside the history."""

    section: ClassVar[str] = "output"
    format: str = setting(
        "csv", one_of("csv", "parquet"), "of history and participations once a run is complete"
    )
    checkpoint_every: int = setting(
        20, whole(1), "rounds between checkpoints: what a kill can cost"
    )
    tensorboard: bool = setting(False, flag(), "also write TensorBoard events (extra tensorboard)")
    mlflow: bool = setting(False, flag(), "also log to MLflow (extra mlflow)")


@dataclass(frozen=True, kw_only=True)
class StrategyConfig(Settings):
    """One way of picking participants."""

    section: ClassVar[str] = "strategies"
    kind: str = setting(
        "oort",
        one_of(*STRATEGIES, other="'package.module:factory' of a TrainingSelector", with_any=":"),
        "how participants are picked",
    )
    name: str | None = setting(None, maybe(label()), "what reports call it; unset: its kind")
    settings: dict[str, Any] = setting(dict, table(), "oort: settings of TrainingConfig")  # noqa: RUF009

    @property
    def label(self) -> str:
        """What reports call it."""
        return self.name or self.kind

    @property
    def folder(self) -> str:
        """The label as part of a folder's name."""
        return "".join(c if c.isalnum() or c in "-_." else "-" for c in self.label)


@dataclass(frozen=True, kw_only=True)
class SimulationConfig(Settings):
    """One experiment: a world, a job, and the strategies compared in it.

    >>> strategies = [{"kind": "random"}]
    >>> config = SimulationConfig.from_dict({"data": {"clients": 200}, "strategies": strategies})
    >>> config.data.clients, config.strategies[0].label, config.rounds.overcommit
    (200, 'random', 1.3)
    """

    name: str = setting(
        "simulation", file_name(), "what the run, and the folder that it goes into, is called"
    )
    seeds: tuple[int, ...] = setting(
        (0,),
        several(whole(0, 2**63 - 1), "a list of seeds"),
        "one run per seed",
    )
    data: DataConfig = field(default_factory=DataConfig)
    devices: DevicesConfig = field(default_factory=DevicesConfig)
    availability: AvailabilityConfig = field(default_factory=AvailabilityConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    server: ServerConfig = field(default_factory=ServerConfig)
    rounds: RoundsConfig = field(default_factory=RoundsConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    executor: ExecutorConfig = field(default_factory=ExecutorConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    strategies: tuple[StrategyConfig, ...] = (
        StrategyConfig(kind="oort"),
        StrategyConfig(kind="random"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        labels = [s.label for s in self.strategies]
        require(bool(labels), "strategies", "at least one table [[strategies]]", labels)
        require(
            len(set(labels)) == len(labels),
            "strategies.name",
            "different for each strategy",
            labels,
        )
        require(
            len({s.folder.lower() for s in self.strategies}) == len(labels),
            "strategies.name",
            "different also as names of folders",
            labels,
        )
        require(
            len(set(self.seeds)) == len(self.seeds), "seeds", "all different", list(self.seeds)
        )
        if self.evaluation.stop_at_target:
            target = self.evaluation.target_accuracy
            require(
                target is not None,
                "evaluation.target_accuracy",
                "set where stop_at_target is",
                target,
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SimulationConfig:
        """Settings from plain values: a dict of tables, as a TOML file holds them."""
        sections = {name: kind for name, kind in SECTIONS.items() if name in values}
        given = dict(values) | {name: build(kind, values[name]) for name, kind in sections.items()}
        if "strategies" in given:
            listed = given["strategies"]
            require(
                isinstance(listed, list), "strategies", "a list of tables [[strategies]]", listed
            )
            given["strategies"] = tuple(build(StrategyConfig, s) for s in listed)
        names = [f.name for f in fields(cls)]
        for name in given:
            if name not in names:
                refuse_key(name, names, "")
        return cls(**given)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, storable as JSON; keys that are unset are left out."""
        plain: dict[str, Any] = _without_none(dataclasses.asdict(self))
        return plain

    @property
    def proximal(self) -> float:
        """FedProx's μ, as the settings of learner and server together say."""
        if self.learner.proximal is not None:
            return self.learner.proximal
        return 0.01 if self.server.aggregation == "fedprox" else 0.0


SECTIONS: dict[str, type[Settings]] = {
    kind.section: kind
    for kind in (
        DataConfig,
        DevicesConfig,
        AvailabilityConfig,
        LearnerConfig,
        ServerConfig,
        RoundsConfig,
        EvaluationConfig,
        ExecutorConfig,
        OutputConfig,
    )
}


def load(path: str | Path) -> SimulationConfig:
    """The experiment that a TOML file describes; paths in it are relative to the file.

    Paths are kept from the root, so that a run can go on wherever it is called from.

    Raises:
        ConfigError: The file is missing, is not TOML, or holds a wrong setting. The message names
            the file, the key and what is allowed.
    """
    file = Path(path)
    try:
        with file.open("rb") as stream:
            values = tomllib.load(stream)
    except OSError as error:
        message = f"{file}: cannot be read ({error.strerror})"
        raise ConfigError(message) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        message = f"{file}: not valid TOML: {error}"
        raise ConfigError(message) from error
    try:
        return SimulationConfig.from_dict(_resolved(values, file.parent))
    except ConfigError as error:
        message = f"{file}: {error}"
        raise ConfigError(message) from error


def _resolved(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same values with paths relative to the file that names them made absolute."""
    always = (("data", "path"), ("data", "counts"), ("availability", "path"))
    perhaps = (("data", "sizes"), ("devices", "source"))
    for section, key in (*always, *perhaps):
        named = values.get(section)
        given = named.get(key) if isinstance(named, dict) else None
        if not isinstance(named, dict) or not isinstance(given, str) or not given:
            continue
        if (section, key) in always or set(given) & set(IN_A_PATH):
            named[key] = os.path.abspath(folder / given)
    return values


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_without_none(v) for v in value]
    return value
