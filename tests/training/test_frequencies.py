"""Sampling frequencies match the stated probabilities (fixed seeds, chi-squared).

Exploitation draws in proportion to score, exploration in proportion to expected speed, the number
explored is ε·k on average, and what fills up is even. A p-value below 1e-4 fails; with the seeds
fixed, the outcome never changes unless the sampling does.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, permutations

import numpy as np
import pytest

import oort
from oort.kernels.draws import race
from oort.randomness import mixed
from tests.support import (
    NO_EXPLORATION,
    ONLY_EXPLORATION,
    exploring,
    fits,
    heard_of,
    new_selector,
)


def inclusion(weights: list[float], wanted: int) -> list[float]:
    """The chance of each to be among the first drawn, one after another, without replacement."""
    chance = [0.0] * len(weights)
    for order in permutations(range(len(weights)), wanted):
        left, probability = sum(weights), 1.0
        for place in order:
            probability *= weights[place] / left
            left -= weights[place]
        for place in order:
            chance[place] += probability
    return chance


def test_the_check_itself_tells_even_from_uneven() -> None:
    assert fits([1000, 1020, 990], [1, 1, 1])
    assert not fits([1000, 1200, 990], [1, 1, 1])


def test_exploitation_draws_one_in_proportion_to_score() -> None:
    utility = [0.0, 1.0, 2.0, 3.0, 4.0]
    selector = heard_of(
        utility, 1.0, exploration=NO_EXPLORATION, staleness=0.0, cutoff=0.0, clip_quantile=1.0
    )
    counts = Counter(selector.select_participant(1)[0] for _ in range(4000))
    assert counts[0] == 0, "a score of nothing is drawn last"
    assert fits([counts[c] for c in range(1, 5)], utility[1:])


def test_exploitation_draws_several_in_proportion_to_score_without_replacement() -> None:
    utility = [0.0, 1.0, 2.0, 5.0, 10.0]
    selector = heard_of(
        utility, 1.0, exploration=NO_EXPLORATION, staleness=0.0, cutoff=0.0, clip_quantile=1.0
    )
    left_out: Counter[oort.ClientId] = Counter()
    for _ in range(3000):
        (missed,) = {1, 2, 3, 4} - set(selector.select_participant(3))
        left_out[missed] += 1
    # Of those left out only one each time: the chances of being left out add up to one.
    chance = [1 - c for c in inclusion(utility[1:], 3)]
    assert fits([left_out[c] for c in range(1, 5)], chance)


def test_exploration_draws_in_proportion_to_expected_speed() -> None:
    selector = oort.create_training_selector({"exploration": ONLY_EXPLORATION})
    selector.register_clients(range(5), expected_duration_s=[1.0, 2.0, 5.0, 10.0, None])  # type: ignore[arg-type]
    counts: Counter[oort.ClientId] = Counter()
    for _ in range(4000):
        picks = selector.select_participant(1)
        counts.update(picks)
        selector.update_clients(picks, outcome="unused")  # stays untried
    speed = [1.0, 0.5, 0.2, 0.1, 0.5]  # unknown: the median of the known, 2 s
    assert fits([counts[c] for c in range(5)], speed)


def test_exploration_is_even_where_no_speed_is_known() -> None:
    selector = new_selector(6, exploration=ONLY_EXPLORATION, seed=1)
    counts: Counter[oort.ClientId] = Counter()
    for _ in range(1500):
        picks = selector.select_participant(2)
        counts.update(picks)
        selector.update_clients(picks, outcome="unused")
    assert fits([counts[c] for c in range(6)], [1.0] * 6)


@pytest.mark.parametrize(("share", "wanted"), [(0.2, 1), (0.25, 2), (0.9, 3)])
def test_the_number_explored_is_epsilon_k_rounded_at_random(share: float, wanted: int) -> None:
    unlimited = {"exploration": exploring(share), "max_participations": None}
    selector = heard_of(np.ones(10), 1.0, seed=2, **unlimited)
    selector.register_clients(range(10, 20))
    counts: Counter[int] = Counter()
    for _ in range(2000):
        selection = selector.select(wanted)
        counts[len(selection.explored)] += 1
        selector.update_clients(selection.explored, outcome="unused")
    low = int(share * wanted)
    up = share * wanted - low
    assert set(counts) <= {low, low + 1}
    assert fits([counts[low], counts[low + 1]], [1 - up, up])


def test_the_race_gives_each_order_its_chance() -> None:
    weights = np.array([1.0, 2.0, 3.0])
    names = np.arange(3)
    counts = Counter(tuple(race(names, weights, 3, mixed(k)).tolist()) for k in range(6000))
    orders = list(permutations(range(3)))
    chance = [weights[a] / 6 * weights[b] / (6 - weights[a]) for a, b, _ in orders]
    assert fits([counts[order] for order in orders], [float(c) for c in chance])


def test_rounds_and_seeds_draw_independently() -> None:
    # The same 20 equal clients: the overlap of two draws of 10 is hypergeometric with mean 5.
    def overlap(first: list[oort.ClientId], second: list[oort.ClientId]) -> int:
        return len(set(first) & set(second))

    selector = heard_of(np.ones(20), 1.0, exploration=NO_EXPLORATION)
    rounds = [selector.select_participant(10) for _ in range(400)]
    between_rounds = [overlap(a, b) for a, b in pairwise(rounds)]
    seeds = [heard_of(np.ones(20), 1.0, seed=s).select_participant(10) for s in range(400)]
    between_seeds = [overlap(a, b) for a, b in pairwise(seeds)]
    for seen in (between_rounds, between_seeds):
        assert np.mean(seen) == pytest.approx(5.0, abs=0.3)
        assert np.std(seen) == pytest.approx(1.147, abs=0.2)
