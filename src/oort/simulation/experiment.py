"""Every strategy under every seed, into a folder, so that it can be stopped and go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from oort.errors import missing_extra
from oort.simulation import sinks, strategies
from oort.simulation import world as worlds
from oort.simulation.alone import alone_in
from oort.simulation.config import SimulationConfig, StrategyConfig
from oort.simulation.engine import Job, RoundResult
from oort.simulation.history import RoundRecord
from oort.simulation.store import CellFolder, RunFolder
from oort.simulation.world import World


@dataclass(frozen=True)
class Cell:
    """One strategy under one seed."""

    strategy: StrategyConfig
    seed: int

    @property
    def label(self) -> str:
        """What progress and reports call it."""
        return f"{self.strategy.label}, seed {self.seed}"


Progress = Callable[[Cell, RoundRecord], None]


def cells(config: SimulationConfig) -> Iterator[Cell]:
    """What an experiment runs, in order: every strategy under the first seed, then under the next.

    >>> [c.label for c in cells(SimulationConfig(seeds=(1, 2)))]
    ['oort, seed 1', 'random, seed 1', 'oort, seed 2', 'random, seed 2']
    """
    for seed in config.seeds:
        for strategy in config.strategies:
            yield Cell(strategy, seed)


def check(config: SimulationConfig) -> None:
    """Make every strategy's selector once, so that wrong settings show before anything runs.

    Raises:
        ConfigError: A strategy's settings are wrong.
        MissingExtraError: What trains, or takes the history, is not installed.
    """
    output = config.output
    needed = (
        (config.learner.needs_torch, "this learner.model", "torch", "sim"),
        (config.executor.kind == "ray", "executor.kind 'ray'", "ray", "ray"),
        (output.format == "parquet", "output.format 'parquet'", "pyarrow", "parquet"),
        (output.tensorboard, "output.tensorboard", "tensorboard", "tensorboard"),
        (output.mlflow, "output.mlflow", "mlflow", "mlflow"),
    )
    for asked, what, package, extra in needed:
        if asked and find_spec(package) is None:
            missing_extra(what, package, extra)
    for strategy in config.strategies:
        strategies.create(strategy, seed=config.seeds[0])


def run(
    config: SimulationConfig,
    into: str | Path,
    *,
    progress: Progress | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Run an experiment into a folder, or go on with what is in it.

    Args:
        config: The experiment.
        into: Its folder; what is complete in it is not run again.
        progress: Called after every round.
        stop: Asked after every round; once it says yes, a checkpoint is written and the run ends.

    Returns:
        Whether it is complete.

    Raises:
        ConfigError: Settings do not fit one another or the data, or the folder holds another
            experiment.
        LeaseError: Another process is at work in the folder.
    """
    check(config)
    with alone_in(Path(into)):
        return _run(config, Path(into), progress, stop)


def _run(
    config: SimulationConfig, into: Path, progress: Progress | None, stop: Callable[[], bool]
) -> bool:
    """Run every cell that is not complete."""
    folder = RunFolder(into)
    folder.open(config)
    world: World | None = None
    for cell in cells(config):
        files = folder.cell(cell.strategy, cell.seed)
        if files.is_complete and not _extended(files, config):
            continue
        if world is None or world.seed != cell.seed:
            world = None  # so that memory need not hold two
            world = worlds.create(config, seed=cell.seed)
        with known_threads(config):
            if not _run_cell(world, cell, files, progress, stop):
                return False
    return True


def known_threads(config: SimulationConfig) -> AbstractContextManager[object]:
    """Matrix products on a known number of threads while models are trained.

    NumPy's on one: they are small, so that a second thread inside them gains nothing, stalls where
    the machine is busy, and makes the order of additions, and so the last bits, depend on the
    number of cores (chunks of clients take the other cores instead). Torch's on
    ``executor.workers`` where that is set. Where ``threadpoolctl`` (it comes with scikit-learn) is
    not installed, NumPy's threads are left as they are.
    """
    if config.learner.needs_torch:
        return _torch_threads(config.executor.workers)
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        return nullcontext()
    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


@contextmanager
def _torch_threads(count: int | None) -> Iterator[None]:
    """Torch on so many threads for a while; as it is, where no number is given."""
    if count is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _run_cell(
    world: World,
    cell: Cell,
    files: CellFolder,
    progress: Progress | None,
    stop: Callable[[], bool],
) -> bool:
    """Run one strategy under one seed; says whether it came to its end."""
    output = world.config.output
    restored = files.restore()
    state, past = restored if restored is not None else (None, [])
    job = Job(world, cell.strategy, state=state, past=iter(past))
    open_sinks = sinks.create(output, files.path, cell.label, after=job.state.round)
    try:
        for result in job.rounds():
            files.append(result)
            _inform(result, cell, open_sinks, progress)
            stopping = stop()
            if stopping or result.record.round % output.checkpoint_every == 0:
                files.checkpoint(job.state)
            if stopping:
                return False
        files.complete(job.state, fmt=output.format)
        return True
    finally:
        files.flush()
        job.close()
        for sink in open_sinks:
            sink.close()


def _inform(
    result: RoundResult, cell: Cell, open_sinks: list[sinks.Sink], progress: Progress | None
) -> None:
    for sink in open_sinks:
        sink.write(result.record)
    if progress is not None:
        progress(cell, result.record)


def _extended(files: CellFolder, config: SimulationConfig) -> bool:
    """Whether a run that is through has been given more rounds than it has."""
    from oort.simulation.history import read_table

    records = read_table(files.path, "history", RoundRecord)
    played = records[-1].round if records else 0
    out_of_time = (
        config.rounds.max_clock_s is not None
        and bool(records)
        and records[-1].clock_s >= config.rounds.max_clock_s
    )
    target = config.evaluation.target_accuracy if config.evaluation.stop_at_target else None
    reached = target is not None and any(r.accuracy >= target for r in records)
    return played < config.rounds.count and not out_of_time and not reached
