"""One compiled call decides what the steps of ``GuidedSelector._decide`` decide."""

from __future__ import annotations

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


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    clients=st.sampled_from([30, 300, 5000]),
    settings_=st.sampled_from(
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
    ),
)
def test_one_call_decides_what_the_steps_decide(
    seed: int, clients: int, settings_: dict[str, Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (statistics, table):
            patch.setattr(module, "EXACT_ROWS", 10)
        patch.setattr(kernels, "COMPILED_FROM_ROWS", 11)
        taken = []
        original = at_once.decided

        def counted(*given: Any, **named: Any) -> Any:
            decision = original(*given, **named)
            taken.append(decision is not None)
            return decision

        patch.setattr(at_once, "decided", counted)
        found = play(settings_, seed, clients, 24)
        assert any(taken), "the call was used"
        patch.setattr(at_once, "is_possible", lambda *given: False)
        expected = play(settings_, seed, clients, 24)
    assert found == expected


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
    assert at_once.is_possible(selector._table, selector.config, 10) is possible
    assert not at_once.is_possible(selector._table, selector.config, 5001)
