"""Where a store is: odd paths, other folders, wrong files, passwords that must not show."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import traceback
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import oort
from oort.errors import DamagedStoreError, InvalidArgumentError, OortError, StoreError
from oort.store import records, schema
from oort.store.database import connect, secrets, shown
from oort.store.inspection import inspect
from tests.store.test_durable import read_back

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("url", ["", "jobs.db", "sqlite://", "sqlite:///", "mysql://x/y", 3])
def test_an_address_must_be_of_a_store(url: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="address of a store"):
        oort.open_selector(url)


@pytest.mark.parametrize(
    "name", ["a b.db", "a%20b.db", "q?x=1#y.db", "é'\"; --.db", ".hidden", "a:b@c"]
)
def test_a_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    url = f"sqlite:///{tmp_path}/{name}"
    with oort.open_selector(url) as selector:
        selector.register_client("a")
    assert (tmp_path / name).exists()
    assert inspect(url).is_sound
    assert read_back(url).num_clients == 1


def test_a_relative_address_stays_where_it_was_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    store = oort.StoreConfig(snapshot_entries=3, lease_s=0.2)
    with oort.open_selector("sqlite:///jobs.db", store=store) as selector:
        monkeypatch.chdir(tmp_path / "elsewhere")
        selector.register_clients(range(9))
        until_s = time.monotonic() + 30
        while not selector._snapshot_sequence and time.monotonic() < until_s:
            selector.select(1)
            time.sleep(0.05)
        assert selector._snapshot_sequence, "the keeper lost its way"
        selector.compact()
    assert not list((tmp_path / "elsewhere").iterdir())
    assert read_back(f"sqlite:///{tmp_path}/here/jobs.db").num_clients == 9


def test_a_store_in_memory_is_refused_with_what_is_meant() -> None:
    with pytest.raises(InvalidArgumentError, match="create_training_selector"):
        oort.open_selector("sqlite:///:memory:")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"{tmp_path}/none does not exist"):
        oort.open_selector(f"sqlite:///{tmp_path}/none/jobs.db")


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot use"):
        oort.open_selector(f"sqlite:///{tmp_path}")


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk\n" * 500)
    for call in (oort.open_selector, inspect):
        with pytest.raises(DamagedStoreError, match=r"notes\.txt is no SQLite database"):
            call(f"sqlite:///{path}")
    assert path.read_text() == "remember the milk\n" * 500


def test_a_database_of_somebody_else_is_no_store(tmp_path: Path) -> None:
    database = connect(f"sqlite:///{tmp_path}/theirs.db", create=True)
    database.execute("CREATE TABLE theirs (a INTEGER)")
    database.close()
    with pytest.raises(StoreError, match="holds no store of Oort's"):
        inspect(f"sqlite:///{tmp_path}/theirs.db")


_TRY = """
import os, sys, oort
import oort.store.sqlite
from oort.store.inspection import inspect
os.setgid(65534); os.setuid(65534)
for call in (oort.open_selector, inspect):
    try:
        call(sys.argv[1])
        print("opened")
    except oort.StoreError as error:
        print(error)
"""


def _as_nobody(url: str) -> list[str]:
    """What somebody without rights is told, by opening and by looking."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    done = subprocess.run(
        [sys.executable, "-c", _TRY, url], cwd=_ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_whoever_may_not_read_it_is_told_so() -> None:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        path = Path(name) / "jobs.db"
        oort.open_selector(f"sqlite:///{path}").close()
        path.chmod(0o600)
        told = _as_nobody(f"sqlite:///{path}")
    assert len(told) == 2
    assert all(f"cannot use {path}: " in line for line in told), told


def _put_a_plan(url: str) -> None:
    with closing(connect(url)) as database:
        records.put(database, schema.jobs(database)[0], "plan", "p", b"x")


def test_a_store_that_cannot_be_written_can_be_looked_at(small_disk: Path) -> None:
    path = small_disk / "it's 100%.db"
    url = f"sqlite:///{path}"
    with oort.open_selector(url) as selector:
        selector.register_clients(range(7))
    remount = ["mount", "-o", "remount,ro", str(small_disk)]
    subprocess.run(remount, check=True)
    try:
        assert inspect(url).is_sound
        assert read_back(url).num_clients == 7
        with pytest.raises(StoreError, match="cannot be written"):
            oort.open_selector(url)
        with pytest.raises(StoreError, match="readonly"):
            _put_a_plan(url)
    finally:
        subprocess.run([*remount[:2], "remount,rw", str(small_disk)], check=True)
    (small_disk / f"{path.name}-wal").write_bytes(b"something")
    subprocess.run(remount, check=True)
    with pytest.raises(StoreError, match="moved into it first"):
        inspect(url)


# Passwords


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:…@host/db"),
        ("postgresql://me:se:c@r/et?@host/db?a=b", "postgresql://me:…@host/db?a=b"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("postgresql://host/db?password=secret&user=a", "postgresql://host/db?password=…&user=a"),
        ("postgresql://host/db?sslpassword=secret", "postgresql://host/db?sslpassword=…"),
        ("postgres+psycopg://me:secret@host/db", "postgres+psycopg://me:…@host/db"),
        ("host=h password=secret user=me", "host=h password=… user=me"),
        ("host=h password='se cret' user=me", "host=h password=… user=me"),
        ("sqlite:///a:b@c.db", "sqlite:///a:b@c.db"),
        ("postgresql://postgres:postgres@h/postgres", "postgresql://postgres:…@h/postgres"),
    ],
)
def test_passwords_are_not_shown(url: str, expected: str) -> None:
    assert shown(url) == expected


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush%hush@localhost:1/db",
        "postgresql://me:hush@localhost:1/db",
        "postgresql://me:%68ush@localhost:1/db",
        "postgresql://localhost:1/db?user=me&password=hush",
        "postgresql://me:hush@localhost:port/db",
        "postgresql://me:hush@localhost:1/db?nonsense=1",
        "postgres+psycopg://me:hush@localhost/db",
        "user=me password=hush",
    ],
)
def test_no_error_tells_a_password(url: str) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(OortError) as caught:
        oort.open_selector(url)
    told = "".join(traceback.format_exception(caught.value))
    written = [line for line in told.splitlines() if "oort.open_selector(url)" not in line]
    assert "hush" not in "\n".join(written)


def test_secrets_are_found_as_written_and_as_meant() -> None:
    assert secrets("postgresql://me:s%40x@h/db?sslpassword=y") == ["s%40x", "s@x", "y"]
