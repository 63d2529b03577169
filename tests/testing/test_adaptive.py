"""Adaptive tests: batches, stopping, late and missing answers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import oort


def a_tester(count: int = 2_000, seed: int = 2) -> Any:
    tester = oort.create_testing_selector(seed=seed)
    tester.register_clients(list(range(count)))
    return tester


def answers(batch: list[Any]) -> dict[Any, tuple[int, int]]:
    return {c: (20, int(np.random.default_rng(int(c)).binomial(20, 0.8))) for c in batch}


def test_it_stops_as_soon_as_the_interval_is_short_enough() -> None:
    tester = a_tester()
    rough = tester.select_adaptively(half_width=0.05, max_samples=20)
    fine = tester.select_adaptively(half_width=0.02, max_samples=20)
    assert rough.run(answers).half_width <= 0.05
    assert fine.run(answers).half_width <= 0.02
    assert rough.num_results < fine.num_results < 2_000
    assert rough.reason == "the interval is short enough"


def test_batches_are_distinct_seeded_and_online() -> None:
    one = a_tester().select_adaptively(half_width=0.01, max_samples=20, batch_size=30)
    two = a_tester().select_adaptively(half_width=0.01, max_samples=20, batch_size=30)
    first, second = one.next_batch(), one.next_batch()
    assert len(set(first) | set(second)) == 60
    assert two.next_batch() == first
    tester = a_tester(100)
    tester.mark_offline(list(range(50)))
    plan = tester.select_adaptively(half_width=0.001, max_samples=20, batch_size=80)
    batch = plan.next_batch()
    assert sorted(batch) == list(range(50, 100))
    assert plan.reason == "everybody who is online was asked"
    assert plan.next_batch() == []


def test_intervals_only_ever_shrink() -> None:
    plan = a_tester().select_adaptively(half_width=0.001, max_samples=20, max_participants=600)
    widths = []
    while not plan.done:
        widths.append(plan.add(answers(plan.next_batch())).half_width)
    assert len(widths) == 6
    assert all(b <= a for a, b in pairwise(widths))
    assert plan.reason == "max_participants were asked"


def test_late_answers_count_and_repeated_ones_do_not() -> None:
    plan = a_tester().select_adaptively(half_width=0.001, max_samples=20, batch_size=40)
    batch = plan.next_batch()
    early = plan.add(answers(batch[:30]))
    assert early.num_missing == 10
    later = plan.next_batch()
    answer = plan.add(answers(batch) | answers(later))
    assert answer.num_results == 80
    assert answer.num_missing == 0
    plan.add({batch[0]: (20, 0)})
    assert plan.num_results == 80
    assert plan.estimate is not None
    assert plan.estimate.value == answer.value


def test_answers_of_clients_that_were_not_asked_are_refused_and_change_nothing() -> None:
    plan = a_tester().select_adaptively(half_width=0.01, max_samples=20)
    batch = plan.next_batch()
    with pytest.raises(oort.InvalidFeedbackError, match="it is not"):
        plan.add({"x": (20, 20)})
    with pytest.raises(oort.InvalidFeedbackError, match="correct must be"):
        plan.add({batch[0]: (20, 21)})
    with pytest.raises(oort.InvalidArgumentError, match="mapping"):
        plan.add([(20, 20)])
    assert plan.num_results == 0


def test_it_works_without_ids_when_the_caller_recruits_at_random() -> None:
    plan = oort.create_testing_selector().select_adaptively(0.05, 20, 10_000, batch_size=50)
    with pytest.raises(oort.InvalidArgumentError, match="register_clients"):
        plan.next_batch()
    while not plan.done:
        start = plan.num_results
        plan.add(list(answers(list(range(start, start + plan.batch_size))).values()))
    assert plan.estimate is not None
    assert plan.estimate.half_width <= 0.05


def test_everybody_asked_is_an_exact_answer() -> None:
    plan = a_tester(60).select_adaptively(half_width=1e-9, max_samples=20, batch_size=25)
    answer = plan.run(answers)
    assert answer.low == answer.value == answer.high
    assert plan.num_results == 60


def test_slices_and_metrics_are_followed_too() -> None:
    plan = a_tester().select_adaptively(
        half_width=0.5, max_samples=20, metric_range=(0.0, 5.0), batch_size=100
    )
    while not plan.done:
        plan.add(
            {
                c: {
                    "num_samples": 20,
                    "metric_sum": 30.0,
                    "slices": {"night": {"num_samples": 5, "metric_sum": 5.0}},
                }
                for c in plan.next_batch()
            }
        )
    assert plan.estimate is not None
    assert plan.estimate.value == pytest.approx(1.5)
    assert plan.estimate.slices["night"].value == pytest.approx(1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"half_width": 0},
        {"confidence": 1},
        {"batch_size": 0},
        {"max_samples": 0},
        {"max_participants": 0},
        {"metric_range": (2, 1)},
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    asked = {"half_width": 0.05, "max_samples": 20}
    with pytest.raises(oort.InvalidArgumentError, match="must be"):
        a_tester(5).select_adaptively(**{**asked, **wrong})
