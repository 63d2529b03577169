"""The right kind of selector for a job, before anything has happened to it."""

from __future__ import annotations

import json

from oort.store.recovery import Replayed, config_of
from oort.store.schema import Job
from oort.store.testing import WHAT, ReplayedTesting


def blank(job: Job) -> Replayed | ReplayedTesting:
    """A selector with the job's settings, to be brought to the job's state."""
    if json.loads(job.settings).get("what") == WHAT:
        return ReplayedTesting.of(job)
    return Replayed(config_of(job))
