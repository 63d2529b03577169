"""A full disk refuses the call, keeps what was, and takes calls again when there is space."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import oort
from oort.errors import SaveFileError, StoreUnavailableError
from oort.store import migration, schema, transfer
from oort.store.database import Database, connect
from oort.store.inspection import inspect
from oort.training.bookkeeping import BookkeepingSelector
from tests.store import histories
from tests.store.conftest import fresh_server, mounted
from tests.store.server import Server
from tests.store.test_durable import _snapshot, read_back


def _fill(folder: Path, leave: int = 0) -> Path:
    """Take up the disk but for so many bytes."""
    ballast = folder / "ballast"
    free = shutil.disk_usage(folder).free - leave
    with ballast.open("wb", buffering=0) as file:
        for size in (1 << 16, 4096, *((1,) if not leave else ())):
            try:
                while file.tell() + size <= free or not leave:
                    file.write(b"x" * size)
            except OSError:
                continue
    return ballast


@pytest.mark.parametrize("seed", range(4))
def test_a_full_disk_refuses_calls_and_recovers(small_disk: Path, seed: int) -> None:
    url = f"sqlite:///{small_disk}/jobs.db"
    twin = oort.create_training_selector(histories.CONFIG)
    store = oort.StoreConfig(snapshot_entries=15)
    with oort.open_selector(url, config=histories.CONFIG, store=store) as selector:
        refused = 0
        for start in (0, 20, 40):
            for step in range(start, start + 12):
                assert histories.play(selector, seed, step) == histories.play(twin, seed, step)
            ballast = _fill(small_disk)
            refused += _refused(selector, twin, f"{seed}-{start}")
            ballast.unlink()
            for step in range(start + 12, start + 20):
                assert histories.play(selector, seed, step) == histories.play(twin, seed, step)
            assert histories.state_of(read_back(url)) == histories.state_of(twin)
        assert refused == 3
    assert histories.state_of(read_back(url)) == histories.state_of(twin)


def _refused(selector: oort.DurableSelector, twin: BookkeepingSelector, name: str) -> bool:
    """Large calls until one is refused; the selector stays the twin's equal throughout."""
    for number in range(200):
        ids = [f"large-{name}-{number}-{i}" for i in range(3000)]
        try:
            selector.register_clients(ids, expected_duration_s=np.arange(3000.0))
        except StoreUnavailableError:
            return histories.state_of(selector) == histories.state_of(twin)
        twin.register_clients(ids, expected_duration_s=np.arange(3000.0))
    return False


