from __future__ import annotations

import numpy as np
import pytest

import oort
from oort.errors import ConfigError
from oort.simulation.evaluation import Evaluator, worst_decile
from tests.simulation.examples import small_world

HAS_TESTER = hasattr(oort, "create_testing_selector")


def test_the_worst_decile_is_the_mean_of_the_lowest_tenth() -> None:
    accuracy = np.linspace(0.0, 1.0, 20)
    assert worst_decile(accuracy) == pytest.approx(accuracy[:2].mean())
    assert worst_decile(np.array([0.3])) == 0.3
    assert np.isnan(worst_decile(np.zeros(0)))


def test_clients_are_tested_on_their_own_data() -> None:
    world = small_world(evaluation={"clients": 60})
    params = world.learner.initial(1)
    by_hand = []
    for client in range(60):
        cohort = world.data.cohort(np.array([client]))
        _, right = world.learner.losses(params, cohort.pool[:100], cohort.labels[:100])
        by_hand.append(right.mean())
    assert Evaluator(world)(params).worst_decile == pytest.approx(worst_decile(np.array(by_hand)))


def test_what_is_not_asked_for_is_not_measured() -> None:
    world = small_world(evaluation={"clients": 0})
    scores = Evaluator(world)(world.learner.initial(1))
    assert np.isnan(scores.worst_decile)
    assert np.isnan(scores.chosen_accuracy)
    assert 0.0 <= scores.accuracy <= 1.0


CHOSEN = {"chosen_deviation": 0.3}


@pytest.mark.skipif(not HAS_TESTER, reason="this version has no testing selector")
def test_the_testing_selector_chooses_clients_to_test_on() -> None:
    world = small_world(evaluation=CHOSEN, data={"sizes": "openimage"})
    scores = Evaluator(world)(world.learner.initial(1))
    assert 0.0 <= scores.chosen_accuracy <= 1.0


@pytest.mark.skipif(HAS_TESTER, reason="this version has a testing selector")
def test_without_a_testing_selector_nobody_can_be_chosen() -> None:
    with pytest.raises(ConfigError, match=r"evaluation.chosen_deviation must be unset"):
        Evaluator(small_world(evaluation=CHOSEN))
