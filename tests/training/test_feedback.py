"""Row "bad input" of the table in docs/design.md: what a report may hold, one report at a time."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oort
from oort.training.feedback import check_reports
from tests.support import new_selector

BAD = [
    ("utility", float("nan"), {}),
    ("utility", float("inf"), {}),
    ("utility", -math.inf, {}),
    ("utility", "high", {}),
    ("utility", True, {}),
    ("utility", [1.0, 2.0], {}),
    ("utility", {"x": 1}, {}),
    ("utility", 1j, {}),
    ("duration_s", float("nan"), {"utility": 1.0}),
    ("duration_s", float("inf"), {"utility": 1.0}),
    ("duration_s", -0.001, {"utility": 1.0}),
    ("duration_s", "fast", {"utility": 1.0}),
    ("num_samples", -1, {"utility": 1.0}),
    ("num_samples", 2.5, {"utility": 1.0}),
    ("num_samples", 2**32, {"utility": 1.0}),
    ("num_samples", 10**400, {"utility": 1.0}),
    ("num_samples", float("nan"), {"utility": 1.0}),
    ("mean_squared_loss", float("nan"), {"num_samples": 5}),
    ("mean_squared_loss", float("inf"), {"num_samples": 5}),
    ("mean_squared_loss", -1.0, {"num_samples": 5}),
    ("mean_squared_loss", "low", {"num_samples": 5}),
    ("outcome", "finished", {"utility": 1.0}),
    ("outcome", None, {"utility": 1.0}),
    ("outcome", 1, {"utility": 1.0}),
    ("outcome", ["failed"], {"utility": 1.0}),
]


@pytest.mark.parametrize(("field", "value", "rest"), BAD, ids=lambda v: repr(v)[:30])
def test_one_bad_value_is_an_error_that_names_client_field_and_value(
    field: str, value: Any, rest: dict[str, Any]
) -> None:
    selector = new_selector(3)
    with pytest.raises(oort.InvalidFeedbackError) as caught:
        selector.update_client_util("phone-17", {field: value, **rest})
    message = str(caught.value)
    assert message.startswith(f"client 'phone-17': {field} must be ")
    assert repr(value)[:60] in message
    assert isinstance(caught.value, ValueError)
    assert selector.num_clients == 3, "not even registered"


@pytest.mark.parametrize(("field", "value", "rest"), BAD, ids=lambda v: repr(v)[:30])
def test_the_same_value_in_a_batch_costs_one_report_only(
    field: str, value: Any, rest: dict[str, Any]
) -> None:
    selector = new_selector(3)
    good = {"utility": 1.0, "duration_s": 3.0, "num_samples": 4, "outcome": "completed"}
    columns = {name: [v, v, v] for name, v in {**good, **rest}.items()}
    if field == "mean_squared_loss":
        columns["utility"] = [1.0, None, 1.0]
    before = good.get(field)
    columns[field] = [before, value, before]
    result = selector.update_clients([0, 1, 2], **columns)  # type: ignore[arg-type]
    assert result.applied == 2
    assert [(r.index, r.client, r.field) for r in result.rejected] == [(1, 1, field)]
    assert repr(result.rejected[0].value) == repr(value)
    assert selector.columns([0, 1, 2]).utility.tolist() == [1.0, 0.0, 1.0]


def test_strict_raises_for_the_first_bad_report_and_applies_nothing() -> None:
    selector = new_selector(2)
    with pytest.raises(oort.InvalidFeedbackError, match="client 'x': utility must be a finite"):
        selector.update_clients([0, "x", "y"], utility=[1.0, np.nan, np.nan], strict=True)
    assert selector.columns([0]).utility[0] == 0.0
    assert selector.num_clients == 2
    assert selector.update_clients([0], utility=[1.0], strict=True).applied == 1


def test_a_negative_utility_is_raised_to_0() -> None:
    selector = new_selector(2)
    assert selector.update_clients([0, 1], utility=[-5.0, -1e300]).applied == 2
    assert selector.columns([0, 1]).utility.tolist() == [0.0, 0.0]
    assert len(selector.select(2).exploited) == 2, "explored all the same"


def test_utilities_and_durations_beyond_what_is_stored_are_stored_as_the_largest() -> None:
    selector = new_selector(1)
    selector.update_clients([0], utility=1e300, duration_s=1e300)
    assert selector.columns([0]).utility[0] == np.float32(1e30)
    assert selector.columns([0]).duration_s[0] == np.float32(1e30)
    assert math.isfinite(selector.select(1).why[0].score)


@pytest.mark.parametrize(
    "feedback",
    [
        oort.Feedback(num_samples=4, mean_squared_loss=2.25),
        oort.Feedback(utility=6.0),
        oort.Feedback.from_losses([1.5, -1.5, 1.5, 1.5]),
        {"num_samples": 4, "mean_squared_loss": 2.25},
        {"utility": 6.0},
        {"losses": [[1.5, 1.5], [1.5, 1.5]]},
        {"losses": np.full(4, 1.5, np.float32)},
    ],
    ids=str,
)
def test_utility_may_be_given_in_every_form(feedback: oort.Feedback | dict[str, Any]) -> None:
    selector = new_selector(1)
    selector.update_client_util(0, feedback)
    assert selector.columns([0]).utility[0] == pytest.approx(6.0)


def test_a_ready_utility_goes_before_a_mean() -> None:
    selector = new_selector(1)
    report = oort.Feedback(utility=1.0, num_samples=10, mean_squared_loss=100.0)
    selector.update_client_util(0, report)
    assert selector.columns([0]).utility[0] == 1.0


def test_no_samples_are_worth_nothing() -> None:
    selector = new_selector(1)
    selector.update_client_util(0, {"losses": []})
    assert selector.columns([0]).utility[0] == 0.0


def test_a_mean_without_the_number_of_samples_cannot_be_used() -> None:
    selector = new_selector(1)
    with pytest.raises(oort.InvalidFeedbackError, match="num_samples must be given along with"):
        selector.update_client_util(0, {"mean_squared_loss": 2.0})


def test_a_completed_report_without_any_utility_cannot_be_used() -> None:
    selector = new_selector(1)
    with pytest.raises(oort.InvalidFeedbackError, match="client 0: utility must be given"):
        selector.update_client_util(0, oort.Feedback(duration_s=1.0))
    result = selector.update_clients([0, 1], utility=[None, 1.0])  # type: ignore[arg-type]
    assert [r.client for r in result.rejected] == [0]


def test_other_outcomes_need_no_utility_and_a_bad_one_does_not_matter() -> None:
    selector = new_selector(2)
    result = selector.update_clients(
        [0, 1],
        outcome=["failed", "unused"],
        utility=[float("nan"), "x"],  # type: ignore[arg-type]
    )
    assert result.applied == 2


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"utilty": 1.0}, "feedback has no field 'utilty'; the fields are losses"),
        ({5: 1.0}, "feedback has no field 5"),
        ({"losses": ["a"]}, "losses must be numbers"),
        ({"losses": [[1.0], [1.0, 2.0]]}, "losses must be numbers"),
        ({"losses": object()}, "losses must be numbers"),
        ({"losses": [1.0, float("nan")]}, "mean_squared_loss must be a finite number"),
        ({"losses": [1e200]}, "mean_squared_loss must be a finite number"),
        (None, "feedback must be a Feedback or a dict"),
        (3.5, "feedback must be a Feedback or a dict"),
        ("utility", "feedback must be a Feedback or a dict"),
    ],
)
def test_what_is_no_feedback_is_refused_with_the_client_named(wrong: Any, says: str) -> None:
    selector = new_selector(1)
    with pytest.raises(oort.InvalidFeedbackError) as caught:
        selector.update_client_util("phone-17", wrong)
    assert str(caught.value).startswith("client 'phone-17': ")
    assert says in str(caught.value)
    assert selector.num_clients == 1


def test_a_loss_selector_refuses_gradient_norms_and_the_other_way_round() -> None:
    by_loss, by_norm = new_selector(1), new_selector(1, utility="gradient_norm")
    loss = oort.Feedback(num_samples=4, mean_squared_loss=4.0)
    norm = oort.Feedback(num_samples=4, mean_squared_gradient_norm=4.0)
    by_loss.update_client_util(0, loss)
    by_norm.update_client_util(0, norm)
    assert by_loss.columns([0]).utility[0] == by_norm.columns([0]).utility[0] == 8.0
    with pytest.raises(oort.InvalidFeedbackError, match="this selector's utility reads 'loss'"):
        by_loss.update_client_util(0, norm)
    with pytest.raises(oort.InvalidFeedbackError, match="utility reads 'gradient_norm'"):
        by_norm.update_client_util(0, loss)
    either = new_selector(2, utility="noised")
    either.update_client_util(0, loss)
    either.update_client_util(1, norm)
    assert either.columns([0, 1]).utility.tolist() == [8.0, 8.0]


def test_sketches_are_kept_where_there_is_room_for_them() -> None:
    selector = new_selector(4, sketch_width=2)
    result = selector.update_clients(
        range(4),
        utility=1.0,
        sketch=[[1.0, 2.0], None, [1.0], [1e300, 0.0]],  # type: ignore[arg-type]
    )
    assert result.applied == 2
    assert [(r.client, r.field) for r in result.rejected] == [(2, "sketch"), (3, "sketch")]
    sketch = selector.columns([0, 1]).sketch
    assert sketch is not None
    assert sketch.tolist() == [[1.0, 2.0], [0.0, 0.0]]
    wrong: Any
    for wrong in ([[1.0, [2.0]]], [["a", 1.0]], [3.0], ["ab"]):
        assert len(selector.update_clients(["n"], utility=1.0, sketch=wrong).rejected) == 1
    for misfit in (5.0, [[1.0, 2.0]] * 2):
        with pytest.raises(oort.InvalidArgumentError, match="sketch must be one for each of 1"):
            selector.update_clients(["n"], utility=1.0, sketch=misfit)
    assert new_selector(1).update_clients([0], utility=1.0, sketch=[[1.0]]).applied == 1


def test_columns_may_be_arrays_lists_tuples_ranges_or_generators() -> None:
    for given_ in (np.array([1, 2]), [1, 2], (1, 2), range(1, 3), (v for v in (1, 2))):
        selector = new_selector(2)
        assert selector.update_clients(iter([0, 1]), utility=given_).applied == 2  # type: ignore[arg-type]
        assert selector.columns([0, 1]).utility.tolist() == [1.0, 2.0]
    selector = new_selector(2)
    result = selector.update_clients([0, 1], utility=(v for v in (1.0, np.nan)))  # type: ignore[arg-type]
    assert math.isnan(result.rejected[0].value)


@pytest.mark.skipif(not importlib.util.find_spec("pandas"), reason="pandas is not installed")
def test_a_pandas_series_is_read_by_place_and_not_by_label() -> None:
    import pandas as pd

    frame = pd.DataFrame({"u": [1.0, np.nan, 3.0], "d": [1.0, 2.0, -3.0]}, index=["x", "y", "z"])
    selector = oort.create_training_selector()
    result = selector.update_clients(frame.index, utility=frame["u"], duration_s=frame["d"])
    assert result.applied == 1
    assert [(r.client, r.field) for r in result.rejected] == [
        ("y", "utility"),
        ("z", "duration_s"),
    ]
    assert result.rejected[1].value == -3.0
    with pytest.raises(oort.InvalidArgumentError, match=r"client 'z': .* got -3.0"):
        selector.register_clients(frame.index, expected_duration_s=frame["d"])


def test_an_empty_batch_is_no_trouble() -> None:
    selector = new_selector(2)
    assert selector.update_clients([], utility=[]) == oort.UpdateResult()
    assert selector.update_clients([], utility=1.0, outcome=[], strict=True).applied == 0
    assert selector.register_clients([]).tolist() == []


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.integers(),
    st.text(max_size=3),
    st.binary(max_size=3),
    st.lists(st.floats(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
)


@given(
    st.lists(
        st.tuples(
            anything, anything, anything, anything, st.sampled_from([*oort.Outcome, "no", 3])
        ),
        max_size=6,
    )
)
def test_whatever_a_batch_holds_each_report_is_used_or_rejected(
    rows: list[tuple[Any, ...]],
) -> None:
    utility, duration_s, samples, loss, outcome = (
        (list(c) for c in zip(*rows, strict=True)) if (rows) else ([], [], [], [], [])
    )
    reports = check_reports(
        len(rows),
        utility=utility,
        duration_s=duration_s,
        num_samples=samples,
        mean_squared_loss=loss,
        outcome=outcome,
    )
    assert set(np.flatnonzero(reports.bad)) == set(reports.reasons)
    good = ~reports.bad
    completed = good & (reports.outcome == 0)
    assert (reports.utility[completed] >= 0).all()
    assert np.isfinite(reports.utility[completed]).all()
    timed = good & ~np.isnan(reports.duration_s)
    assert (reports.duration_s[timed] >= 0).all()
    selector = new_selector(0)
    result = selector.update_clients(
        list(range(len(rows))),
        utility=utility,
        duration_s=duration_s,
        num_samples=samples,
        mean_squared_loss=loss,
        outcome=outcome,
    )
    assert result.applied + len(result.rejected) == len(rows)


NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 2.5, 320.0, -1.0, 5e9, 1e300, math.nan, math.inf])
WHOLE = st.sampled_from([0, 1, 320, 2**32 - 1, 2**32, -1])
MEANS = ("utility", "mean_squared_loss", "mean_squared_gradient_norm")


@given(
    count=st.integers(0, 4),
    names=st.sets(st.sampled_from([*MEANS, "duration_s"])),
    sizes=st.sampled_from([None, np.int64, np.uint64, np.float64]),
    outcome=st.sampled_from([*oort.Outcome, "completed", "unused", "lost"]),
    reads=st.sampled_from(["any", "loss", "gradient_norm"]),
    data=st.data(),
)
def test_arrays_are_read_as_lists_of_the_same_numbers_are(
    count: int, names: set[str], sizes: Any, outcome: str, reads: str, data: st.DataObject
) -> None:
    """Sound arrays are taken in at once; what they give is what one by one gives."""

    def column(numbers: st.SearchStrategy[Any], dtype: Any) -> np.ndarray:
        return np.array(data.draw(st.lists(numbers, min_size=count, max_size=count)), dtype)

    columns: dict[str, Any] = {name: column(NUMBERS, np.float64) for name in sorted(names)}
    if sizes is not None:
        whole = WHOLE.filter(lambda n: n >= 0) if sizes is np.uint64 else WHOLE
        columns["num_samples"] = column(whole, sizes)
    rest: dict[str, Any] = {"outcome": outcome, "reads": reads}
    at_once = check_reports(count, **columns, **rest)
    one_by_one = check_reports(count, **{k: v.tolist() for k, v in columns.items()}, **rest)
    good = ~one_by_one.bad
    assert at_once.reasons.keys() == one_by_one.reasons.keys()
    for name in ("outcome", "utility", "duration_s", "num_samples", "bad"):
        ours, theirs = getattr(at_once, name), getattr(one_by_one, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours[good], theirs[good])


def test_what_is_reported_is_ours_even_if_the_callers_arrays_change() -> None:
    selector, twin = new_selector(50), new_selector(50)
    rows = np.arange(20)
    columns: dict[str, Any] = {
        "num_samples": np.full(20, 30),
        "mean_squared_loss": np.linspace(0.1, 2.0, 20),
        "duration_s": np.linspace(5.0, 9.0, 20),
    }
    twin.update_clients(rows.copy(), **{k: v.copy() for k, v in columns.items()})
    selector.update_clients(rows, **columns)
    rows[:] = 49
    for column in columns.values():
        column[:] = 0
    assert selector.select_participant(20) == twin.select_participant(20)
    np.testing.assert_array_equal(selector.columns().utility, twin.columns().utility)
