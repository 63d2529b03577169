"""SIGKILL and Ctrl-C at random points of random histories: see ``killing``, ``interrupting``.

``soak`` does it at length.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.soak import command

_ROOT = Path(__file__).parents[2]
_SEED = 20211016
_KILLS = {"training": 300, "testing": 150}
_KILLS_OF_A_SERVERS_CLIENT = {"training": 60, "testing": 40}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["training", "testing"])
def test_whatever_was_acknowledged_survives_a_kill_in_sqlite(memory: Path, what: str) -> None:
    kills = _KILLS[what]
    counts = _killed(what, f"sqlite:///{memory}/history-{{}}.db", kills)
    assert counts["killed"] == kills
    assert counts["from a snapshot"] > kills / 4
    if what == "training":  # a testing selector commits too quickly for many kills to meet it
        assert counts["whole though not acknowledged"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("what", ["training", "testing"])
def test_whatever_was_acknowledged_survives_a_kill_in_postgresql(
    postgres_url: str, what: str
) -> None:
    kills = _KILLS_OF_A_SERVERS_CLIENT[what]
    assert _killed(what, postgres_url, kills)["killed"] == kills


@pytest.mark.parametrize("what", ["training", "testing"])
def test_an_interrupt_at_any_moment_leaves_memory_and_store_the_same(url: str, what: str) -> None:
    program = [sys.executable, "-m", "tests.store.interrupting", what, url, "40", str(_SEED)]
    done = subprocess.run(program, cwd=_ROOT, capture_output=True, text=True)
    # Python ends by SIGINT where an interrupt came while it ran code by exec(), as imports do.
    assert done.returncode in (0, -signal.SIGINT), done.stderr
    assert json.loads(done.stdout) >= 40


def _killed(what: str, pattern: str, kills: int) -> dict[str, int]:
    done = subprocess.run(
        command(what, pattern, kills, _SEED), cwd=_ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    return counts
