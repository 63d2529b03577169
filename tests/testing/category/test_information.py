"""What is known of clients: updates of every kind, and bad ones that change nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix, csr_matrix

from oort.errors import InvalidArgumentError, InvalidClientInfoError, UnknownClientError
from oort.testing import create_testing_selector
from oort.testing.category import ClientInformation
from oort.types import ClientInfo, RowNumbers


def dense(known: ClientInformation) -> list[list[int]]:
    indptr, category, count = known.matrix()
    shape = (len(indptr) - 1, len(known.categories))
    return csr_matrix((count, category, indptr), shape=shape).toarray().tolist()


counts = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 5), max_size=6)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 5), counts), max_size=40))
def test_any_sequence_of_updates_leaves_the_newest_counts(
    updates: list[tuple[int, dict[str, int]]],
) -> None:
    known, expected = ClientInformation(), {}
    for client, samples in updates:
        known.update(client, ClientInfo(samples=samples))
        expected[client] = {c: k for c, k in samples.items() if k}
    for client, samples in expected.items():
        assert known.samples_of(client) == samples
    indptr, category, _ = known.matrix()
    for row in range(len(indptr) - 1):
        assert (np.diff(category[indptr[row] : indptr[row + 1]]) > 0).all()
    for client, samples in expected.items():
        assert known.samples_of(client) == samples


def test_an_update_leaves_what_it_does_not_name() -> None:
    known = ClientInformation()
    known.update("cam-3", ClientInfo(samples={"cat": 7}, samples_per_s=25, bandwidth_mbps=8))
    known.update("cam-3", ClientInfo(samples_per_s=30))
    assert known.samples_of("cam-3") == {"cat": 7}
    assert known.numbers("samples_per_s").tolist() == [30.0]
    assert known.numbers("bandwidth_mbps").tolist() == [8.0]


@pytest.mark.parametrize("kind", [csr_matrix, coo_matrix, np.array])
def test_bulk_updates_take_sparse_and_dense_tables(kind: Any) -> None:
    known = ClientInformation()
    known.update("b", ClientInfo(samples={"dog": 9, "emu": 1}))
    known.update_many(
        ["a", "b"], kind([[1, 0], [2, 3]]), categories=["cat", "dog"], samples_per_s=5
    )
    assert known.categories == ["dog", "emu", "cat"]
    assert known.samples_of("a") == {"cat": 1}
    assert known.samples_of("b") == {"dog": 3, "cat": 2}
    assert dense(known) == [[3, 0, 2], [0, 0, 1]]


@pytest.mark.parametrize("form", ["csr", "coo"])
@pytest.mark.parametrize("kind", [np.int8, np.int32, np.float32])
def test_counts_said_in_several_parts_are_added_up(form: str, kind: Any) -> None:
    most = 2**31 - 1 if kind is np.int32 else 100
    parts = np.full(2, most, kind)
    table: Any = (
        csr_matrix((parts, np.zeros(2, np.int64), np.array([0, 2])), shape=(1, 1))
        if form == "csr"
        else coo_matrix((parts, (np.zeros(2, np.int64), np.zeros(2, np.int64))), shape=(1, 1))
    )
    known = ClientInformation(["cat"])
    known.update_many(["a"], table)
    assert known.samples_of("a") == {"cat": 2 * most}


def test_a_table_with_named_columns_is_read_by_their_names() -> None:
    arrow = pytest.importorskip("pyarrow", reason="Arrow needs pyarrow")
    pandas = pytest.importorskip("pandas", reason="DataFrames need pandas")
    columns = {"dog": [3], "cat": [4]}
    for table in (pandas.DataFrame(columns), arrow.table(columns)):
        known = ClientInformation(["cat", "dog"])
        known.update_many(["a"], table)
        assert known.samples_of("a") == {"cat": 4, "dog": 3}


def test_columns_that_are_named_by_numbers_keep_them_unless_they_only_count() -> None:
    pandas = pytest.importorskip("pandas", reason="DataFrames need pandas")
    known = ClientInformation()
    known.update_many(["a"], pandas.DataFrame([[5, 6]], columns=[7, 3]))
    assert known.samples_of("a") == {7: 5, 3: 6}
    named = ClientInformation(["cat", "dog"])
    named.update_many(["a"], pandas.DataFrame([[5, 6]]))
    assert named.samples_of("a") == {"cat": 5, "dog": 6}


def test_bulk_numbers_may_be_masked_and_counts_of_any_kind() -> None:
    known = ClientInformation(["cat"])
    counts = np.array([[3], [4]], np.float16)
    speeds = np.ma.array([5.0, 6.0], mask=[False, True])
    known.update_many(["a", "b"], counts, samples_per_s=speeds)
    assert known.samples_of("b") == {"cat": 4}
    np.testing.assert_equal(known.numbers("samples_per_s"), [5.0, np.nan])


def test_tables_may_hold_numpy_numbers_in_lists() -> None:
    tester = create_testing_selector()
    tester.load_client_info({"client": ["a"], "cat": [np.int64(3)]})
    assert tester.information.samples_of("a") == {"cat": 3}


def test_large_counts_are_kept_exactly() -> None:
    known = ClientInformation()
    known.update("a", ClientInfo(samples={"cat": 5}))
    known.update("b", ClientInfo(samples={"cat": 2**40 + 1}))
    assert known.samples_of("b") == {"cat": 2**40 + 1}
    assert known.totals().tolist() == [2**40 + 6]


BAD_INFO: list[tuple[dict[str, Any], str]] = [
    ({"samples": {"cat": -1}}, r"client 'cam-1': samples\['cat'\] must be .*; got -1"),
    ({"samples": {"cat": 1.5}}, r"samples\['cat'\] must be a whole number"),
    ({"samples": {"cat": True}}, r"samples\['cat'\] must be a whole number"),
    ({"samples": {"cat": float("nan")}}, r"samples\['cat'\] must be a whole number"),
    ({"samples": {"cat": 2**60}}, r"samples\['cat'\] must be a whole number"),
    ({"samples": {None: 3}}, "samples must name categories by strings or integers; got None"),
    ({"samples": 12}, "samples must be a mapping"),
    (
        {"samples": {"cat": 9}, "samples_per_s": float("nan")},
        "'cam-1': samples_per_s must be .*; got nan",
    ),
    ({"samples": {"cat": 9}, "samples_per_s": 0}, "samples_per_s must be .*; got 0"),
    ({"samples": {"cat": 9}, "samples_per_s": float("inf")}, "samples_per_s must be .*; got inf"),
    ({"bandwidth_mbps": 0}, "'cam-1': bandwidth_mbps must be a number from 1e-09 .*; got 0"),
    ({"bandwidth_mbps": "8"}, "bandwidth_mbps must be .*; got '8'"),
    ({"transfer_mb": -1}, "transfer_mb must be .*; got -1"),
    ({"max_samples": 2.5}, "max_samples must be a whole number .*; got 2.5"),
    ({"speed": 3}, "client 'cam-1': client info has no field 'speed'"),
]


@pytest.mark.parametrize(("info", "message"), BAD_INFO)
def test_bad_info_names_client_and_field_and_changes_nothing(
    info: dict[str, Any], message: str
) -> None:
    known = ClientInformation()
    known.update("cam-1", ClientInfo(samples={"cat": 7}, samples_per_s=2, bandwidth_mbps=3))
    with pytest.raises(InvalidClientInfoError, match=message):
        known.update("cam-1", info)
    with pytest.raises(InvalidClientInfoError):
        known.update("new", info)
    assert known.num_clients == 1
    assert known.categories == ["cat"]
    assert known.samples_of("cam-1") == {"cat": 7}
    assert known.numbers("samples_per_s").tolist() == [2.0]


BAD_BULK: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    (
        (["a", "b"], [[1], [-4]]),
        {"categories": ["cat"]},
        r"client 'b': samples\['cat'\] must be .*; got -4",
    ),
    (
        (["a", "b"], [[1.0], [0.5]]),
        {"categories": ["cat"]},
        r"client 'b': samples\['cat'\] must be .*; got 0.5",
    ),
    (
        (["a", "b"], [[1.0], [np.nan]]),
        {"categories": ["cat"]},
        r"client 'b': samples\['cat'\] must be",
    ),
    ((["a", "a"], [[1], [2]]), {"categories": ["cat"]}, "client 'a': id must be given once"),
    ((["a", "b"], [[1]]), {"categories": ["cat"]}, "one row per client"),
    ((["a"], [[1, 2]]), {"categories": ["cat"]}, "each of the 2 columns"),
    ((["a"], [[1, 2]]), {"categories": ["cat", "cat"]}, "each of the 2 columns"),
    ((["a"], [1]), {}, "a table of numbers"),
    ((["a"], [["x"]]), {}, "a table of numbers"),
    (
        (["a", "b"],),
        {"samples_per_s": [1.0, np.nan]},
        "client 'b': samples_per_s must be .*; got nan",
    ),
    ((["a", "b"],), {"bandwidth_mbps": [1, 0]}, "client 'b': bandwidth_mbps must be .*; got 0"),
    ((["a", "b"],), {"bandwidth_mbps": [1]}, "one per client"),
    ((["a", "b"],), {"transfer_mb": ["x", 1]}, "client 'a': transfer_mb must be"),
]


@pytest.mark.parametrize(("arguments", "options", "message"), BAD_BULK)
def test_a_bad_bulk_update_names_client_and_field_and_changes_nothing(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    known = ClientInformation()
    known.update("a", ClientInfo(samples={"cat": 7}, samples_per_s=2))
    with pytest.raises(InvalidClientInfoError, match=message):
        known.update_many(*arguments, **options)
    assert known.num_clients == 1
    assert known.samples_of("a") == {"cat": 7}
    assert known.numbers("samples_per_s").tolist() == [2.0]
    assert known.categories == ["cat"]


def test_declared_categories_are_the_only_ones() -> None:
    known = ClientInformation(["cat", "dog"])
    with pytest.raises(InvalidClientInfoError, match="categories 'cat', 'dog'; got 'emu'"):
        known.update("a", ClientInfo(samples={"emu": 1}))
    known.update("a", ClientInfo(samples={"dog": 1}))
    assert dense(known) == [[0, 1]]


def test_removed_clients_are_unknown_until_they_are_updated() -> None:
    known = ClientInformation()
    known.update_many([1, 2], [[3], [4]], samples_per_s=1)
    assert known.remove([1]) == 1
    with pytest.raises(UnknownClientError, match="client 1 is not known"):
        known.rows([1])
    known.update(1, ClientInfo(samples={0: 5}))
    assert dense(known) == [[0], [4], [5]], "it comes back to a row of its own"
    assert np.isnan(known.numbers("samples_per_s")[0])


def test_among_takes_ids_masks_and_row_numbers() -> None:
    known = ClientInformation()
    known.update_many([10, 11, 12], [[1], [1], [1]])
    known.mark([12], online=False)
    assert known.available([10, 12]).tolist() == [True, False, False]
    assert known.available(np.array([True, False, True])).tolist() == [True, False, False]
    assert known.available(RowNumbers([0, 1])).tolist() == [True, True, False]
    known.mark(None, online=True)
    assert known.available().all()
    with pytest.raises(InvalidArgumentError, match="one entry per row"):
        known.available(np.array([True]))
    with pytest.raises(UnknownClientError, match="row 7"):
        known.available(RowNumbers([7]))


LONG = "client,category,samples\ncam-1,cat,5\ncam-1,dog,2\ncam-2,dog,9\n"
WIDE = "client,cat,dog\ncam-1,5,2\ncam-2,,9\n"
DEVICES = "client,samples_per_s,bandwidth_mbps\ncam-1,10,8\ncam-2,20.5,4\n"


@pytest.mark.parametrize("text", [LONG, WIDE])
def test_csv_files_are_read_long_and_wide(text: str, tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text(text)
    (tmp_path / "devices.csv").write_text(DEVICES)
    tester = create_testing_selector()
    assert tester.load_client_info(tmp_path / "counts.csv", tmp_path / "devices.csv") == 2
    assert tester.information.samples_of("cam-1") == {"cat": 5, "dog": 2}
    assert tester.information.samples_of("cam-2") == {"dog": 9}
    assert tester.information.numbers("samples_per_s").tolist() == [10.0, 20.5]


def test_arrow_and_parquet_say_the_same_as_csv(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Arrow needs pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet needs pyarrow")
    table = arrow.table(
        {"client": [7, 7, 8], "category": ["cat", "dog", "dog"], "samples": [5, 2, 9]}
    )
    devices = arrow.table({"client": [7, 8], "samples_per_s": [10.0, 20.5]})
    parquet.write_table(table, tmp_path / "counts.parquet")
    for source in (table, tmp_path / "counts.parquet"):
        tester = create_testing_selector()
        tester.load_client_info(source, devices)
        assert tester.information.samples_of(7) == {"cat": 5, "dog": 2}
        assert tester.information.samples_of(8) == {"dog": 9}


BAD_FILES = [
    ("client,category,samples\na,cat,-3\n", r"client 'a': samples\['cat'\] must be .*; got -3"),
    ("client,category,samples\na,cat,x\n", r"client 'a': samples\['cat'\] must be .*; got 'x'"),
    (
        "client,category,samples\na,cat,1\na,cat,2\n",
        r"client 'a': samples\['cat'\] must be in one line",
    ),
    ("client,cat\na,1\na,2\n", "client 'a': id must be in one line"),
    ("name,cat\na,1\n", "must have a column 'client'"),
    ("client,category\na,cat\n", "must have one named 'samples'"),
    ("client,cat\na,1,2\n", "fields in each line"),
    ("client,cat\n\na,1\n\nb,1,2\n", "fields in each line; got another number in line 5"),
    (",client,cat\n0,a,1\n", "must name each column; got none for column 1"),
    ("client,cat,samples_per_s\na,1,nan\n", "client 'a': samples_per_s must be .*; got nan"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FILES)
def test_bad_files_are_refused_as_a_whole(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text(text)
    tester = create_testing_selector()
    with pytest.raises(InvalidClientInfoError, match=message):
        tester.load_client_info(tmp_path / "counts.csv")
    assert tester.information.num_clients == 0


def test_lines_of_a_file_that_are_empty_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text("client,cat\n\na,1\n   \nb,2\n\n")
    tester = create_testing_selector()
    tester.load_client_info(tmp_path / "counts.csv")
    assert tester.information.samples_of("a") == {"cat": 1}
    assert tester.information.samples_of("b") == {"cat": 2}


def test_numbers_too_long_for_integer_ids_are_text(tmp_path: Path) -> None:
    (tmp_path / "counts.csv").write_text("client,cat\n340282366920938463463374607431768211456,1\n")
    tester = create_testing_selector()
    tester.load_client_info(tmp_path / "counts.csv")
    assert tester.information.samples_of("340282366920938463463374607431768211456") == {"cat": 1}
