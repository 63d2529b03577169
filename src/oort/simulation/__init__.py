"""A world to select in: real training on simulated clients, in simulated time.

    settings       settings that check themselves
    config         what a simulation is; ``load`` reads it from TOML
    files          files that others wrote, which may be damaged
    tables         figures of real devices, datasets and availability that ship with Oort
    streams        randomness that belongs to one client in one round
    population     devices: speed, duration of a participation, what goes wrong in it
    availability   when clients are online
    data           samples, and which client holds which
    learners       what a cohort does with its data, all at once
    aggregation    what becomes of its updates
    rounds         the first K to finish, and the clock
    world          all of this that no strategy can change
    strategies     selectors by name
    chosen         a test set chosen by the testing selector
    evaluation     how good the model is
    executor       where cohorts are trained: here, or on Ray
    cohort         who of those selected trains, and what they bring back
    engine         a job in a world, round after round
    history        a row per round, a row per participation
    sinks          TensorBoard, MLflow
    store          a run on disk, to go on from
    alone          one process at a time in its folder
    experiment     every strategy under every seed
    report         what runs say: time to accuracy, speed-ups
    demo           digits on 14,477 phones: the experiment behind ``oort demo``

>>> from oort.simulation import SimulationConfig, run
>>> config = SimulationConfig.from_dict({"rounds": {"count": 2, "participants": 5}})
"""

from oort.simulation.config import SimulationConfig, StrategyConfig, load
from oort.simulation.engine import Job
from oort.simulation.experiment import run
from oort.simulation.report import compare, read_runs
from oort.simulation.world import World, create

__all__ = [
    "Job",
    "SimulationConfig",
    "StrategyConfig",
    "World",
    "compare",
    "create",
    "load",
    "read_runs",
    "run",
]
