"""Rounds of the selector against a plain-Python reading of Algorithm 1 (see ``oracle``).

Same preferred duration, same exploration rate, same scores to the accuracy of 4-byte floats, same
cut-off and pool; whoever is drawn is in the pool; each share fills what the other cannot.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

import oort
from tests.training.oracle import Expected, Known, Oracle

ACCURACY = 2e-5

values = st.sampled_from([0.0, 1.0, 2.0, 3.5, 50.0, 1e9]) | st.floats(0.0, 1000.0, width=16)
durations = st.none() | st.sampled_from([0.0, 1.0, 10.0]) | st.floats(0.125, 1000.0, width=16)


@st.composite
def readings(draw: st.DrawFn) -> tuple[dict[str, Any], Oracle]:
    """The same settings for the selector and for the oracle."""
    oracle = Oracle(
        alpha=draw(st.sampled_from([0.0, 1.0, 2.0, math.inf])),
        fairness=draw(st.sampled_from([0.0, 0.0, 0.3, 1.0])),
        window=draw(st.integers(1, 3)),
        start=draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
        max_participations=draw(st.none() | st.integers(1, 4)),
        clip=draw(st.sampled_from([0.95, 0.5, 1.0])),
    )
    oracle.minimum = min(0.2, oracle.start)
    return {
        "alpha": oracle.alpha,
        "fairness_weight": oracle.fairness,
        "clip_quantile": oracle.clip,
        "max_participations": oracle.max_participations,
        "pacer": {"window": oracle.window},
        "exploration": {"start": oracle.start, "minimum": oracle.minimum},
        "seed": draw(st.integers(0, 2**32)),
    }, oracle


def check(selection: oort.Selection, expected: Expected, wanted: int) -> None:
    assert selection.epsilon == pytest.approx(expected.epsilon)
    assert selection.preferred_s == pytest.approx(expected.preferred_s, rel=1e-6)
    exploited, explored = set(selection.exploited), set(selection.explored)
    filled = set(selection.filled)
    assert exploited <= set(expected.scores)
    assert explored <= expected.untried
    assert filled <= expected.pending | expected.removed
    assert len(selection) == len(exploited | explored | filled)
    by_choice = len(expected.scores) + len(expected.untried)
    everyone = by_choice + len(expected.pending) + len(expected.removed)
    assert len(selection) == min(wanted, everyone)
    assert len(exploited | explored) == min(wanted, by_choice), "nobody fills who need not"
    if filled & expected.removed:
        assert expected.pending <= filled, "the removed come last"
    check_quota(len(explored), expected, wanted)
    check_scores(selection, expected)


def check_quota(explored: int, expected: Expected, wanted: int) -> None:
    exact = expected.epsilon * wanted
    possible = set()
    for quota in {math.floor(exact), min(wanted, math.floor(exact + 1 - 1e-12))}:
        from_known = min(wanted - quota, len(expected.scores))
        possible.add(min(wanted - from_known, len(expected.untried)))
    assert explored in possible


def check_scores(selection: oort.Selection, expected: Expected) -> None:
    picks = [pick for pick in selection.why if pick.how == "exploited"]
    for pick in picks:
        wanted = expected.scores[int(pick.client)]
        assert pick.score == pytest.approx(wanted, rel=ACCURACY, abs=1e-7)
    if not picks:
        assert selection.pool_size == 0
        return
    cutoff = expected.cutoff(len(picks), 0.95)
    assert selection.cutoff == pytest.approx(cutoff, rel=ACCURACY, abs=1e-7)
    surely = {c for c, s in expected.scores.items() if s >= cutoff * (1 + ACCURACY) + 1e-7}
    maybe = {c for c, s in expected.scores.items() if s >= cutoff * (1 - ACCURACY) - 1e-7}
    assert len(surely) <= selection.pool_size <= len(maybe)
    assert {int(pick.client) for pick in picks} <= maybe


@settings(max_examples=150, deadline=None)
@given(readings(), st.integers(1, 25), st.data())
def test_every_round_is_what_the_table_says(
    reading: tuple[dict[str, Any], Oracle], count: int, data: st.DataObject
) -> None:
    configured, oracle = reading
    selector = oort.create_training_selector(configured)
    for client in range(count):
        hint = data.draw(durations)
        selector.register_client(client, expected_duration_s=hint)
        oracle.clients[client] = Known(duration_s=hint)
    for _ in range(data.draw(st.integers(1, 8))):
        if data.draw(st.booleans()):
            away = data.draw(st.sets(st.integers(0, count - 1)))
            selector.mark_online()
            selector.mark_offline(sorted(away))
            for client, known in oracle.clients.items():
                known.online = client not in away
        wanted = data.draw(st.integers(1, count + 2))
        before = oracle.round_number, oracle.steps
        expected = oracle.open_round(wanted)
        selection = selector.select(wanted)
        if not len(selection):
            assert not expected.scores
            assert not (expected.untried | expected.pending | expected.removed)
            oracle.round_number, oracle.steps = before
            continue
        check(selection, expected, wanted)
        picks = [int(client) for client in selection]
        oracle.selected(picks)
        silent = data.draw(st.sets(st.sampled_from(picks)))
        for client in (c for c in picks if c not in silent):
            utility, duration_s = data.draw(values), data.draw(durations)
            report = oort.Feedback(utility=utility, duration_s=duration_s)
            selector.update_client_util(client, report)
            oracle.report(client, oracle.round_number, utility, duration_s)
    event(f"pacer steps {oracle.steps}")


def test_a_long_job_follows_the_oracle_all_the_way() -> None:
    generator = np.random.default_rng(11)
    count, wanted = 300, 12
    oracle = Oracle(window=5, fairness=0.2, max_participations=9)
    selector = oort.create_training_selector(
        {"pacer": {"window": 5}, "fairness_weight": 0.2, "max_participations": 9, "seed": 1}
    )
    selector.register_clients(range(count))
    oracle.clients = {client: Known() for client in range(count)}
    worth = generator.lognormal(3, 1, count)
    steps = set()
    for number in range(1, 121):
        expected = oracle.open_round(wanted)
        selection = selector.select(wanted)
        check(selection, expected, wanted)
        picks = [int(client) for client in selection]
        oracle.selected(picks)
        heard = picks[: wanted - 2]
        utility = (worth[heard] * 0.99**number).astype(np.float32)
        duration_s = generator.lognormal(2, 1, len(heard)).astype(np.float32)
        selector.update_clients(heard, utility=utility, duration_s=duration_s)
        for client, u, d in zip(heard, utility, duration_s, strict=True):
            oracle.report(client, number, float(u), float(d))
        steps.add(oracle.steps)
    assert len(steps) > 5, "the pacer moved"
