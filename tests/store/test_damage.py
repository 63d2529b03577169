"""Torn writes and flipped bytes are found and named; repair cuts them off."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oort
from oort.errors import DamagedStoreError, LeaseError, OortError
from oort.store import lease as leases
from oort.store.acknowledged import Acknowledged
from oort.store.database import ConflictError, Database, connect
from oort.store.inspection import inspect
from oort.store.repair import repair
from oort.training.bookkeeping import BookkeepingSelector
from tests.store import histories
from tests.store.server import memory_folder
from tests.store.test_durable import _snapshot, read_back

_STEPS = 30
_FLIPS = int(os.environ.get("OORT_FLIPS", "60"))  # the soak tries thousands
_ROOT = Path(__file__).parents[2]


def _played(url: str, steps: int = _STEPS) -> list[tuple[int, str]]:
    """A store with a history; the sequence number and the state after each step."""
    states = []
    with oort.open_selector(url, config=histories.CONFIG) as selector:
        for step in range(steps):
            histories.play(selector, 4, step)
            states.append((selector._journal.sequence, histories.state_of(selector)))
    return states


def _change(url: str, sql: str, *values: Any) -> None:
    database = connect(url)
    with database.transaction():
        assert database.execute(sql, *values) >= 1
    database.close()


def _flip(database: Database, sequence: int) -> None:
    ((payload,),) = database.query("SELECT payload FROM oort_journal WHERE sequence = ?", sequence)
    data = bytearray(payload)
    data[len(data) // 2] ^= 4
    with database.transaction():
        database.execute(
            "UPDATE oort_journal SET payload = ? WHERE sequence = ?", bytes(data), sequence
        )


def test_a_flipped_bit_in_the_journal_is_found_and_cut_off(url: str) -> None:
    states = _played(url)
    bad, _ = states[20]
    good = max(s for s in states if s[0] < bad)
    database = connect(url)
    _flip(database, bad)
    database.close()

    with pytest.raises(DamagedStoreError, match=rf"journal entry {bad} .* has changed bytes"):
        oort.open_selector(url)
    (job,) = inspect(url).jobs
    assert f"entry {bad} " in job.damage
    assert job.sequence == bad - 1

    (repaired,), _ = repair(url)
    assert repaired.sequence == bad - 1
    assert repaired.lost[0].startswith(f"entry {bad}: ")
    assert (
        len(repaired.lost) == len({s for s, _ in states if s > good[0]}) or len(repaired.lost) > 5
    )
    assert inspect(url).is_sound
    with oort.open_selector(url) as selector:
        if good[0] == bad - 1:
            assert histories.state_of(selector) == good[1]
        selector.select(3)
    assert inspect(url).is_sound


def test_a_missing_entry_is_found(url: str) -> None:
    states = _played(url)
    _change(url, "DELETE FROM oort_journal WHERE sequence = ?", states[9][0])
    with pytest.raises(DamagedStoreError, match=f"entry {states[9][0]} is missing"):
        oort.open_selector(url)
    (repaired,), _ = repair(url)
    assert repaired.lost[0] == f"entry {states[9][0]}: missing"


@pytest.mark.parametrize("column", ["kind = 'removed'", "parts_left = 1", "epoch = epoch + 1"])
def test_every_column_of_an_entry_is_checked(url: str, column: str) -> None:
    states = _played(url)
    _change(url, f"UPDATE oort_journal SET {column} WHERE sequence = ?", states[3][0])
    with pytest.raises(DamagedStoreError, match=f"journal entry {states[3][0]} "):
        oort.open_selector(url)


def test_a_job_row_that_changed_is_found_under_any_name(url: str) -> None:
    _played(url)
    for change in ("name = 'other'", "settings = replace(settings, '2.0', '3.0')"):
        database = connect(url)
        ((name, settings),) = database.query("SELECT name, settings FROM oort_jobs")
        database.close()
        _change(url, f"UPDATE oort_jobs SET {change}")
        with pytest.raises(DamagedStoreError, match=r"the row of job 1 .* has changed bytes"):
            oort.open_selector(url)
        assert inspect(url).damage
        _change(url, "UPDATE oort_jobs SET name = ?, settings = ?", name, settings)
    read_back(url)


def test_a_changed_version_is_found(url: str) -> None:
    _played(url, 2)
    _change(url, "UPDATE oort_meta SET value = '1' WHERE name = 'schema_version'")
    with pytest.raises(DamagedStoreError, match="its version has changed bytes"):
        oort.open_selector(url)


@pytest.mark.parametrize("what", ["payload", "missing", "description"])
def test_damage_to_the_only_snapshot_is_named(url: str, what: str) -> None:
    with oort.open_selector(url) as selector:
        selector.register_clients(range(50))
        selector.select(5)
        selector.compact()
    if what == "payload":
        _change(url, "UPDATE oort_chunks SET payload = ? WHERE number = 1", b"\0" * 40)
    elif what == "missing":
        _change(url, "DELETE FROM oort_chunks WHERE number = 1")
    else:
        _change(url, "UPDATE oort_snapshots SET description = replace(description, '50', '51')")
    with pytest.raises(DamagedStoreError, match="entries 1 to"):
        oort.open_selector(url)
    (job,) = inspect(url).jobs
    assert any("snapshot" in problem for problem in job.problems)
    (repaired,), _ = repair(url)
    assert repaired.lost
    with oort.open_selector(url) as selector:
        assert selector.num_clients == 0


def test_a_snapshot_that_is_not_needed_is_repaired_without_loss(url: str) -> None:
    with oort.open_selector(url) as selector:
        selector.register_clients(range(50))
        for _ in range(2):
            selector.select(5)
            _snapshot(url, selector)
        state = histories.state_of(selector)
    database = connect(url)
    ((newest,),) = database.query("SELECT max(sequence) FROM oort_snapshots")
    database.close()
    _change(url, "UPDATE oort_chunks SET payload = ? WHERE sequence = ?", b"?", newest)
    assert not inspect(url).is_sound
    (repaired,), _ = repair(url)
    assert repaired.lost[0].startswith("nothing but a snapshot")
    assert inspect(url).is_sound
    assert histories.state_of(read_back(url)) == state


def test_a_job_that_is_driven_is_not_repaired(url: str) -> None:
    with oort.open_selector(url, config=histories.CONFIG) as selector:
        for step in range(10):
            histories.play(selector, 4, step)
        database = connect(url)
        _flip(database, selector._journal.sequence)
        database.close()
        with pytest.raises(LeaseError, match="driven by"):
            repair(url)


def test_an_index_that_disagrees_with_its_table_is_damage(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a reason to try for ever: the number that looks free never is."""
    oort.open_selector(url).close()

    def conflict(*given: Any) -> None:
        message = "it is there already"
        raise ConflictError(message)

    monkeypatch.setattr(leases, "_take", conflict)
    with pytest.raises(DamagedStoreError, match="an index disagrees"):
        oort.open_selector(url)


