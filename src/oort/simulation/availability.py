"""When clients are online.

    AlwaysOn       everyone, always
    DailyCycle     sessions generated per client and day, as in the FLASH traces
    Trace          sessions from a file, folded onto whole days and repeated

All answer the same two questions: who is online at a time, and until when. Times are seconds since
the simulation began; ``start_hour`` says what hour of the day that was.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from oort.errors import ConfigError
from oort.randomness import generator_for
from oort.simulation.config import AvailabilityConfig
from oort.simulation.files import UNREADABLE, unpacked
from oort.simulation.streams import hashed_uniform, hashed_uniforms
from oort.simulation.tables import at_quantile, table
from oort.types import Floats, Mask, Rows

DAY_S = 86_400.0
NOON = 12  #: the hour
LAST_S = 36_525 * DAY_S  #: traces are of days or weeks: what ends later is no session
MOST_SESSIONS = 8  #: kept per client and day; 98 % of users have fewer
WAITING_STEP_S = 60.0
DRAWN_AT_ONCE = 65_536  #: clients


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


@dataclass(frozen=True)
class _Sessions:
    """The sessions of a day, client after client and in order."""

    owner: Rows
    first: Rows  #: where each client's begin, and one more for the end
    begin_s: Floats
    end_s: Floats

    @classmethod
    def counted(cls, count: Rows, begin_s: Floats, end_s: Floats) -> _Sessions:
        """The sessions of clients of which each has so many."""
        return cls(np.repeat(np.arange(len(count)), count), _first(count), begin_s, end_s)

    def of(self, rows: Rows) -> tuple[Floats, Floats]:
        """Begin and end of these clients' sessions, a row for each; NaN where one has fewer."""
        slots = np.arange(MOST_SESSIONS)
        places = self.first[rows][:, None] + slots
        there = places < self.first[rows + 1][:, None]
        begin_s, end_s = np.full((2, len(rows), MOST_SESSIONS), np.nan)
        begin_s[there], end_s[there] = self.begin_s[places[there]], self.end_s[places[there]]
        return begin_s, end_s


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
            sessions = self._sessions(d)
            mask[sessions.owner[(sessions.begin_s <= now_s) & (now_s < sessions.end_s)]] = True
        return mask

    def online_until(self, clock_s: float, rows: Rows) -> Floats:
        """The end of the session, or of the last of a chain of overlapping ones."""
        now_s = clock_s + self._offset_s
        day = math.floor(now_s / DAY_S)
        days = [self._sessions(d).of(rows) for d in (day - 1, day)]
        until_s = _chained(days, np.full(len(rows), now_s))
        for later in (day + 1, day + 2):
            if not np.any(until_s >= later * DAY_S):
                break  # nobody is online when sessions of that day begin, and none need be drawn
            days.append(self._later(later, rows))
            until_s = _chained(days, until_s)
        return until_s - self._offset_s

    def _later(self, day: int, rows: Rows) -> tuple[Floats, Floats]:
        """These clients' sessions of a day to come; many clients' are not all drawn for a few."""
        if len(self._rows) <= DRAWN_AT_ONCE:
            return self._sessions(day).of(rows)
        theirs = _Sessions.counted(*self._drawn_for(rows, day))
        return theirs.of(np.arange(len(rows)))

    def _drawn(self, day: int) -> _Sessions:
        """The sessions of one day; a part of the clients at a time, which takes less memory."""
        parts = np.split(self._rows, range(DRAWN_AT_ONCE, len(self._rows), DRAWN_AT_ONCE))
        drawn = [self._drawn_for(rows, day) for rows in parts]
        return _Sessions.counted(*map(np.concatenate, zip(*drawn, strict=True)))

    def _drawn_for(self, rows: Rows, day: int) -> tuple[Rows, Floats, Floats]:
        """How many sessions each of these clients has that day, and begin and end of all."""
        keys = rows * MOST_SESSIONS | np.int64(day + 2) << 40
        wanted = np.floor(self._rate[rows] + hashed_uniform(self._seed, keys, "count"))
        count = np.minimum(wanted, MOST_SESSIONS).astype(np.int64)
        first = _first(count)
        begin_s, end_s = np.empty((2, first[-1]))
        for number in np.unique(wanted[wanted > 0]).tolist():
            alike = np.flatnonzero(wanted == number)
            slots = np.arange(min(int(number), MOST_SESSIONS))
            places = first[alike][:, None] + slots
            drawn = self._drawn_alike(keys[alike][:, None] + slots, number, day)
            begin_s[places], end_s[places] = drawn
        return count, begin_s, np.minimum(end_s, (day + 2) * DAY_S)

    def _drawn_alike(self, keys: Rows, number: float, day: int) -> tuple[Floats, Floats]:
        """Begin and end of the sessions of clients that have as many that day.

        Each begins in one of as many equal parts of the distribution of beginnings: a phone that
        charges overnight does so once. Drawn independently, several of a client's sessions would
        begin in the same evening, and fewer clients would be online at night.
        """
        group = np.searchsorted(self._fewest[1:], number, side="right")
        within, place = hashed_uniforms(self._seed, keys, ["begin", "length"])
        part = (np.arange(keys.shape[1]) + within) / number
        ends = np.concatenate([[0.0], self._starts[group]])
        hour = np.sort(np.interp(part, ends, np.arange(25.0)), axis=1)
        hours, levels = self._length_s[group].shape
        place *= levels - 1
        below = place.astype(np.int64)
        entry = np.minimum(hour.astype(np.int64), hours - 1) * levels + below
        low_s, high_s = (self._length_s[group].ravel().take(entry + i) for i in (0, 1))
        length_s = low_s + (high_s - low_s) * (place - below)
        return _in_a_row(day * DAY_S + hour * 3600.0, length_s)


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
        self._owner, self._begin_s, self._end_s = _merged(*_folded(owner, sessions, self.period_s))
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
            at_s = until_s[self._owner] - turn_s
            covers = (self._begin_s <= at_s) & (at_s < self._end_s)
            until_s[self._owner[covers]] = self._end_s[covers] + turn_s
        until_s[until_s >= phase_s + self.period_s] = np.inf  # the period repeats for ever
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

    Sessions that end before they begin, lie more than a day before the start or end after a
    century are dropped, as are users without any.
    """
    file = Path(path)
    try:
        raw = json.loads(unpacked(file))
        users = [_sessions_of(entry) for entry in raw.values()]
    except UNREADABLE as error:
        wanted = "availability.path must be a FLASH or FedScale availability file"
        message = f"{file}: {wanted}; got {error!r}"
        raise ConfigError(message) from error
    users = [u for u in users if u]
    if not users:
        message = f"{file}: availability.path must be a file with at least one session; got none"
        raise ConfigError(message)
    return users


def _first(count: Rows) -> Rows:
    """Where each one's part of a list begins, and one more for the end."""
    return np.concatenate([[0], np.cumsum(count)])


