"""Intervals cover the population's value at their level: fixed seeds, exact binomial tests."""

from __future__ import annotations

import os
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binomtest

from oort.randomness import generator_for
from oort.testing.adaptive import AdaptivePlan
from oort.testing.betting import (
    Draws,
    _log_wealth,
    _planned_bets,
    _spread_bets,
    anytime_interval,
    fixed_interval,
)
from oort.testing.estimate import Design, estimate

Ints = npt.NDArray[np.int64]
CONFIDENCE = 0.9


def _covers_at_its_level(misses: int, trials: int, confidence: float = CONFIDENCE) -> bool:
    """Whether so many misses are compatible with a chance of 1 − confidence at most."""
    return bool(binomtest(misses, trials, 1 - confidence, alternative="greater").pvalue > 1e-3)


def _answers(sizes: Ints, accuracy: float, alike: float, seed: int, *, tied: bool = False) -> Ints:
    """Correct answers of clients that differ; ``tied`` makes large clients worse."""
    rng = np.random.default_rng(seed)
    mean = np.full(len(sizes), accuracy)
    if tied:
        mean = np.clip(accuracy - 0.25 * (sizes > np.quantile(sizes, 0.9)), 0.02, 0.98)
    return rng.binomial(sizes, rng.beta(mean * alike, (1 - mean) * alike)).astype(np.int64)


def _sizes(kind: str, count: int) -> Ints:
    rng = np.random.default_rng(11)
    sizes = {
        "equal": np.full(count, 50),
        "even": rng.integers(1, 100, count),
        "skewed": np.minimum(rng.lognormal(3.0, 1.0, count), 500) + 1,
        "one giant": np.r_[np.full(count - 1, 20), 2_000],
        "many empty": np.where(rng.random(count) < 0.5, 0, rng.integers(1, 60, count)),
    }[kind]
    return np.asarray(sizes).astype(np.int64)


@pytest.mark.parametrize("kind", ["equal", "even", "skewed", "one giant", "many empty"])
@pytest.mark.parametrize(("accuracy", "tied"), [(0.5, False), (0.95, False), (0.8, True)])
@pytest.mark.parametrize("known", ["largest", "range only"])
def test_the_interval_of_a_planned_sample_covers(
    kind: str, accuracy: float, tied: bool, known: str
) -> None:
    count, n, trials = 300, 40, 150
    sizes = _sizes(kind, count)
    right = _answers(sizes, accuracy, 5.0, 1, tied=tied)
    truth = right.sum() / sizes.sum()
    misses = 0
    for trial in range(trials):
        rows = generator_for(3, trial, "draw").permutation(count)[:n]
        design = Design(
            num_clients=count,
            num_invited=n,
            most=float(sizes.max()) if known == "largest" else None,
            span=float(sizes.max() - sizes.min()),
            seed=trial,
        )
        results = list(zip(sizes[rows].tolist(), right[rows].tolist(), strict=True))
        answer = estimate(design, results, confidence=CONFIDENCE)
        assert answer.low <= answer.value <= answer.high or np.isnan(answer.value)
        misses += not answer.low <= truth <= answer.high
    assert _covers_at_its_level(misses, trials)


def test_the_interval_covers_in_tiny_populations() -> None:
    rng = np.random.default_rng(2)
    for count in (2, 3, 5, 8):
        misses = trials = 0
        for population in range(40):
            sizes = rng.integers(1, 5, count)
            right = rng.integers(0, sizes + 1)
            truth = right.sum() / sizes.sum()
            for n in range(1, count + 1):
                rows = generator_for(4, population, f"{count} {n}").permutation(count)[:n]
                design = Design(num_clients=count, num_invited=n, most=4.0, seed=population)
                results = [(int(sizes[i]), int(right[i])) for i in rows]
                answer = estimate(design, results, confidence=0.6)
                misses += not answer.low - 1e-9 <= truth <= answer.high + 1e-9
                trials += 1
        assert _covers_at_its_level(misses, trials, 0.6)


def test_the_interval_covers_exactly_counting_every_order_in_which_clients_can_be_drawn() -> None:
    rng = np.random.default_rng(3)
    for confidence in (0.5, 0.8):
        for _ in range(6):
            count, n = 5, 3
            sizes = rng.integers(1, 4, count).astype(float)
            right = np.array([rng.integers(0, s + 1) for s in sizes], dtype=float)
            truth = right.sum() / sizes.sum()
            hits = []
            for order in permutations(range(count), n):
                rows = list(order)
                draws = Draws(
                    correct=right[rows],
                    samples=sizes[rows],
                    most=np.full(n + 1, 3.0),
                    num_clients=count,
                )
                for method in (fixed_interval, anytime_interval):
                    low, high = method(draws, confidence)
                    hits.append(low - 1e-9 <= truth <= high + 1e-9)
            assert np.mean(hits[::2]) >= confidence
            assert np.mean(hits[1::2]) >= confidence


