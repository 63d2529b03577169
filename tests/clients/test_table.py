"""The client table: growing, counting, storing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from oort.clients.columns import EXPLORED, PRESENT, READY, REMOVED, SCHEMA, SKETCH, TRIED
from oort.clients.table import ClientTable


def test_the_schema_declares_name_type_unit_and_meaning_and_is_narrow() -> None:
    names = [column.name for column in SCHEMA]
    assert len(set(names)) == len(names)
    assert all(column.unit and column.meaning for column in (*SCHEMA, SKETCH))
    assert sum(np.dtype(column.dtype).itemsize for column in SCHEMA) <= 20


@pytest.mark.parametrize("width", [0, 3])
def test_growing_keeps_what_was_there_and_new_rows_are_empty(width: int) -> None:
    table = ClientTable(sketch_width=width)
    for step in range(1, 300):
        table.add([step])
        table.utility[step - 1] = step
        if width:
            table.sketch[step - 1] = step
    assert table.num_rows == table.num_present == 299
    assert table.utility.tolist() == list(range(1, 300))
    assert not width or table.sketch.shape == (299, width)
    table.add(["new"])
    assert table.flags[-1] == READY
    assert np.isnan(table.duration_s[-1])
    assert table.utility[-1] == 0
    assert not width or (table.sketch[-1] == 0).all()
    assert not width or table.sketch[298].tolist() == [299.0] * 3


def test_participations_stop_at_the_most_that_can_be_stored_and_at_0() -> None:
    table = ClientTable()
    rows = table.add(["a"])
    table.count_participations(rows, 65_534)
    for expected in (65_535, 65_535):
        table.count_participations(rows, 1)
        assert table.participations[0] == expected
    table.count_participations(rows, -70_000)
    assert table.participations[0] == 0


def test_flags_follow_from_counts() -> None:
    table = ClientTable(max_participations=2)
    rows = table.add(["a"])
    for count, flags in ((1, TRIED), (2, TRIED), (3, TRIED | REMOVED)):
        table.count_participations(rows, 1)
        assert table.flags[0] == READY | flags, count
    table.flags[rows] |= EXPLORED
    table.count_participations(rows, -3)
    assert table.flags[0] == READY | TRIED | EXPLORED, "explored stays tried"


def test_removing_and_bringing_back_counts_each_client_once() -> None:
    table = ClientTable()
    rows = table.add(["a", "b", "c"])
    assert table.remove(rows[[0, 0, 1]]) == 2
    assert table.num_present == 1
    table.bring_back(rows[[0, 0]])
    assert table.num_present == 2
    assert table.rows_with(PRESENT, PRESENT).tolist() == [0, 2]


def test_a_stored_table_comes_back() -> None:
    table = ClientTable(sketch_width=2, max_participations=1)
    rows = table.add(["a", 1, "c", "d"])
    table.utility[:2] = [2.5, 0]
    table.duration_s[1:3] = [7, 8]
    table.count_participations(rows[:3], 2)
    table.sketch[1] = [3, 4]
    table.remove(rows[2:3])
    table.forget(rows[3:])
    again = ClientTable.from_arrays(table.to_arrays(), sketch_width=2, max_participations=1)
    assert again.num_present == table.num_present == 2
    for name, array in table.to_arrays().items():
        np.testing.assert_array_equal(again.to_arrays()[name], array, err_msg=name)
    assert again.add(["e"]).tolist() == [4]


@contextmanager
def short_of_memory(after: int) -> Iterator[None]:
    """NumPy makes so many arrays, and then no more."""
    left = after

    def refusing(make: Any) -> Any:
        def made(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise MemoryError
            return make(*given, **named)

        return made

    with pytest.MonkeyPatch.context() as patch:
        for name in ("empty", "zeros", "full", "arange"):
            patch.setattr(np, name, refusing(getattr(np, name)))
        yield


@pytest.mark.parametrize("few", [-1, 10**6], ids=["index", "dict"])
@pytest.mark.parametrize("form", [int, str])
def test_a_table_that_found_no_memory_to_grow_is_as_it_was_and_grows_later(
    few: int, form: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oort.clients.ids._FEW", few)
    monkeypatch.setattr("oort.clients.table.EXACT_ROWS", 10)
    after, failed = -1, True
    while failed:
        after, failed = after + 1, False
        table = ClientTable()
        table.add([form(i) for i in range(100)])
        assert table.statistics.num_untried == 100
        try:
            with short_of_memory(after):
                table.add([form(i) for i in range(100, 300)])
        except MemoryError:
            failed = True
        assert table.num_rows == table.num_present == len(table.ids)
        rows = table.add([form(i) for i in range(300)])
        assert rows.tolist() == list(range(300))
        assert {column.size for column in table.column_arrays().values()} == {300}
        assert table.statistics.num_untried == 300
    assert after > 5, "every array was once the one that could not be made"