def _from_noon(by_hour: Any) -> Floats:
    """Figures by group and hour of the day, beginning with the hour after noon."""
    return np.roll(np.asarray(by_hour, np.float64), -NOON, axis=1)


def _chained(days: Sequence[tuple[Floats, Floats]], until_s: Floats) -> Floats:
    """The ends of the sessions that go on at these times, or of the last of overlapping ones."""
    begin_s = np.concatenate([begin_s for begin_s, _ in days], axis=1)
    end_s = np.concatenate([end_s for _, end_s in days], axis=1)
    for _ in range(begin_s.shape[1]):
        covers = (begin_s <= until_s[:, None]) & (until_s[:, None] < end_s)
        if not covers.any():
            break
        until_s = np.maximum(until_s, np.where(covers, end_s, -np.inf).max(axis=1))
    return until_s


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
    return [(float(s), float(e)) for s, e in pairs if LAST_S >= e > s >= -DAY_S]


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


def _merged(owner: Rows, begin_s: Floats, end_s: Floats) -> tuple[Rows, Floats, Floats]:
    """Sessions of which none overlaps or touches another of its owner; in order.

    >>> begins, ends = np.array([5.0, 0.0, 9.0]), np.array([9.0, 6.0, 9.5])
    >>> [column.tolist() for column in _merged(np.array([7, 7, 7]), begins, ends)]
    [[7], [0.0], [9.5]]
    """
    merged: list[tuple[int, float, float]] = []
    order = np.lexsort((begin_s, owner))
    columns = (owner[order].tolist(), begin_s[order].tolist(), end_s[order].tolist())
    for who, begin, end in zip(*columns, strict=True):
        before = merged[-1] if merged else (-1, 0.0, 0.0)
        if before[0] == who and begin <= before[2]:
            merged[-1] = (who, before[1], max(before[2], end))
        else:
            merged.append((who, begin, end))
    owners, begins, ends = zip(*merged, strict=True)
    return np.array(owners, np.int64), np.array(begins, np.float64), np.array(ends, np.float64)
