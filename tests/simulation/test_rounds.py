from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oort.errors import InvalidArgumentError
from oort.simulation.rounds import close, overcommitted

INF = np.inf


def test_a_round_ends_with_the_kth_to_finish() -> None:
    """Five selected for three updates: 20, 5, 40, 10 and 30 s; the third is there after 20 s."""
    ending = close(np.array([20.0, 5, 40, 10, 30]), np.full(5, INF), wanted=3)
    assert ending.completed.tolist() == [1, 3, 0]
    assert ending.unused.tolist() == [2, 4]
    assert ending.failed.tolist() == []
    assert ending.duration_s == 20.0
    assert ending.used_s == 5 + 10 + 20
    assert ending.wasted_s == 2 * 20


def test_a_drop_out_is_replaced_by_the_next_to_finish() -> None:
    """The fastest is lost after 2 s, so that the round has to wait for 30 s instead of 20 s."""
    duration = np.array([20.0, 5, 40, 10, 30])
    ending = close(duration, np.array([INF, 2.0, INF, INF, INF]), wanted=3)
    assert ending.completed.tolist() == [3, 0, 4]
    assert ending.failed.tolist() == [1]
    assert ending.unused.tolist() == [2]
    assert ending.duration_s == 30.0
    assert ending.used_s == 10 + 20 + 30
    assert ending.wasted_s == 2 + 30


def test_an_update_that_is_turned_down_is_replaced_by_the_next_to_finish() -> None:
    """The fastest brings after 5 s what cannot be used: the third good one is there after 30 s."""
    duration = np.array([20.0, 5, 40, 10, 30])
    bad = np.array([False, True, False, False, False])
    ending = close(duration, np.full(5, INF), wanted=3, rejected=bad)
    assert ending.completed.tolist() == [3, 0, 4]
    assert ending.failed.tolist() == [1]
    assert ending.unused.tolist() == [2]
    assert ending.duration_s == 30.0
    assert ending.used_s == 10 + 20 + 30
    assert ending.wasted_s == 5 + 30


def test_where_every_update_is_turned_down_the_round_ends_with_the_last() -> None:
    ending = close(np.array([5.0, 9.0]), np.full(2, INF), wanted=1, rejected=np.ones(2, bool))
    assert ending.completed.tolist() == []
    assert ending.failed.tolist() == [0, 1]
    assert (ending.duration_s, ending.used_s, ending.wasted_s) == (9.0, 0.0, 14.0)


def test_a_drop_out_after_the_end_is_merely_unused() -> None:
    ending = close(np.array([5.0, 50.0]), np.array([INF, 20.0]), wanted=1)
    assert ending.unused.tolist() == [1]
    assert ending.failed.tolist() == []


def test_a_round_with_too_few_finishers_ends_when_nobody_is_left_to_wait_for() -> None:
    ending = close(np.array([5.0, 9.0, 30.0]), np.array([INF, INF, 12.0]), wanted=3)
    assert ending.completed.tolist() == [0, 1]
    assert ending.failed.tolist() == [2]
    assert ending.duration_s == 12.0


def test_a_deadline_ends_the_round_with_what_has_arrived() -> None:
    ending = close(np.array([5.0, 9.0, 30.0]), np.full(3, INF), wanted=3, deadline_s=9.0)
    assert ending.completed.tolist() == [0, 1]
    assert ending.unused.tolist() == [2]
    assert ending.duration_s == 9.0


def test_a_deadline_may_find_nobody_done() -> None:
    ending = close(np.array([5.0, 9.0]), np.full(2, INF), wanted=1, deadline_s=3.0)
    assert ending.completed.tolist() == []
    assert ending.unused.tolist() == [0, 1]
    assert (ending.duration_s, ending.used_s, ending.wasted_s) == (3.0, 0.0, 6.0)


def test_everyone_may_drop_out() -> None:
    ending = close(np.array([5.0, 9.0]), np.array([1.0, 4.0]), wanted=1)
    assert ending.completed.tolist() == []
    assert ending.failed.tolist() == [0, 1]
    assert ending.duration_s == 4.0


def test_ties_go_to_whoever_was_selected_first_and_never_exceed_k() -> None:
    ending = close(np.full(4, 7.0), np.full(4, INF), wanted=2)
    assert ending.completed.tolist() == [0, 1]
    assert ending.unused.tolist() == [2, 3]


def test_a_round_of_nobody_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one client; got none"):
        close(np.zeros(0), np.zeros(0), wanted=1)


@pytest.mark.parametrize(("k", "factor", "selected"), [(100, 1.3, 130), (10, 1.25, 13), (7, 1, 7)])
def test_over_commitment_rounds_up_but_not_for_float_noise(
    k: int, factor: float, selected: int
) -> None:
    assert overcommitted(k, factor) == selected


@given(
    st.lists(
        st.tuples(st.floats(0.1, 100), st.floats(0.1, 200), st.booleans()),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 20),
    st.one_of(st.none(), st.floats(0.1, 100)),
)
def test_everyone_selected_ends_up_in_exactly_one_place(
    times: list[tuple[float, float, bool]], wanted: int, deadline_s: float | None
) -> None:
    duration, drops, bad = map(np.array, zip(*times, strict=True))
    drops = np.where(drops > 100, INF, drops)
    ending = close(duration, drops, wanted=wanted, deadline_s=deadline_s, rejected=bad)
    everyone = np.concatenate([ending.completed, ending.failed, ending.unused])
    assert sorted(everyone.tolist()) == list(range(len(times)))
    assert len(ending.completed) <= wanted
    assert (duration[ending.completed] <= ending.duration_s).all()
    assert (np.minimum(duration, drops)[ending.failed] <= ending.duration_s).all()
    assert not bad[ending.completed].any()


@given(
    st.lists(st.sampled_from([0.0, 1.0, 1.5, 7.25, 1e9]), min_size=1, max_size=9),
    st.integers(1, 12),
)
def test_a_round_without_losses_ends_as_one_with_an_endless_deadline(
    seconds: list[float], wanted: int
) -> None:
    """Two ways to the same ending: the short one, and that of rounds where something happens."""
    duration_s, never = np.array(seconds), np.full(len(seconds), np.inf)
    short = close(duration_s, never, wanted=wanted)
    long = close(duration_s, never, wanted=wanted, deadline_s=np.inf)
    for name in ("completed", "failed", "unused"):
        np.testing.assert_array_equal(getattr(short, name), getattr(long, name))
    assert (short.duration_s, short.used_s, short.wasted_s) == (
        long.duration_s,
        long.used_s,
        long.wasted_s,
    )
