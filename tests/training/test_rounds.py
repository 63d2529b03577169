"""What is remembered of recent rounds, against plain sets and dicts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oort.training import rounds
from oort.training.rounds import RoundBook, RowSet

rows = st.lists(st.integers(0, 60), max_size=20).map(lambda r: np.array(r, np.int64))


@given(st.lists(st.tuples(st.sampled_from(["add", "discard"]), rows), max_size=12), rows)
def test_a_row_set_is_a_set_small_or_large(
    steps: list[tuple[str, np.ndarray]], asked: np.ndarray
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "_FEW", 8)
        ours, plain = RowSet(), set[int]()
        for step, given_rows in steps:
            if step == "add":
                ours.add(given_rows)
                plain |= set(given_rows.tolist())
            else:
                ours.discard(given_rows)
                plain -= set(given_rows.tolist())
            assert ours.contains(asked).tolist() == [row in plain for row in asked.tolist()]
            assert ours.to_rows().tolist() == sorted(plain)


def test_a_book_comes_back_from_its_state_with_interleaved_rounds_in_order() -> None:
    book = RoundBook(memory=10)
    book.open(1, np.array([0, 1]), 2)
    book.open(2, np.array([], np.int64), 2)
    book.open(3, np.array([2]), 2)
    for number, row in ((3, 0), (2, 1), (3, 2), (3, 3), (2, 4)):
        book.note(number, np.array([row]))
        book.unfolded.append((number, np.array([row]), np.array([row + 0.5], np.float32)))
    book.history = {0: (1.5, 3)}
    numbers, arrays = book.to_state()
    again = RoundBook.from_state(10, numbers, arrays, num_rows=5)
    assert again.folded(3.0) == book.folded(3.0)
    assert again.folded(3.0)[3] == (0.5 + 2.5 + 3.0, 3)
    assert {r: c.tolist() for r, c in again.selected.items()} == {1: [0, 1], 2: [], 3: [2]}
    assert again.received[2].to_rows().tolist() == [1, 4]
    assert (again.round_number, again.draws, again.pacer_steps) == (3, 1, 1)
    assert {k: v.tolist() for k, v in again.to_state()[1].items()} == {
        k: v.tolist() for k, v in arrays.items()
    }


def test_folding_clips_and_changes_nothing_until_it_is_taken() -> None:
    book = RoundBook(memory=4)
    book.unfolded.append((1, np.array([0, 1]), np.array([2.0, 1e9], np.float32)))
    assert book.folded(5.0) == {1: (7.0, 2)}
    assert book.folded(np.inf)[1][0] > 1e8
    assert book.history == {}
    book.open(1, np.array([0]), 2)
    book.take_history(book.folded(5.0))
    assert book.history == {1: (7.0, 2)}
    assert book.unfolded == []
    book.open(6, np.array([0]), 2)
    assert book.history == {}, "older than the memory"
