"""SIGKILL at random points of random histories: see ``killing``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_KILLS = int(os.environ.get("OORT_KILLS", "300"))
_SEED = int(os.environ.get("OORT_KILL_SEED", "20211016"))


@pytest.fixture
def memory_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: a killed process does not need a disk to sync to."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="oort-") as folder:
        yield Path(folder)


@pytest.mark.slow
def test_whatever_was_acknowledged_survives_a_kill_in_sqlite(memory_folder: Path) -> None:
    counts = _killed(f"sqlite:///{memory_folder}/history-{{}}.db", _KILLS)
    assert counts["killed"] == _KILLS
    assert counts["from a snapshot"] > _KILLS / 4
    assert counts["whole though not acknowledged"] > 0


@pytest.mark.slow
def test_whatever_was_acknowledged_survives_a_kill_in_postgresql(postgres_url: str) -> None:
    kills = max(60, _KILLS // 5)
    assert _killed(postgres_url, kills)["killed"] == kills


def _killed(pattern: str, kills: int) -> dict[str, int]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.store.killing", pattern, str(kills), str(_SEED)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts
