"""From what is on disk to the state of the lost process: newest good snapshot, replay, verify."""

from __future__ import annotations

import json
import logging
import shlex
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from oort.config import TrainingConfig
from oort.errors import DamagedStoreError, OortError, StoreError
from oort.store import journal, snapshots
from oort.store.acknowledged import Acknowledged
from oort.store.database import Database, shown
from oort.store.schema import Job
from oort.store.snapshots import Listed, State
from oort.store.sqlite import SQLite
from oort.training.changes import Change
from oort.training.selector import GuidedSelector

_log = logging.getLogger(__name__)

_MISFITS = (LookupError, TypeError, ValueError, ArithmeticError, OortError)


class Replayable(Protocol):
    """What can be brought to the state of a journal."""

    @property
    def round_number(self) -> int:
        """How far it has come."""

    def take_state(self, state: State) -> None:
        """Begin at a snapshot."""

    def take_entry(self, entry: journal.Entry) -> None:
        """Make one entry so again."""

    def start_over(self) -> None:
        """Know nothing again."""


@dataclass(slots=True)
class Recovered:
    """What was found: as far as it is good, and what is wrong with the rest."""

    sequence: int = 0  #: of the newest entry applied
    snapshot: Listed | None = None
    entries: int = 0  #: replayed after the snapshot
    problems: list[str] = field(default_factory=list)  #: harmless ones: nothing is lost
    damage: DamagedStoreError | None = None  #: what ended the replay early


def replay(database: Database, job: Job, selector: Replayable) -> Recovered:
    """Bring a fresh selector to the state of the journal's last good entry.

    Nothing is raised for damage: it is in the answer.
    """
    found = Recovered()
    with database.reading():
        _load_snapshot(database, job, selector, found)
        try:
            for entry in journal.read(database, job.number, found.sequence):
                _apply(selector, entry)
                found.sequence, found.entries = entry.sequence, found.entries + 1
        except DamagedStoreError as error:
            found.damage = error
    must_reach = acknowledged_sequence(database, job)
    if found.damage is None and found.sequence < must_reach:
        gone = f"entries {found.sequence + 1} to {must_reach}"
        found.damage = journal.damaged(
            found.sequence + 1, f"{gone} are missing: they were acknowledged, but are not there"
        )
    return found


def recover(database: Database, job: Job, selector: Replayable) -> Recovered:
    """The same, for going on.

    Raises:
        DamagedStoreError: Something is missing or changed; the message says what, and what is
            intact.
    """
    found = replay(database, job, selector)
    where = f"job {job.name!r} in {shown(database.url)}"
    if found.damage is not None:
        intact = f"everything up to entry {found.sequence} (round {selector.round_number})"
        cure = shlex.join(["oort", "inspect", shown(database.url), "--job", job.name, "--repair"])
        message = (
            f"{where} is damaged: {found.damage}; {intact} is intact; to go on from there, "
            f"losing the rest, run: {cure}"
        )
        raise DamagedStoreError(message) from found.damage
    for problem in found.problems:
        _log.warning("%s: %s; recovered from what came before, nothing is lost", where, problem)
    return found


class Replayed(GuidedSelector):
    """A selector that is brought to a state instead of getting there."""

    def take_state(self, state: State) -> None:
        """Begin at a snapshot."""
        self._restore(state.meta, state.arrays)

    def start_over(self) -> None:
        """Know nothing again."""
        fresh = GuidedSelector(self._config)
        self._table, self._book, self._mode = fresh._table, fresh._book, fresh._mode
        self._candidates = fresh._candidates

    def count_removed(self) -> None:
        """Let the flags follow the limit on participations."""
        rows = np.arange(self._table.num_rows)
        with self._table.changing(rows):
            self._table.count_participations(rows, 0)

    def state(self, sequence: int) -> State:
        """Everything, as a snapshot holds it."""
        meta, arrays = self._described()
        return State(sequence, meta, {**self._table.to_arrays(), **arrays})

    def take_entry(self, entry: journal.Entry) -> None:
        """Make one entry so again."""
        change = training_change(entry)
        if change is not None:
            GuidedSelector._do(self, [change])


def training_change(entry: journal.Entry) -> Change | None:
    """What an entry of a training job says.

    Raises:
        ValueError: It is of another kind of job.
    """
    change = entry.change()
    if change is not None and not isinstance(change, Change):
        message = f"a training job has no entries of kind {entry.kind!r}"
        raise ValueError(message)
    return change


def config_of(job: Job) -> TrainingConfig:
    """The settings that a job was created with.

    Raises:
        StoreError: It is no training job.
    """
    settings = json.loads(job.settings)
    if "what" in settings:
        message = f"job {job.name!r} must be a training job; it is a {settings['what']}'s"
        raise StoreError(message)
    return TrainingConfig.from_stored(settings)


def acknowledged_sequence(database: Database, job: Job) -> int:
    """How far the journal must reach, where a note is kept of it."""
    if not isinstance(database, SQLite):
        return 0
    return Acknowledged(database.path).sequence(job.number)


def _load_snapshot(database: Database, job: Job, selector: Replayable, found: Recovered) -> None:
    try:
        listed = snapshots.listed(database, job.number)
    except DamagedStoreError as error:
        found.problems.append(str(error))
        listed = []
    for snapshot in listed:
        try:
            selector.take_state(snapshots.read(database, job.number, snapshot))
        except DamagedStoreError as error:
            found.problems.append(str(error))
        except _MISFITS as error:
            what = f"its parts do not fit together ({error})"
            found.problems.append(f"snapshot {snapshot.sequence}: {what}")
        else:
            found.snapshot, found.sequence = snapshot, snapshot.sequence
            return
        selector.start_over()


def _apply(selector: Replayable, entry: journal.Entry) -> None:
    try:
        selector.take_entry(entry)
    except _MISFITS as error:
        what = f"entry {entry.sequence} ({entry.kind!r:.20}) does not fit what is before it"
        raise journal.damaged(entry.sequence, f"{what} ({error})") from error
