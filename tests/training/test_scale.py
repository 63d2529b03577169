"""What makes large tables fast changes no pick, and its cost grows as it should."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oort
from oort import kernels
from oort.clients import statistics, table
from oort.clients.columns import stored
from oort.kernels import arrays, draws
from oort.training import candidates, scoring
from oort.training.candidates import Yardstick, highest_possible
from oort.training.selector import GuidedSelector
from oort.training.utility import Scale, scaled_utility, slowness_penalty

FAST = {"many_rows": 1, "fewest": 64, "per_pick": 2}
PLAIN = {"many_rows": 10**9, "fewest": 64, "per_pick": 2}


def arrange(patch: pytest.MonkeyPatch, *, many_rows: int, fewest: int, per_pick: int) -> None:
    """Turn the memory of candidates on or off, for tables of any size."""
    patch.setattr(scoring, "MANY_ROWS", many_rows)
    patch.setattr(candidates, "_FEWEST", fewest)
    patch.setattr(candidates, "_PER_PICK", per_pick)


def play(selector: GuidedSelector, seed: int, clients: int, rounds: int) -> list[Any]:
    """A history with everything in it: late, failed and unused reports, leaving, coming back."""
    random = np.random.default_rng(seed)
    selector.register_clients(range(clients), expected_duration_s=random.lognormal(3, 1, clients))
    log: list[Any] = []
    for number in range(1, rounds + 1):
        wanted = int(random.integers(1, 40))
        mask = random.random(selector.num_rows) < random.choice([0.05, 0.6, 1.0])
        selection = selector.select(wanted, among=mask)
        log.append((selection.participants, selection.preferred_s, repr(selection.cutoff)))
        rows = selector.rows(selection.participants)
        selector.update_clients(
            rows,
            utility=random.lognormal(3 - number / 40, 1, len(rows)),
            duration_s=random.lognormal(3, 1, len(rows)),
            outcome=random.choice(["completed", "failed", "unused"], len(rows), p=[0.8, 0.1, 0.1]),
        )
        away = random.integers(0, clients, 3)
        if number % 5 == 0:
            selector.remove_clients(away)
        if number % 7 == 0:
            selector.mark_offline(away)
            selector.register_clients(random.integers(0, clients, 3))
        if number % 11 == 0:
            selector.forget(away[:1])
            selector.mark_online()
    return log


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), limit=st.sampled_from([None, 2]))
def test_remembered_candidates_change_no_pick(seed: int, limit: int | None) -> None:
    logs = []
    for arrangement in (PLAIN, FAST):
        with pytest.MonkeyPatch.context() as patch:
            arrange(patch, **arrangement)
            config = oort.TrainingConfig(seed=seed, max_participations=limit)
            logs.append(play(GuidedSelector(config), seed, clients=600, rounds=45))
    assert logs[0] == logs[1]


def test_remembered_candidates_spare_most_full_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    arrange(monkeypatch, many_rows=1, fewest=2048, per_pick=16)
    selector, random = GuidedSelector(), np.random.default_rng(1)
    clients = 50_000
    selector.register_clients(range(clients))
    selector.update_clients(
        range(clients), utility=random.lognormal(3, 1, clients), duration_s=20.0
    )
    for _ in range(60):
        picked = selector.select_participant(50)
        selector.update_clients(picked, utility=random.lognormal(2, 1, 50), duration_s=20.0)
    assert selector._candidates.full_passes <= 10


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_nobody_whose_columns_did_not_change_rises_above_the_bound(seed: int) -> None:
    random = np.random.default_rng(seed)
    utility = random.lognormal(2, 1.5, 500).astype(np.float32)
    duration_s = random.lognormal(3, 1, 500).astype(np.float32)
    heard = random.integers(1, 50, 500)

    def yardstick() -> Yardstick:
        low = float(utility.min()) * float(random.choice([1.0, 0.9]))
        cap = float(np.quantile(utility, random.random()))
        preferred_s = float(random.choice([random.lognormal(3, 1), np.inf]))
        uncertainty = float(np.float32(random.choice([0.0, random.random()])))
        return Yardstick(Scale.between(low, max(cap, low)), uncertainty, preferred_s)

    def scores(by: Yardstick) -> Any:
        bonus = np.sqrt(np.float32(by.uncertainty) / heard.astype(np.float32))
        speed = slowness_penalty(duration_s, preferred_s=by.preferred_s, alpha=2.0)
        return (scaled_utility(utility, by.scale) + bonus) * speed

    then, now = yardstick(), yardstick()
    before, after = scores(then), scores(now)
    below = float(np.quantile(before, random.random()))
    others = before < below
    bound = highest_possible(below, then, now)
    assert not others.any() or np.isnan(bound) or float(after[others].max()) <= bound


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.floats(0, 2.0**100, width=32), min_size=1, max_size=60),
    level=st.floats(0, 1),
    leave=st.integers(0, 59),
)
def test_a_histogram_answers_the_exact_order_statistic_rounded_by_its_bucket(
    values: list[float], level: float, leave: int
) -> None:
    array = stored(np.array(values))
    histogram = statistics.Histogram()
    histogram.change(array, +1)
    kept = np.delete(array, leave) if leave < array.size - 1 else array
    if kept.size < array.size:
        histogram.change(array[leave : leave + 1], -1)
    exact = arrays.lower_quantile(kept, level)
    assert histogram.quantile(level) == statistics.rounded_up(exact)
    assert histogram.lowest() == statistics.rounded_down(float(kept.min()))
    assert exact <= histogram.quantile(level) <= exact * 1.0005


def test_negative_zeros_are_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (statistics, table):
        monkeypatch.setattr(module, "EXACT_ROWS", 1)
    selector = GuidedSelector()
    selector.register_clients(range(5), expected_duration_s=-0.0)
    selector.select(2)
    selector.update_clients(range(5), utility=-0.0, duration_s=-0.0)
    assert len(selector.select_participant(5)) == 5
    assert selector._table.statistics.utility_range(0.95)[0] == 0.0


def test_statistics_kept_row_by_row_equal_those_taken_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (statistics, table):
        monkeypatch.setattr(module, "EXACT_ROWS", 10)
    selector = GuidedSelector({"seed": 3})
    play(selector, 3, clients=300, rounds=40)
    kept, anew = selector._table.statistics, table.Statistics(selector._table)
    assert kept.incremental
    assert kept is not anew
    for level in (0.0, 0.3, 0.95, 1.0):
        assert kept.utility_range(level) == anew.utility_range(level)
        assert kept.explored_duration_s(level) == anew.explored_duration_s(level)
    assert kept.expected_duration_s() == anew.expected_duration_s()
    assert kept.num_untried == anew.num_untried
    assert (kept._utility.fine == anew._utility.fine).all()


@pytest.mark.parametrize("clients", [9_000, 40_000])
def test_numpy_and_numba_pick_the_same_clients(
    clients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba", reason="compiled kernels need the extra 'fast'")
    logs = []
    for fast in (None, kernels.fast_kernels()):
        monkeypatch.setattr(kernels, "compiled_for", lambda num_rows, fast=fast: fast)
        logs.append(play(GuidedSelector({"seed": 5}), 5, clients=clients, rounds=30))
    assert logs[0] == logs[1]


class Work:
    """Rows that one round looked at, by whatever way."""

    def __init__(self) -> None:
        self.rows = 0


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Count every row that is scored, proposed, raced or moved in a histogram."""
    counted = Work()

    def count(owner: Any, name: str, size: Any) -> None:
        original = getattr(owner, name)

        def counting(*arguments: Any, **named: Any) -> Any:
            counted.rows += size(*arguments)
            return original(*arguments, **named)

        monkeypatch.setattr(owner, name, counting)

    monkeypatch.setattr(kernels, "compiled_for", lambda num_rows: None)
    count(scoring.Known, "parts", lambda known: known.worth.size)
    count(draws, "race", lambda names, *rest: names.size)
    count(draws, "_proposed", lambda weight, size, *rest: min(size, 1024))
    count(statistics.Histogram, "change", lambda histogram, values, by: values.size)
    count(arrays, "lower_quantile", lambda values, level: values.size)
    return counted


