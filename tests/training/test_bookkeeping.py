"""Joining, leaving, rounds, outcomes, reports: what every in-memory selector does.

Rows "outcomes", "rounds", "erasure" and "bad input" of the table in docs/design.md.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import oort
from oort.training.selector import GuidedSelector
from tests.support import NO_EXPLORATION, heard_of, new_selector, participations


def facts(selector: GuidedSelector) -> tuple[Any, ...]:
    """Everything that can be seen of a selector, to show that nothing changed."""
    columns = selector.columns()
    arrays = (
        columns.num_samples,
        columns.utility,
        np.nan_to_num(columns.duration_s, nan=-1.0),
        columns.last_round,
        columns.participations,
    )
    return (
        selector.round_number,
        selector.num_rows,
        selector.client_ids(),
        *(array.tolist() for array in arrays),
        repr(selector.preview(3).why),
    )


# Row "outcomes"


def test_a_completed_report_replaces_utility_duration_and_samples() -> None:
    selector = new_selector(1)
    for utility, duration_s, samples in ((5.0, 30.0, 12), (2.0, 10.0, 7)):
        selector.select_participant(1)
        selector.update_clients([0], utility=utility, duration_s=duration_s, num_samples=samples)
        known = selector.columns([0])
        assert known.utility[0] == utility
        assert known.duration_s[0] == duration_s
        assert known.num_samples[0] == samples


def test_a_failed_report_counts_and_may_raise_the_duration_but_never_lowers_it() -> None:
    selector = new_selector(1)
    selector.select_participant(1)
    selector.update_clients([0], utility=5.0, duration_s=30.0)
    for given, expected in ((50.0, 50.0), (10.0, 50.0), (None, 50.0)):
        selector.select_participant(1)
        selector.update_clients([0], outcome="failed", duration_s=given)
        assert selector.columns([0]).duration_s[0] == expected
    assert selector.columns([0]).utility[0] == 5.0
    assert participations(selector, [0]) == [4]
    assert selector.columns([0]).last_round[0] == 4


def test_a_failed_report_without_a_selection_counts_one_and_invents_no_utility() -> None:
    selector = new_selector(1)
    selector.update_clients([0], outcome="failed", utility=99.0)
    assert participations(selector, [0]) == [1]
    assert selector.columns([0]).utility[0] == 0.0
    assert selector.select(1).filled == [0], "pending: heard of, without a utility"


def test_an_unused_pick_takes_back_its_participation_and_stays_untried() -> None:
    selector = new_selector(2)
    selector.select_participant(2)
    selector.update_clients([0, 1], outcome="unused", duration_s=12.0)
    assert participations(selector, [0, 1]) == [0, 0]
    assert selector.columns([0]).duration_s[0] == 12.0
    assert selector.columns([0]).last_round[0] == 0
    assert set(selector.select(2).explored) == {0, 1}


def test_an_unused_duration_is_a_lower_bound() -> None:
    selector = heard_of([1.0, 1.0], [30.0, 5.0])
    selector.select_participant(2)
    selector.update_clients([0, 1], outcome="unused", duration_s=12.0)
    assert selector.columns([0, 1]).duration_s.tolist() == [30.0, 12.0]
    assert set(selector.select(2).exploited) == {0, 1}, "explored before, explored still"


def test_an_unused_report_about_a_client_never_selected_takes_nothing_back() -> None:
    selector = heard_of([1.0], 1.0)
    selector.select(1, among=["other"])
    selector.update_clients([0], outcome="unused", duration_s=1.0)
    assert participations(selector, [0]) == [1]


def test_unused_brings_a_removed_client_back_below_the_limit() -> None:
    selector = heard_of([1.0], 1.0, max_participations=1)
    selector.select_participant(1)
    assert selector.preview(1).filled == [0]
    selector.update_clients([0], outcome="unused")
    assert selector.preview(1).exploited == [0]


@pytest.mark.parametrize("outcome", list(oort.Outcome))
def test_an_outcome_may_be_given_as_text_or_as_itself_one_for_all_or_one_each(
    outcome: oort.Outcome,
) -> None:
    for given in (outcome, outcome.value, [outcome] * 2, np.array([outcome.value] * 2)):
        selector = new_selector(2)
        assert selector.update_clients([0, 1], utility=1.0, outcome=given).applied == 2
        explored = outcome is oort.Outcome.COMPLETED
        assert (selector.columns([0]).utility[0] == 1.0) == explored


# Row "rounds"


def test_a_round_opens_only_if_somebody_is_asked_for_and_somebody_eligible() -> None:
    selector = new_selector(4)
    before = facts(selector)
    selector.select(0)
    selector.select(3, among=[])
    selector.select(3, among=np.zeros(4, np.bool_))
    assert facts(selector) == before
    assert selector.select(1).round_number == 1
    assert selector.select(0).round_number == 1


def test_topping_up_repeats_nobody_and_advances_neither_round_nor_exploration_nor_pacer() -> None:
    selector = heard_of(np.arange(50.0), np.arange(50.0))
    selector.register_clients(range(50, 100))
    opened = selector.select(10)
    seen = list(opened)
    for _ in range(9):
        more = selector.select(10, round_number=opened.round_number)
        assert (more.round_number, more.epsilon) == (opened.round_number, opened.epsilon)
        assert more.preferred_s == opened.preferred_s
        seen += more
    assert sorted(map(int, seen)) == list(range(100))
    assert selector.select_participant(10) != [], "the next round"
    assert selector.round_number == 2


def test_topping_up_when_nobody_is_left_gives_nobody() -> None:
    selector = new_selector(3)
    selector.select_participant(3)
    assert selector.select(5, round_number=1).participants == []
    assert selector.round_number == 1


def test_topping_up_obeys_among_and_never_writes_to_the_callers_mask() -> None:
    selector = new_selector(10)
    mask = np.zeros(10, np.bool_)
    mask[:6] = True
    picks = [*selector.select(3, among=mask), *selector.select(9, mask, round_number=1)]
    assert sorted(map(int, picks)) == list(range(6))
    assert mask.tolist() == [True] * 6 + [False] * 4


def test_topping_up_in_the_kill_switch_repeats_nobody() -> None:
    selector = new_selector(10)
    selector.mode = "uniform"
    picks = [*selector.select(4), *selector.select(9, round_number=1)]
    assert sorted(map(int, picks)) == list(range(10))


@pytest.mark.parametrize("wrong", [0, 1, 3, 99])
def test_only_the_current_round_can_be_topped_up(wrong: int) -> None:
    selector = new_selector(5)
    with pytest.raises(oort.RoundError, match="no round is open yet"):
        selector.select(1, round_number=wrong)
    selector.select(1)
    selector.select(1)
    with pytest.raises(oort.RoundError, match=f"must be 2, the current round; got {wrong}"):
        selector.select(1, round_number=wrong)
    assert selector.round_number == 2


def test_a_report_names_its_round_and_by_default_means_the_current_one() -> None:
    selector = new_selector(3)
    for _ in range(3):
        selector.select_participant(3)
    selector.update_clients([0], utility=1.0)
    selector.update_clients([1], utility=1.0, round_number=2)
    selector.update_client_util(2, {"utility": 1.0}, round_number=1)
    assert selector.columns(range(3)).last_round.tolist() == [3, 2, 1]


def test_a_report_for_a_round_that_has_not_opened_is_refused() -> None:
    selector = new_selector(2)
    selector.select_participant(1)
    before = facts(selector)
    with pytest.raises(oort.RoundError, match="at most 1, the current round; got 2"):
        selector.update_clients([0], utility=1.0, round_number=2)
    with pytest.raises(oort.RoundError):
        selector.update_client_util(0, {"utility": 1.0}, round_number=2)
    for wrong in (-1, 1.5, "1", True):
        with pytest.raises(oort.InvalidArgumentError, match="round_number"):
            selector.update_clients([0], utility=1.0, round_number=wrong)  # type: ignore[arg-type]
    assert facts(selector) == before


def test_a_repeated_report_is_applied_once_in_one_batch_or_in_two() -> None:
    selector = new_selector(2)
    selector.select_participant(2)
    first = selector.update_clients([0, 0, 1], utility=[3.0, 9.0, 4.0], duration_s=1.0)
    assert (first.applied, first.repeated) == (2, 1)
    again = selector.update_clients([0, 1], utility=7.0, duration_s=9.0)
    assert (again.applied, again.repeated) == (0, 2)
    assert selector.columns([0, 1]).utility.tolist() == [3.0, 4.0]
    assert participations(selector, [0, 1]) == [1, 1]


def test_a_repeat_counts_once_even_without_a_selection_and_many_at_a_time() -> None:
    count = 10_000  # more than are remembered one by one
    selector = new_selector(count)
    selector.select_participant(1)
    ids = np.arange(count)
    assert selector.update_clients(ids[:6000], utility=1.0).applied == 6000
    result = selector.update_clients(ids, utility=2.0)
    assert (result.applied, result.repeated) == (4000, 6000)
    assert selector.update_clients(ids, utility=3.0).repeated == count
    assert set(selector.columns(ids[:6000]).utility.tolist()) == {1.0}


def test_a_report_older_than_what_is_known_is_noted_and_changes_nothing_else() -> None:
    selector = new_selector(1)
    selector.select_participant(1)
    selector.select_participant(1)
    selector.update_clients([0], utility=5.0, duration_s=1.0, round_number=2)
    before = facts(selector)
    late = selector.update_clients([0], utility=9.0, duration_s=9.0, round_number=1)
    assert (late.applied, late.outdated) == (0, 1)
    assert facts(selector) == before
    assert selector.update_clients([0], utility=9.0, round_number=1).repeated == 1


def test_reports_are_taken_for_two_windows_and_refused_with_a_warning_after() -> None:
    selector = new_selector(5, pacer={"window": 3})
    for _ in range(8):
        selector.select_participant(1)
    assert selector.update_clients([0], utility=1.0, round_number=2).applied == 1
    before = facts(selector)
    with pytest.warns(oort.StaleFeedbackWarning, match="round 1 refused"):
        result = selector.update_clients([1, "new"], utility=1.0, round_number=1)
    assert [r.client for r in result.rejected] == [1, "new"]
    assert "round_number must be 2 or later" in str(result.rejected[0])
    with pytest.warns(oort.StaleFeedbackWarning):
        selector.update_client_util(1, {"utility": 1.0}, round_number=1)
    assert facts(selector) == before


def test_every_report_of_a_batch_is_in_exactly_one_part_of_the_result() -> None:
    selector = new_selector(4)
    selector.select_participant(4)
    selector.select_participant(4)
    selector.update_clients([0], utility=1.0, round_number=2)
    selector.update_clients([1], utility=1.0, round_number=1)
    result = selector.update_clients([0, 1, 2, 3], utility=[1.0, 1.0, 1.0, np.nan], round_number=1)
    assert (result.outdated, result.repeated, result.applied) == (1, 1, 1)
    assert [r.index for r in result.rejected] == [3]


def test_with_strict_rounds_only_those_selected_in_the_round_may_report() -> None:
    selector = new_selector(6, strict_rounds=True)
    first = selector.select_participant(2)
    more = selector.select(1, round_number=1).participants
    stranger = next(c for c in range(6) if c not in [*first, *more])
    result = selector.update_clients([*first, *more, stranger, "unknown"], utility=1.0)
    assert result.applied == 3
    assert [r.client for r in result.rejected] == [stranger, "unknown"]
    assert selector.num_clients == 6, "a stranger does not even join"
    with pytest.raises(oort.InvalidFeedbackError, match="that this client was selected in"):
        selector.update_client_util(stranger, {"utility": 1.0})


def test_memory_of_rounds_does_not_grow_with_their_number() -> None:
    for mode in ("guided", "uniform"):
        selector = new_selector(20, pacer={"window": 2})
        selector.mode = mode
        for _ in range(40):
            selector.update_clients(selector.select(3), utility=1.0, duration_s=1.0)
        book = selector._book
        for kept in (book.selected, book.received, book.history, book.unfolded):
            assert len(kept) <= 6, mode


# Joining, leaving, coming back


def test_first_sight_registers_in_among_in_reports_and_in_marks() -> None:
    selector = oort.create_training_selector()
    assert set(selector.select_participant(5, among=["a", 1])) == {"a", 1}
    selector.update_clients(["b"], utility=1.0)
    selector.mark_online(["c"])
    selector.mark_offline(["d"])
    assert selector.client_ids() == ["a", 1, "b", "c", "d"]
    assert "d" not in selector.select_participant(5)


def test_registering_again_changes_no_row_and_hints_stand_until_a_report() -> None:
    selector = oort.create_training_selector()
    selector.register_client("a", num_samples=10, expected_duration_s=5.0)
    selector.register_client("a", num_samples=20)
    assert selector.columns(["a"]).duration_s[0] == 5.0
    assert selector.columns(["a"]).num_samples[0] == 20
    selector.update_clients(["a"], utility=1.0, duration_s=7.0)
    selector.register_client("a", num_samples=1, expected_duration_s=1.0)
    assert selector.columns(["a"]).duration_s[0] == 7.0
    assert selector.num_rows == 1


@pytest.mark.parametrize(
    ("hints", "field"),
    [
        ({"num_samples": -1}, "num_samples"),
        ({"num_samples": 1.5}, "num_samples"),
        ({"num_samples": 2**32}, "num_samples"),
        ({"num_samples": "many"}, "num_samples"),
        ({"num_samples": True}, "num_samples"),
        ({"expected_duration_s": -0.5}, "expected_duration_s"),
        ({"expected_duration_s": float("nan")}, "expected_duration_s"),
        ({"expected_duration_s": float("inf")}, "expected_duration_s"),
        ({"expected_duration_s": "slow"}, "expected_duration_s"),
    ],
    ids=str,
)
def test_a_wrong_hint_names_client_and_field_and_registers_nobody(
    hints: dict[str, Any], field: str
) -> None:
    selector = oort.create_training_selector()
    with pytest.raises(oort.InvalidArgumentError, match=rf"client 'a': {field} must be .*; got"):
        selector.register_client("a", **hints)
    many = {name: [None, value] for name, value in hints.items()}
    if hints != {"expected_duration_s": pytest.approx(float("nan"), nan_ok=True)}:
        with pytest.raises(oort.InvalidArgumentError, match=rf"client 'b': {field} must be"):
            selector.register_clients(["a", "b"], **many)
    assert selector.num_rows == 0


def test_unknown_durations_in_a_bulk_registration_are_none_or_nan() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(["a", "b"], expected_duration_s=[None, 4.0])  # type: ignore[arg-type]
    selector.register_clients(["c", "d"], expected_duration_s=np.array([np.nan, 5.0]))
    durations = selector.columns().duration_s
    assert np.isnan(durations[[0, 2]]).all()
    assert durations[[1, 3]].tolist() == [4.0, 5.0]


def test_columns_of_the_wrong_length_are_refused_and_nothing_happens() -> None:
    selector = new_selector(3)
    before = facts(selector)
    for values in ([1.0, 2.0], np.ones(4), np.ones((3, 1)), []):
        with pytest.raises(oort.InvalidArgumentError, match="one for each of 3 clients"):
            selector.update_clients(range(3), utility=values)
        with pytest.raises(oort.InvalidArgumentError, match="one for each of 3 clients"):
            selector.register_clients(range(3), num_samples=values)
    with pytest.raises(oort.InvalidArgumentError, match="one for each of 3 clients"):
        selector.update_clients(range(3), utility=1.0, outcome=["failed"])
    assert facts(selector) == before


def test_a_removed_client_is_not_picked_keeps_what_is_known_and_may_come_back() -> None:
    selector = heard_of([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert selector.remove_clients([1, 1, "never seen"]) == 1
    assert selector.remove_clients([1]) == 0
    assert (selector.num_clients, selector.num_rows) == (2, 3)
    assert set(selector.select_participant(5)) == {0, 2}
    selector.register_client(1)
    assert selector.num_clients == 3
    assert selector.columns([1]).utility[0] == 2.0
    assert 1 in selector.select(3).exploited


def test_a_removed_client_comes_back_by_being_marked_online_but_not_by_going_offline() -> None:
    selector = new_selector(2)
    selector.remove_clients([0, 1])
    selector.mark_offline([0])
    assert selector.num_clients == 0
    selector.mark_online([1])
    assert selector.client_ids() == [1]


def test_a_late_report_of_a_removed_client_does_not_bring_it_back() -> None:
    selector = new_selector(2)
    selector.select_participant(2)
    selector.remove_clients([0])
    selector.update_clients([0], utility=8.0)
    assert selector.client_ids() == [1]


# Row "erasure"


def test_a_forgotten_client_leaves_nothing_behind() -> None:
    selector = heard_of([1.0, 2.0, 3.0], 5.0)
    selector.select_participant(3)
    selector.update_clients([1], utility=7.0, duration_s=9.0, num_samples=4)
    assert selector.forget([1, 1, "never seen"]) == 1
    assert (selector.num_clients, selector.num_rows) == (2, 3)
    with pytest.raises(oort.UnknownClientError, match="client 1 is not known"):
        selector.rows([1])
    state = selector._book.to_state()[1]
    for name in ("selected_row", "received_row", "unfolded_row"):
        assert 1 not in state[name]
    table = selector._table.to_arrays()
    assert table["utility"][1] == 0
    assert table["participations"][1] == 0
    assert table["flags"][1] == 0
    assert np.isnan(table["duration_s"][1])


def test_a_forgotten_client_that_comes_back_is_new_and_gets_a_new_row() -> None:
    selector = heard_of([1.0, 2.0], 5.0)
    selector.forget([0])
    selector.register_client(0)
    assert selector.rows([0]).tolist() == [2]
    assert participations(selector, [0]) == [0]
    assert selector.select(2).explored == [0]


def test_forgetting_everyone_leaves_a_selector_that_works() -> None:
    selector = heard_of(np.ones(5), 1.0)
    selector.select_participant(5)
    assert selector.forget(range(5)) == 5
    assert selector.select_participant(3) == []
    selector.mark_online()
    assert selector.select_participant(3) == [], "marking all online wakes no forgotten row"
    assert selector.num_clients == 0
    selector.register_client("new")
    assert selector.select_participant(3) == ["new"]


# Naming clients


def test_among_is_intersected_with_who_is_online() -> None:
    selector = new_selector(6)
    selector.mark_offline([0, 1])
    assert set(selector.select_participant(9, among=[1, 2, 3])) == {2, 3}
    selector.mark_offline()
    selector.mark_online([5])
    assert selector.select_participant(9) == [5]
    selector.mark_online()
    assert len(selector.select_participant(9)) == 6


def test_clients_can_be_named_by_mask_or_rows_wherever_by_ids() -> None:
    def play(kind: str) -> tuple[Any, ...]:
        selector = oort.create_training_selector()
        selector.register_clients([f"c{i}" for i in range(8)])

        def named(*clients: str) -> Any:
            rows = selector.rows(clients)
            mask = np.zeros(8, np.bool_)
            mask[rows] = True
            return {"ids": clients, "mask": mask, "rows": rows}[kind]

        selector.register_clients(named("c1"), expected_duration_s=3.0)
        selector.mark_offline(named("c0", "c1"))
        selector.mark_online(named("c1"))
        result = selector.update_clients(named("c1", "c2"), utility=[1.0, 2.0])
        selector.remove_clients(named("c3"))
        picks = selector.select_participant(8, among=named("c0", "c1", "c2", "c4"))
        known = selector.columns(named("c1", "c2")).utility.tolist()
        forgotten = selector.forget(named("c7"))
        return result, sorted(map(str, picks)), known, forgotten, selector.num_clients

    assert play("ids") == play("mask") == play("rows")
    assert play("ids")[1] == ["c1", "c2", "c4"]


def test_row_numbers_that_do_not_fit_are_refused() -> None:
    selector = new_selector(3)
    for wrong in (-1, 3):
        with pytest.raises(oort.InvalidArgumentError, match="a row must be from 0 to 2"):
            selector.select(1, among=oort.RowNumbers([0, wrong]))
    selector.forget([1])
    with pytest.raises(oort.InvalidArgumentError, match="not forgotten; got 1"):
        selector.select(1, among=oort.RowNumbers([1]))
    assert selector.round_number == 0


@pytest.mark.parametrize("shape", [(2,), (4,), (3, 1), ()])
def test_a_mask_that_does_not_fit_is_refused(shape: tuple[int, ...]) -> None:
    selector = new_selector(3)
    for call in (selector.select, selector.preview):
        with pytest.raises(oort.InvalidArgumentError, match="a mask must have one entry for each"):
            call(1, among=np.ones(shape, np.bool_))


def test_a_mask_never_picks_a_removed_or_forgotten_row() -> None:
    selector = new_selector(4)
    selector.remove_clients([0])
    selector.forget([1])
    assert set(selector.select_participant(4, among=np.ones(4, np.bool_))) == {2, 3}


def test_preview_registers_nobody() -> None:
    selector = new_selector(2)
    assert selector.preview(5, among=["new", 1]).participants == [1]
    assert selector.num_rows == 2


def test_text_where_a_collection_of_ids_belongs_is_refused() -> None:
    selector = oort.create_training_selector()
    for wrong in ("abc", b"abc", 5, None, 1.5):
        for call in (selector.register_clients, selector.rows, selector.forget):
            with pytest.raises(oort.InvalidClientIdError):
                call(wrong)  # type: ignore[arg-type]
        with pytest.raises(oort.InvalidClientIdError):
            selector.update_clients(wrong, utility=1.0)  # type: ignore[arg-type]
    assert selector.num_rows == 0


@pytest.mark.parametrize("wrong", [True, 1.0, None, b"a", ("a",), 2**64, -(2**63) - 1], ids=repr)
def test_a_wrong_id_is_refused_and_nobody_of_its_batch_joins(wrong: Any) -> None:
    selector = oort.create_training_selector()
    for call in (selector.register_clients, selector.mark_online, selector.mark_offline):
        with pytest.raises(oort.InvalidClientIdError, match="a client id must be a string or"):
            call(["good", wrong])
    with pytest.raises(oort.InvalidClientIdError):
        selector.select(1, among=["good", wrong])
    with pytest.raises(oort.InvalidClientIdError):
        selector.update_client_util(wrong, {"utility": 1.0})
    assert selector.num_rows == 0


def test_a_wrong_id_in_a_batch_of_reports_is_rejected_by_itself() -> None:
    selector = new_selector(1)
    given: list[Any] = [0, True, ["a", "b"], 1.5, "new", {"x": 1}]
    result = selector.update_clients(given, utility=1.0)
    assert result.applied == 2
    assert [r.index for r in result.rejected] == [1, 2, 3, 5]
    assert [r.value for r in result.rejected] == [True, ["a", "b"], 1.5, {"x": 1}]
    assert selector.client_ids() == [0, "new"]


# Ids


def test_1_and_text_1_are_two_clients() -> None:
    selector = oort.create_training_selector()
    selector.register_clients([1, "1"], num_samples=[10, 20])
    selector.update_clients(["1"], utility=5.0)
    assert selector.columns([1, "1"]).utility.tolist() == [0.0, 5.0]
    assert selector.columns([1, "1"]).num_samples.tolist() == [10, 20]
    picks = selector.select_participant(2)
    assert sorted(map(repr, picks)) == ["'1'", "1"]


def test_ids_at_the_ends_of_their_range_and_of_any_script_and_length() -> None:
    ids: list[oort.ClientId] = [
        *(0, -1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)),
        *(
            "",
            " ",
            "0",
            "-1",
            "ü",
            "客户",
            "👩‍👩‍👧",
            "a\0b",
            "a\0",
            "\ud800",
            "é",
            "e\u0301",
            "x" * 10_000,
        ),
    ]
    selector = oort.create_training_selector()
    selector.register_clients(ids)
    assert selector.num_clients == len(ids)
    picks = selector.select_participant(len(ids))
    assert sorted(map(repr, picks)) == sorted(map(repr, ids))
    selector.update_clients(ids, utility=np.arange(float(len(ids))))
    assert selector.columns(ids).utility.tolist() == list(range(len(ids)))


def test_a_message_about_a_very_long_id_is_short() -> None:
    selector = oort.create_training_selector()
    for wrong in ({"utility": float("nan")}, {"nonsense": 1}):
        with pytest.raises(oort.InvalidFeedbackError) as caught:
            selector.update_client_util("x" * 10_000, wrong)
        assert len(str(caught.value)) < 400


def test_numpy_ids_are_plain_ones() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(np.array([3, 1], np.uint8))
    selector.register_clients(np.array(["a", "b"]))
    selector.register_client(np.int64(7))  # type: ignore[arg-type]
    selector.register_client(np.str_("c"))
    assert selector.client_ids() == [3, 1, "a", "b", 7, "c"]
    assert {type(c) for c in selector.client_ids()} == {int, str}


# What it says of itself


def test_what_columns_gives_are_copies_with_signed_counts() -> None:
    selector = heard_of([1.0, 2.0], 1.0)
    columns = selector.columns()
    columns.utility[:] = 99.0
    columns.participations[:] = 99
    assert selector.columns().utility.tolist() == [1.0, 2.0]
    assert participations(selector, [0, 1]) == [1, 1]
    assert (-selector.columns().participations).tolist() == [-1, -1]
    assert columns.sketch is None


def test_nothing_prints_and_nothing_warns(capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        selector = heard_of(np.arange(20.0), np.arange(20.0), exploration=NO_EXPLORATION)
        for _ in range(5):
            selector.update_clients(selector.select(5), utility=1.0)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_a_config_may_be_settings_a_dict_or_nothing() -> None:
    assert oort.create_training_selector().config == oort.TrainingConfig()
    assert oort.create_training_selector({"seed": 5}).config.seed == 5
    config = oort.TrainingConfig(seed=6)
    assert oort.create_training_selector(config).config is config
    with pytest.raises(oort.InvalidArgumentError, match="config must be a TrainingConfig"):
        oort.create_training_selector(5)  # type: ignore[arg-type]
    with pytest.raises(oort.ConfigError, match="did you mean 'alpha'"):
        oort.create_training_selector({"alfa": 5})
