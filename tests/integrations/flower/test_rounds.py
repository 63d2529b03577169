"""Settings, one round under way, reports and ids: what both APIs share."""

from __future__ import annotations

import math
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oort
from oort.integrations.flower import FlowerConfig
from oort.integrations.flower.cohort import Cohort
from oort.integrations.flower.conductor import report
from oort.integrations.flower.reports import read_feedback
from oort.integrations.flower.roster import Description, Roster
from oort.integrations.flower.versions import check_version
from oort.types import Feedback, Outcome, Selection


def cohort(num_picked: int, quorum: int, **options: Any) -> Cohort:
    selection = Selection(participants=list(range(num_picked)), round_number=1)
    return Cohort(selection, server_round=1, quorum=quorum, **options)


def outcomes(under_way: Cohort) -> list[str]:
    return [str(feedback.outcome) for feedback in under_way.outcomes().values()]


# Settings


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"num_participants": 0}, "num_participants"),
        ({"num_participants": True}, "num_participants"),
        ({"over_commit": 0.9}, "over_commit"),
        ({"over_commit": math.inf}, "over_commit"),
        ({"deadline": "soon"}, "deadline"),
        ({"deadline": 0}, "deadline"),
        ({"grace_s": -1}, "grace_s"),
        ({"first_by": "luck"}, "first_by"),
        ({"min_replies": -1}, "min_replies"),
        ({"node_wait_s": math.inf}, "node_wait_s"),
        ({"reply_timeout_s": 0}, "reply_timeout_s"),
        ({"identify": "colour"}, "identify"),
        ({"participants": 5}, "participants"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(oort.ConfigError, match=named):
        FlowerConfig.of(settings)


def test_every_wait_is_finite_unless_a_setting_says_otherwise() -> None:
    config = FlowerConfig()
    waits = (config.node_wait_s, config.reply_timeout_s, config.identify_timeout_s)
    assert all(math.isfinite(seconds) for seconds in waits)


def test_the_pacers_deadline_is_the_preferred_duration_with_grace() -> None:
    config = FlowerConfig(deadline="pacer", grace_s=2.0)
    assert config.deadline_s(30.0) == 32.0
    assert config.deadline_s(math.inf) == math.inf
    assert FlowerConfig(deadline=5).deadline_s(30.0) == 5.0
    assert FlowerConfig().deadline_s(30.0) == math.inf


# One round


def test_the_first_k_make_the_round_and_the_rest_is_cut_off() -> None:
    under_way = cohort(5, quorum=3)
    assert [under_way.completed(c, Feedback(utility=1.0)) for c in (4, 2, 0)] == [True] * 3
    assert under_way.is_over()
    assert under_way.ended_by == "quorum"
    assert outcomes(under_way) == ["completed", "unused", "completed", "unused", "completed"]


def test_those_who_do_not_answer_in_time_failed() -> None:
    under_way = cohort(3, quorum=3)
    under_way.completed(0, Feedback(utility=1.0))
    under_way.failed(1)
    under_way.end("timeout")
    assert outcomes(under_way) == ["completed", "failed", "failed"]
    assert under_way.outcomes()[2].duration_s is not None


def test_a_deadline_waits_for_the_least_number_of_replies() -> None:
    under_way = cohort(3, quorum=3, deadline_s=0.0, min_replies=1)
    assert not under_way.is_over()
    under_way.completed(1, Feedback(utility=1.0))
    assert under_way.is_over()
    assert under_way.ended_by == "deadline"
    assert outcomes(under_way) == ["failed", "completed", "failed"]


def test_a_client_that_answers_twice_counts_once() -> None:
    under_way = cohort(3, quorum=2)
    assert under_way.completed(1, Feedback(utility=1.0))
    assert not under_way.completed(1, Feedback(utility=9.0))
    assert under_way.num_completed == 1
    assert under_way.outcomes()[1].utility == 1.0


def test_a_client_that_the_strategy_never_asked_is_not_waited_for() -> None:
    under_way = cohort(3, quorum=3)
    under_way.not_sent(0)
    under_way.not_sent(2)
    under_way.completed(1, Feedback(utility=1.0))
    assert under_way.is_over()
    assert outcomes(under_way) == ["unused", "completed", "unused"]


def test_by_duration_the_fastest_count_whenever_they_arrive() -> None:
    under_way = cohort(4, quorum=2, by_duration=True)
    for client, seconds in ((0, 9.0), (1, 3.0), (2, math.nan), (3, 5.0)):
        assert under_way.completed(client, Feedback(utility=1.0, duration_s=seconds))
    assert under_way.keep_fastest() == {1, 3}
    assert (under_way.ended_by, under_way.elapsed_s) == ("quorum", 5.0)
    assert outcomes(under_way) == ["unused", "completed", "unused", "completed"]


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30), st.integers(1, 10))
def test_whatever_comes_in_everyone_has_one_outcome_and_at_most_k_complete(
    events: list[tuple[int, bool]], quorum: int
) -> None:
    under_way = cohort(10, quorum=quorum)
    for client, answers in events:
        if answers:
            under_way.completed(client, Feedback(utility=1.0))
        else:
            under_way.failed(client)
    under_way.end("timeout")
    found = under_way.outcomes()
    assert list(found) == list(range(10))
    completed = [f for f in found.values() if f.outcome == Outcome.COMPLETED]
    assert len(completed) == under_way.num_completed <= quorum


