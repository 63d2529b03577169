"""Ids and rows: a dict while they are few, an index in flat arrays when they are many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oort.clients import id_columns
from oort.clients import ids as ids_module
from oort.clients.ids import ClientIds
from oort.errors import DamagedFileError, InvalidClientIdError
from oort.types import ClientId

client_ids = st.one_of(
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-5, 5),
    st.text(max_size=8),
    st.sampled_from(["1", "", "\0", "a\0", "é", "\ud800", "x" * 300]),
)
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["add", "forget", "save"]), st.lists(client_ids, max_size=12)),
    max_size=12,
)


@pytest.fixture(params=["dict", "index"])
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[ClientIds]:
    """Ids that are kept in a dict, or from the first one on in the index."""
    monkeypatch.setattr(ids_module, "_FEW", 10**9 if request.param == "dict" else -1)
    return ClientIds


@settings(max_examples=150, deadline=None)
@given(actions=ACTIONS, few=st.sampled_from([-1, 5, 10**9]))
def test_ids_behave_like_a_dict_of_rows(
    actions: list[tuple[str, list[ClientId]]], few: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ids_module, "_FEW", few)
        ids, rows_of, row_count = ClientIds(), dict[ClientId, int](), 0
        for action, batch in actions:
            if action == "add":
                got = ids.add(batch)
                for client in batch:
                    if client not in rows_of:
                        rows_of[client] = row_count
                        row_count += 1
                assert got.tolist() == [rows_of[client] for client in batch]
            elif action == "forget":
                known = [rows_of.pop(c) for c in dict.fromkeys(batch) if c in rows_of]
                ids.forget(np.array(known, np.int64))
                assert ids.is_forgotten(np.array(known, np.int64)).all()
            else:
                ids = ClientIds.from_arrays(ids.to_arrays())
            assert len(ids) == row_count
            assert ids.find(batch).tolist() == [rows_of.get(c, -1) for c in batch]
            rows = np.array(list(rows_of.values()), np.int64)
            assert ids.of(rows) == list(rows_of)


def test_texts_with_the_same_hash_are_two_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids_module, "_FEW", -1)

    def all_the_same(text: Any, start: Any, length: Any) -> Any:
        return np.full(len(length), 7, np.uint64)

    monkeypatch.setattr(id_columns, "text_hashes", all_the_same)
    ids = ClientIds()
    names = [f"client-{i}" for i in range(50)]
    assert ids.add(names).tolist() == list(range(50))
    assert ids.find(["client-49", "client-0", "else"]).tolist() == [49, 0, -1]
    assert ids.add(["client-3", "new", "new"]).tolist() == [3, 50, 50]


def test_consecutive_integers_need_no_slots_until_another_id_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ids_module, "_FEW", -1)
    ids = ClientIds()
    assert ids.add(range(100, 200)).tolist() == list(range(100))
    assert ids.add(np.arange(200, 300)).tolist() == list(range(100, 200))
    assert ids._many._slots is None
    assert ids.find([99, 100, 299, 300, "100"]).tolist() == [-1, 0, 199, -1, -1]
    ids.forget(np.array([0]))
    assert ids.find([100]).tolist() == [-1]
    assert ids.add(["100", 100]).tolist() == [200, 201]
    assert ids.find([100, 101, "100"]).tolist() == [201, 1, 200]


def column_forms(names: list[str]) -> dict[str, Any]:
    """The same texts in every form that a column of them may have."""
    forms: dict[str, Any] = {
        "list": names,
        "tuple": tuple(names),
        "numpy fixed width": np.array(names),
        "numpy objects": np.array(names, object),
        "generator": (name for name in names),
    }
    if hasattr(np.dtypes, "StringDType"):
        forms["numpy any width"] = np.array(names, np.dtypes.StringDType())
    try:
        import pandas as pd
        import pyarrow as pa
    except ImportError:
        return forms
    forms["arrow"] = pa.array(names)
    forms["arrow large"] = pa.array(names, pa.large_string())
    forms["arrow view"] = pa.array(names, pa.string_view())
    forms["arrow slice"] = pa.array(["?", *names, "?"])[1 : len(names) + 1]
    forms["arrow chunks"] = pa.chunked_array([names[:2], names[2:]])
    forms["arrow dictionary"] = pa.array(names).dictionary_encode()
    forms["pandas series"] = pd.Series(names)
    forms["pandas objects"] = pd.Series(names, dtype=object)
    forms["pandas index"] = pd.Index(names)
    forms["pandas arrow"] = pd.Series(names, dtype=pd.ArrowDtype(pa.string()))
    return forms


@pytest.mark.parametrize("names", [["a", "bb", "", "ccc"], ["é", "日本", "x", "🙂"]])
def test_text_columns_of_every_form_give_the_same_rows(
    names: list[str], make: type[ClientIds]
) -> None:
    for form, column in column_forms(names).items():
        ids = make()
        assert ids.add(column).tolist() == [0, 1, 2, 3], form
        assert ids.of(np.arange(4)) == names, form


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "uint64", ">i4"])
def test_integer_arrays_of_every_width_are_ids(dtype: str, make: type[ClientIds]) -> None:
    ids = make()
    assert ids.add(np.array([5, 3, 5, 100], dtype)).tolist() == [0, 1, 0, 2]
    assert ids.of(np.arange(3)) == [5, 3, 100]


def test_negative_and_unsigned_ids_with_the_same_bits_are_two(make: type[ClientIds]) -> None:
    ids = make()
    assert ids.add([-1, 2**64 - 1]).tolist() == [0, 1]
    assert ids.add(np.array([2**64 - 1], np.uint64)).tolist() == [1]
    assert ids.add(np.array([-1])).tolist() == [0]


@pytest.mark.parametrize(
    "wrong",
    [
        [None],
        [1.0],
        [True],
        [b"x"],
        [2**64],
        [-(2**63) - 1],
        [("a",)],
        "client",
        b"client",
        7,
        np.array([True, False]),
        np.array([1.5]),
        np.array([["a"]]),
        ["fine", None],
    ],
)
def test_what_is_no_id_is_refused_and_takes_no_row(wrong: Any, make: type[ClientIds]) -> None:
    ids = make()
    with pytest.raises(InvalidClientIdError):
        ids.add(wrong)
    assert len(ids) == 0


def test_arrow_columns_with_nulls_or_of_other_types_are_refused(make: type[ClientIds]) -> None:
    pa = pytest.importorskip("pyarrow")
    null_inside = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    nested = (pa.array([["a"]]), pa.array([{"id": "a"}]))
    for column in (pa.array(["a", None]), pa.array([1.5]), pa.array([b"x"]), null_inside, *nested):
        with pytest.raises(InvalidClientIdError):
            make().add(column)


def test_arrow_columns_with_repeats_written_once_are_ids(make: type[ClientIds]) -> None:
    pa = pytest.importorskip("pyarrow")
    ids = make()
    assert ids.add(pa.array([7, 9, 7]).dictionary_encode()).tolist() == [0, 1, 0]
    assert ids.add(pa.array(["x", "7", "x"]).dictionary_encode()).tolist() == [2, 3, 2]
    assert ids.of(np.arange(4)) == [7, 9, "x", "7"]


def test_a_table_with_a_column_of_ids_is_not_a_column_of_ids(make: type[ClientIds]) -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidClientIdError, match="not a table"):
        make().add(pd.DataFrame({"id": ["a", "b"]}))


def test_ids_that_a_masked_array_hides_are_refused(make: type[ClientIds]) -> None:
    hidden: Any = np.ma.array([1, 2, 3], mask=[False, True, False])
    ids = make()
    for call in (ids.add, ids.find):
        with pytest.raises(InvalidClientIdError, match="got None"):
            call(hidden)
    assert ids.add(np.ma.array(range(4))).tolist() == [0, 1, 2, 3], "nothing is hidden"
    with pytest.raises(InvalidClientIdError, match="got None"):
        ids.find(hidden)


def test_a_missing_integer_is_named_as_missing(make: type[ClientIds]) -> None:
    pd = pytest.importorskip("pandas")
    assert make().add(pd.Series([5, 2**62 + 1], dtype="Int64")).tolist() == [0, 1]
    with pytest.raises(InvalidClientIdError, match="got <NA>"):
        make().add(pd.Series([5, None], dtype="Int64"))


def test_an_index_of_several_levels_holds_no_ids(make: type[ClientIds]) -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(InvalidClientIdError, match=r"got \(1, 2\)"):
        make().add(pd.MultiIndex.from_tuples([(1, 2)]))


def test_arrow_text_that_is_no_utf_8_is_refused(make: type[ClientIds]) -> None:
    pa = pytest.importorskip("pyarrow")
    ends, text = pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"a\xff\xfe")
    broken = pa.StringArray.from_buffers(2, ends, text)
    ids = make()
    for call in (ids.add, ids.find):
        with pytest.raises(InvalidClientIdError, match="must be text in UTF-8"):
            call(broken)
    assert len(ids) == 0


def test_an_empty_arrow_column_of_any_type_holds_nobody(make: type[ClientIds]) -> None:
    pa = pytest.importorskip("pyarrow")
    for empty in (pa.array([]), pa.array([], pa.string()), pa.chunked_array([[], []])):
        assert make().add(empty).size == 0


def test_ids_that_differ_in_what_is_easily_lost_are_different(make: type[ClientIds]) -> None:
    names = ["a", "a\0", "a\0\0", "a ", " a", "A", "é", "e\u0301", "", "\0", "1"]
    ids = make()
    assert ids.add([*names, 1]).tolist() == list(range(12))
    assert ids.of(np.arange(12)) == [*names, 1]
    assert ids.find(names[::-1]).tolist() == list(range(10, -1, -1))


def test_a_saved_column_with_an_id_in_two_rows_is_refused() -> None:
    for few in (-1, 10):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ids_module, "_FEW", few)
            ids = ClientIds()
            ids.add(["a", "b", 3])
            arrays = ids.to_arrays()
            arrays["id_text"] = np.frombuffer(b"aa", np.uint8)
            with pytest.raises(DamagedFileError, match="two rows"):
                ClientIds.from_arrays(arrays)


def test_many_random_ids_are_found_again() -> None:
    generator = np.random.default_rng(3)
    numbers = generator.integers(-(2**62), 2**62, 200_000)
    names = [f"device-{n:x}" for n in numbers.tolist()]
    ids = ClientIds()
    rows, text_rows = ids.add(numbers), ids.add(names)
    assert np.array_equal(ids.find(numbers), rows)
    assert np.array_equal(ids.find(names[::-1]), text_rows[::-1])
    assert ids.of(text_rows[:100]) == names[:100]
    assert len(ids) == len({*numbers.tolist(), *names})


def test_integers_that_are_row_numbers_are_found_as_any_other_ids() -> None:
    ids = ClientIds()
    ids.add(range(5))
    asked = [0, 4, 5, -1, 2**64 - 1, 2**63]
    expected = [0, 4, -1, -1, -1, -1]
    assert ids.find(asked).tolist() == expected
    assert ids.find(np.array(asked[:4])).tolist() == expected[:4]
    assert ids.find(np.array([0, 4, 5, 2**64 - 1, 2**63], np.uint64)).tolist() == [
        0,
        4,
        -1,
        -1,
        -1,
    ]
    with pytest.raises(InvalidClientIdError):
        ids.find(np.array([[0, 1]]))
    ids.forget(np.array([4]))
    assert ids.find(np.array([0, 4])).tolist() == [0, -1]
