"""Writes the stored fixtures: ``python -m tests.store.make_fixture VERSION FILE``.

A fixture is written once, by the version that it is of, and never again: the tests prove that
later versions read it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import oort
from oort.store import keeper, schema
from oort.store.database import connect
from tests.store import histories

STEPS, SEED = 40, 77


def main(version: int, path: Path) -> None:
    """A small job with a snapshot and a journal after it."""
    url = f"sqlite:///{path}"
    database = connect(url, create=True)
    with database.transaction():
        schema.create(database, version)
    database.close()
    with oort.open_selector(url, job="kb", config=histories.CONFIG) as selector:
        for step in range(STEPS):
            histories.play(selector, SEED, step)
            if step == 24:
                background = connect(url, background=True)
                keeper.snapshot(background, selector, selector._lease)
                background.close()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
