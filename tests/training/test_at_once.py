"""One compiled call decides what the steps of ``GuidedSelector._decide`` decide."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oort
from oort import kernels
from oort.clients import statistics, table
from oort.training import at_once
from oort.training.selector import GuidedSelector
from tests.support import exploring

pytest.importorskip("numba", reason="compiled kernels need the extra 'fast'")

COLUMNS = ("how", "score", "utility", "staleness", "speed", "duration_s", "participations")


def play(settings: dict[str, Any], seed: int, clients: int, rounds: int) -> list[Any]:
    """A job with late, failed and missing reports, top-ups, narrow masks and large rounds."""
    random = np.random.default_rng(seed)
    selector = oort.create_training_selector({"seed": seed, **settings})
    hints = np.where(random.random(clients) < 0.2, np.nan, random.lognormal(3, 1, clients))
    selector.register_clients(range(clients), expected_duration_s=hints)
    log: list[Any] = []
    for number in range(rounds):
        wanted = int(random.choice([1, 7, 40, clients // 3]))
        mask = random.random(clients) < random.choice([0.02, 0.6, 1.0])
        chosen = selector.select(wanted, among=None if number % 4 == 0 else mask)
        log.append(told(chosen))
        if chosen.participants and number % 3 == 0:
            log.append(told(selector.select(5, round_number=chosen.round_number)))
        count = len(chosen)
        selector.update_clients(
            chosen.participants,
            utility=random.lognormal(3 - number / 20, 1, count) * (random.random(count) > 0.05),
            duration_s=random.lognormal(3, 1, count),
            outcome=random.choice(["completed", "failed", "unused"], count, p=[0.8, 0.1, 0.1]),
        )
    return log


def told(selection: oort.Selection) -> list[Any]:
    """Everything that a selection says."""
    facts = [selection.participants, selection.round_number, selection.preferred_s]
    facts += [selection.epsilon, repr(selection.cutoff), selection.pool_size]
    columns = selection.table
    if columns is None:
        return facts
    return facts + [np.asarray(getattr(columns, name)).tolist().__repr__() for name in COLUMNS]


SETTINGS = st.sampled_from(
    [
        {},
        {"staleness": 0.0},
        {"max_participations": 2},
        {"exploration": exploring(0.0)},
        {"exploration": exploring(1.0)},
        {"pacer": {"preferred_s": 12.0}},
        {"pacer": {"step_s": 3.0, "window": 4}},
        {"pacer": {"preferred_s": 1e300}},
        {"cutoff": 0.0, "clip_quantile": 1.0},
    ]
)


def both_ways(
    patch: pytest.MonkeyPatch, settings: dict[str, Any], seed: int, clients: int
) -> tuple[list[Any], list[Any]]:
    """What one call decides in a job, and what the steps decide."""
    taken = []
    original = at_once.decided

    def counted(*given: Any, **named: Any) -> Any:
        decision = original(*given, **named)
        taken.append(decision is not None)
        return decision

    patch.setattr(at_once, "decided", counted)
    found = play(settings, seed, clients, 24)
    assert taken, "the call was tried"
    assert any(taken) or clients <= 30, "and used, where there may be enough for a round"
    patch.setattr(at_once, "is_possible", lambda *given: False)
    return found, play(settings, seed, clients, 24)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), clients=st.sampled_from([30, 300, 5000]), settings_=SETTINGS)
def test_one_call_decides_what_the_steps_decide(
    seed: int, clients: int, settings_: dict[str, Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (statistics, table):
            patch.setattr(module, "EXACT_ROWS", 10)
        patch.setattr(kernels, "COMPILED_FROM_ROWS", 11)
        found, expected = both_ways(patch, settings_, seed, clients)
    assert found == expected


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6), clients=st.sampled_from([4, 30, 1000, 4096]), settings_=SETTINGS
)
def test_one_call_decides_the_same_on_small_tables_of_long_jobs(
    seed: int, clients: int, settings_: dict[str, Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at_once, "MANY_ROUNDS", 0)
        found, expected = both_ways(patch, settings_, seed, clients)
    assert found == expected


@pytest.mark.parametrize(("planned", "compiled"), [(None, False), (999, False), (1000, True)])
def test_small_tables_earn_compiled_code_in_long_jobs_alone(
    planned: int | None, compiled: bool
) -> None:
    selector = GuidedSelector({"planned_rounds": planned})
    selector.register_clients(range(500))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "at_hand", lambda: False)
        assert at_once.is_possible(selector._table, 10, planned) is compiled
    assert kernels.fast_kernels() is not None
    assert at_once.is_possible(selector._table, 10, planned), "once it is loaded, it serves all"


OUTCOMES = st.sampled_from(["completed", "failed", "unused"])


@settings(max_examples=60, deadline=None)
@given(
    clients=st.sampled_from([12, 5000]),
    limit=st.sampled_from([1, None, "auto"]),
    rounds=st.lists(
        st.lists(
            st.tuples(
                st.integers(0, 11),
                OUTCOMES,
                st.sampled_from([0.0, 1.0, 7.5, 1e300]),
                st.sampled_from([None, 0.0, 3.0, 9.0]),
                st.sampled_from([None, 0, 40]),
            ),
            min_size=1,
            max_size=8,
        ),
        min_size=1,
        max_size=5,
    ),
    gone=st.sets(st.integers(0, 11), max_size=3),
)
def test_one_call_writes_down_what_the_steps_write_down(
    clients: int, limit: Any, rounds: list[list[Any]], gone: set[int]
) -> None:
    compiled, plain = (reported(clients, limit, rounds, gone, at_once=a) for a in (True, False))
    assert compiled == plain


def reported(
    clients: int, limit: Any, rounds: list[list[Any]], gone: set[int], *, at_once: bool
) -> list[Any]:
    """Everything that a job knows after some rounds of reports."""
    selector = GuidedSelector({"max_participations": limit})
    selector.register_clients(range(clients), expected_duration_s=5.0)
    with pytest.MonkeyPatch.context() as patch:
        if not at_once:
            patch.setattr(table.Statistics, "_compiled", lambda self: None)
        else:
            kernels.fast_kernels()
        for batch in rounds:
            selector.select(6, among=range(12))
            selector.remove_clients(sorted(gone))
            columns = list(zip(*batch, strict=True))
            selector.update_clients(
                list(columns[0]),
                outcome=list(columns[1]),
                utility=list(columns[2]),
                duration_s=list(columns[3]),
                num_samples=list(columns[4]),
            )
        chosen = selector.select(6).participants
    arrays = {name: a.tolist() for name, a in selector._table.to_arrays().items()}
    found = selector._table.statistics
    numbers = [found.num_explored, found.num_untried, found.utility_range(0.9)]
    numbers += [found.explored_duration_s(0.5), found.expected_duration_s()]
    return [chosen, repr(arrays), numbers, selector._table._total_participations]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 1e30]), min_size=1, max_size=60))
def test_a_value_is_found_by_its_rank(values: list[float]) -> None:
    fast = importlib.import_module("oort.kernels.compiled_draws")
    column = np.array(values, np.float32)
    found = [float(fast.kth_smallest(column.copy(), rank)) for rank in range(column.size)]
    assert found == sorted(column.tolist())


@pytest.mark.parametrize(
    ("settings_", "possible"),
    [
        ({}, True),
        ({"alpha": 3.0}, False),
        ({"alpha": "inf"}, False),
        ({"fairness_weight": 0.5}, False),
    ],
)
def test_only_ordinary_rounds_are_decided_at_once(
    settings_: dict[str, Any], possible: bool
) -> None:
    selector = GuidedSelector(settings_)
    selector.register_clients(range(5000))
    assert selector._is_ordinary is possible
    assert at_once.is_possible(selector._table, 10)
    assert not at_once.is_possible(selector._table, 5001)


def test_edges_of_buckets_are_those_of_the_histograms() -> None:
    largest = int(np.array([1e30], np.float32).view(np.uint32)[0]) >> statistics.SHIFT
    smallest = int(np.array([1e-30], np.float32).view(np.uint32)[0]) >> statistics.SHIFT
    fast = importlib.import_module("oort.training.compiled")
    for bucket in [0, smallest, largest, *range(smallest, largest, 997)]:
        for upper in (False, True):
            assert float(fast._edge(bucket, upper)) == statistics._edge(bucket, upper=upper)
