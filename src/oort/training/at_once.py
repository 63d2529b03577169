"""The decision of a round in one compiled call, where nothing about it is out of the ordinary.

What comes out is what ``GuidedSelector._decide`` gives step by step, to the last bit; tests play
whole jobs both ways. It serves tables that are small enough for a full pass per round, with the
paper's α = 2, a built-in utility and no fairness: those that are large enough to earn compiled
code, and smaller ones where it is at hand, or where so many rounds are planned that the time to
load it is little beside them.
"""

from __future__ import annotations

import functools
import math
from importlib import import_module
from types import ModuleType
from typing import Final

import numpy as np
import numpy.typing as npt

from oort import kernels
from oort.clients.table import ClientTable, Statistics
from oort.config import TrainingConfig
from oort.randomness import key_of_job
from oort.training import explore, scoring
from oort.training.bookkeeping import Decision, Question
from oort.training.candidates import NEARLY, Candidates, Yardstick
from oort.training.rounds import History, RoundBook
from oort.training.scoring import Known
from oort.training.utility import Scale
from oort.types import PickTable

MANY_ROUNDS: Final = 1_000
_NOTHING: Final = np.empty(0, np.float32)


def is_ordinary(config: TrainingConfig) -> bool:
    """Whether the settings are such as one compiled call serves."""
    return config.alpha == 2.0 and config.fairness_weight == 0


def is_possible(table: ClientTable, wanted: int, planned_rounds: int | None = None) -> bool:
    """Whether the table, in a job of so many rounds, is such as one compiled call serves."""
    num_rows = table.num_rows
    if not wanted <= num_rows < scoring.MANY_ROWS:
        return False
    if table.statistics.incremental:
        return kernels.compiled_for(num_rows) is not None
    if (planned_rounds or 0) >= MANY_ROUNDS:
        return kernels.fast_kernels() is not None
    return kernels.at_hand()


def decided(
    table: ClientTable,
    book: RoundBook,
    config: TrainingConfig,
    question: Question,
    *,
    epsilon: float,
    fixed_s: float | None,
    pacer_level: float,
    candidates: Candidates,
) -> Decision | None:
    """Who is picked; nothing, where there are not enough for the round.

    Args:
        table: The clients.
        book: The rounds.
        config: The settings.
        question: What is asked.
        epsilon: The rate of exploration.
        fixed_s: T, if it is fixed.
        pacer_level: If not, T is this quantile of the durations of the explored.
        candidates: What keeps hints where the cut-off will be, and the end of exploration.
    """
    wanted = question.wanted
    number = question.round_number
    uncertainty = config.staleness * math.log(number)
    newest = book.unfolded[0] if len(book.unfolded) == 1 else None
    rows, why, exploited, numbers, sizes, hints = _compiled().decide(
        table.utility,
        table.duration_s,
        table.last_round,
        table.flags,
        table.participations,
        kernels.as_bytes(question.allowed),
        table.statistics.buckets,
        _counts(table.statistics),
        config.clip_quantile,
        pacer_level,
        math.nan if fixed_s is None else fixed_s,
        uncertainty,
        config.cutoff,
        candidates.hint,
        candidates.pace,
        _NOTHING if newest is None else newest[2],
        wanted,
        epsilon,
        key_of_job(config.seed),
        number,
        question.draw,
    )
    if rows.size < wanted:
        return None
    _, cap, _, preferred_s, _, cutoff, worth = numbers
    pool_size, num_explored, num_timed = sizes
    if fixed_s is not None:
        preferred_s = fixed_s
    elif not num_timed:
        preferred_s = math.inf
    candidates.hint, candidates.pace = NEARLY * hints[0], hints[1]
    history: History | None = None
    if question.draw == 0 and newest is not None:
        history = {newest[0]: book.entry(newest[0], worth, newest[2].size)}
    elif question.draw == 0:
        history = book.folded(cap if num_explored else math.inf)
    return Decision(
        rows=rows,
        explain=functools.partial(
            _explained, config, number, numbers, uncertainty, preferred_s, why, exploited
        ),
        preferred_s=preferred_s,
        epsilon=epsilon,
        cutoff=cutoff if pool_size else math.nan,
        pool_size=pool_size,
        pacer_steps=book.pacer_steps,
        history=history,
    )


def _counts(statistics: Statistics) -> tuple[int, int, int, int]:
    """How many histograms count, and how many are untried; of a small table the call counts."""
    if not statistics.incremental:
        return 0, 0, 0, 0
    utilities, durations, expected = statistics.histograms
    return utilities.count, durations.count, expected.count, statistics.num_untried


@functools.cache
def _compiled() -> ModuleType:
    return import_module("oort.training.compiled")


def _explained(
    config: TrainingConfig,
    round_number: int,
    numbers: tuple[float, ...],
    uncertainty: float,
    preferred_s: float,
    why: npt.NDArray[np.float64],
    exploited: int,
) -> PickTable:
    """What explains each pick, from the columns as they were."""
    single = why.astype(np.float32)
    scale = Scale(*(np.float32(value) for value in numbers[:3]))
    yardstick = Yardstick(scale, uncertainty, preferred_s, config.alpha)
    worth, duration_s = single[1, :exploited], single[3, :exploited]
    newest = why[2, :exploited].astype(np.uint32)
    parts = Known(config, yardstick, round_number, worth, newest, duration_s).parts()
    tried = why.shape[1] - exploited
    nothing = np.full(tried, np.nan, np.float32)
    speeds = explore.expected_speed(single[3, exploited:], numbers[4])
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
