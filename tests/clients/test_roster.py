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


@pytest.mark.parametrize("few", [-1, 100], ids=["index", "dict"])
def test_a_comparison_of_row_numbers_is_a_mask(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oort.clients.ids._FEW", few)
    selector = oort.create_training_selector()
    rows = selector.register_clients(range(100, 110))
    first = rows < 4
    assert isinstance(first, oort.RowNumbers), "as NumPy has it"
    selector.mark_offline(first)
    assert sorted(selector.select_participant(10)) == list(range(104, 110))
    assert selector.update_clients(first, utility=1.0).applied == 4
    assert selector.columns(first).utility.tolist() == [1.0] * 4
    assert selector.rows(first).tolist() == [0, 1, 2, 3]
    assert selector.remove_clients(rows == 5) == 1
    assert selector.forget(rows > 7) == 2
    assert selector.client_ids() == [100, 101, 102, 103, 104, 106, 107]


@pytest.mark.parametrize("few", [-1, 100], ids=["index", "dict"])
def test_fractions_and_tables_of_row_numbers_are_refused(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oort.clients.ids._FEW", few)
    selector = oort.create_training_selector()
    rows = selector.register_clients(range(10))
    for wrong in (rows / 2, rows.reshape(2, 5)):
        for call in (selector.select_participant, selector.preview):
            with pytest.raises(oort.InvalidArgumentError, match="a list of whole numbers"):
                call(3, among=wrong)
        for named in (selector.remove_clients, selector.forget, selector.mark_offline):
            with pytest.raises(oort.InvalidArgumentError, match="a list of whole numbers"):
                named(wrong)
        with pytest.raises(oort.InvalidArgumentError, match="a list of whole numbers"):
            selector.update_clients(wrong, utility=1.0)
    assert selector.num_clients == 10


def test_zeros_and_ones_for_every_row_are_refused_as_ids() -> None:
    selector = oort.create_training_selector()
    selector.register_clients([f"phone-{i}" for i in range(9)])
    mask = np.arange(9) < 4
    for kind in (np.int64, np.uint8):
        with pytest.raises(oort.InvalidArgumentError, match=r"astype\(bool\) makes a mask"):
            selector.select(3, among=mask.astype(kind))
    assert selector.num_clients == 9, "nobody joined"
    assert len(selector.select(3, among=mask)) == 3


@pytest.mark.parametrize("clients", [9, 40_000])
def test_a_mask_of_another_kind_is_refused_and_the_right_kind_is_named(clients: int) -> None:
    pd = pytest.importorskip("pandas")
    selector = oort.create_training_selector()
    selector.register_clients(range(clients))
    mask = np.arange(clients) < 4
    for wrong in (mask.tolist(), pd.Series(mask)):
        with pytest.raises(oort.InvalidClientIdError, match="must be a NumPy array of booleans"):
            selector.select(3, among=wrong)
    assert len(selector.select(3, among=pd.Series(mask).to_numpy())) == 3


@pytest.mark.parametrize("clients", [9, 5000])
def test_whoever_a_masked_array_hides_is_not_named(clients: int) -> None:
    selector = oort.create_training_selector()
    selector.register_clients(range(clients))
    everyone = np.ones(clients, np.bool_)
    hidden = np.ma.array(everyone, mask=np.arange(clients) > 2)
    assert sorted(selector.select_participant(clients, among=hidden)) == [0, 1, 2]
