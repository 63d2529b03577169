from __future__ import annotations

import gzip
import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from oort.errors import ConfigError
from oort.simulation import availability
from oort.simulation.availability import DAY_S, AlwaysOn, DailyCycle, Trace, create, read_trace
from oort.simulation.config import AvailabilityConfig
from oort.simulation.tables import table
from oort.types import Floats, Rows


def test_the_daily_cycle_shows_the_shares_of_the_traces() -> None:
    cycle = DailyCycle(20_000, seed=1)
    hours = np.arange(24) + 0.5
    ours = [np.mean([cycle.online(d * DAY_S + h * 3600).mean() for d in (2, 3)]) for h in hours]
    traced = np.array(table("availability")["online_per_hour"])
    np.testing.assert_allclose(ours, traced, rtol=0.12)
    assert np.mean(np.abs(ours / traced - 1)) < 0.06


def test_sessions_end_when_they_say() -> None:
    cycle = DailyCycle(3000, seed=2, start_hour=22)
    now = 5_000.0
    rows = np.flatnonzero(cycle.online(now))
    until = cycle.online_until(now, rows)
    for row, end in zip(rows[:200], until[:200], strict=True):
        assert cycle.online(end - 0.01)[row]
        assert not cycle.online(end + 0.01)[row]


def test_a_day_of_many_clients_takes_little_memory() -> None:
    clients = 200_000
    cycle = DailyCycle(clients, seed=2)
    tracemalloc.start()
    try:
        cycle.online(0.0)
        cycle.online_until(0.0, np.arange(100))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 600 * clients, "two days of sessions, and the drawing of a part"


@pytest.mark.parametrize(
    ("now_s", "online", "until_s"),
    [(0.0, 14_837, 261046891.6411382), (300_000.0, 8_266, 2562874705.8659525)],
)
def test_the_same_seed_gives_the_same_sessions_in_every_version(
    now_s: float, online: int, until_s: float
) -> None:
    cycle = DailyCycle(70_000, seed=3, start_hour=5)
    rows = np.flatnonzero(cycle.online(now_s))
    assert len(rows) == online
    assert cycle.online_until(now_s, rows).sum() == pytest.approx(until_s, rel=1e-12)


def test_a_day_that_few_clients_reach_is_drawn_for_them_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(availability, "DRAWN_AT_ONCE", 1000)
    cycle = DailyCycle(3000, seed=2)
    at_noon = 1.5 * DAY_S - 1.0
    rows = np.flatnonzero(cycle.online(at_noon))
    asked: list[int] = []
    draw = cycle._drawn_for

    def drawn_for(some: Rows, day: int) -> tuple[Rows, Floats, Floats]:
        asked.append(len(some))
        return draw(some, day)

    monkeypatch.setattr(cycle, "_drawn_for", drawn_for)
    until_s = cycle.online_until(at_noon, rows)
    assert set(asked) == {len(rows)}
    monkeypatch.undo()
    np.testing.assert_array_equal(DailyCycle(3000, seed=2).online_until(at_noon, rows), until_s)


def test_those_offline_are_online_until_now() -> None:
    cycle = DailyCycle(500, seed=2)
    rows = np.flatnonzero(~cycle.online(100.0))
    np.testing.assert_array_equal(cycle.online_until(100.0, rows), 100.0)


def test_the_job_may_start_at_any_hour() -> None:
    at_night = DailyCycle(500, seed=3, start_hour=3)
    from_midnight = DailyCycle(500, seed=3)
    np.testing.assert_array_equal(at_night.online(0.0), from_midnight.online(3 * 3600.0))


def flash(tmp_path: Path, sessions: object) -> Path:
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(sessions).encode()))
    return path


def test_a_trace_says_who_is_online_and_repeats(tmp_path: Path) -> None:
    path = flash(tmp_path, {"a": [[0, 100]], "b": [[50, 80_000]], "c": []})
    trace = Trace(path, 2, seed=1)
    assert trace.period_s == DAY_S
    counts = [int(trace.online(t).sum()) for t in (10, 60, 500, 85_000, DAY_S + 60)]
    assert counts == [1, 2, 1, 0, 2]
    both = trace.online_until(60.0, np.array([0, 1]))
    assert sorted(both) == [100.0, 80_000.0]


def test_a_client_stays_online_through_sessions_that_follow_one_another(tmp_path: Path) -> None:
    row = [[i * 100, i * 100 + 100 + i % 2] for i in range(50)]
    trace = Trace(flash(tmp_path, {"a": row, "b": [[0, 80_000]]}), 2, seed=1)
    assert sorted(trace.online_until(10.0, np.array([0, 1]))) == [5_001.0, 80_000.0]


def test_who_is_online_in_all_of_a_trace_stays_so(tmp_path: Path) -> None:
    trace = Trace(flash(tmp_path, {"a": [[0, 50_000], [40_000, DAY_S]]}), 1, seed=1)
    assert trace.online_until(70_000.0, np.array([0]))[0] == np.inf


def test_a_session_that_crosses_the_end_of_the_trace_goes_on_at_its_start(tmp_path: Path) -> None:
    trace = Trace(flash(tmp_path, {"a": [[-100, 50], [1000, 86_000]]}), 1, seed=1)
    assert trace.online(DAY_S - 50)[0]
    assert trace.online_until(DAY_S - 50, np.array([0]))[0] == pytest.approx(DAY_S + 50)


def test_a_fedscale_trace_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "behave.json"
    entry = {"active": [10, 200], "inactive": [60], "finish_time": 400, "duration": 1}
    path.write_text(json.dumps({"1": entry}))
    assert read_trace(path) == [[(10.0, 60.0), (200.0, 400.0)]]


def test_a_session_without_end_is_none(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text('{"a": [[0, Infinity], [5, 1e300], [7, NaN], [10, 90]]}')
    assert read_trace(path) == [[(10.0, 90.0)]]


@pytest.mark.parametrize("content", ["[]", "{}", '{"a": []}', "nonsense", '{"a": [[1]]}'])
def test_a_trace_that_cannot_be_used_is_explained(tmp_path: Path, content: str) -> None:
    path = tmp_path / "trace.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"trace.json: availability.path must be a"):
        read_trace(path)


def test_settings_choose_the_kind(tmp_path: Path) -> None:
    path = flash(tmp_path, {"a": [[0, 100]]})
    assert isinstance(create(AvailabilityConfig(), 3, seed=1), AlwaysOn)
    assert isinstance(create(AvailabilityConfig(kind="daily"), 3, seed=1), DailyCycle)
    kind = AvailabilityConfig(kind="trace", path=str(path))
    assert isinstance(create(kind, 3, seed=1), Trace)
