from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oort.errors import ConfigError
from oort.simulation import World
from oort.simulation.evaluation import Evaluator, worst_decile
from tests.simulation.examples import small_world


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


def test_the_testing_selector_chooses_clients_to_test_on() -> None:
    world = small_world(evaluation={"chosen_deviation": 0.3}, data={"sizes": "openimage"})
    evaluator = Evaluator(world)
    assert 1 < len(evaluator.chosen.clients) < world.num_clients
    assert 0.0 <= evaluator(world.learner.initial(1)).chosen_accuracy <= 1.0


def test_where_all_hold_as_much_one_client_is_as_good_as_all() -> None:
    evaluator = Evaluator(small_world(evaluation={"chosen_deviation": 0.3}))
    assert len(evaluator.chosen.clients) == 1


def digits_world(**evaluation: Any) -> World:
    pytest.importorskip("sklearn", reason="digits need the extra 'demo'")
    data = {"dataset": "digits", "clients": 300, "mean_size": 12, "alpha": 0.3}
    return small_world(data=data, evaluation=evaluation)


def labels_tested(world: World) -> list[int]:
    chosen = Evaluator(world).chosen
    labels = world.data.cohort(chosen.clients).labels[chosen.places]
    assert len(set(chosen.places.tolist())) == len(chosen.places)
    return [int(count) for count in np.bincount(labels, minlength=10)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"3": 40, "7": 25}, [0, 0, 0, 40, 0, 0, 0, 25, 0, 0]),
        ("balanced", [10] * 10),
    ],
)
def test_a_test_set_has_exactly_the_samples_asked_for(wanted: Any, expected: list[int]) -> None:
    world = digits_world(chosen_categories=wanted, chosen_samples=100)
    assert labels_tested(world) == expected
    assert labels_tested(world) == expected, "and it is the same each time"


def test_clients_that_mislabel_give_as_many_samples_as_they_were_asked_for() -> None:
    pytest.importorskip("sklearn", reason="digits need the extra 'demo'")
    data = {"dataset": "digits", "clients": 300, "mean_size": 12}
    wrong = {"corrupt_clients": 0.3, "corrupt_labels": 0.1}
    world = small_world(data=data | wrong, evaluation={"chosen_categories": {"3": 40, "7": 25}})
    assert labels_tested(world) == [0, 0, 0, 40, 0, 0, 0, 25, 0, 0]


def test_a_representative_test_set_has_the_populations_shares() -> None:
    world = digits_world(chosen_categories="representative", chosen_samples=200)
    counts = np.asarray(world.data.label_counts()).sum(axis=0)
    tested = np.array(labels_tested(world))
    assert tested.sum() == 200
    np.testing.assert_allclose(tested, 200 * counts / counts.sum(), atol=1.0)


def test_a_test_set_keeps_to_its_budget_and_waits_no_longer_than_its_plan_says() -> None:
    world = digits_world(chosen_categories="balanced", chosen_samples=100, chosen_budget=25)
    chosen = Evaluator(world).chosen
    assert len(chosen.clients) <= 25
    assert chosen.plan is not None
    devices, tested = world.devices, np.zeros(len(chosen.clients))
    start = world.data.cohort(chosen.clients).start
    np.add.at(tested, np.searchsorted(start, chosen.places, side="right") - 1, 1)
    takes_s = tested * devices.compute_ms_per_sample[chosen.clients] / 1000
    takes_s += world.transfer_mb * 8000 / devices.bandwidth_kbps[chosen.clients]
    assert takes_s.max() == pytest.approx(chosen.plan.duration_s)


def test_accuracy_is_measured_on_the_chosen_samples() -> None:
    world = digits_world(chosen_categories={"4": 30})
    evaluator, params = Evaluator(world), world.learner.initial(1)
    four = {name: value.copy() for name, value in params.items()}
    four["b0"][4] = 100.0
    assert evaluator(four).chosen_accuracy == 1.0
    four["b0"][5] = 200.0
    assert evaluator(four).chosen_accuracy == 0.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chosen_categories": {"3": 100_000}}, r"chosen_categories must be met .* lack samples"),
        ({"chosen_categories": {"11": 5}}, r"chosen_categories must be met by"),
        ({"chosen_categories": "balanced", "chosen_budget": 1}, r"budget of 1 participant"),
    ],
)
def test_a_request_that_cannot_be_met_is_explained(settings: Any, message: str) -> None:
    world = digits_world(**settings)
    with pytest.raises(ConfigError, match=message):
        Evaluator(world)


def test_labels_that_are_not_known_beforehand_cannot_be_asked_for() -> None:
    world = small_world(evaluation={"chosen_categories": "balanced"})
    with pytest.raises(ConfigError, match=r"chosen_categories must be unset for .* not known"):
        Evaluator(world)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chosen_categories": "even"}, "'balanced', or a table of labels"),
        ({"chosen_categories": {"three": 5}}, "'balanced', or a table of labels"),
        ({"chosen_categories": {"3": 0}}, "'balanced', or a table of labels"),
        ({"chosen_categories": {}}, "'balanced', or a table of labels"),
        ({"chosen_categories": "balanced", "chosen_deviation": 0.1}, "chosen_deviation must be"),
    ],
)
def test_requests_that_mean_nothing_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        small_world(evaluation=settings)
