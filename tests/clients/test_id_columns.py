"""Client ids: what is one, which row it has, and how they are stored."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oort
from oort.clients.id_columns import checked_id
from oort.clients.id_columns import id_list as checked_ids
from oort.clients.ids import ClientIds

any_id = st.one_of(
    st.text(), st.text("\ud800\udfffä", max_size=3), st.integers(-(2**63), 2**64 - 1)
)


class Device(str, enum.Enum):  # noqa: UP042
    PHONE = "phone-1"


class Number(enum.IntEnum):
    SEVEN = 7


@pytest.mark.parametrize(
    ("given_id", "plain"),
    [
        (np.int8(-3), -3),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.int64(-(2**63)), -(2**63)),
        (np.str_("a"), "a"),
        (Device.PHONE, "phone-1"),
        (Number.SEVEN, 7),
        (-(2**63), -(2**63)),
        (2**64 - 1, 2**64 - 1),
    ],
    ids=repr,
)
def test_ids_of_other_types_become_the_plain_id_that_they_equal(given_id: Any, plain: Any) -> None:
    assert checked_id(given_id) == plain
    assert type(checked_id(given_id)) is type(plain)


@pytest.mark.parametrize(
    "wrong", [True, np.True_, 1.0, np.float64(1), None, b"x", (1,), 2**64, -(2**63) - 1], ids=repr
)
def test_what_is_no_id_is_refused(wrong: Any) -> None:
    with pytest.raises(oort.InvalidClientIdError, match="a client id must be a string or"):
        checked_id(wrong)


def test_a_collection_of_ids_is_not_text_and_not_a_number() -> None:
    for wrong in ("abc", b"abc", 5, None, np.array(5)):
        with pytest.raises(oort.InvalidClientIdError, match="must be a collection of ids"):
            checked_ids(wrong)
    with pytest.raises(oort.InvalidClientIdError):
        checked_ids(np.array([1.0, 2.0]))
    with pytest.raises(oort.InvalidClientIdError):
        checked_ids(np.array([[1, 2]]))
    assert checked_ids({"a": 1, "b": 2}) == ["a", "b"]


@given(st.lists(any_id, max_size=20), st.data())
def test_rows_are_given_in_order_never_again_and_survive_storing(
    ids: list[oort.ClientId], data: st.DataObject
) -> None:
    ours = ClientIds()
    rows = ours.add(ids)
    distinct = list(dict.fromkeys(ids))
    assert rows.tolist() == [distinct.index(i) for i in ids]
    assert ours.of(rows) == ids
    gone = data.draw(st.lists(st.sampled_from(range(len(distinct))), unique=True)) if ids else []
    ours.forget(np.array(gone, np.int64))
    stored = ours.to_arrays()
    again = ClientIds.from_arrays(stored)
    for index in (ours, again):
        assert len(index) == len(distinct)
        expected = [-1 if row in gone else row for row in range(len(distinct))]
        assert index.find(distinct).tolist() == expected
        assert np.flatnonzero(index.is_forgotten(np.arange(len(distinct)))).tolist() == sorted(
            gone
        )
    new = again.add([distinct[row] for row in gone])
    assert new.tolist() == list(range(len(distinct), len(distinct) + len(gone)))
    kinds = [type(i) for i in again.of(rows[~np.isin(rows, gone)])]
    assert kinds == [type(i) for i, row in zip(ids, rows.tolist(), strict=True) if row not in gone]
