"""When clients are online.

    AlwaysOn       everyone, always
    DailyCycle     sessions generated per client and day, as in the FLASH traces
    Trace          sessions from a file, folded onto whole days and repeated

All answer the same three questions: who is online at a time, until when, and when somebody is
next. Times are seconds since the simulation began; ``start_hour`` says what hour of the day that
was.
"""

from __future__ import annotations

import gzip
import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from oort.errors import ConfigError
from oort.randomness import generator_for
from oort.simulation.config import AvailabilityConfig
from oort.simulation.streams import hashed_uniform
from oort.simulation.tables import at_quantile, table
from oort.types import Floats, Mask, Rows

DAY_S = 86_400.0
NOON = 12  #: the hour
MOST_SESSIONS = 8  #: kept per client and day; 98 % of users have fewer
WAITING_STEP_S = 60.0


class Availability(Protocol):
    """Who can be picked when."""

    def online(self, clock_s: float) -> Mask:
        """Who is online at this time."""

    def online_until(self, clock_s: float, rows: Rows) -> Floats:
        """Until when those who are online stay so; the time itself for those who are not."""


class AlwaysOn:
    """Everyone is online all the time."""

    def __init__(self, num_clients: int) -> None:
        self._everyone = np.ones(num_clients, bool)

    def online(self, clock_s: float) -> Mask:
        """Everyone."""
        return self._everyone

    def online_until(self, clock_s: float, rows: Rows) -> Floats:
        """For ever."""
        return np.full(len(rows), np.inf)


class DailyCycle:
    """Sessions drawn per client and day: the population shows the FLASH traces' daily cycle.

    How many sessions a client has per day is a trait that it keeps; when they begin and how long
    they last (by their number that day and the hour that they begin in) is drawn anew every day.
    A session that would begin within another follows it. Days run from noon to noon, so that a
    night is in one of them.
    """

    def __init__(self, num_clients: int, *, seed: int, start_hour: float = 0.0) -> None:
        figures = table("availability")
        self._seed = seed
        self._offset_s = (start_hour - NOON) * 3600.0
        self._rows = np.arange(num_clients, dtype=np.int64)
        self._rate = at_quantile(
            figures["sessions_per_day"], hashed_uniform(seed, self._rows, "sessions")
        )
        self._fewest = np.array([group["fewest_sessions"] for group in figures["groups"]])
        share = _from_noon([group["starts_per_hour"] for group in figures["groups"]])
        self._starts = np.cumsum(share, axis=1) / share.sum(axis=1, keepdims=True)
        self._length_s = _from_noon([group["length_s"] for group in figures["groups"]])
        self._sessions = lru_cache(maxsize=4)(self._drawn)

    def online(self, clock_s: float) -> Mask:
        """Who is in a session of today, or in one of yesterday that has not ended."""
        now_s = clock_s + self._offset_s
        day = math.floor(now_s / DAY_S)
        mask = np.zeros(len(self._rows), bool)
        for d in (day - 1, day):
            begin_s, end_s = self._sessions(d)
            mask |= np.any((begin_s <= now_s) & (now_s < end_s), axis=1)
        return mask

    def online_until(self, clock_s: float, rows: Rows) -> Floats:
        """The end of the session, or of the last of a chain of overlapping ones."""
        now_s = clock_s + self._offset_s
        day = math.floor(now_s / DAY_S)
        days = [self._sessions(d) for d in range(day - 1, day + 3)]
        begin_s = np.concatenate([b[rows] for b, _ in days], axis=1)
        end_s = np.concatenate([e[rows] for _, e in days], axis=1)
        until_s = np.full(len(rows), now_s)
        for _ in range(begin_s.shape[1]):
            covers = (begin_s <= until_s[:, None]) & (until_s[:, None] < end_s)
            until_s = np.maximum(until_s, np.where(covers, end_s, -np.inf).max(axis=1))
            if not covers.any():
                break
        return until_s - self._offset_s

    def _drawn(self, day: int) -> tuple[Floats, Floats]:
        """Begin and end of each client's sessions of one day; both NaN where it has fewer."""
        slots = np.arange(MOST_SESSIONS, dtype=np.int64)
        keys = self._rows[:, None] * MOST_SESSIONS + slots | np.int64(day + 2) << 40
        count = np.floor(self._rate + hashed_uniform(self._seed, keys[:, 0], "count"))
        group = np.searchsorted(self._fewest[1:], count, side="right")
        hour = self._hour(group, self._spread(keys, slots, count))
        hour = np.sort(np.where(slots < count[:, None], hour, np.nan), axis=1)
        place = hashed_uniform(self._seed, keys, "length") * (self._length_s.shape[2] - 1)
        below = place.astype(np.int64)
        begins = np.nan_to_num(hour).astype(np.int64).clip(0, 23)
        low_s = self._length_s[group[:, None], begins, below]
        high_s = self._length_s[group[:, None], begins, below + 1]
        begin_s, end_s = _in_a_row(
            day * DAY_S + hour * 3600.0, low_s + (high_s - low_s) * (place - below)
        )
        return begin_s, np.minimum(end_s, (day + 2) * DAY_S)

    def _spread(self, keys: Rows, slots: Rows, count: Floats) -> Floats:
        """Places in the distribution of beginnings, one in each of as many equal parts of it.

        A phone that charges overnight does so once: drawn independently, several of a client's
        sessions would begin in the same evening, and fewer clients would be online at night.
        """
        within = hashed_uniform(self._seed, keys, "begin")
        return np.asarray((slots + within) / np.maximum(count, 1.0)[:, None])

    def _hour(self, group: Rows, u: Floats) -> Floats:
        """The hour after noon at these places of the beginnings of each client's group."""
        hour = np.empty_like(u)
        for number, ends in enumerate(self._starts):
            mine = group == number
            hour[mine] = np.interp(u[mine], np.concatenate([[0.0], ends]), np.arange(25.0))
        return hour