def test_a_batch_refused_by_a_full_disk_happened_nowhere(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/jobs.db"
    with oort.open_selector(url) as selector:
        selector.register_clients(range(100))
        before = histories.state_of(selector)
        ballast = _fill(small_disk)
        with pytest.raises(StoreUnavailableError), selector.batch():  # noqa: PT012
            selector.select(10)
            selector.register_clients([f"client-{i}" for i in range(20_000)])
        assert histories.state_of(selector) == before
        ballast.unlink()
        assert histories.state_of(selector) == before
        assert selector.select(10).round_number == 1
    assert read_back(url).round_number == 1


def test_a_store_can_be_read_on_a_full_disk(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/jobs.db"
    with oort.open_selector(url) as selector:
        selector.register_clients(range(100))
        _fill(small_disk)
        assert read_back(url).num_clients == 100


# In the middle of something


@pytest.mark.parametrize("leave", [0, 20_000, 60_000, 120_000])
@pytest.mark.parametrize("what", ["snapshot", "compact"])
def test_a_disk_that_fills_up_during_housekeeping_costs_nothing(
    small_disk: Path, what: str, leave: int
) -> None:
    url = f"sqlite:///{small_disk}/jobs.db"

    def keep_house() -> None:
        if what == "compact":
            selector.compact()
        else:
            _snapshot(url, selector)

    with oort.open_selector(url) as selector:
        selector.register_clients(_noise(8000), expected_duration_s=_durations(8000))
        selector.select(50)
        keep_house()
        selector.forget(_noise(10))
        selector.select(50)
        before = histories.state_of(selector)
        ballast = _fill(small_disk, leave)
        with pytest.raises(StoreUnavailableError, match="full"):
            keep_house()
        assert histories.state_of(selector) == before
        assert histories.state_of(read_back(url)) == before
        ballast.unlink()
        selector.select(5)
        keep_house()
        state = histories.state_of(selector)
    assert histories.state_of(read_back(url)) == state
    assert inspect(url).is_sound
    assert len(inspect(url).jobs[0].snapshots) == 1


def _noise(count: int) -> list[str]:
    """Ids that do not compress."""
    return [hashlib.sha256(str(i).encode()).hexdigest() for i in range(count)]


def _durations(count: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(1).uniform(1, 60, count)


def test_a_job_on_a_full_disk_can_be_closed_and_opened_again(small_disk: Path) -> None:
    url = f"sqlite:///{small_disk}/jobs.db"
    selector = oort.open_selector(url)
    selector.register_clients(_noise(2000))
    ballast = _fill(small_disk)
    with pytest.raises(StoreUnavailableError, match="full"):
        selector.register_clients([f"more-{name}" for name in _noise(20_000)])
    state = histories.state_of(selector)
    selector.close()
    with pytest.raises(StoreUnavailableError, match="full"):
        oort.open_selector(url, job="another")
    ballast.unlink()
    with oort.open_selector(url) as selector:
        assert histories.state_of(selector) == state


def _large_store_of_version_1(path: Path) -> str:
    url = f"sqlite:///{path}"
    with closing(connect(url, create=True)) as database, database.transaction():
        schema.create(database, 1)
    with oort.open_selector(url) as selector:
        selector.register_clients(_noise(9000))
    return url


@pytest.mark.parametrize("leave", [0, 40_000, 400_000])
def test_a_backup_for_which_there_is_no_room_leaves_the_store_as_it_was(
    small_disk: Path, leave: int
) -> None:
    url = _large_store_of_version_1(small_disk / "jobs.db")
    state = histories.state_of(read_back(url))
    ballast = _fill(small_disk, leave)
    with pytest.raises(StoreUnavailableError, match="full"):
        migration.migrate(url)
    assert not [path for path in small_disk.iterdir() if "version" in path.name]
    ballast.unlink()
    assert inspect(url).version == 1
    done = migration.migrate(url)
    assert inspect(url).version == schema.VERSION
    assert histories.state_of(read_back(url)) == state
    assert inspect(f"sqlite:///{done.backup}").is_sound


def test_an_upgrade_that_fails_after_its_backup_can_be_tried_again(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = _large_store_of_version_1(small_disk / "jobs.db")
    make_backup = transfer.backup

    def then_full(database: Database, path: Path) -> None:
        make_backup(database, path)
        _fill(small_disk)

    monkeypatch.setattr(transfer, "backup", then_full)
    with pytest.raises(StoreUnavailableError, match="full"):
        migration.migrate(url)
    (small_disk / "ballast").unlink()
    monkeypatch.setattr(transfer, "backup", make_backup)
    assert inspect(url).version == 1
    done = migration.migrate(url)
    assert done.backup == small_disk / "jobs.db.version-1-2"
    assert inspect(url).version == schema.VERSION


@pytest.mark.parametrize("leave", [0, 40_000])
def test_an_export_for_which_there_is_no_room_leaves_what_was_there(
    small_disk: Path, tmp_path: Path, leave: int
) -> None:
    url, file = f"sqlite:///{tmp_path}/jobs.db", small_disk / "kb.oort"
    with oort.open_selector(url) as selector:
        selector.register_clients(["a"])
        transfer.export_job(url, "default", file)
        before = file.read_bytes()
        selector.register_clients(_noise(9000))
        ballast = _fill(small_disk, leave)
        with pytest.raises(SaveFileError, match="No space left"):
            transfer.export_job(url, "default", file)
        assert file.read_bytes() == before
        assert sorted(path.name for path in small_disk.iterdir()) == ["ballast", "kb.oort"]
        ballast.unlink()
        transfer.export_job(url, "default", file)
    assert oort.load_selector(file).num_clients == 9001


def test_an_import_for_which_there_is_no_room_makes_no_job(
    small_disk: Path, tmp_path: Path
) -> None:
    selector = oort.create_training_selector()
    selector.register_clients(_noise(9000))
    selector.save(tmp_path / "kb.oort")
    url = f"sqlite:///{small_disk}/jobs.db"
    oort.open_selector(url, job="other").close()
    ballast = _fill(small_disk, 100_000)
    with pytest.raises(StoreUnavailableError, match="full"):
        transfer.import_job(tmp_path / "kb.oort", url, "kb")
    assert [job.job.name for job in inspect(url).jobs] == ["other"]
    ballast.unlink()
    transfer.import_job(tmp_path / "kb.oort", url, "kb")
    assert read_back(url, "kb").num_clients == 9000


# A server's disk


@pytest.fixture(scope="module")
def full_server() -> Iterator[tuple[Server, Path, Path]]:
    """A server whose tables are on one small disk and whose log is on another."""
    with mounted(64) as tables, mounted(32) as log:
        for server in fresh_server(folder=tables, log_folder=log):
            yield server, tables, log


def _until_refused(selector: Any, twin: Any) -> str:
    """Large calls until one is refused; gives the message."""
    for number in range(300):
        ids = [f"{number}-{name}" for name in _noise(3000)]
        try:
            selector.register_clients(ids)
        except StoreUnavailableError as error:
            return str(error)
        twin.register_clients(ids)
    return ""


def test_tables_without_room_refuse_the_call_at_once_and_recover(
    full_server: tuple[Server, Path, Path],
) -> None:
    server, tables, _ = full_server
    url = server.create("tables")
    twin = oort.create_training_selector(histories.CONFIG)
    with oort.open_selector(url, config=histories.CONFIG) as selector:
        for start in (0, 20):
            for step in range(start, start + 20):
                assert histories.play(selector, 8, step) == histories.play(twin, 8, step)
            ballast = _fill(tables)
            told = _until_refused(selector, twin)
            assert "No space left on device" in told
            assert "not known yet" not in told
            assert histories.state_of(selector) == histories.state_of(twin)
            with pytest.raises(StoreUnavailableError), selector.batch():  # noqa: PT012
                selector.select(3)
                selector.register_clients(_noise(4000))
            assert histories.state_of(selector) == histories.state_of(twin)
            assert histories.state_of(read_back(url)) == histories.state_of(twin)
            ballast.unlink()
        assert selector.select(9).participants == twin.select(9).participants
        selector.compact()
    assert histories.state_of(read_back(url)) == histories.state_of(twin)


def test_a_server_that_dies_of_a_full_log_goes_on_where_it_was(
    full_server: tuple[Server, Path, Path],
) -> None:
    """PostgreSQL cannot go on without room for its log: it crashes, and is started again."""
    server, _, log = full_server
    url = server.create("log")
    twin = oort.create_training_selector(histories.CONFIG)
    store = oort.StoreConfig(patience_s=0.5)
    with oort.open_selector(url, config=histories.CONFIG, store=store) as selector:
        for step in range(20):
            assert histories.play(selector, 9, step) == histories.play(twin, 9, step)
        ballast = _fill(log)
        assert "cannot use postgresql" in _until_refused(selector, twin)
        ballast.unlink()
        server.stop()
        server.start()
        selector._tried_s = -100.0
        state = histories.state_of(read_back(url))
        selector.preview(1)  # finds out what came of the call that was refused
        assert histories.state_of(selector) == state
        for step in range(20, 30):
            histories.play(selector, 9, step)
        assert histories.state_of(selector) == histories.state_of(read_back(url))
