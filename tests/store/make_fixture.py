"""Writes the stored fixtures.

    python -m tests.store.make_fixture training|testing VERSION FILE

A fixture is written once, by the version that it is of, and never again: the tests prove that
later versions read it. What is in it stands beside it as JSON, in words that no version changes;
``describe FILE`` writes that anew.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import oort
from oort.store import jobs, keeper, recovery, schema
from oort.store.database import connect
from oort.store.testing import ReplayedTesting
from tests.store import histories, testing_histories

STEPS, SEED = 40, 77


def main(what: str, version: int, path: Path) -> None:
    """A small job with a snapshot and a journal after it."""
    url = f"sqlite:///{path}"
    with closing(connect(url, create=True)) as database, database.transaction():
        schema.create(database, version)
    play: Any = histories.play
    opened: Any = None
    if what == "training":
        opened = oort.open_selector(url, job="kb", config=histories.CONFIG)
    else:
        play = testing_histories.play
        opened = oort.open_testing_selector(url, job="cameras", seed=testing_histories.SEED)
    with opened as selector:
        for step in range(STEPS):
            play(selector, SEED, step)
            if step == 24:
                with closing(connect(url, background=True)) as background:
                    keeper.snapshot(background, selector, selector._lease)
    path.with_suffix(".json").write_text(described(path))


def described(path: Path) -> str:
    """What a store holds, as plain values: one line per client."""
    with closing(connect(f"sqlite:///{path}")) as database:
        (job,) = schema.jobs(database)
        selector = jobs.blank(job)
        recovery.recover(database, job, selector)
        if isinstance(selector, ReplayedTesting):
            plans = testing_histories.stored_plans(database, job)
            state: Any = [*testing_histories.state_of(selector), plans]
            return json.dumps(state) + "\n"
    columns = selector.columns()
    clients = [
        [client, *values]
        for client, *values in zip(
            selector.client_ids(),
            columns.utility.tolist(),
            columns.duration_s.astype(str).tolist(),
            columns.num_samples.tolist(),
            columns.participations.tolist(),
            columns.last_round.tolist(),
            strict=True,
        )
    ]
    known = {"round": selector.round_number, "mode": selector.mode, "rows": selector.num_rows}
    return json.dumps({**known, "clients": clients}) + "\n"


if __name__ == "__main__":
    if sys.argv[1] == "describe":
        Path(sys.argv[2]).with_suffix(".json").write_text(described(Path(sys.argv[2])))
    else:
        main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