def rows_per_round(work: Work, clients: int, rounds: int) -> list[int]:
    """Rows looked at in each round of a job in which everyone has reported once."""
    selector, random = GuidedSelector(), np.random.default_rng(clients)
    selector.register_clients(range(clients))
    selector.update_clients(
        range(clients), utility=random.lognormal(3, 1, clients), duration_s=20.0
    )
    selector.select(50)
    per_round = []
    for _ in range(rounds):
        work.rows = 0
        picked = selector.select_participant(50)
        selector.update_clients(picked, utility=random.lognormal(2, 1, 50), duration_s=20.0)
        per_round.append(work.rows)
    return per_round


def test_the_cost_of_a_round_grows_no_faster_than_the_number_of_clients(work: Work) -> None:
    cost = {n: max(rows_per_round(work, n, 5)) for n in (2_000, 16_000, 128_000)}
    for clients, rows in cost.items():
        assert rows <= 6 * clients, cost
    usual = np.median(rows_per_round(work, 128_000, 40))
    assert usual <= 0.25 * 128_000, "most rounds look at few rows"


def test_the_cost_of_a_round_does_not_grow_with_the_rounds_before_it(work: Work) -> None:
    rows = rows_per_round(work, 5_000, 250)
    assert np.mean(rows[-100:]) <= 1.1 * np.mean(rows[20:120])


def test_what_is_remembered_of_rounds_does_not_grow() -> None:
    selector = GuidedSelector({"pacer": {"window": 5}})
    selector.register_clients(range(100))
    for _ in range(60):
        selector.update_clients(selector.select_participant(10), utility=1.0, duration_s=1.0)
    book = selector._book
    assert len(book.selected) <= 11
    assert len(book.received) <= 11
    assert len(book.history) <= 11
    assert len(book.unfolded) <= 1
