"""What opening refuses, and that nothing is left behind by what it refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oort
from oort.errors import ConfigError, InvalidArgumentError, OortError, StoreError
from oort.store import schema, transfer
from oort.store.database import connect
from oort.store.inspection import inspect
from tests.store.conftest import Open

_WRONG = ["", "   ", None, 3, b"kb", "a\0b", "a\nb", "\ud800", "x" * 201]


@pytest.mark.parametrize("name", _WRONG)
def test_a_job_needs_a_name(tmp_path: Path, name: Any) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    oort.create_training_selector().save(tmp_path / "x.oort")
    with pytest.raises(InvalidArgumentError, match="job must be a name"):
        oort.open_selector(url, job=name)
    with pytest.raises(InvalidArgumentError, match="job must be a name"):
        oort.open_testing_selector(url, job=name)
    with pytest.raises(InvalidArgumentError, match="job must be a name"):
        transfer.import_job(tmp_path / "x.oort", url, name)
    assert not (tmp_path / "jobs.db").exists()


@pytest.mark.parametrize(
    "name", ["it's", 'say "hi"', "; DROP TABLE oort_jobs; --", "日本語 ключ 🔑", "%s ?", "x" * 200]
)
def test_a_job_may_have_any_printable_name(opened: Open, url: str, name: str) -> None:
    selector = opened(job=name)
    selector.register_client("a")
    selector.close()
    again = opened(job=name)
    assert (again.job, again.num_clients) == (name, 1)
    assert [job.job.name for job in inspect(url).jobs] == [name]


@pytest.mark.parametrize(
    "options", [{"seed": "x"}, {"seed": -1}, {"categories": [1.5]}, {"categories": 7}]
)
def test_a_testing_job_that_cannot_be_is_not_made(url: str, options: dict[str, Any]) -> None:
    with pytest.raises((OortError, TypeError)):
        oort.open_testing_selector(url, **options)
    with oort.open_testing_selector(url, seed=4) as tester:
        assert tester.num_clients == 0


def test_settings_of_numpy_are_plain_numbers(url: str) -> None:
    given: dict[str, Any] = {"seed": np.int64(4), "categories": np.array([3, 5])}
    oort.open_testing_selector(url, **given).close()
    oort.open_testing_selector(url, **given).close()
    with oort.open_testing_selector(url, seed=4, categories=[3, 5]) as tester:
        assert tester.information.categories == [3, 5]


def test_a_training_job_with_an_unknown_utility_is_not_made(url: str) -> None:
    with pytest.raises(ConfigError, match="registered first"):
        oort.open_selector(url, config={"utility": "misspelt"})
    oort.open_selector(url, config={"utility": "loss"}).close()


def test_a_store_that_is_too_old_gets_no_testing_job(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    database = connect(url, create=True)
    with database.transaction():
        schema.create(database, 1)
    database.close()
    with pytest.raises(StoreError, match="run oort migrate"):
        oort.open_testing_selector(url, job="cameras")
    assert inspect(url).jobs == []


@pytest.mark.parametrize(
    "wrong",
    [{"lease_s": 0}, {"lease_s": float("nan")}, {"snapshot_entries": 0}, {"patience_s": -1.0}],
)
def test_settings_of_a_store_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        oort.StoreConfig(**wrong)
