"""The values that cross the borders."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest

import oort


@pytest.mark.parametrize(
    "wrong",
    [[True, False], [1.5], ["1"], [[1, 2]], 3, None, [None], np.ma.array([1, 2], mask=True)],
    ids=repr,
)
def test_row_numbers_hold_whole_numbers_only(wrong: object) -> None:
    with pytest.raises(oort.InvalidArgumentError, match="row numbers must be"):
        oort.RowNumbers(wrong)  # type: ignore[arg-type]


def test_row_numbers_stay_row_numbers_when_cut_and_copied() -> None:
    rows = oort.RowNumbers([4, 2, 9])
    assert isinstance(rows[:2], oort.RowNumbers)
    assert isinstance(rows[rows > 3], oort.RowNumbers)
    assert isinstance(rows.copy(), oort.RowNumbers)
    assert oort.RowNumbers([]).tolist() == []
    assert oort.RowNumbers(np.array([1], np.uint8)).dtype == np.int64


def test_row_numbers_do_not_share_memory_with_what_they_were_made_of() -> None:
    source = np.array([1, 2, 3])
    rows = oort.RowNumbers(source)
    source[0] = 99
    assert rows[0] == 1


def test_values_are_frozen() -> None:
    for value, name in (
        (oort.Feedback(), "utility"),
        (oort.UpdateResult(), "applied"),
        (oort.Selection(participants=[], round_number=1), "round_number"),
    ):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, 5)


def test_a_selection_without_a_table_says_nothing_of_why() -> None:
    selection = oort.Selection(participants=["a"], round_number=3)
    assert selection.why == ()
    assert selection.explored == selection.exploited == selection.filled == []
    assert list(selection) == ["a"]
    assert math.isinf(selection.preferred_s)


def test_values_can_be_copied_and_sent_between_processes() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(range(4))
    selection = selector.select(2)
    for again in (copy.deepcopy(selection), pickle.loads(pickle.dumps(selection))):  # noqa: S301
        assert again.participants == selection.participants
        assert repr(again.why) == repr(selection.why)
    feedback = oort.Feedback.from_losses([1.0], duration_s=2.0)
    assert pickle.loads(pickle.dumps(feedback)) == feedback  # noqa: S301


def test_a_rejection_reads_as_a_sentence_and_stays_short() -> None:
    rejection = oort.Rejection(0, "x" * 500, "utility", float("nan"), "a finite number")
    assert str(rejection).endswith("…: utility must be a finite number; got nan")
    assert len(str(rejection)) < 200


def test_losses_and_other_fields_of_a_mapping_go_together() -> None:
    given = {"losses": [3.0, 4.0], "duration_s": 1.0, "num_samples": 50}
    feedback = oort.Feedback.from_mapping(given)
    assert (feedback.num_samples, feedback.mean_squared_loss) == (50, 12.5)
    assert given == {"losses": [3.0, 4.0], "duration_s": 1.0, "num_samples": 50}, "left alone"
