"""Selection in turn."""

from __future__ import annotations

from pathlib import Path

import pytest

import oort
from oort.baselines import RoundRobinSelector, UniformSelector


def make(count: int) -> RoundRobinSelector:
    selector = RoundRobinSelector()
    selector.register_clients(range(count))
    return selector


def test_everyone_takes_a_turn_before_anyone_takes_a_second() -> None:
    selector = make(7)
    turns = [client for _ in range(21) for client in selector.select_participant(3)]
    assert turns == [c % 7 for c in range(63)]


def test_absent_clients_are_passed_over_and_newcomers_come_at_the_end() -> None:
    selector = make(4)
    assert selector.select_participant(2) == [0, 1]
    selector.mark_offline([2])
    selector.register_client("new")
    assert selector.select_participant(3) == [3, "new", 0]
    assert selector.preview(2).participants == selector.select_participant(2) == [1, 3]


def test_topping_up_goes_on_in_turn_and_repeats_nobody() -> None:
    selector = make(5)
    assert selector.select_participant(3) == [0, 1, 2]
    assert selector.select(9, round_number=1).participants == [3, 4]
    assert selector.select(1).why[0].how == "in turn"


def test_a_loaded_one_goes_on_where_the_saved_one_was(tmp_path: Path) -> None:
    selector = make(5)
    selector.select_participant(3)
    selector.save(tmp_path / "r.oort")
    assert RoundRobinSelector.load(tmp_path / "r.oort").select_participant(3) == [3, 4, 0]


def test_a_file_of_one_strategy_is_not_loaded_as_another(tmp_path: Path) -> None:
    make(3).save(tmp_path / "r.oort")
    for load in (UniformSelector.load, oort.load_selector):
        with pytest.raises(oort.SaveFileError, match="holds 'round_robin', not a selector of"):
            load(tmp_path / "r.oort")
