"""Changes as bytes: what goes in comes out, compactly, and nothing else is taken for it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oort.clients.changes import Hinted, Joined, Marked, Removed, Returned
from oort.clients.id_columns import id_column
from oort.store.payloads import KINDS, decode, encode
from oort.store.testing_changes import Dropped, Enrolled, Informed, Planned, Reachable
from oort.testing.category.information import NUMBERS
from oort.training.changes import Forgotten, Reported, Selected, Switched
from oort.training.intake import Taken

_rows = st.lists(st.integers(0, 2**40), max_size=30).map(lambda rows: np.array(rows, np.int64))
_singles = st.floats(width=32, allow_nan=True)
_ids = st.lists(st.integers(-(2**63), 2**64 - 1) | st.text(max_size=9), max_size=20)


def _column(values: st.SearchStrategy[Any], dtype: str, size: int) -> st.SearchStrategy[Any]:
    return st.lists(values, min_size=size, max_size=size).map(lambda v: np.array(v, dtype))


@st.composite
def _changes(draw: st.DrawFn) -> Any:
    rows = draw(_rows)
    size = rows.size
    sketch = draw(st.none() | st.just(np.arange(2.0 * size, dtype=np.float32).reshape(size, 2)))
    taken = Taken(
        rows=rows,
        outcome=draw(_column(st.integers(0, 2), "u1", size)),
        utility=draw(_column(_singles, "f4", size)),
        duration_s=draw(_column(_singles, "f4", size)),
        num_samples=draw(_column(st.integers(-1, 2**32 - 1), "i8", size)),
        sketch=sketch if size else None,
        outdated=draw(_rows),
    )
    history = draw(
        st.none()
        | st.dictionaries(
            st.integers(0, 2**31), st.tuples(st.floats(allow_nan=False), st.integers(0, 2**40))
        )
    )
    numbers = st.integers(0, 2**40)
    options: list[Any] = [
        Joined(id_column(draw(_ids))),
        Returned(rows),
        Removed(rows),
        Forgotten(rows),
        Marked(draw(st.none() | st.just(rows)), draw(st.booleans())),
        Hinted("duration_s", rows, taken.duration_s),
        Hinted("num_samples", rows, draw(_column(st.integers(0, 2**32 - 1), "u4", size))),
        Selected(draw(numbers), draw(numbers), rows, draw(numbers), draw(numbers), history),
        Reported(draw(numbers), taken),
        Switched(draw(st.sampled_from(["guided", "uniform"]))),
        Enrolled(id_column(draw(_ids))),
        Dropped(id_column(draw(_ids))),
        Reachable(draw(st.none() | st.just(id_column(["a", 7]))), draw(st.booleans())),
        Planned(draw(numbers), draw(numbers)),
        Informed(
            id_column(["a", 7]),
            draw(st.lists(st.integers() | st.text(max_size=5), max_size=4)),
            {
                **{name: np.arange(3) for name in ("length", "category", "count")},
                **{name: np.array([1.5, np.nan]) for name in NUMBERS},
            },
        ),
    ]
    return draw(st.sampled_from(options))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict) and value and isinstance(next(iter(value)), str):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return value


@given(change=_changes())
def test_a_change_survives_being_bytes(change: Any) -> None:
    kind, data = encode(change)
    again = decode(kind, data)
    assert type(again) is type(change)
    assert _plain(again) == _plain(change)


@given(change=_changes(), cut=st.floats(0, 1, exclude_max=True))
def test_what_is_cut_off_is_refused(change: Any, cut: float) -> None:
    kind, data = encode(change)
    with pytest.raises(ValueError, match="must"):
        decode(kind, data[: int(cut * len(data))])


def test_what_follows_the_fields_is_refused() -> None:
    kind, data = encode(Switched("guided"))
    with pytest.raises(ValueError, match="1 bytes more"):
        decode(kind, data + b"x")


def test_another_version_and_another_kind_are_refused() -> None:
    kind, data = encode(Switched("guided"))
    with pytest.raises(ValueError, match="version 1; got 2"):
        decode(kind, b"\2" + data[1:])
    with pytest.raises(ValueError, match="known kind; got 'pickled'"):
        decode("pickled", data)


def test_rows_that_count_up_and_columns_of_one_value_take_no_room() -> None:
    rows = np.arange(1_000_000)
    _, data = encode(Hinted("duration_s", rows, np.full(1_000_000, 3.5, np.float32)))
    assert len(data) < 100
    assert _plain(decode("hinted", data)) == _plain(
        Hinted("duration_s", rows, np.full(1_000_000, 3.5, np.float32))
    )


def test_every_kind_is_known_by_one_name() -> None:
    assert len({kind.change for kind in KINDS.values()}) == len(KINDS)
