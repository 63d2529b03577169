"""Ids, masks and row numbers become rows in one place."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

import oort
from oort.clients import roster
from oort.clients.changes import RosterChange
from oort.clients.table import ClientTable


def make_so(table: ClientTable, changes: Iterable[RosterChange]) -> None:
    for change in changes:
        change.apply(table)


@pytest.fixture
def table() -> ClientTable:
    table = ClientTable()
    table.add(["a", "b", "c", "d"])
    table.remove(np.array([1]))
    table.forget(np.array([3]))
    return table


def test_unknown_ids_are_passed_over_refused_or_join(table: ClientTable) -> None:
    assert roster.rows_of(table, ["a", "x", "c"]).tolist() == [0, 2]
    with pytest.raises(oort.UnknownClientError, match="client 'x' is not known"):
        roster.known_rows(table, ["a", "x"])
    rows, changes = roster.joining(table, ["a", "x"])
    assert rows.tolist() == [0, 4]
    assert table.num_rows == 4
    make_so(table, changes)
    assert roster.known_rows(table, ["x"]).tolist() == [4]


def test_a_forgotten_id_is_unknown_and_its_row_stays_out(table: ClientTable) -> None:
    assert roster.rows_of(table, ["d"]).size == 0
    assert roster.rows_of(table, np.ones(4, np.bool_)).tolist() == [0, 1, 2]
    with pytest.raises(oort.InvalidArgumentError, match="not forgotten; got 3"):
        roster.rows_of(table, oort.RowNumbers([3]))


def test_joining_brings_removed_clients_back_unless_they_may_not(table: ClientTable) -> None:
    make_so(table, roster.joining(table, ["b"], bring_back=False)[1])
    assert roster.present_rows(table).tolist() == [0, 2]
    make_so(table, roster.joining(table, ["b"])[1])
    assert roster.present_rows(table).tolist() == [0, 1, 2]


def test_an_integer_array_means_ids_and_row_numbers_mean_rows() -> None:
    table = ClientTable()
    table.add([7, 8, 0])
    assert roster.rows_of(table, np.array([0])).tolist() == [2]
    assert roster.rows_of(table, oort.RowNumbers([0])).tolist() == [0]


def test_registering_twice_in_one_call_keeps_the_last_hint() -> None:
    table = ClientTable()
    rows, changes = roster.registration(
        table, ["a", "b", "a"], expected_duration_s=[1.0, 2.0, 3.0]
    )
    make_so(table, changes)
    assert rows.tolist() == [0, 1, 0]
    assert table.duration_s.tolist() == [3.0, 2.0]
    assert table.num_present == 2
