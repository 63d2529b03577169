"""Flower's simulation engine, which runs clients on Ray: both APIs, in a process of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .processes import PATIENCE_S, environment

ROOT = Path(__file__).parents[3]


def simulate(folder: Path, *names: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.integrations.flower.simulated", *names],
        env=environment(folder), cwd=ROOT, capture_output=True, text=True,
        timeout=2 * PATIENCE_S, check=False,
    )  # fmt: skip
    lines = [line[2:] for line in done.stdout.splitlines() if line.startswith("::")]
    assert len(lines) == len(names), done.stdout[-3000:] + done.stderr[-6000:]
    return [json.loads(line) for line in lines]


@pytest.mark.slow
def test_both_apis_select_through_oort_on_the_simulation_engine(tmp_path: Path) -> None:
    message, classic = simulate(tmp_path, "message", "classic")
    for api in (message, classic):
        assert len(api["rounds"]) == 2
        for outcomes in api["rounds"]:
            assert len(outcomes["completed"]) == 3
            assert len(outcomes["unused"]) == 1
            assert set(outcomes["completed"] + outcomes["unused"]) <= set(range(6))
    # Everyone takes part: the engine's own result, but for the order of summation.
    np.testing.assert_allclose(message["own"], message["uniform"], rtol=1e-12)
    assert np.isfinite(classic["model"]).all()


@pytest.mark.slow
def test_secure_aggregation_and_a_private_strategy_on_the_simulation_engine(
    tmp_path: Path,
) -> None:
    secure, private = simulate(tmp_path, "secure", "private")
    for outcomes in secure["rounds"]:
        assert len(outcomes["completed"]) == 4
    before = 0.0
    for outcomes, model in zip(secure["rounds"], secure["models"], strict=True):
        who = np.array(outcomes["completed"])
        step = float(np.average(who, weights=10 + who))  # what each adds, by its samples
        np.testing.assert_allclose(model, before + step, atol=0.05)
        before = model[0]
    assert secure["known"] >= 4, "reports go beside the masked update"
    assert [len(outcomes["completed"]) for outcomes in private["rounds"]] == [3, 3]
    # Every update is clipped to norm 1: two rounds of three equal steps in one direction.
    np.testing.assert_allclose(private["model"], 2 / np.sqrt(3), rtol=1e-3)
