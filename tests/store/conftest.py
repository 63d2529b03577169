"""Stores to test on: a fresh SQLite file, and a fresh database of a real PostgreSQL server."""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

import oort
from tests.store.server import Server, binaries, memory_folder

_names = (f"oort_{number}" for number in itertools.count())

Open = Callable[..., oort.DurableSelector]


def fresh_server(**where: Path) -> Iterator[Server]:
    """A server for as long as it is needed; skips where there cannot be one."""
    if find_spec("psycopg") is None:
        pytest.skip("psycopg is not installed (extra 'postgres')")
    programs = binaries()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: tools/postgres.sh installs it where it may")
    running = Server(programs, **where)
    try:
        yield running
    finally:
        running.remove()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    yield from fresh_server()


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory, where there is one: most of what is tested needs no disk to sync to."""
    with tempfile.TemporaryDirectory(dir=memory_folder(), prefix="oort-") as name:
        yield Path(name)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, memory: Path) -> str:
    """The address of a store that is not there yet, on either database."""
    if request.param == "sqlite":
        return f"sqlite:///{memory / 'jobs.db'}"
    running: Server = request.getfixturevalue("server")
    return running.create(next(_names))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.db'}"


@pytest.fixture
def postgres_url(server: Server) -> str:
    return server.create(next(_names))


@contextmanager
def mounted(megabytes: int) -> Iterator[Path]:
    """A file system of its own, which anybody may enter; skips where there cannot be one."""
    folder = Path(tempfile.mkdtemp(prefix="oort-disk-"))
    folder.chmod(0o755)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"only root can mount a small disk: {done.stderr.strip()}")
        try:
            yield folder
        finally:
            subprocess.run(["umount", "-l", str(folder)], check=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    finally:
        folder.rmdir()


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of 3 MiB."""
    with mounted(3) as folder:
        yield folder


@pytest.fixture
def opened(url: str) -> Iterator[Open]:
    """Opens selectors on the store and closes them in the end."""
    made: list[oort.DurableSelector] = []

    def open_one(**options: object) -> oort.DurableSelector:
        made.append(oort.open_selector(url, **options))  # type: ignore[arg-type]
        return made[-1]

    yield open_one
    for selector in made:
        selector.close()
