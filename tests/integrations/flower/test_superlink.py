"""A real SuperLink with SuperNodes as processes on loopback; the server killed in mid-job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oort

from .processes import copy_app, superlink, wait_until

APP = Path(__file__).parent / "app"


@pytest.mark.slow
def test_a_job_on_a_superlink_that_is_killed_continues_when_it_is_started_again(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    state.mkdir()
    app = copy_app(APP, tmp_path)

    def rounds() -> list[dict[str, Any]]:
        log = state / "rounds.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    with superlink(tmp_path) as link:
        link.start(num_nodes=3)
        link.submit(app, {"state-folder": str(state), "num-server-rounds": 50})
        wait_until(lambda: len(rounds()) >= 1, "the first round is done", tmp_path)
        link.kill()  # in mid-job: SuperLink, server app and clients
        before = rounds()
        assert not (state / "done").exists()

        link.start(num_nodes=3)  # new node ids, the same partitions
        total = len(before) + 2
        link.submit(app, {"state-folder": str(state), "num-server-rounds": total})
        wait_until((state / "done").exists, "the job is done", tmp_path)

    after = rounds()
    assert len(after) == total
    numbers = [line["round"] for line in after]
    assert numbers == sorted(
        set(numbers)
    )  # a round that was under way is lost, and never repeated
    assert numbers[len(before)] in (before[-1]["round"] + 1, before[-1]["round"] + 2)
    assert all(len(line["completed"]) == 2 for line in after)
    assert {line["ended_by"] for line in after} <= {"quorum", "everyone"}
    picked = {c for line in after for c in line["completed"] + line["failed"] + line["unused"]}
    assert picked == {0, 1, 2}
    with oort.open_selector(f"sqlite:///{state}/oort.db", job="tiny") as selector:
        assert selector.num_clients == 3
        assert selector.round_number == numbers[-1]
    np.testing.assert_allclose(np.load(state / "model.npy"), total)
