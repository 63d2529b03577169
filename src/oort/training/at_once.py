"""The decision of a round in one compiled call, where nothing about it is out of the ordinary.

What comes out is what ``GuidedSelector._decide`` gives step by step, to the last bit; tests play
whole jobs both ways. It serves tables that are large enough for histograms and small enough for a
full pass per round, with the paper's α = 2, a built-in utility and no fairness.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

import numpy as np
import numpy.typing as npt

from oort import kernels
from oort.clients.columns import LARGEST_STORED
from oort.clients.table import ClientTable
from oort.config import TrainingConfig
from oort.kernels.arrays import quantile_place
from oort.training import explore, scoring, utility
from oort.training.bookkeeping import Decision, Question
from oort.training.candidates import Candidates, Yardstick
from oort.training.rounds import History
from oort.training.scoring import Known
from oort.training.utility import Scale
from oort.types import PickTable


def is_possible(table: ClientTable, config: TrainingConfig, wanted: int) -> bool:
    """Whether the table and the settings are such as one compiled call serves."""
    return (
        wanted <= table.num_rows < scoring.MANY_ROWS
        and config.alpha == 2.0
        and config.fairness_weight == 0
        and kernels.compiled_for(table.num_rows) is not None
        and table.statistics.incremental
    )


def decided(
    table: ClientTable,
    config: TrainingConfig,
    question: Question,
    *,
    epsilon: float,
    quota: int,
    pacer_steps: int,
    preferred_s: float | None,
    level: float,
    fold: Callable[[float], History | None],
    candidates: Candidates,
    keys: tuple[int, int, int],
) -> Decision | None:
    """Who is picked; nothing, where there are not enough for the round.

    Args:
        table: The clients.
        config: The settings.
        question: What is asked.
        epsilon: The rate of exploration.
        quota: How many to explore.
        pacer_steps: How often the pacer has moved.
        preferred_s: T, if it is fixed.
        level: If not, T is this quantile of the durations of the explored.
        fold: The history that follows from where utilities are clipped.
        candidates: What keeps the hint where the cut-off will be.
        keys: Of exploitation, of proposals and of exploration.
    """
    utilities, durations, expected = table.statistics.histograms
    timed = preferred_s is None and durations.count > 0
    patience_s = float("inf") if preferred_s is None else preferred_s
    rows, why, exploited, scale, typical_s, cutoff, pool_size = _compiled().decide(
        table.utility,
        table.duration_s,
        table.last_round,
        table.flags,
        table.participations,
        kernels.as_bytes(question.allowed),
        utilities.pair,
        durations.pair,
        expected.pair,
        _rank(utilities.count, config.clip_quantile),
        _rank(durations.count, level) if timed else -1,
        _rank(expected.count, 0.5),
        np.float32(min(patience_s, LARGEST_STORED)),
        utility.uncertainty(question.round_number, config.staleness),
        np.float32(config.cutoff),
        np.float32(candidates.hint),
        question.wanted,
        quota,
        table.statistics.num_untried,
        (np.uint64(keys[0]), np.uint64(keys[1]), np.uint64(keys[2])),
    )
    if rows.size < question.wanted:
        return None
    if timed:
        patience_s = scale[4]
    enough = exploited >= max(question.wanted - quota, 1)
    candidates.hint = scoring.NEARLY * cutoff if enough else 0.0
    explain = functools.partial(
        _explained, config, question.round_number, scale, patience_s, why, exploited, typical_s
    )
    return Decision(
        rows=rows,
        explain=explain,
        preferred_s=patience_s,
        epsilon=epsilon,
        cutoff=cutoff if pool_size else math.nan,
        pool_size=pool_size,
        pacer_steps=pacer_steps,
        history=fold(scale[1] if utilities.count else math.inf),
    )


@functools.cache
def _compiled() -> ModuleType:
    return import_module("oort.training.compiled")


def _rank(count: int, level: float) -> int:
    """The rank of a quantile, −1 where there is nothing to rank."""
    return quantile_place(count, level) if count else -1


def _explained(
    config: TrainingConfig,
    round_number: int,
    scale: tuple[float, ...],
    preferred_s: float,
    why: npt.NDArray[np.float64],
    exploited: int,
    typical_s: float,
) -> PickTable:
    """What explains each pick, from the columns as they were."""
    single = why.astype(np.float32)
    low, cap, inverse_range = (np.float32(value) for value in scale[:3])
    yardstick = Yardstick(Scale(low, cap, inverse_range), scale[3], preferred_s, config.alpha)
    worth, duration_s = single[1, :exploited], single[3, :exploited]
    newest = why[2, :exploited].astype(np.uint32)
    parts = Known(config, yardstick, round_number, worth, newest, duration_s).parts()
    tried = why.shape[1] - exploited
    nothing = np.full(tried, np.nan, np.float32)
    speeds = explore.expected_speed(single[3, exploited:], typical_s)
    return PickTable(
        how=["exploited"] * exploited + ["explored"] * tried,
        score=np.concatenate([single[0, :exploited], speeds]),
        utility=np.concatenate([parts.utility, nothing]),
        staleness=np.concatenate([parts.staleness, nothing]),
        speed=np.concatenate([parts.speed, nothing]),
        fairness=np.full(why.shape[1], np.nan, np.float32),
        duration_s=single[3],
        participations=why[4].astype(np.uint16),
    )
