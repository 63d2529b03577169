"""Stores of every version: read as they are, upgraded on request after a backup, newer refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import oort
from oort import savefile
from oort.errors import LeaseError, NewerStoreError, StoreError
from oort.store import migration, records, schema, transfer
from oort.store.checksums import checksum
from oort.store.database import connect
from oort.store.inspection import inspect
from oort.store.testing import WHAT
from tests.store import histories, testing_histories
from tests.store.make_fixture import SEED, STEPS, described
from tests.store.test_durable import a_few_rounds, read_back

_FIXTURES = Path(__file__).parents[1] / "fixtures"
_VERSIONS = (1, 2)


def _twin(url: str, folder: Path) -> oort.TrainingSelector:
    """A selector in memory in the same state."""
    transfer.export_job(url, "kb", folder / "twin.oort")
    return oort.load_selector(folder / "twin.oort")


@pytest.fixture(params=_VERSIONS)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[int, Path]:
    """A copy of the fixture of each version."""
    path = tmp_path / "jobs.db"
    shutil.copy(_FIXTURES / f"store-v{request.param}.db", path)
    return request.param, path


def _expected(name: str) -> str:
    return (_FIXTURES / f"{name}.json").read_text()


def test_there_is_a_fixture_of_every_version() -> None:
    assert max(_VERSIONS) == schema.VERSION
    assert sorted(schema.TABLES_OF) == sorted(_VERSIONS)


def test_a_store_of_any_version_is_read_and_driven(
    stored: tuple[int, Path], tmp_path: Path
) -> None:
    version, path = stored
    assert described(path) == _expected(f"store-v{version}")
    url = f"sqlite:///{path}"
    twin = _twin(url, tmp_path)
    with oort.open_selector(url, job="kb") as selector:
        for step in range(STEPS, STEPS + 20):
            assert histories.play(selector, SEED, step) == histories.play(twin, SEED, step)
    assert inspect(url).version == version, "opening a store does not upgrade it"


def test_a_testing_job_of_version_2_is_read_and_driven(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    shutil.copy(_FIXTURES / "store-v2-testing.db", path)
    assert described(path) == _expected("store-v2-testing")
    url = f"sqlite:///{path}"
    transfer.export_job(url, "cameras", tmp_path / "twin.oort")
    other = f"sqlite:///{tmp_path / 'other.db'}"
    transfer.import_job(tmp_path / "twin.oort", other, "cameras")
    with (
        oort.open_testing_selector(url, job="cameras") as selector,
        oort.open_testing_selector(other, job="cameras") as twin,
    ):
        for step in range(STEPS, STEPS + 20):
            ours, theirs = (testing_histories.play(s, SEED, step) for s in (selector, twin))
            assert ours == theirs
    assert inspect(url).is_sound


def test_a_store_of_any_version_is_upgraded_after_a_backup(stored: tuple[int, Path]) -> None:
    version, path = stored
    url = f"sqlite:///{path}"
    done = migration.migrate(url)
    assert (done.before, done.after) == (version, schema.VERSION)
    report = inspect(url)
    assert report.is_sound
    assert report.version == schema.VERSION
    assert described(path) == _expected(f"store-v{version}")
    if version < schema.VERSION:
        assert done.backup is not None
        old = f"sqlite:///{done.backup}"
        assert inspect(old).version == version
        assert inspect(old).is_sound
        assert histories.state_of(read_back(old, "kb")) == histories.state_of(read_back(url, "kb"))
    assert migration.migrate(url).backup is None


def test_the_version_before_reads_and_drives_an_upgraded_store(
    stored: tuple[int, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, path = stored
    url = f"sqlite:///{path}"
    migration.migrate(url)
    monkeypatch.setattr(schema, "VERSION", schema.VERSION - 1)
    assert described(path) == _expected("store-v1")
    twin = _twin(url, tmp_path)
    with oort.open_selector(url, job="kb") as selector:
        for step in range(STEPS, STEPS + 10):
            assert histories.play(selector, SEED, step) == histories.play(twin, SEED, step)


def test_a_store_of_a_newer_version_is_refused(url: str) -> None:
    with oort.open_selector(url) as selector:
        a_few_rounds(selector)
    database = connect(url)
    newer = schema.VERSION + 2
    with database.transaction():
        for name in ("schema_version", "readable_since"):
            database.execute(
                "UPDATE oort_meta SET value = ?, checksum = ? WHERE name = ?",
                str(newer),
                checksum(name, str(newer)),
                name,
            )
    database.close()
    told = f"newer Oort \\(version {newer}; this one reads up to {schema.VERSION}\\)"
    for call in (oort.open_selector, inspect, migration.migrate):
        with pytest.raises(NewerStoreError, match=told):
            call(url)


def test_a_driven_store_is_not_upgraded(stored: tuple[int, Path]) -> None:
    version, path = stored
    url = f"sqlite:///{path}"
    with oort.open_selector(url, job="kb"):
        if version < schema.VERSION:
            with pytest.raises(LeaseError, match="must not be driven during an upgrade"):
                migration.migrate(url)
        assert inspect(url).version == version


def test_an_upgrade_needs_room_for_its_backup(tmp_path: Path) -> None:
    shutil.copy(_FIXTURES / "store-v1.db", tmp_path / "jobs.db")
    url, taken = f"sqlite:///{tmp_path / 'jobs.db'}", tmp_path / "taken"
    taken.write_text("something")
    with pytest.raises(StoreError, match="must go to a new file"):
        migration.migrate(url, taken)
    assert inspect(url).version == 1
    assert taken.read_text() == "something"


def test_postgresql_is_upgraded_and_backed_up_too(postgres_url: str, tmp_path: Path) -> None:
    database = connect(postgres_url)
    with database.transaction():
        schema.create(database, 1)
    database.close()
    with oort.open_selector(postgres_url, job="kb", config=histories.CONFIG) as selector:
        for step in range(30):
            histories.play(selector, 5, step)
        selector.compact()
        selector.select(3)
        state = histories.state_of(selector)
    done = migration.migrate(postgres_url, tmp_path / "backup.db")
    assert (done.before, done.after) == (1, 2)
    assert inspect(postgres_url).is_sound
    assert histories.state_of(read_back(postgres_url, "kb")) == state
    backup = f"sqlite:///{tmp_path / 'backup.db'}"
    assert inspect(backup).is_sound
    assert inspect(backup).version == 1
    assert histories.state_of(read_back(backup, "kb")) == state


# Records


def test_records_need_version_2(tmp_path: Path) -> None:
    shutil.copy(_FIXTURES / "store-v1.db", tmp_path / "jobs.db")
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    database = connect(url)
    job = schema.jobs(database)[0]
    with pytest.raises(StoreError, match=r"it is of version 1: run oort migrate"):
        records.put(database, job, "plan", "p", b"x")
    database.close()
    migration.migrate(url)
    database = connect(url)
    records.put(database, job, "plan", "p", b"x")
    assert records.get(database, job, "plan", "p") == b"x"
    database.close()


def test_records_are_written_whole_and_checked(url: str) -> None:
    oort.open_selector(url).close()
    database = connect(url)
    job = schema.jobs(database)[0]
    large = bytes(range(256)) * 10_000
    records.put(database, job, "plan", "large", large)
    records.put(database, job, "plan", "empty", b"")
    records.put(database, job, "plan", "large", large[::-1])
    assert records.get(database, job, "plan", "large") == large[::-1]
    assert records.get(database, job, "plan", "empty") == b""
    assert records.get(database, job, "plan", "none") is None
    assert records.names(database, job) == [("plan", "empty"), ("plan", "large")]
    assert records.delete(database, job, "plan", "empty")
    with database.transaction():
        database.execute("UPDATE oort_records SET payload = ? WHERE part = 1", b"other")
    with pytest.raises(oort.DamagedStoreError, match="plan 'large' of job 'default'"):
        records.get(database, job, "plan", "large")
    database.close()
    assert not inspect(url).is_sound


# Export and import


def test_a_job_goes_from_one_store_to_another(url: str, tmp_path: Path) -> None:
    with oort.open_selector(url, job="kb", config=histories.CONFIG) as selector:
        for step in range(30):
            histories.play(selector, 5, step)
        database = connect(url)
        records.put(database, selector._lease.job, "plan", "p", b"what was planned")
        database.close()
        transfer.export_job(url, "kb", tmp_path / "kb.oort")
        expected = selector.select(7).participants
    other = f"sqlite:///{tmp_path / 'other.db'}"
    transfer.import_job(tmp_path / "kb.oort", other, "again")
    assert oort.load_selector(tmp_path / "kb.oort").select(7).participants == expected
    assert inspect(other).is_sound
    with oort.open_selector(other, job="again", config=histories.CONFIG) as selector:
        assert selector.select(7).participants == expected
        assert records.get(selector._database, selector._lease.job, "plan", "p") == (
            b"what was planned"
        )
    with pytest.raises(StoreError, match="must have no job 'again' yet"):
        transfer.import_job(tmp_path / "kb.oort", other, "again")


def test_what_is_not_there_cannot_be_exported(url: str, tmp_path: Path) -> None:
    oort.open_selector(url).close()
    with pytest.raises(StoreError, match="must have a job 'kb'; it has 'default'"):
        transfer.export_job(url, "kb", tmp_path / "kb.oort")
    with pytest.raises(StoreError, match="there is no store"):
        transfer.export_job(f"sqlite:///{tmp_path}/none.db", "kb", tmp_path / "kb.oort")
    assert not (tmp_path / "kb.oort").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"records": 3},
        {"records": [["plan", "p"]]},
        {"records": [["plan"]]},
        {"config": None},
        {"mode": "sideways"},
        {"what": WHAT},
    ],
)
def test_a_file_that_was_made_up_is_refused(
    url: str, tmp_path: Path, change: dict[str, Any]
) -> None:
    """Its bytes are as they were written: by somebody who meant harm, or another program."""
    selector = oort.create_training_selector()
    selector.register_clients(range(5))
    selector.save(tmp_path / "kb.oort")
    meta, arrays = savefile.read(tmp_path / "kb.oort")
    savefile.write(tmp_path / "kb.oort", {**meta, **change}, arrays)
    with pytest.raises((oort.DamagedFileError, oort.ConfigError)):
        transfer.import_job(tmp_path / "kb.oort", url, "kb")
    oort.open_selector(url, job="kb").close()


def test_something_else_cannot_be_imported(url: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("nothing of ours")
    with pytest.raises(oort.SaveFileError):
        transfer.import_job(tmp_path / "x", url, "kb")
