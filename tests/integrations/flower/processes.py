"""Flower's own programs as processes on loopback, each in a process group that can be killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

BIN = Path(sys.executable).parent
PATIENCE_S = 240.0
EXAMPLES = Path(__file__).parents[3] / "examples"


def environment(home: Path) -> dict[str, str]:
    """Nothing calls home, nothing is installed at run time, everything is kept in one folder."""
    return {
        **os.environ,
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DISABLE_DOCKER_CPU_WARNING": "1",
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """One program; ``kill`` ends it and everything that it started, without asking."""

    def __init__(self, command: list[str], env: dict[str, str], log: Path) -> None:
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                command, env=env, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        self.log = log

    def kill(self) -> None:
        # Programs that Flower starts lead sessions of their own: end them by who their parent is.
        for pid in [*descendants(self.process.pid), self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(30)


def descendants(pid: int) -> list[int]:
    """Processes started by a process, and those started by them."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found, new = [], [pid]
    while new:
        new = [child for parent in new for child in children.get(parent, [])]
        found += new
    return found


class SuperLink:
    """A SuperLink on a loopback port, with SuperNodes that hold a partition each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = environment(folder / "home")
        self.port = free_port()
        self.running: list[Process] = []
        (folder / "home").mkdir()
        (folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n[superlink.test]\n'
            f'address = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )

    def start(self, num_nodes: int) -> None:
        address = f"127.0.0.1:{self.port}"
        self._run("superlink", "flower-superlink", "--host", "127.0.0.1", "--port", str(self.port))
        wait_until(lambda: is_open(self.port), "the SuperLink listens", self.folder)
        for partition in range(num_nodes):
            config = f"partition-id={partition} num-partitions={num_nodes}"
            self._run(
                f"node-{partition}", "flower-supernode", "--superlink", address,
                "--host", "127.0.0.1", "--port", str(free_port()), "--node-config", config,
            )  # fmt: skip

    def submit(self, app: Path, config: dict[str, str | int]) -> None:
        """``flwr run``."""
        values = " ".join(f"{name}={value!r}" for name, value in config.items())
        done = subprocess.run(
            [str(BIN / "flwr"), "run", str(app), "test", "--run-config", values],
            env=self.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr

    def kill(self) -> None:
        """Everything at once, as in a power cut."""
        for process in self.running:
            process.kill()
        self.running.clear()

    def _run(self, name: str, program: str, *options: str) -> None:
        command = [str(BIN / program), "--insecure", *options]
        self.running.append(Process(command, self.env, self.folder / f"{name}.log"))


@contextmanager
def superlink(folder: Path) -> Iterator[SuperLink]:
    link = SuperLink(folder)
    try:
        yield link
    finally:
        link.kill()


def wait_until(holds: Callable[[], bool], what: str, folder: Path) -> None:
    """Wait, with an end: what the programs logged is shown if it does not come."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            logs = "\n".join(
                f"== {log.name}\n{log.read_text(errors='replace')[-3000:]}"
                for log in folder.glob("*.log")
            )
            msg = f"waited {PATIENCE_S:g} s until {what}\n{logs}"
            raise AssertionError(msg)
        time.sleep(0.2)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def copy_app(source: Path, into: Path) -> Path:
    """An app without what earlier runs left in its folder."""
    ignored = shutil.ignore_patterns("__pycache__", "*.fab", "state")
    return Path(shutil.copytree(source, into / source.name, ignore=ignored))


def flwr_run(
    example: str, folder: Path, config: str, nodes: int, limit_s: float = 2 * PATIENCE_S
) -> str:
    """What ``flwr run`` prints; the SuperLink that it leaves running is ended."""
    home = folder / "home"
    home.mkdir()
    port = str(free_port())
    env = {
        **environment(home),
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": port,
        "FLWR_LOCAL_CONTROL_API_PORT": str(free_port()),
    }
    command = [str(BIN / "flwr"), "run", ".", "--stream", "--run-config", config]
    federation = f"num-supernodes={nodes} init-args-num-cpus=2 client-resources-num-cpus=1"
    try:
        done = subprocess.run(
            [*command, "--federation-config", federation],
            cwd=copy_app(EXAMPLES / example, folder), env=env, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=limit_s, check=False,
        )  # fmt: skip
    finally:
        _end_superlink(port)
    return done.stdout


def _end_superlink(port: str) -> None:
    """Flower's local SuperLink outlives the command: find ours by its port, and end it."""
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = place.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(word.endswith("flower-superlink") for word in words) and port in words:
            pid = int(place.parent.name)
            for each in [*descendants(pid), pid]:
                try:
                    os.kill(each, signal.SIGKILL)
                except ProcessLookupError:
                    continue
