"""Flower's simulation engine, which runs clients on Ray: both APIs, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from .processes import PATIENCE_S, environment

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_both_apis_select_through_oort_on_the_simulation_engine(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.integrations.flower.simulated"],
        env=environment(tmp_path), cwd=ROOT, capture_output=True, text=True,
        timeout=2 * PATIENCE_S, check=False,
    )  # fmt: skip
    lines = [line[2:] for line in done.stdout.splitlines() if line.startswith("::")]
    assert len(lines) == 2, done.stdout[-3000:] + done.stderr[-6000:]
    message, classic = (json.loads(line) for line in lines)
    for api in (message, classic):
        assert len(api["rounds"]) == 2
        for outcomes in api["rounds"]:
            assert len(outcomes["completed"]) == 3
            assert len(outcomes["unused"]) == 1
            assert set(outcomes["completed"] + outcomes["unused"]) <= set(range(6))
    # Everyone takes part: the engine's own result, but for the order of summation.
    np.testing.assert_allclose(message["own"], message["uniform"], rtol=1e-12)
    assert np.isfinite(classic["model"]).all()