@pytest.mark.parametrize("num_taken", [0, 1])
def test_the_wealth_of_a_bettor_against_the_truth_is_one_on_average(num_taken: int) -> None:
    """Exactly, over every order of drawing: what Ville's inequality needs."""
    rng = np.random.default_rng(4)
    for count, n in ((4, 3), (5, 4), (5, 5), (6, 3)):
        sizes = rng.integers(1, 4, count).astype(float)
        right = np.array([rng.integers(0, s + 1) for s in sizes], dtype=float)
        truth = right.sum() / sizes.sum()
        wealth = []
        front = list(range(num_taken))
        for order in permutations(range(num_taken, count), n - num_taken):
            draws = Draws(
                correct=right[[*front, *order]],
                samples=sizes[[*front, *order]],
                most=np.full(n + 1, 3.0),
                num_clients=count,
                num_taken=num_taken,
            )
            both = (draws, draws.swapped())
            values = (truth, 1 - truth)
            wealth.append(
                [
                    np.exp(_log_wealth(d, bets(d, 1.5), a))
                    for d, a in zip(both, values, strict=True)
                    for bets in (_planned_bets, _spread_bets)
                ]
            )
        assert np.mean(wealth, axis=0) == pytest.approx(np.ones(4), abs=1e-9)


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_each_limit_is_where_the_wealth_reaches_two_over_alpha(confidence: float) -> None:
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 30, 80).astype(float)
    right = np.floor(sizes * rng.beta(4, 2, 80))
    draws = Draws(correct=right, samples=sizes, most=np.full(81, 30.0), num_clients=500)
    level = np.log(2 / (1 - confidence))
    for method, bets in ((fixed_interval, _planned_bets), (anytime_interval, _spread_bets)):
        low, high = method(draws, confidence)
        other = draws.swapped()
        assert 0 < low < high < 1
        assert _log_wealth(draws, bets(draws, level), low) == pytest.approx(level, abs=1e-4)
        assert _log_wealth(other, bets(other, level), 1 - high) == pytest.approx(level, abs=1e-4)


def test_an_interval_that_counts_samples_as_draws_fails_what_ours_passes() -> None:
    """The same yardstick refuses the usual interval: clients are clusters."""
    count, n, trials = 300, 40, 150
    sizes = _sizes("skewed", count)
    right = _answers(sizes, 0.8, 5.0, 1, tied=True)
    truth = right.sum() / sizes.sum()
    misses = 0
    for trial in range(trials):
        rows = generator_for(3, trial, "draw").permutation(count)[:n]
        low, high = binomtest(int(right[rows].sum()), int(sizes[rows].sum())).proportion_ci(
            CONFIDENCE, "wilson"
        )
        misses += not low <= truth <= high
    assert not _covers_at_its_level(misses, trials)


def test_a_take_all_stratum_is_weighted_right_and_makes_the_interval_short() -> None:
    count, giants, n, trials = 400, 8, 60, 150
    rng = np.random.default_rng(6)
    sizes = np.r_[rng.integers(1_000, 3_000, giants), rng.integers(1, 40, count - giants)]
    right = _answers(sizes, 0.85, 6.0, 2, tied=True)
    truth = right.sum() / sizes.sum()
    misses, widths, without = 0, [], []
    for trial in range(trials):
        drawn = giants + generator_for(5, trial, "draw").permutation(count - giants)[: n - giants]
        rows = np.r_[np.arange(giants), drawn]
        participants = tuple(int(i) for i in rows)
        design = Design(
            num_clients=count,
            num_invited=n,
            participants=participants,
            taken=participants[:giants],
            most=40.0,
        )
        answer = estimate(
            design,
            {i: (int(sizes[i]), int(right[i])) for i in participants},
            confidence=CONFIDENCE,
        )
        misses += not answer.low <= truth <= answer.high
        widths.append(answer.half_width)
        plain = generator_for(5, trial, "plain").permutation(count)[:n]
        design = Design(num_clients=count, num_invited=n, most=3_000.0)
        without.append(
            estimate(
                design, [(int(sizes[i]), int(right[i])) for i in plain], confidence=CONFIDENCE
            ).half_width
        )
    assert _covers_at_its_level(misses, trials)
    assert np.mean(widths) < np.mean(without) / 3


def test_slices_cover_each_by_itself_and_together_where_asked() -> None:
    count, n, trials = 300, 80, 100
    rng = np.random.default_rng(8)
    day, night = rng.integers(0, 40, count), rng.integers(0, 8, count)
    right_day, right_night = _answers(day, 0.9, 6.0, 3), _answers(night, 0.6, 6.0, 4)
    truth = {
        None: (right_day.sum() + right_night.sum()) / (day.sum() + night.sum()),
        "day": right_day.sum() / day.sum(),
        "night": right_night.sum() / night.sum(),
    }
    alone, together = 0, 0
    for trial in range(trials):
        rows = generator_for(6, trial, "draw").permutation(count)[:n]
        results = [
            {
                "num_samples": int(day[i] + night[i]),
                "correct": int(right_day[i] + right_night[i]),
                "slices": {
                    "day": (int(day[i]), int(right_day[i])),
                    "night": (int(night[i]), int(right_night[i])),
                },
            }
            for i in rows
        ]
        design = Design(num_clients=count, num_invited=n, most=46.0, seed=trial)
        answer = estimate(design, results, confidence=CONFIDENCE)
        part = answer.slices["night"]
        alone += not part.low <= truth["night"] <= part.high
        joint = estimate(design, results, confidence=CONFIDENCE, joint=True)
        parts = {name: joint if name is None else joint.slices[name] for name in truth}
        together += not all(parts[k].low <= truth[k] <= parts[k].high for k in truth)
    assert _covers_at_its_level(alone, trials)
    assert _covers_at_its_level(together, trials)


