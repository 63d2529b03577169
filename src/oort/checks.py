"""The contract of a training selector, runnable.

    for check in oort.checks.TRAINING_CHECKS:
        check(make)

``make(config)`` builds a fresh selector with a :class:`~oort.config.TrainingConfig`. Every
implementation of :class:`~oort.protocols.TrainingSelector` passes: ours in memory, the baselines,
and yours. A check raises ``AssertionError`` with a sentence that says what was expected and what
came instead.
"""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from oort.config import TrainingConfig
from oort.errors import InvalidArgumentError, InvalidFeedbackError, RoundError, UnknownClientError
from oort.protocols import TrainingSelector
from oort.types import ClientId, Feedback, RowNumbers

Make: TypeAlias = Callable[[TrainingConfig], TrainingSelector]

_IDS: Final[list[ClientId]] = [*range(20), *(f"client-{i}" for i in range(20))]


def check_training_selector(make: Make) -> None:
    """Run every check; the first that fails raises."""
    for check in TRAINING_CHECKS:
        check(make)


def it_is_a_training_selector(make: Make) -> None:
    """It has every method and property of the protocol."""
    selector = make(TrainingConfig())
    _expect(isinstance(selector, TrainingSelector), "a TrainingSelector", type(selector))


def a_new_selector_knows_nobody(make: Make) -> None:
    """No clients, no round, and nobody to pick."""
    selector = make(TrainingConfig())
    state = (selector.num_clients, selector.num_rows, selector.round_number)
    _expect(state == (0, 0, 0), "no clients, no rows, round 0", state)
    _expect(selector.select_participant(5) == [], "nobody picked", "somebody")
    _expect(selector.round_number == 0, "no round opened", selector.round_number)


def picks_are_distinct(make: Make) -> None:
    """As many as asked for, nobody twice, and all of them known."""
    selector = _after_a_few_rounds(make)
    for wanted in (1, 3, 17, len(_IDS)):
        picks = selector.select_participant(wanted)
        _expect(len(picks) == len(set(picks)) == wanted, f"{wanted} distinct clients", picks)
        _expect(set(picks) <= set(_IDS), "registered clients", picks)


def asking_for_more_than_there_are_gives_everyone(make: Make) -> None:
    """The list is as long as the number of eligible clients."""
    selector = _after_a_few_rounds(make)
    picks = selector.select_participant(10 * len(_IDS))
    _expect(sorted(picks, key=str) == sorted(_IDS, key=str), "everyone once", picks)


def asking_for_nobody_opens_no_round(make: Make) -> None:
    """K = 0, or nobody eligible: nothing changes."""
    selector = _after_a_few_rounds(make)
    before = selector.round_number
    _expect(selector.select_participant(0) == [], "nobody", "somebody")
    _expect(selector.select_participant(3, among=[]) == [], "nobody of an empty list", "somebody")
    _expect(selector.round_number == before, f"round {before}", selector.round_number)


def wrong_numbers_of_participants_are_refused(make: Make) -> None:
    """Negative, fractional and boolean numbers raise."""
    selector = _after_a_few_rounds(make)
    wrong: Any
    for wrong in (-1, 1.5, True, None, "3"):
        _raises(InvalidArgumentError, partial(selector.select_participant, wrong))


def the_same_seed_and_calls_give_the_same_picks(make: Make) -> None:
    """Nothing but the seed and the calls decides."""
    first, second = _after_a_few_rounds(make), _after_a_few_rounds(make)
    one, two = first.select_participant(9), second.select_participant(9)
    _expect(one == two, f"the same picks, {one}", two)


def global_random_state_is_left_alone(make: Make) -> None:
    """Neither Python's nor NumPy's global generator moves."""
    legacy: Any = np.random.get_state()  # noqa: NPY002
    python = random.getstate()
    _after_a_few_rounds(make).select_participant(5)
    after: Any = np.random.get_state()  # noqa: NPY002
    same = bool(np.array_equal(legacy[1], after[1])) and legacy[2] == after[2]
    _expect(same, "NumPy's global state unchanged", "a changed one")
    _expect(python == random.getstate(), "Python's global state unchanged", "a changed one")


def one_and_text_one_are_two_clients(make: Make) -> None:
    """Integer and string ids do not mix."""
    selector = make(TrainingConfig())
    selector.register_clients([1, "1"])
    picks = selector.select_participant(2)
    _expect(sorted(picks, key=repr) == ["1", 1], "[1, '1']", picks)


def among_narrows_by_ids_mask_and_rows(make: Make) -> None:
    """The three ways of naming clients mean the same."""
    wanted: list[ClientId] = [0, 7, "client-3"]
    for way in ("ids", "mask", "rows"):
        selector = _after_a_few_rounds(make)
        rows = selector.rows(wanted)
        mask = np.zeros(selector.num_rows, np.bool_)
        mask[rows] = True
        among: Any = {"ids": wanted, "mask": mask, "rows": RowNumbers(rows)}[way]
        picks = selector.select_participant(10, among=among)
        _expect(set(picks) == set(wanted), f"{wanted} by {way}", picks)


