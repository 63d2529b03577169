"""PySyft through syft-flwr: its own local network of datasites, each a process, with encryption.

``syft-flwr`` pins another version of Flower, so these tests have an environment of their own:
``make test-pysyft``.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("syft_flwr", reason="needs syft-flwr: make test-pysyft")

APP = Path(__file__).parent / "app"
DATASITES = ["ann@sites.org", "bob@sites.org", "cy@sites.org"]
RUN = """
import sys
from syft_flwr.bootstrap import bootstrap
from syft_flwr.run_simulation import run
project, sites = sys.argv[1], sys.argv[2].split(",")
bootstrap(project, "server@science.org", sites)
sys.exit(0 if run(project, sys.argv[3].split(",")) else 1)
"""


def run(folder: Path, api: str, numbers: list[int]) -> list[dict[str, Any]]:
    """A job over datasites with these numbers, as syft-flwr runs it on mock data."""
    project = Path(shutil.copytree(APP, folder / f"tinysyft-{uuid.uuid4().hex[:8]}"))
    if api == "classic":
        settings = project / "pyproject.toml"
        text = settings.read_text().replace("server_app:message", "server_app:classic")
        settings.write_text(text.replace("client_app:app", "classic_client_app:app"))
    data = [folder / f"data-{number}" for number in numbers]
    for number, place in zip(numbers, data, strict=True):
        place.mkdir()
        (place / "number.txt").write_text(str(number))
    rounds = folder / "rounds.jsonl"
    paths = ",".join(str(place) for place in data)
    done = run_and_clean_up(
        [sys.executable, "-W", "ignore", "-c", RUN, str(project), ",".join(DATASITES), paths],
        env={
            **os.environ,
            "OORT_ROUNDS": str(rounds),
            "SYFT_FLWR_POLL_INTERVAL": "0.2",
            "FLWR_TELEMETRY_ENABLED": "0",
            "HOME": str(folder),
            "TMPDIR": str(folder),
        },
    )
    logs = "".join(log.read_text() for log in project.glob("simulation_logs/*.log"))
    assert rounds.exists(), done[-5000:] + logs[-5000:]
    return [json.loads(line) for line in rounds.read_text().splitlines()]


def run_and_clean_up(command: list[str], env: dict[str, str]) -> str:
    """Run it to its end, and leave none of the datasites behind."""
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        return process.communicate(timeout=280)[0]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


@pytest.mark.slow
@pytest.mark.parametrize("api", ["message", "classic"])
def test_a_pysyft_job_selects_datasites_and_stops_at_the_quorum(tmp_path: Path, api: str) -> None:
    rounds = run(tmp_path, api, [1, 2, 9])
    assert [line["round"] for line in rounds] == [1, 2]
    for line in rounds:
        assert line["ended_by"] == "quorum"
        assert line["completed"] == ["ann@sites.org", "bob@sites.org"]
        assert line["unused"] == ["cy@sites.org"]
        assert sorted(line["utility"]) == [10.0, 20.0]