# Reports


def test_the_helpers_report_is_read_before_a_mean_loss() -> None:
    metrics = {"oort-mean-squared-loss": 4.0, "oort-num-samples": 7, "train_loss": 99.0}
    feedback = read_feedback({**metrics, "oort-duration-s": 3.0}, reply_s=50.0)
    assert (feedback.mean_squared_loss, feedback.num_samples) == (4.0, 7)
    assert feedback.duration_s == 3.0


def test_a_mean_loss_and_the_reply_time_stand_in_where_there_is_no_helper() -> None:
    feedback = read_feedback({"loss": 3.0}, num_examples=5, reply_s=50.0)
    assert (feedback.mean_squared_loss, feedback.num_samples) == (9.0, 5)
    assert feedback.duration_s == 50.0
    named = read_feedback({"loss": 3.0, "nll": 2.0}, num_examples=5, loss_key="nll")
    assert named.mean_squared_loss == 4.0


@pytest.mark.parametrize("metrics", [{}, {"accuracy": 0.5}, {"loss": [1.0]}, {"loss": 1.0}])
def test_without_a_loss_and_a_count_no_utility_is_invented(metrics: dict[str, Any]) -> None:
    assert read_feedback(metrics, reply_s=4.0).outcome == Outcome.FAILED


@pytest.mark.parametrize(
    "bad",
    [
        Feedback(num_samples=3, mean_squared_loss=math.nan, duration_s=1.0),
        Feedback(utility=math.inf, duration_s=1.0),
        Feedback(utility=1.0, duration_s=-5.0),
    ],
)
def test_a_report_that_is_refused_counts_as_failed_and_costs_nobody_else(bad: Feedback) -> None:
    selector = oort.create_training_selector()
    picked = selector.select(2, among=["good", "bad"])
    report(selector, picked.round_number, {"good": Feedback(utility=2.0), "bad": bad})
    assert selector.columns(["good"]).utility.tolist() == [2.0]
    again = selector.update_clients(["good", "bad"], utility=[9.0, 9.0])
    assert again.repeated == 2


# Who is who


def test_a_node_that_comes_back_under_a_new_number_is_the_same_client() -> None:
    roster: Roster[int] = Roster()
    roster.learn(111, "phone")
    roster.learn(222, "phone")
    assert roster.online([222]) == {"phone": 222}


def test_two_nodes_that_claim_one_client_give_one_client_and_a_warning_once() -> None:
    roster: Roster[int] = Roster()
    roster.learn(111, 0)
    roster.learn(222, 0)
    with pytest.warns(oort.EngineWarning, match="partition-id"):
        assert roster.online([111, 222]) == {0: 222}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert roster.online([222, 111]) == {0: 222}


def test_a_description_survives_the_way_with_categories_that_are_numbers() -> None:
    told = Description(id="a", num_samples=3, info={"samples": {7: 2, "x": 1}, "samples_per_s": 4})
    assert Description.from_values(told.to_values()) == told
    assert Description.from_values({"partition-id": 5}).id == 5


# Versions


@pytest.mark.parametrize("installed", ["1.22.0", "1.42.0", "2.0"])
def test_an_untested_flower_is_a_warning_that_says_what_to_do(installed: str) -> None:
    with pytest.warns(oort.EngineWarning, match=r"1\.23 to 1\.41.*pip install"):
        check_version(installed)


@pytest.mark.parametrize("installed", ["1.23.0", "1.30.1", "1.41.0"])
def test_a_tested_flower_is_silent(installed: str) -> None:
    check_version(installed)


# The documentation


def test_every_setting_stands_in_the_documentation() -> None:
    page = Path(__file__).parents[3] / "docs" / "flower.md"
    if not page.exists():
        pytest.skip("needs docs/, which is not installed")
    text = page.read_text(encoding="utf-8")
    for setting in fields(FlowerConfig):
        assert f"| `{setting.name}` |" in text
        assert setting.metadata["doc"]