def unknown_ids_in_among_join(make: Make) -> None:
    """First sight registers."""
    selector = make(TrainingConfig())
    picks = selector.select_participant(5, among=["new", 99])
    _expect(set(picks) == {"new", 99}, "both newcomers", picks)
    _expect(selector.num_clients == 2, "two clients", selector.num_clients)


def a_mask_of_the_wrong_length_is_refused(make: Make) -> None:
    """A mask has one entry per row."""
    selector = _after_a_few_rounds(make)
    wrong = np.ones(selector.num_rows + 1, np.bool_)
    _raises(InvalidArgumentError, lambda: selector.select(3, among=wrong))


def clients_marked_offline_are_not_picked(make: Make) -> None:
    """Until they are marked online again."""
    selector = _after_a_few_rounds(make)
    away = _IDS[:30]
    selector.mark_offline(away)
    picks = selector.select_participant(len(_IDS))
    _expect(set(picks) == set(_IDS[30:]), "only those online", picks)
    selector.mark_online(away[:2])
    picks = selector.select_participant(len(_IDS))
    _expect(set(picks) == {*away[:2], *_IDS[30:]}, "two more", picks)


def removed_clients_stay_out_until_they_register(make: Make) -> None:
    """They leave, and may come back to the same row."""
    selector = _after_a_few_rounds(make)
    row = int(selector.rows([5])[0])
    _expect(selector.remove_clients([5, "nobody"]) == 1, "one removed", "another number")
    _expect(5 not in selector.select_participant(len(_IDS)), "5 left out", "5 picked")
    selector.register_client(5)
    _expect(int(selector.rows([5])[0]) == row, f"row {row}", int(selector.rows([5])[0]))
    _expect(5 in selector.select_participant(len(_IDS)), "5 back", "5 left out")


def forgotten_clients_leave_no_trace(make: Make) -> None:
    """Their ids are unknown afterwards, and nobody else's row moves."""
    selector = _after_a_few_rounds(make)
    last = int(selector.rows(["client-19"])[0])
    _expect(selector.forget([0, "client-0"]) == 2, "two forgotten", "another number")
    _raises(UnknownClientError, lambda: selector.rows([0]))
    _expect(int(selector.rows(["client-19"])[0]) == last, "the same row", "another")
    picks = selector.select_participant(len(_IDS))
    _expect(not {0, "client-0"} & set(picks), "neither picked", picks)
    _expect(selector.num_clients == len(_IDS) - 2, len(_IDS) - 2, selector.num_clients)


def a_round_can_be_topped_up(make: Make) -> None:
    """Naming the current round picks more for it: nobody twice, no round opened."""
    selector = _after_a_few_rounds(make)
    first = selector.select(10)
    more = selector.select(10, round_number=first.round_number)
    _expect(more.round_number == first.round_number, first.round_number, more.round_number)
    both = set(first.participants) & set(more.participants)
    _expect(not both, "nobody twice", both)
    _expect(len(more) == 10, "ten more", len(more))
    _raises(RoundError, lambda: selector.select(1, round_number=first.round_number + 1))


def a_preview_changes_nothing(make: Make) -> None:
    """And is what the next selection answers."""
    selector = _after_a_few_rounds(make)
    before = (selector.round_number, selector.num_clients)
    shown = selector.preview(8).participants
    after = (selector.round_number, selector.num_clients)
    _expect(after == before, before, after)
    _expect(selector.select_participant(8) == shown, f"what was shown, {shown}", "others")


def bad_feedback_is_refused_by_name(make: Make) -> None:
    """One report raises and says who, what and how much; nothing changes."""
    selector = _after_a_few_rounds(make)
    bad: list[dict[str, Any]] = [
        {"utility": float("nan"), "duration_s": 1.0},
        {"utility": float("inf"), "duration_s": 1.0},
        {"utility": 1.0, "duration_s": -1.0},
        {"utility": 1.0, "duration_s": float("nan")},
        {"utility": 1.0, "outcome": "vanished"},
        {"duration_s": 1.0},
        {"wrong": 1.0},
    ]
    for report in bad:
        _raises(InvalidFeedbackError, partial(selector.update_client_util, 3, report))
    error = _raises(
        InvalidFeedbackError, lambda: selector.update_client_util(3, {"utility": float("nan")})
    )
    named = all(word in str(error) for word in ("3", "utility", "nan"))
    _expect(named, "client, field and value in the message", str(error))