def test_a_lost_lease_is_found_and_made_anew(url: str) -> None:
    _played(url)
    state = histories.state_of(read_back(url))
    _change(url, "DELETE FROM oort_leases")
    with pytest.raises(DamagedStoreError, match="the lease of job 'default' is missing"):
        oort.open_selector(url)
    assert not inspect(url).is_sound
    (repaired,), _ = repair(url)
    assert repaired.lost == ["who drove it"]
    assert inspect(url).is_sound
    with oort.open_selector(url) as selector:
        assert histories.state_of(selector) == state


@pytest.mark.parametrize("how", ["gone", "changed", "name changed"])
def test_a_job_whose_row_is_lost_is_found_in_its_snapshot(url: str, how: str) -> None:
    with oort.open_selector(url, config=histories.CONFIG) as selector:
        for step in range(20):
            histories.play(selector, 4, step)
        selector.compact()
        histories.play(selector, 4, 20)
        state = histories.state_of(selector)
    if how == "gone":
        _change(url, "DELETE FROM oort_jobs")
    else:
        column = "settings = ''" if how == "changed" else "name = ''"
        _change(url, f"UPDATE oort_jobs SET {column}")
    (repaired,), _ = repair(url)
    assert repaired.job == ("default" if how == "changed" else "recovered-1")
    assert "its settings as they were written" in repaired.lost[0]
    assert inspect(url).is_sound
    with oort.open_selector(url, job=repaired.job, config=histories.CONFIG) as selector:
        assert histories.state_of(selector) == state


def test_a_job_whose_settings_are_nowhere_cannot_be_repaired(url: str) -> None:
    _played(url, 5)
    _change(url, "UPDATE oort_jobs SET settings = ''")
    with pytest.raises(DamagedStoreError, match="the settings of job 1 are lost"):
        repair(url)


def test_repairing_a_sound_store_changes_nothing(url: str) -> None:
    _played(url)
    before = read_back(url)
    (repaired,), aside = repair(url)
    assert not repaired.lost
    assert aside is None
    assert histories.state_of(read_back(url)) == histories.state_of(before)


# Bytes of a SQLite file


