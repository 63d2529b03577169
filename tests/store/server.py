"""A PostgreSQL server for tests: its own data folder, a socket in it, an unprivileged user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

_NEEDED = ("postgres", "initdb", "pg_ctl")


def binaries() -> Path | None:
    """The folder with PostgreSQL's programs, newest first; none where it is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    on_path = shutil.which("postgres")
    places = [program.parent for program in [*found, *([Path(on_path)] if on_path else [])]]
    return next((p for p in places if all((p / name).exists() for name in _NEEDED)), None)


def memory_folder() -> str | None:
    """A folder in memory where there is one: a killed process needs no disk to sync to."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Server:
    """One server, started.

    In memory, where no folder is given; with its log elsewhere, where ``log_folder`` says so.
    """

    def __init__(
        self, programs: Path, *, folder: Path | None = None, log_folder: Path | None = None
    ) -> None:
        self._programs = programs
        self._user = _unprivileged()
        self.folder = Path(tempfile.mkdtemp(prefix="oort-pg-", dir=folder or memory_folder()))
        if self._user is not None:
            shutil.chown(self.folder, self._user)
        where = [] if log_folder is None else ["-X", str(log_folder / "wal")]
        for place in (folder, log_folder):
            if place is not None and self._user is not None:
                shutil.chown(place, self._user)
        plain = ["-A", "trust", "-U", "oort", "-E", "UTF8", "--no-locale", "--wal-segsize=1"]
        self._run("initdb", "--no-sync", *plain, *where)
        self.start()

    def url(self, schema: str = "public") -> str:
        """Its address; stores in different schemas know nothing of one another."""
        path = f"options=-csearch_path%3D{schema}"
        return f"postgresql:///postgres?host={self.folder}&user=oort&{path}"

    def create(self, schema: str) -> str:
        """The address of a new, empty schema: faster than a database of its own."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        return self.url(schema)

    def start(self) -> None:
        """Start it and wait until it answers; nothing where it runs."""
        if self.is_running():
            return
        options = (
            f"-c listen_addresses='' -c unix_socket_directories='{self.folder}' "
            "-c max_wal_size=16MB -c min_wal_size=2MB"
        )
        self._run("pg_ctl", "start", "-w", "-s", "-o", options, "-l", str(self.folder / "log"))

    def is_running(self) -> bool:
        """Whether it is there."""
        try:
            self._run("pg_ctl", "status")
        except RuntimeError:
            return False
        return True

    def stop(self, how: str = "immediate") -> None:
        """Stop it, if it runs: ``immediate`` is a crash, ``fast`` throws everyone out."""
        if self.is_running():
            self._run("pg_ctl", "stop", "-w", "-s", "-m", how)

    def remove(self) -> None:
        """Stop it and leave nothing behind."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, "-D", str(self.folder / "data"), *arguments],
            user=self._user,
            cwd=self.folder,
            env={**os.environ, "LC_ALL": "C", "PGCONNECT_TIMEOUT": "10"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            message = f"{program} failed: {done.stderr}"
            raise RuntimeError(message)


def _unprivileged() -> str | None:
    """PostgreSQL refuses to run as root: somebody else, where we are root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            pwd.getpwnam(name)
        except KeyError:
            continue
        return name
    message = "no unprivileged user to run PostgreSQL as"
    raise RuntimeError(message)
