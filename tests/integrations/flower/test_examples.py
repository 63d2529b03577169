"""The examples run as their READMEs say: ``flwr run .``, on a SuperLink that Flower starts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from .processes import BIN, PATIENCE_S, copy_app, descendants, environment, free_port

EXAMPLES = Path(__file__).parents[3] / "examples"

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="needs examples/")


def flwr_run(example: str, folder: Path, config: str, nodes: int) -> str:
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
            stderr=subprocess.STDOUT, text=True, timeout=2 * PATIENCE_S, check=False,
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


@pytest.mark.slow
def test_the_example_trains_with_oort_and_random_selection_and_tests_by_category(
    tmp_path: Path,
) -> None:
    config = "num-server-rounds=3 test-by-category=true"
    out = flwr_run("flower", tmp_path, config, nodes=30)
    table = dict(re.findall(r"^(oort|random)\s.*?([\d.]+)%\s*$", out, re.MULTILINE))
    assert set(table) == {"oort", "random"}, out[-6000:]
    assert all(float(accuracy) > 0 for accuracy in table.values())
    assert out.count("oort: round 3 ended by quorum") == 2
    assert re.search(r"oort: [1-9]\d* clients test", out)


@pytest.mark.slow
def test_the_classic_example_runs(tmp_path: Path) -> None:
    out = flwr_run("flower-classic", tmp_path, "num-server-rounds=2", nodes=20)
    assert "oort: round 2 ended by quorum" in out, out[-6000:]
    assert "Run finished 2 round(s)" in out