def a_bad_report_does_not_cost_the_batch(make: Make) -> None:
    """Good rows are applied, bad ones come back with a reason; ``strict`` applies nothing."""
    selector = _after_a_few_rounds(make)
    picks = selector.select_participant(3)
    worth = [1.0, float("nan"), 2.0]
    strict: Any = {"utility": worth, "duration_s": 1.0, "strict": True}
    _raises(InvalidFeedbackError, lambda: selector.update_clients(picks, **strict))
    result = selector.update_clients(picks, utility=worth, duration_s=1.0)
    _expect(result.applied == 2, "two applied", result)
    _expect([r.client for r in result.rejected] == [picks[1]], f"{picks[1]} rejected", result)


def a_repeated_report_counts_once(make: Make) -> None:
    """The second report of a client for a round is dropped."""
    selector = _after_a_few_rounds(make)
    picks = selector.select_participant(4)
    first = selector.update_clients(picks, utility=1.0, duration_s=1.0)
    again = selector.update_clients(picks, utility=99.0, duration_s=9.0)
    _expect((first.applied, again.applied, again.repeated) == (4, 0, 4), "4, then 0", again)


def feedback_of_unknown_clients_registers_them(make: Make) -> None:
    """First sight registers, in a report too."""
    selector = make(TrainingConfig())
    selector.update_client_util("new", Feedback(utility=1.0, duration_s=2.0))
    _expect(selector.num_clients == 1, "one client", selector.num_clients)


def rounds_to_come_are_refused(make: Make) -> None:
    """Neither feedback nor a top-up may name a round that was not opened."""
    selector = _after_a_few_rounds(make)
    ahead = selector.round_number + 1
    report = Feedback(utility=1.0)
    _raises(RoundError, lambda: selector.update_client_util(1, report, round_number=ahead))


def the_kill_switch_keeps_the_books(make: Make) -> None:
    """In mode "uniform" rounds, distinctness and reports go on as before."""
    selector = _after_a_few_rounds(make)
    selector.mode = "uniform"
    before = selector.round_number
    picks = selector.select_participant(12)
    _expect(len(set(picks)) == 12, "twelve distinct", picks)
    _expect(selector.round_number == before + 1, before + 1, selector.round_number)
    selector.mode = "guided"
    _expect(selector.mode == "guided", "guided", selector.mode)
    _raises(InvalidArgumentError, lambda: setattr(selector, "mode", "off"))


def threads_do_not_disturb_one_another(make: Make) -> None:
    """Eight threads select and report; every round has distinct picks and all calls return."""
    selector = _after_a_few_rounds(make)
    before, problems = selector.round_number, []

    def play() -> None:
        for _ in range(10):
            selection = selector.select(5)
            if len(set(selection.participants)) != 5:
                problems.append(selection.participants)
            selector.update_clients(
                selection.participants,
                utility=1.0,
                duration_s=1.0,
                round_number=selection.round_number,
            )

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=play) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    _expect(not problems, "five distinct picks each time", problems)
    _expect(selector.round_number == before + 80, before + 80, selector.round_number)


TRAINING_CHECKS: Final[tuple[Callable[[Make], None], ...]] = (
    it_is_a_training_selector,
    a_new_selector_knows_nobody,
    picks_are_distinct,
    asking_for_more_than_there_are_gives_everyone,
    asking_for_nobody_opens_no_round,
    wrong_numbers_of_participants_are_refused,
    the_same_seed_and_calls_give_the_same_picks,
    global_random_state_is_left_alone,
    one_and_text_one_are_two_clients,
    among_narrows_by_ids_mask_and_rows,
    unknown_ids_in_among_join,
    a_mask_of_the_wrong_length_is_refused,
    clients_marked_offline_are_not_picked,
    removed_clients_stay_out_until_they_register,
    forgotten_clients_leave_no_trace,
    a_round_can_be_topped_up,
    a_preview_changes_nothing,
    bad_feedback_is_refused_by_name,
    a_bad_report_does_not_cost_the_batch,
    a_repeated_report_counts_once,
    feedback_of_unknown_clients_registers_them,
    rounds_to_come_are_refused,
    the_kill_switch_keeps_the_books,
    threads_do_not_disturb_one_another,
)


def _after_a_few_rounds(make: Make) -> TrainingSelector:
    """A selector of 40 clients, some of them heard of."""
    selector = make(TrainingConfig(seed=11))
    selector.register_clients(_IDS, expected_duration_s=np.linspace(1.0, 20.0, len(_IDS)))
    for number in range(4):
        selection = selector.select(6)
        worth = np.arange(1.0, 7.0) + number
        selector.update_clients(
            selection.participants,
            utility=worth,
            duration_s=worth,
            round_number=selection.round_number,
        )
    return selector


def _expect(holds: bool, expected: object, got: object) -> None:
    if not holds:
        message = f"expected {expected}; got {got!r}"
        raise AssertionError(message)


def _raises(kind: type[Exception], call: Callable[[], object]) -> Exception:
    try:
        call()
    except kind as error:
        return error
    message = f"expected {kind.__name__}; nothing was raised"
    raise AssertionError(message)