def test_the_worst_case_covers_even_where_bad_clients_keep_silent() -> None:
    count, n, trials = 300, 120, 100
    sizes = _sizes("even", count)
    right = _answers(sizes, 0.8, 2.0, 9)
    truth = right.sum() / sizes.sum()
    accuracy = right / np.maximum(sizes, 1)
    misses, misled = 0, 0
    for trial in range(trials):
        rows = [int(i) for i in generator_for(7, trial, "draw").permutation(count)[:n]]
        design = Design(
            num_clients=count, num_invited=n, participants=tuple(rows), most=100.0, seed=trial
        )
        results = {i: (int(sizes[i]), int(right[i])) for i in rows if accuracy[i] > 0.55}
        answer = estimate(design, results, confidence=CONFIDENCE)
        assert answer.num_missing == n - len(results)
        assert answer.worst_case[0] <= answer.low <= answer.high <= answer.worst_case[1]
        misses += not answer.worst_case[0] <= truth <= answer.worst_case[1]
        misled += not answer.low <= truth <= answer.high
    assert _covers_at_its_level(misses, trials)
    assert misled > trials / 2  # the plain interval cannot know


@pytest.mark.parametrize("kind", ["equal", "skewed", "many empty"])
def test_the_interval_covers_after_stopping_when_it_looked_short_enough(kind: str) -> None:
    count, trials = 1_000, 60
    sizes = _sizes(kind, count)
    right = _answers(sizes, 0.85, 8.0, 5)
    truth = right.sum() / sizes.sum()
    misses, stopped_early = 0, 0
    for trial in range(trials):
        order = [int(i) for i in generator_for(9, trial, "order").permutation(count)]
        plan = AdaptivePlan(
            Design(num_clients=count, num_invited=0, most=float(sizes.max())),
            half_width=0.06,
            confidence=CONFIDENCE,
            batch_size=50,
            max_participants=count,
            candidates=partial(list, order),
        )
        answer = plan.run(
            lambda batch: {i: (int(sizes[int(i)]), int(right[int(i)])) for i in batch}
        )
        assert answer.half_width <= 0.06
        stopped_early += plan.num_results < count
        misses += not answer.low <= truth <= answer.high
    assert stopped_early > trials / 2
    assert _covers_at_its_level(misses, trials)


def test_stopping_at_the_most_flattering_moment_still_covers() -> None:
    """The nastiest rule: look after every client, stop as soon as the truth is outside."""
    count, n, trials = 200, 40, 50
    sizes = _sizes("even", count)
    right = _answers(sizes, 0.7, 4.0, 6)
    truth = right.sum() / sizes.sum()
    ever_missed = 0
    for trial in range(trials):
        order = [int(i) for i in generator_for(10, trial, "order").permutation(count)[:n]]
        plan = AdaptivePlan(
            Design(num_clients=count, num_invited=0, most=100.0),
            half_width=1e-6,
            confidence=CONFIDENCE,
            batch_size=2,
            max_participants=n,
            candidates=partial(list, order),
        )
        while not plan.done:
            answer = plan.add(
                {i: (int(sizes[int(i)]), int(right[int(i)])) for i in plan.next_batch()}
            )
            if not answer.low <= truth <= answer.high:
                ever_missed += 1
                break
    assert _covers_at_its_level(ever_missed, trials)


@pytest.mark.data
@pytest.mark.skipif("OORT_DATA" not in os.environ, reason="OORT_DATA is not set")
@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("counts/google_speech_counts_2187x35.npz", 200),
        ("counts/nist_digits_writer_class_counts.npz", 100),
        ("counts/openimage_counts_12745x50.npz", 400),
    ],
)
def test_the_interval_covers_on_real_client_sizes(name: str, n: int) -> None:
    with np.load(Path(os.environ["OORT_DATA"]) / name) as file:
        sizes = file["counts"].sum(axis=1).astype(np.int64)
    right = _answers(sizes, 0.75, 4.0, 7, tied=True)
    truth = right.sum() / sizes.sum()
    trials, misses = 120, 0
    for trial in range(trials):
        rows = generator_for(11, trial, "draw").permutation(len(sizes))[:n]
        design = Design(num_clients=len(sizes), num_invited=n, most=float(sizes.max()), seed=trial)
        results = list(zip(sizes[rows].tolist(), right[rows].tolist(), strict=True))
        answer = estimate(design, results, confidence=CONFIDENCE)
        misses += not answer.low <= truth <= answer.high
    assert _covers_at_its_level(misses, trials)
