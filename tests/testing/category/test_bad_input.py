"""Wrong input is refused by the name of the client and the field, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_matrix

from oort.config import TestingConfig
from oort.errors import (
    ConfigError,
    InvalidArgumentError,
    InvalidClientIdError,
    InvalidClientInfoError,
    OortError,
)
from oort.testing import LocalTestingSelector, create_testing_selector
from oort.testing.category import Balanced, Representative
from oort.types import ClientInfo

Call = Callable[[LocalTestingSelector], Any]


@pytest.fixture
def tester() -> LocalTestingSelector:
    made = create_testing_selector()
    made.update_client_info(
        "a", ClientInfo(samples={"cat": 5, "dog": 6}, samples_per_s=3, bandwidth_mbps=2)
    )
    made.update_client_info("b", ClientInfo(samples={"cat": 50}, samples_per_s=4))
    return made


def everything(tester: LocalTestingSelector) -> str:
    """All that a selector knows, as text."""
    known = tester.information
    numbers = [known.numbers(name).tolist() for name in ("samples_per_s", "bandwidth_mbps")]
    more = [known.numbers(name).tolist() for name in ("transfer_mb", "max_samples")]
    matrix = [part.tolist() for part in known.matrix()]
    return repr((known.categories, known.num_clients, numbers, more, matrix, known.available()))


def update(**info: Any) -> Call:
    return lambda tester: tester.update_client_info("z", ClientInfo(**info))


def bulk(counts: Any = None, **others: Any) -> Call:
    return lambda tester: tester.update_clients_info(["x", "y"], counts, **others)


def load(**columns: Any) -> Call:
    return lambda tester: tester.load_client_info(columns)


def coo(counts: list[int]) -> Any:
    """Several counts for one place."""
    places = np.zeros(len(counts), np.int64)
    return coo_matrix((np.array(counts), (places, places)), shape=(2, 2))


GOOD = [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (update(samples={"cat": -1}), "client 'z': samples\\['cat'\\]"),
        (update(samples={"cat": float("nan")}), "client 'z': samples\\['cat'\\]"),
        (update(samples={"cat": True}), "client 'z': samples\\['cat'\\]"),
        (update(samples={"cow": 3, "cat": 1.5}), "client 'z': samples\\['cat'\\]"),
        (update(samples={"cow": 3, "cat": 2**60}), "client 'z': samples\\['cat'\\]"),
        (update(samples={"cat": 10**5000}), "client 'z': samples\\['cat'\\] .* too long to show"),
        (update(samples={None: 3}), "client 'z': samples must name categories"),
        (update(samples=[1, 2]), "client 'z': samples must be a mapping"),
        (update(samples={"cow": 3}, samples_per_s=0), "client 'z': samples_per_s"),
        (update(samples={"cow": 3}, samples_per_s=float("nan")), "client 'z': samples_per_s"),
        (update(samples={"cow": 3}, bandwidth_mbps=0), "client 'z': bandwidth_mbps"),
        (update(samples={"cow": 3}, transfer_mb=-1), "client 'z': transfer_mb"),
        (update(samples={"cow": 3}, max_samples=1.5), "client 'z': max_samples"),
        (bulk([[1, 2], [3, -1]]), "client 'y': samples\\['dog'\\]"),
        (bulk([[1, 2], [3, np.nan]]), "client 'y': samples\\['dog'\\]"),
        (bulk(csr_matrix(np.array([[0, 2], [-3, 0]]))), "client 'y': samples\\['cat'\\]"),
        (bulk(csr_matrix(np.array([[0, 2j], [3, 0]]))), "counts must be a table of numbers"),
        (bulk(coo([-3, 5])), "client 'x': samples\\['cat'\\] must be .*; got -3"),
        (bulk(coo([2**53, 2**53])), "client 'x': samples\\['cat'\\] must be .*; got 18014398"),
        (bulk([[1], [2, 3]]), "rows of several lengths"),
        (bulk(GOOD, samples_per_s=[[1], [2, 3]]), "samples_per_s must be .*of several lengths"),
        (bulk([[1, 2]]), "one row per client"),
        (bulk(GOOD, samples_per_s=[1, 0]), "client 'y': samples_per_s"),
        (bulk(GOOD, samples_per_s=[1, np.nan]), "client 'y': samples_per_s"),
        (bulk(GOOD, bandwidth_mbps=[0.0, 1.0]), "client 'x': bandwidth_mbps"),
        (bulk(GOOD, categories=["cow", "cow"]), "categories must name each"),
        (lambda t: t.update_clients_info(["x", "x"], GOOD), "client 'x': id must be given once"),
        (load(client=[1, 2], cat=[3]), "got 1 in 'cat'"),
        (load(client=np.arange(2), cat=np.array([-3, 4])), "client 0: samples\\['cat'\\]"),
        (load(client=[1], category=["cat"], samples=[True]), "client 1: samples\\['cat'\\]"),
        (load(client=[1, 1], cat=[3, 4]), "client 1: id must be in one line"),
        (load(client=[1], cat=3), "a list of values in each column; got 3 in 'cat'"),
        (load(client=[1], category=[[2]], samples=[3]), "client 1: category must be a string"),
        (load(client=[1], category=[2.5], samples=[3]), "client 1: category must be .*; got 2.5"),
        (
            load(client=[1, 1], category=[2, 3], samples=[4, 5], samples_per_s=[6, 7]),
            "client 1: samples_per_s must be the same in all lines of the client; got 6 and 7",
        ),
        (load(client=[1], cat=[2], samples_per_s=[np.nan]), "client 1: samples_per_s .* got nan"),
    ],
)
def test_bad_information_names_client_and_field_and_changes_nothing(
    tester: LocalTestingSelector, call: Call, message: str
) -> None:
    before = everything(tester)
    with pytest.raises(InvalidClientInfoError, match=message):
        call(tester)
    assert everything(tester) == before


@pytest.mark.parametrize("client", [None, 1.5, [1], True])
def test_a_table_without_a_usable_id_is_told_by_its_row(
    tester: LocalTestingSelector, client: Any
) -> None:
    before = everything(tester)
    with pytest.raises(InvalidClientIdError, match=r"column 'client', row 2 of the table"):
        tester.load_client_info({"client": ["x", client], "cat": [3, 4]})
    assert everything(tester) == before


def test_a_column_that_stands_twice_is_refused(tester: LocalTestingSelector) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Arrow needs pyarrow")
    pandas = pytest.importorskip("pandas", reason="DataFrames need pandas")
    names, values = ["client", "cat", "cat"], ["x", 1, 2]
    twice = arrow.Table.from_arrays([arrow.array([v]) for v in values], names=names)
    for table in (twice, pandas.DataFrame([values], columns=names)):
        with pytest.raises(InvalidClientInfoError, match="each column once; got 'cat' twice"):
            tester.load_client_info(table)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({}, "must ask for at least one sample"),
        ({"cat": 0}, "must ask for at least one sample"),
        ({"cat": -1}, "request\\['cat'\\] must be a whole number"),
        ({"cat": float("nan")}, "request\\['cat'\\] must be a whole number"),
        ({"cat": 10**5000}, "request\\['cat'\\] must be .* too long to show"),
        ({"cow": 1}, "known categories \\('cat', 'dog'\\); got 'cow'"),
        ({True: 1}, "known categories"),
        ({1, 2}, "must be a mapping, a list, Representative or Balanced"),
        (None, "must be a mapping, a list, Representative or Balanced"),
        ([1, 2, 3], "one number per category \\(2\\); got 3"),
        (Balanced(2, categories=[["cat"]]), "known categories"),  # type: ignore[list-item]
        (Balanced(categories=[]), "Balanced\\(\\) must find samples"),
        (Representative(-1), "Representative.samples must be a whole number"),
    ],
)
def test_a_bad_request_is_explained(
    tester: LocalTestingSelector, request_: Any, message: str
) -> None:
    with pytest.raises(OortError, match=message):
        tester.select_by_category(request_)


@pytest.mark.parametrize("budget", [0, -1, 2.5, True, "3"])
def test_a_bad_budget_is_explained(tester: LocalTestingSelector, budget: Any) -> None:
    with pytest.raises(ConfigError, match=r"TestingConfig.budget must be a whole number"):
        tester.select_by_category({"cat": 1}, {"budget": budget})


def test_settings_that_are_none_are_explained(tester: LocalTestingSelector) -> None:
    with pytest.raises(ConfigError, match="config must be a TestingConfig or a dict; got 7"):
        tester.select_by_category({"cat": 1}, 7)  # type: ignore[arg-type]


def test_a_mask_of_another_shape_is_refused(tester: LocalTestingSelector) -> None:
    with pytest.raises(InvalidArgumentError, match=r"got shape \(2, 1\)"):
        tester.select_by_category({"cat": 1}, among=np.ones((2, 1), np.bool_))


def test_a_required_client_that_may_not_be_asked_is_refused(tester: LocalTestingSelector) -> None:
    with pytest.raises(OortError, match="among those asked"):
        tester.select_by_category({"cat": 1}, TestingConfig(required=("a",)), among=["b"])
