"""The schema of the client table: 19 bytes per client, plus the optional sketch.

Columns are as narrow as they honestly can be, because a selection reads them all: 4-byte floats
hold a utility or a duration to seven digits, which is more than either is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

PRESENT: Final = 1  #: registered and not removed
ONLINE: Final = 2  #: may be picked
TRIED: Final = 4  #: selected or heard of at least once
EXPLORED: Final = 8  #: has a utility
REMOVED: Final = 16  #: selected more often than ``max_participations``
TIMED: Final = 32  #: a report told of the duration

READY: Final = PRESENT | ONLINE

MAX_PARTICIPATIONS_STORED: Final = 65_535
#: Utilities and durations beyond are stored as this, so that arithmetic stays finite.
LARGEST_STORED: Final = 1e30
#: Those below are stored as 0: 4-byte floats end soon after.
SMALLEST_STORED: Final = 1e-30


def stored(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Utilities or durations as a column holds them: at most 1e30, and 0 below 1e-30.

    >>> stored(np.array([-0.0, 1e-300, 1e300]))
    array([0.e+00, 0.e+00, 1.e+30], dtype=float32)
    """
    large = np.minimum(values, LARGEST_STORED)
    return np.where(large < SMALLEST_STORED, 0.0, large).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what it holds, in which unit, and what an unknown value looks like."""

    name: str
    dtype: str
    unit: str
    meaning: str
    empty: Any


SCHEMA: Final = (
    Column("flags", "u1", "bits", "present, online, tried, explored, removed, timed", READY),
    Column("utility", "f4", "as reported", "the newest utility, 0 until there is one", 0.0),
    Column(
        "duration_s",
        "f4",
        "seconds",
        "last measured, at least, or expected duration; NaN: unknown",
        np.nan,
    ),
    Column(
        "last_round",
        "u4",
        "round",
        "the newest round that the client completed or failed; 0: none",
        0,
    ),
    Column(
        "participations", "u2", "count", "how often selected and not left unused, up to 65,535", 0
    ),
    Column("num_samples", "u4", "samples", "as reported or registered; 0: unknown", 0),
)

SKETCH: Final = Column(
    "sketch", "f4", "as reported", "a projection of the client's newest update (optional)", 0.0
)
