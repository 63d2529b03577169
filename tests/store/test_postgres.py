"""A PostgreSQL server that goes away: in mid-round, for long, in the middle of a commit."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import oort
from oort.errors import StoreError, StoreUnavailableError
from oort.store.inspection import inspect
from oort.store.postgres import Postgres
from tests.store import histories
from tests.store.conftest import fresh_server
from tests.store.killing import SUBJECTS
from tests.store.server import Server
from tests.store.test_durable import read_back


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """A server that may be stopped without disturbing others."""
    yield from fresh_server()


@pytest.mark.parametrize("how", ["immediate", "fast"])
def test_a_server_restarted_in_mid_round_is_waited_for(own_server: Server, how: str) -> None:
    url = own_server.create(f"restart_{how}")
    twin = oort.create_training_selector(histories.CONFIG)
    with oort.open_selector(url, config=histories.CONFIG) as selector:
        for step in range(24):
            if step in (5, 14):
                own_server.stop(how)
                later = threading.Timer(0.7, own_server.start)
                later.start()
            assert histories.play(selector, 11, step) == histories.play(twin, 11, step)
            if step in (5, 14):
                later.join()
        assert histories.state_of(selector) == histories.state_of(twin)
        assert histories.state_of(read_back(url)) == histories.state_of(twin)


def test_a_server_that_stays_away_refuses_calls_but_answers_stand(own_server: Server) -> None:
    url = own_server.create("away")
    with oort.open_selector(url, store=oort.StoreConfig(patience_s=0.2)) as selector:
        selector.register_clients(["a", "b", "c"])
        own_server.stop()
        try:
            for _ in range(2):
                with pytest.raises(StoreUnavailableError, match="cannot use postgresql"):
                    selector.select(2)
            assert (selector.num_clients, selector.round_number) == (3, 0)
            assert len(selector.preview(2)) == 2
            with pytest.raises(StoreUnavailableError), selector.batch():
                selector.select(2)
            with pytest.raises(StoreUnavailableError, match="cannot be read to undo"):
                selector.preview(2)
        finally:
            own_server.start()
        assert selector.select(2).round_number == 1
        assert read_back(url).round_number == 1


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_without_an_answer_counts_once(
    postgres_url: str, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks on COMMIT: before the server got it, or before its answer came."""
    with oort.open_selector(postgres_url) as selector:
        selector.register_clients(range(20))
        _break_next_commit(monkeypatch, selector, committed=committed)
        assert selector.select(5).round_number == 1
        assert histories.state_of(read_back(postgres_url)) == histories.state_of(selector)
        assert selector.select(5).round_number == 2


@pytest.mark.parametrize("committed", [True, False])
def test_what_came_of_an_unanswered_commit_is_found_out_later(
    postgres_url: str, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = oort.StoreConfig(patience_s=0.0)
    with oort.open_selector(postgres_url, store=store) as selector:
        selector.register_clients(range(20))
        _break_next_commit(monkeypatch, selector, committed=committed)
        with pytest.raises(StoreUnavailableError, match="is not known yet"):
            selector.select(5)
        selector._tried_s = time.monotonic() - 10
        assert selector.select(5).round_number == (2 if committed else 1)
        assert histories.state_of(read_back(postgres_url)) == histories.state_of(selector)


def _break_next_commit(
    monkeypatch: pytest.MonkeyPatch, selector: oort.DurableSelector, *, committed: bool
) -> None:
    database = selector._database
    assert isinstance(database, Postgres)
    connection = database._connected()
    execute = connection.execute

    def broken(sql: Any, *values: Any) -> Any:
        if sql != "COMMIT":
            return execute(sql, *values)
        if committed:
            execute(sql)
        connection.close()
        message = "the connection is lost"
        raise database._psycopg.OperationalError(message)

    monkeypatch.setattr(connection, "execute", broken)


def _throw_out(server: Server, stop: threading.Event, broken: list[int]) -> None:
    """End every connection of ours, again and again, whatever it is doing; notes how many."""
    import psycopg

    chance = random.Random(3)
    with psycopg.connect(server.url(), autocommit=True) as connection:
        while not stop.wait(chance.uniform(0.01, 0.09)):
            ended = connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'oort'"
            ).fetchall()
            if ended:
                broken.append(len(ended))


def _restart(server: Server, stop: threading.Event, broken: list[int]) -> None:
    """Restart the server, again and again, as after a crash; notes every time."""
    chance = random.Random(4)
    while not stop.wait(chance.uniform(0.1, 0.4)):
        server.stop()
        server.start()
        broken.append(1)


@pytest.mark.parametrize("disturb", [_throw_out, _restart])
@pytest.mark.parametrize("what", ["training", "testing"])
def test_connections_that_break_at_any_moment_change_nothing(
    own_server: Server, what: str, disturb: Callable[[Server, threading.Event, list[int]], None]
) -> None:
    """Also in the middle of a commit, when nobody knows whether it happened."""
    subject = SUBJECTS[what]
    url = own_server.create(f"disturbed_{what}{disturb.__name__}")
    twin, stop, broken = subject.twin(), threading.Event(), list[int]()
    with subject.open((url, "kb")) as selector, ThreadPoolExecutor(1) as pool:
        disturbed = pool.submit(disturb, own_server, stop, broken)
        try:
            for step in itertools.count():
                assert subject.play(selector, 21, step) == subject.play(twin, 21, step), step
                if (step >= 90 and len(broken) >= 3) or disturbed.done():
                    break
        finally:
            stop.set()
        disturbed.result()
        assert len(broken) >= 3
        assert subject.state_of(selector) == subject.state_of(twin)
        assert subject.next_answer(selector) == subject.next_answer(twin)
    assert inspect(url).is_sound
    with subject.open((url, "kb")) as selector:
        assert subject.state_of(selector) == subject.state_of(twin)


def test_a_database_that_is_not_there_is_named(own_server: Server) -> None:
    url = own_server.url().replace("/postgres?", "/nowhere?")
    with pytest.raises(StoreError, match="nowhere"):
        oort.open_selector(url)