_CRASH = """
import os, signal, sys, oort
from tests.store import histories
from tests.store.server import memory_folder
from tests.store.test_durable import _snapshot
url, steps = sys.argv[1], int(sys.argv[2])
selector = oort.open_selector(url, config=histories.CONFIG)
for step in range(steps):
    histories.play(selector, 4, step)
    if step == 15:
        _snapshot(url, selector)
os.kill(os.getpid(), signal.SIGKILL)
"""


class _Crashed:
    """The files of a store whose process was killed: a log that was not moved into the file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "crashed"
        self.folder.mkdir()
        url = f"sqlite:///{self.folder / 'live.db'}"
        done = subprocess.run([sys.executable, "-c", _CRASH, url, str(_STEPS)], cwd=_ROOT)
        assert done.returncode == -signal.SIGKILL
        (self.folder / "live.db-shm").unlink()
        twin = oort.create_training_selector(histories.CONFIG)
        self.states: list[str] = []
        for step in range(_STEPS):
            histories.play(twin, 4, step)
            self.states.append(histories.state_of(twin))

    def copy(self, to: Path) -> Path:
        """A fresh copy to damage."""
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(self.folder, to)
        return to / "live.db"


@pytest.fixture(scope="module")
def crashed() -> Iterator[_Crashed]:
    with tempfile.TemporaryDirectory(dir=memory_folder(), prefix="oort-") as name:
        yield _Crashed(Path(name))


def _read(path: Path) -> BookkeepingSelector:
    return read_back(f"sqlite:///{path}")


def test_the_copy_of_a_crashed_store_is_whole(crashed: _Crashed, memory: Path) -> None:
    assert histories.state_of(_read(crashed.copy(memory / "c"))) == crashed.states[-1]


def test_a_lost_log_is_named(crashed: _Crashed, memory: Path) -> None:
    path = crashed.copy(memory / "c")
    path.with_name("live.db-wal").unlink()
    with pytest.raises(OortError, match=r"damaged|no store"):
        oort.open_selector(f"sqlite:///{path}", config=histories.CONFIG)


def test_a_lost_file_is_not_taken_for_a_new_store(crashed: _Crashed, memory: Path) -> None:
    path = crashed.copy(memory / "c")
    path.unlink()
    path.with_name("live.db-wal").unlink()
    with pytest.raises(DamagedStoreError, match="entries were acknowledged"):
        oort.open_selector(f"sqlite:///{path}")


def test_a_torn_log_is_named_where_something_acknowledged_is_gone(
    crashed: _Crashed, memory: Path
) -> None:
    size = (crashed.folder / "live.db-wal").stat().st_size
    chance = random.Random(1)
    for _ in range(25):
        path = crashed.copy(memory / "c")
        os.truncate(path.with_name("live.db-wal"), chance.randrange(size - 1))
        with pytest.raises(OortError, match=r"damaged|holds no store"):
            _open_and_close(path)


def test_a_torn_log_after_a_loss_of_power_is_a_moment_of_the_past(
    crashed: _Crashed, memory: Path
) -> None:
    """Where nothing says that more was acknowledged, whole commits are there or not."""
    size = (crashed.folder / "live.db-wal").stat().st_size
    chance = random.Random(2)
    empty = histories.state_of(oort.create_training_selector(histories.CONFIG))
    seen = set()
    for _ in range(25):
        path = crashed.copy(memory / "c")
        Acknowledged(path).path.unlink()
        os.truncate(path.with_name("live.db-wal"), chance.randrange(size))
        selector = oort.open_selector(f"sqlite:///{path}", config=histories.CONFIG)
        seen.add(histories.state_of(selector))
        selector.close()
    assert seen <= {empty, *crashed.states}
    assert len(seen) > 3


@pytest.mark.parametrize("name", ["live.db", "live.db-wal", "live.db-acknowledged"])
def test_a_flipped_byte_anywhere_is_found_or_does_not_matter(
    crashed: _Crashed, memory: Path, name: str
) -> None:
    """Never does a store open with another state than the one acknowledged."""
    chance = random.Random(name)
    found = 0
    data = (crashed.folder / name).read_bytes()
    for _ in range(_FLIPS):
        path = crashed.copy(memory / "c")
        place = chance.randrange(len(data))
        changed = (
            data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
        )
        path.with_name(name).write_bytes(changed)
        found += _is_refused(path, crashed.states[-1])
    assert found > 5 or name != "live.db-wal"


def test_flipped_bytes_of_a_closed_file_are_found_or_repaired(
    crashed: _Crashed, memory: Path
) -> None:
    whole = crashed.copy(memory / "closed")
    _open_and_close(whole)
    data = whole.read_bytes()
    chance = random.Random(3)
    found = repaired = 0
    for number in range(_FLIPS):
        path = memory / f"c{number}" / "live.db"
        path.parent.mkdir()
        place = chance.randrange(100, len(data))
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        shutil.copy(Acknowledged(whole).path, Acknowledged(path).path)
        if not _is_refused(path, crashed.states[-1]):
            continue
        found += 1
        try:
            (fixed,), _ = repair(f"sqlite:///{path}")
        except OortError:
            continue
        with oort.open_selector(f"sqlite:///{path}", job=fixed.job) as selector:
            selector.select(1)
        repaired += 1
    assert found > 5
    assert repaired > found / 2


def test_a_closed_file_cut_off_anywhere_is_refused_or_whole(
    crashed: _Crashed, memory: Path
) -> None:
    """At each of its first bytes, around the ends of its pages, and anywhere."""
    whole = crashed.copy(memory / "closed")
    state = _open_and_close(whole)
    data = whole.read_bytes()
    chance = random.Random(5)
    pages = [at + more for at in range(4096, len(data), 4096) for more in (-1, 0, 1)]
    first, anywhere = chance.sample(range(200), 40), chance.sample(range(len(data)), _FLIPS)
    for length in [0, 1, 99, 100, *first, *chance.sample(pages, 30), *anywhere]:
        whole.write_bytes(data[:length])
        for suffix in ("-wal", "-shm"):
            whole.with_name(f"{whole.name}{suffix}").unlink(missing_ok=True)
        assert _is_refused(whole, state) or length > len(data) / 2
        assert Acknowledged(whole).sequence(1), "the note must survive"


@pytest.mark.parametrize("table", ["oort_journal", "oort_jobs", "oort_meta", "oort_snapshots"])
def test_text_that_is_none_is_damage(memory: Path, table: str) -> None:
    url = f"sqlite:///{memory / 'jobs.db'}"
    with oort.open_selector(url) as selector:
        selector.register_clients(range(9))
        selector.compact()
        selector.select(3)
    columns = {"oort_journal": "kind", "oort_meta": "value", "oort_snapshots": "description"}
    column = columns.get(table, "name")
    _change(url, f"UPDATE {table} SET {column} = CAST(? AS TEXT)", b"\xb1\xff\xfe")
    with pytest.raises(DamagedStoreError):
        oort.open_selector(url)


def test_a_table_that_is_not_what_it_was_made_as_is_found_and_salvaged(memory: Path) -> None:
    """A byte of the text that defines a table: SQLite itself finds nothing wrong with it."""
    path = memory / "jobs.db"
    url = f"sqlite:///{path}"
    states = _played(url)
    before = b"oort_leases (job INTEGER PRIMARY KEY"
    data = path.read_bytes()
    assert data.count(before) == 1
    path.write_bytes(data.replace(before, before.replace(b"R P", b"R\xdfP")))
    with pytest.raises(DamagedStoreError, match="the lease of job 'default' is missing"):
        oort.open_selector(url)
    assert "the definition of table oort_leases has changed" in inspect(url).damage
    _, aside = repair(url)
    assert aside is not None
    assert inspect(url).is_sound
    with oort.open_selector(url) as selector:
        assert histories.state_of(selector) == states[-1][1]


def test_a_file_whose_structure_is_damaged_is_salvaged(memory: Path) -> None:
    url = f"sqlite:///{memory / 'jobs.db'}"
    with oort.open_selector(url, job="kb") as selector:
        selector.register_clients(range(3000), num_samples=range(3000))
        for _ in range(60):
            selector.select(500)
        rounds = selector.round_number
    with sqlite3.connect(memory / "jobs.db") as plain:
        (root,) = plain.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'oort_journal'"
        ).fetchone()
    plain.close()
    data = bytearray((memory / "jobs.db").read_bytes())
    data[(root - 1) * 4096 + 3000 : (root - 1) * 4096 + 4096] = bytes(1096)
    (memory / "jobs.db").write_bytes(data)
    with pytest.raises(DamagedStoreError):
        oort.open_selector(url, job="kb")
    (repaired,), aside = repair(url, "kb")
    assert aside == memory / "jobs.db.damaged-1"
    assert aside.exists()
    assert repaired.lost
    with oort.open_selector(url, job="kb") as selector:
        assert selector.round_number <= rounds
    assert inspect(url).is_sound


def _is_refused(path: Path, state: str) -> bool:
    """Whether the damage was found; where it was not, nothing may be different."""
    try:
        opened = _open_and_close(path)
    except LeaseError:
        raise
    except OortError:
        return True
    assert opened == state
    return False


def _open_and_close(path: Path) -> str:
    with oort.open_selector(f"sqlite:///{path}", config=histories.CONFIG) as selector:
        return histories.state_of(selector)
