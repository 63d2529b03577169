"""Who may be picked at all, and in which role: every client in exactly one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oort.clients.columns import EXPLORED, READY, REMOVED, TRIED
from oort.training.eligibility import Roles, slower_than


@given(st.lists(st.integers(0, 31), max_size=40), st.data())
def test_every_ready_and_allowed_row_has_exactly_one_role(
    flags: list[int], data: st.DataObject
) -> None:
    # An explored client is always tried: no table has it otherwise.
    flags = [f | TRIED if f & EXPLORED else f for f in flags]
    bits = st.lists(st.booleans(), min_size=len(flags), max_size=len(flags))
    allowed = np.array(data.draw(bits), np.bool_) if data.draw(st.booleans()) else None
    roles = Roles(np.array(flags, np.uint8), allowed)
    found = {
        "untried": roles.rows_untried().tolist(),
        "explored": roles.rows_explored().tolist(),
        "pending": roles.rows_pending().tolist(),
        "removed": roles.rows_removed().tolist(),
    }
    ready = [
        i for i, f in enumerate(flags) if f & READY == READY and (allowed is None or allowed[i])
    ]
    assert sorted(row for rows in found.values() for row in rows) == ready
    for row in ready:
        role = (
            *(["removed"] if flags[row] & REMOVED else []),
            *(["explored"] if flags[row] & EXPLORED else []),
            *(["pending"] if flags[row] & TRIED else []),
            "untried",
        )[0]
        assert row in found[role], "the first that applies"
    every = np.arange(len(flags))
    assert np.flatnonzero(roles.is_untried(every)).tolist() == found["untried"]
    assert np.flatnonzero(roles.is_explored(every)).tolist() == found["explored"]


def test_unknown_durations_are_slower_than_nothing() -> None:
    durations = np.array([np.nan, 0.0, 1e30, 5.0], np.float32)
    assert slower_than(durations, 5.0).tolist() == [False, False, True, False]
    assert not slower_than(durations, np.inf).any()
    assert not slower_than(durations, 1e300).any()
