"""Who may be picked at all, and in which role: every client in exactly one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oort.clients.columns import EXPLORED, ONLINE, PRESENT, READY, REMOVED, TRIED
from oort.training.eligibility import roles, slower_than


@given(st.lists(st.integers(0, 31), max_size=40), st.data())
def test_every_ready_and_allowed_row_has_exactly_one_role(
    flags: list[int], data: st.DataObject
) -> None:
    # An explored client is always tried: no table has it otherwise.
    flags = [f | TRIED if f & EXPLORED else f for f in flags]
    bits = st.lists(st.booleans(), min_size=len(flags), max_size=len(flags))
    allowed, slow = (np.array(data.draw(bits), np.bool_) for _ in range(2))
    found = roles(np.array(flags, np.uint8), allowed, slow)
    seen = np.concatenate([found.untried, found.explored, found.pending, found.removed])
    ready = [i for i, f in enumerate(flags) if f & READY == READY and allowed[i] and not slow[i]]
    assert sorted(seen.tolist()) == ready
    assert len(found) == len(ready)
    for row in found.removed.tolist():
        assert flags[row] & REMOVED
    for row in found.explored.tolist():
        assert flags[row] & EXPLORED
        assert not flags[row] & REMOVED
    for row in found.untried.tolist():
        assert flags[row] in (PRESENT | ONLINE,)


def test_unknown_durations_are_slower_than_nothing() -> None:
    durations = np.array([np.nan, 0.0, 1e30, 5.0], np.float32)
    assert slower_than(durations, 5.0).tolist() == [False, False, True, False]
    assert not slower_than(durations, np.inf).any()
    assert not slower_than(durations, 1e300).any()