class Trace:
    """Sessions from a file; clients are given its users at random, and its days repeat."""

    def __init__(
        self, path: str | Path, num_clients: int, *, seed: int, start_hour: float = 0.0
    ) -> None:
        users = read_trace(path)
        rng = generator_for(seed, 0, "availability trace")
        repeats = -(-num_clients // len(users))
        self._user = np.concatenate([rng.permutation(len(users)) for _ in range(repeats)])[
            :num_clients
        ]
        owner = np.repeat(np.arange(len(users)), [len(u) for u in users])
        sessions = np.array([session for user in users for session in user], np.float64).reshape(
            -1, 2
        )
        self.period_s = DAY_S * max(1, round(float(np.quantile(sessions[:, 1], 0.99)) / DAY_S))
        self._offset_s = start_hour * 3600.0
        self._owner, self._begin_s, self._end_s = _folded(owner, sessions, self.period_s)
        self._num_users = len(users)

    def online(self, clock_s: float) -> Mask:
        """Who is in a session."""
        phase_s = (clock_s + self._offset_s) % self.period_s
        inside = (self._begin_s <= phase_s) & (phase_s < self._end_s)
        users = np.zeros(self._num_users, bool)
        users[self._owner[inside]] = True
        return np.asarray(users[self._user])

    def online_until(self, clock_s: float, rows: Rows) -> Floats:
        """The end of the session; one that reaches the end of the period goes on at its start."""
        phase_s = (clock_s + self._offset_s) % self.period_s
        until_s = np.full(self._num_users, phase_s)
        for turn_s in (0.0, self.period_s):
            for _ in range(3):
                at_s = until_s[self._owner] - turn_s
                covers = (self._begin_s <= at_s) & (at_s < self._end_s)
                np.maximum.at(until_s, self._owner[covers], self._end_s[covers] + turn_s)
        return np.asarray(clock_s + until_s[self._user[rows]] - phase_s)


def create(config: AvailabilityConfig, num_clients: int, *, seed: int) -> Availability:
    """The availability that the settings describe."""
    if config.kind == "daily":
        return DailyCycle(num_clients, seed=seed, start_hour=config.start_hour)
    if config.kind == "trace":
        return Trace(str(config.path), num_clients, seed=seed, start_hour=config.start_hour)
    return AlwaysOn(num_clients)


def read_trace(path: str | Path) -> list[list[tuple[float, float]]]:
    """The sessions of each user of a trace file.

    FLASH writes ``{user: [[start, end], …]}``, FedScale lists ``active`` and ``inactive`` times.

    Sessions that end before they begin or lie more than a day before the start are dropped, as are
    users without any.
    """
    file = Path(path)
    try:
        content = file.read_bytes()
        raw = json.loads(gzip.decompress(content) if file.suffix == ".gz" else content)
        users = [_sessions_of(entry) for entry in raw.values()]
    except (OSError, ValueError, AttributeError, TypeError, KeyError) as error:
        wanted = "availability.path must be a FLASH or FedScale availability file"
        message = f"{file}: {wanted}; got {error!r}"
        raise ConfigError(message) from error
    users = [u for u in users if u]
    if not users:
        message = f"{file}: availability.path must be a file with at least one session; got none"
        raise ConfigError(message)
    return users


def _from_noon(by_hour: Any) -> Floats:
    """Figures by group and hour of the day, beginning with the hour after noon."""
    return np.roll(np.asarray(by_hour, np.float64), -NOON, axis=1)


def _in_a_row(begin_s: Floats, length_s: Floats) -> tuple[Floats, Floats]:
    """Begin and end of sorted sessions, each moved to the end of the one before on overlap."""
    begin_s, end_s = begin_s.copy(), begin_s + length_s
    for slot in range(1, begin_s.shape[1]):
        begin_s[:, slot] = np.maximum(begin_s[:, slot], end_s[:, slot - 1])
        end_s[:, slot] = begin_s[:, slot] + length_s[:, slot]
    return begin_s, end_s


def _sessions_of(entry: Any) -> list[tuple[float, float]]:
    if isinstance(entry, dict):
        ends = [*sorted(entry["inactive"]), entry["finish_time"]]
        pairs = [(s, next((e for e in ends if e > s), s)) for s in sorted(entry["active"])]
    else:
        pairs = [(s, e) for s, e in entry]
    return [(float(s), float(e)) for s, e in pairs if e > s >= -DAY_S]


def _folded(owner: Rows, sessions: Floats, period_s: float) -> tuple[Rows, Floats, Floats]:
    """Sessions moved into one period; those that cross its end are cut in two."""
    length_s = np.minimum(sessions[:, 1] - sessions[:, 0], period_s)
    begin_s = sessions[:, 0] % period_s
    end_s = begin_s + length_s
    over = end_s > period_s
    return (
        np.concatenate([owner, owner[over]]),
        np.concatenate([begin_s, np.zeros(np.count_nonzero(over))]),
        np.concatenate([np.minimum(end_s, period_s), end_s[over] - period_s]),
    )
