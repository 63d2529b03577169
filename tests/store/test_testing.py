"""The durable testing selector: client information and plans survive, on both databases."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import oort
from oort.errors import (
    ConfigError,
    DamagedStoreError,
    InvalidArgumentError,
    LeaseError,
    StoreError,
    StoreUnavailableError,
    UnknownClientError,
)
from oort.store import jobs, migration, recovery, schema, snapshots, transfer
from oort.store.database import connect
from oort.store.inspection import inspect
from oort.store.journal import Journal
from oort.store.repair import repair
from oort.store.testing import ReplayedTesting
from tests.store.test_durable import _snapshot
from tests.store.testing_histories import play, state_of

OpenTesting = Callable[..., oort.DurableTestingSelector]


@pytest.fixture
def opened(url: str) -> Iterator[OpenTesting]:
    made: list[oort.DurableTestingSelector] = []

    def open_one(**options: Any) -> oort.DurableTestingSelector:
        made.append(oort.open_testing_selector(url, **{"job": "cameras", **options}))
        return made[-1]

    yield open_one
    for selector in made:
        selector.close()


def read_back(url: str, job: str = "cameras") -> ReplayedTesting:
    database = connect(url)
    try:
        found = schema.job_named(database, job)
        assert found is not None
        selector = jobs.blank(found)
        assert isinstance(selector, ReplayedTesting)
        recovery.recover(database, found, selector)
        return selector
    finally:
        database.close()


@pytest.mark.parametrize("seed", range(3))
def test_a_recovered_testing_selector_plans_what_the_lost_one_would_have(
    opened: OpenTesting, url: str, seed: int
) -> None:
    store = oort.StoreConfig(snapshot_entries=11)
    twin = oort.create_testing_selector(seed=3)
    selector = opened(seed=3, store=store)
    for step in range(60):
        assert play(selector, seed, step) == play(twin, seed, step)
        assert state_of(read_back(url)) == state_of(selector) == state_of(twin)
        if step % 13 == 5:
            selector.close()
            selector = opened(store=store)
            assert state_of(selector) == state_of(twin)


@pytest.mark.parametrize("step", range(0, 24, 2))
def test_a_commit_that_fails_changes_nothing(
    opened: OpenTesting, url: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    selector = opened(store=oort.StoreConfig(patience_s=0.0))
    for number in range(step):
        play(selector, 1, number)
    before = state_of(selector)
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "_write", _no_space)
        with suppress(StoreUnavailableError):
            play(selector, 1, step)
    selector._tried_s = -100.0
    assert state_of(selector) == state_of(read_back(url)) == before
    for number in range(step, step + 4):
        play(selector, 1, number)
        assert state_of(selector) == state_of(read_back(url))


def _no_space(*given: object) -> None:
    message = "no space left"
    raise StoreUnavailableError(message)


def _camera_plans(selector: Any) -> None:
    for number in range(6):
        info = {"samples": {"cat": 100, "dog": 50}, "samples_per_s": 10.0, "bandwidth_mbps": 5.0}
        selector.update_client_info(f"cam-{number}", info)
    selector.select_by_category({"cat": 250}, {"transfer_mb": 1})
    selector.select_by_deviation(dev_target=10, range_of_capacity=150)


def test_plans_are_stored_whole(opened: OpenTesting) -> None:
    selector = opened()
    _camera_plans(selector)
    selector.close()
    selector = opened()
    assert selector.num_plans == 2
    category, deviation = selector.plan(1), selector.plan(2)
    assert category["kind"] == "category"
    assert sum(s for p in category["participants"] for _, s in p["samples"]) == 250
    assert category["lower_bound_s"] <= category["duration_s"]
    assert deviation["kind"] == "deviation"
    assert deviation["guarantee"]
    assert len(deviation["participants"]) == 6
    with pytest.raises(StoreError, match="1 to 2; got 3"):
        selector.plan(3)


def test_forgetting_reaches_stored_plans_journal_and_snapshots(
    opened: OpenTesting, url: str, memory: Path
) -> None:
    selector = opened()
    _camera_plans(selector)
    assert selector.forget(["cam-0", "cam-1"]) == 2
    plans = json.dumps([selector.plan(1), selector.plan(2)])
    assert "cam-0" not in plans
    assert "cam-5" in plans
    selector.compact()
    selector.close()
    if url.startswith("sqlite"):
        held = b"".join(path.read_bytes() for path in memory.iterdir())
        assert b"SQLite" in held
        assert b"cam-0" not in held
    with pytest.raises(UnknownClientError):
        read_back(url).information.samples_of("cam-0")
    assert opened().information.samples_of("cam-5") == {"cat": 100, "dog": 50}


def test_calls_that_name_nobody_can_be_recovered(opened: OpenTesting) -> None:
    selector = opened()
    selector.register_clients(["a", "b"])
    selector.register_clients([])
    selector.mark_offline([])
    selector.mark_online([])
    assert selector.forget([]) == 0
    selector.update_clients_info([], samples_per_s=3.0)
    state = state_of(selector)
    selector.close()
    assert state_of(opened()) == state


def test_forgetting_reaches_the_requests_of_stored_plans(opened: OpenTesting, url: str) -> None:
    selector = opened()
    selector.register_clients([f"cam-{number}" for number in range(50)])
    largest = oort.TakeAll(clients=["cam-7", "cam-8", "cam-9"], range_of_rest=10.0)
    selector.select_by_deviation(dev_target=5, range_of_capacity=100, take_all=largest)
    request = selector.plan(1)["request"]
    assert request["dev_target"] == [5.0]
    assert request["take_all"][0]["clients"] == ["cam-7", "cam-8", "cam-9"]
    selector.forget(["cam-8"])
    plan = selector.plan(1)
    assert plan["request"]["take_all"][0]["clients"] == ["cam-7", "cam-9"]
    assert "cam-8" not in json.dumps(plan)


def test_the_next_snapshot_erases_forgotten_clients(opened: OpenTesting, url: str) -> None:
    selector = opened()
    _camera_plans(selector)
    _snapshot(url, selector)
    selector.forget(["cam-0"])
    _snapshot(url, selector)
    with closing(connect(url)) as database, database.reading():
        (left,) = snapshots.listed(database, 1)
        roster = snapshots.read(database, 1, left).arrays["roster"].tobytes()
        entries = database.query("SELECT payload FROM oort_journal")
        plans = database.query("SELECT payload FROM oort_records")
    held = b"".join([roster, *(bytes(payload) for (payload,) in [*entries, *plans])])
    assert b"cam-5" in held
    assert b"cam-0" not in held


def test_an_adaptive_test_is_stored_as_it_was_begun(opened: OpenTesting) -> None:
    selector = opened(seed=4)
    selector.register_clients(range(40))
    selector.select_adaptively(0.1, 50, batch_size=5).next_batch()
    assert selector.plan(1) == {
        "kind": "adaptive",
        "half_width": 0.1,
        "confidence": 0.95,
        "batch_size": 5,
        "max_participants": 40,
        "num_clients": 40,
        "max_samples": 50.0,
        "seed": 4,
    }


def test_a_testing_job_is_inspected_exported_imported_and_repaired(
    opened: OpenTesting, url: str, tmp_path: Path
) -> None:
    selector = opened()
    _camera_plans(selector)
    state = state_of(selector)
    selector.close()
    report = inspect(url, "cameras")
    assert report.is_sound
    assert [kind for kind, _ in report.jobs[0].records] == ["plan", "plan"]

    transfer.export_job(url, "cameras", tmp_path / "cameras.oort")
    other = f"sqlite:///{tmp_path / 'other.db'}"
    transfer.import_job(tmp_path / "cameras.oort", other, "again")
    with oort.open_testing_selector(other, job="again") as again:
        assert state_of(again) == state
        assert again.plan(1)["kind"] == "category"

    database = connect(url)
    with database.transaction():
        database.execute("UPDATE oort_journal SET payload = ? WHERE sequence = 5", b"")
    database.close()
    with pytest.raises(DamagedStoreError, match="journal entry 5"):
        opened()
    (repaired,), _ = repair(url)
    assert repaired.lost
    assert opened().num_clients == 3


def test_training_and_testing_jobs_are_not_mixed_up(opened: OpenTesting, url: str) -> None:
    opened().close()
    with pytest.raises(StoreError, match="must be a training job"):
        oort.open_selector(url, job="cameras")
    oort.open_selector(url, job="kb").close()
    with pytest.raises(StoreError, match="must be a testing job"):
        oort.open_testing_selector(url, job="kb")


def test_a_testing_job_keeps_its_seed_and_categories(opened: OpenTesting) -> None:
    opened(seed=4, categories=["cat", "dog"]).close()
    with pytest.raises(ConfigError, match="seed must be that of job 'cameras', 4; got 5"):
        opened(seed=5)
    with pytest.raises(ConfigError, match="categories must be"):
        opened(categories=["cat"])
    selector = opened()
    with pytest.raises(InvalidArgumentError, match="of the categories"):
        selector.update_client_info("cam-1", {"samples": {"cow": 3}})
    with pytest.raises(LeaseError):
        opened()


def test_a_store_of_version_1_has_no_place_for_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    database = connect(url, create=True)
    with database.transaction():
        schema.create(database, 1)
    database.close()
    with pytest.raises(StoreError, match="run oort migrate"):
        oort.open_testing_selector(url)
    migration.migrate(url)
    oort.open_testing_selector(url).close()


def test_it_is_a_testing_selector(opened: OpenTesting) -> None:
    assert isinstance(opened(), oort.TestingSelector)
