"""One process at a time drives a job; the next one takes over when it has died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import oort
from oort.errors import LeaseError, StoreUnavailableError
from oort.store import lease as leases
from oort.store import processes, schema
from oort.store.database import connect
from tests.store import histories
from tests.store.conftest import Open
from tests.store.test_durable import a_few_rounds, read_back

_ROOT = Path(__file__).parents[2]
_ELSEWHERE = json.dumps({"host": "phobos", "boot": "another", "table": "pid:[1]", "pid": 17})
_HOLD = """
import sys, time, oort
selector = oort.open_selector(sys.argv[1])
selector.register_client("from-the-child")
print("holding", flush=True)
time.sleep(600)
"""


def _entries(url: str) -> int:
    database = connect(url)
    try:
        return int(database.query("SELECT count(*) FROM oort_journal")[0][0])
    finally:
        database.close()


def _hand_to(url: str, holder: str) -> None:
    database = connect(url)
    with database.transaction():
        database.execute("UPDATE oort_leases SET holder = ?, beat = beat + 1", holder)
    database.close()


def test_a_second_selector_is_refused_by_name(opened: Open, url: str) -> None:
    opened()
    before = _entries(url)
    with pytest.raises(
        LeaseError, match=rf"driven by this process itself, process {os.getpid()} on "
    ):
        oort.open_selector(url)
    assert _entries(url) == before


def test_a_closed_job_can_be_opened_at_once(opened: Open) -> None:
    first = opened()
    first.register_clients(["a", "b"])
    first.close()
    assert opened().num_clients == 2


def test_a_job_whose_process_was_killed_is_taken_over_at_once(opened: Open, url: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLD, url], cwd=_ROOT, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "holding\n"
    with pytest.raises(LeaseError, match=f"process {child.pid} on"):
        opened()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    selector = opened(store=oort.StoreConfig(lease_s=3600.0))
    assert selector.select_participant(1) == ["from-the-child"]


def test_a_holder_elsewhere_that_beats_is_left_alone(opened: Open, url: str) -> None:
    opened().close()
    _hand_to(url, _ELSEWHERE)
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.05):
            _hand_to(url, _ELSEWHERE)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(LeaseError, match="process 17 on phobos"):
            opened(store=oort.StoreConfig(lease_s=20.0))
    finally:
        stop.set()
        thread.join()


def test_a_holder_elsewhere_that_is_silent_is_taken_over_after_the_lease(
    opened: Open, url: str
) -> None:
    opened().close()
    _hand_to(url, _ELSEWHERE)
    started_s = time.monotonic()
    opened(store=oort.StoreConfig(lease_s=0.5))
    assert time.monotonic() - started_s >= 0.5


def test_a_holder_that_was_asleep_can_write_nothing_any_more(opened: Open, url: str) -> None:
    sleeper = opened()
    a_few_rounds(sleeper)
    sleeper._keeper.stop()  # as if the machine slept
    _hand_to(url, _ELSEWHERE)
    other = opened(store=oort.StoreConfig(lease_s=0.2))
    before = _entries(url)
    state = histories.state_of(other)
    for _ in range(2):
        with pytest.raises(LeaseError, match=f"taken over by process {os.getpid()} on"):
            sleeper.select(5)
    with pytest.raises(LeaseError, match="taken over"):
        sleeper.register_client("too-late")
    with pytest.raises(LeaseError, match="taken over"):
        sleeper.compact()
    assert _entries(url) == before
    assert other.select(5).round_number == 4
    assert histories.state_of(read_back(url)) == histories.state_of(other) != state


def test_a_holder_that_was_asleep_cannot_write_even_where_its_number_is_free_again(
    opened: Open, url: str
) -> None:
    """The next one has compacted the journal: the entry that would collide is gone."""
    sleeper = opened()
    a_few_rounds(sleeper)
    sleeper._keeper.stop()
    _hand_to(url, _ELSEWHERE)
    other = opened(store=oort.StoreConfig(lease_s=0.2))
    for _ in range(3):
        other.select(5)
    other.compact()
    assert _entries(url) == 0
    with pytest.raises(LeaseError, match="taken over"):
        sleeper.select(5)
    assert _entries(url) == 0
    assert histories.state_of(read_back(url)) == histories.state_of(other)


_WORK = """
import sys, oort
selector = oort.open_selector(sys.argv[1], store=oort.StoreConfig(lease_s=2.0))
selector.register_clients(range(30))
print("holding", flush=True)
for line in sys.stdin:
    try:
        print("round", selector.select(3).round_number, flush=True)
    except oort.LeaseError as error:
        print("LeaseError", flush=True)
"""


def test_a_process_that_was_stopped_and_goes_on_can_write_nothing_any_more(
    opened: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real one, by SIGSTOP; seen from a machine that cannot see whether it lives."""
    child = subprocess.Popen(
        [sys.executable, "-c", _WORK, url],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdin is not None

    def ask() -> str:
        child.stdin.write("\n")  # type: ignore[union-attr]
        child.stdin.flush()  # type: ignore[union-attr]
        return str(child.stdout.readline())  # type: ignore[union-attr]

    try:
        assert child.stdout.readline() == "holding\n"
        assert ask() == "round 1\n"
        here = processes._place()
        monkeypatch.setattr(processes, "_place", lambda: {**here, "host": "deimos"})
        with pytest.raises(LeaseError, match=f"process {child.pid}"):
            opened(store=oort.StoreConfig(lease_s=30.0))
        child.send_signal(signal.SIGSTOP)
        other = opened(store=oort.StoreConfig(lease_s=0.5))
        assert other.select(3).round_number == 2
        child.send_signal(signal.SIGCONT)
        assert [ask(), ask()] == ["LeaseError\n"] * 2
        assert other.select(3).round_number == 3
        assert histories.state_of(read_back(url)) == histories.state_of(other)
    finally:
        child.kill()
        child.communicate()


def test_a_job_can_be_opened_again_where_the_lease_could_not_be_given_back(
    opened: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk or a server away: the database still names this process, which lives."""
    selector = opened()
    database = selector._database
    with monkeypatch.context() as patched:
        patched.setattr(type(database), "execute", _unavailable)
        selector.close()
    assert "the lease was not given back" in caplog.text
    opened()


def _unavailable(*given: object) -> int:
    message = "no space left"
    raise StoreUnavailableError(message)


def test_the_keeper_notices_that_the_lease_is_lost(opened: Open, url: str) -> None:
    sleeper = opened(store=oort.StoreConfig(lease_s=0.4))
    database = connect(url)
    with database.transaction():
        database.execute("UPDATE oort_leases SET epoch = epoch + 1, holder = ?", _ELSEWHERE)
    database.close()
    until_s = time.monotonic() + 30
    while not sleeper._lost and time.monotonic() < until_s:
        time.sleep(0.05)
    with pytest.raises(LeaseError, match="taken over by process 17 on phobos"):
        sleeper.select(1)


def test_a_holder_beats(opened: Open, url: str) -> None:
    opened(store=oort.StoreConfig(lease_s=0.2))
    database = connect(url)
    job = schema.jobs(database)[0]
    until_s = time.monotonic() + 30
    while leases.current(database, job)[1] < 3 and time.monotonic() < until_s:
        time.sleep(0.05)
    assert leases.current(database, job)[1] >= 3
    database.close()


@pytest.mark.parametrize("jump_s", [-10 * 365 * 86_400, 10 * 365 * 86_400])
def test_a_clock_that_jumps_changes_nothing(
    opened: Open, url: str, jump_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = oort.create_training_selector(histories.CONFIG)
    selector = opened(config=histories.CONFIG, store=oort.StoreConfig(lease_s=0.3))
    real = time.time
    for step in range(30):
        if step == 10:
            monkeypatch.setattr(time, "time", lambda: real() + jump_s)
        assert histories.play(selector, 6, step) == histories.play(twin, 6, step)
    with pytest.raises(LeaseError, match="driven by"):
        oort.open_selector(url, store=oort.StoreConfig(lease_s=0.3))
    time.sleep(0.5)
    assert selector.select(5).participants == twin.select(5).participants
    selector.close()
    assert histories.state_of(opened()) == histories.state_of(twin)


def test_a_signature_tells_the_living_from_the_dead() -> None:
    ours = processes.signature()
    assert processes.is_alive(ours) is True
    assert processes.is_alive(json.dumps({**json.loads(ours), "started": "1"})) is False
    assert processes.is_alive(json.dumps({**json.loads(ours), "host": "phobos"})) is None
    assert processes.is_alive("nonsense") is None
    gone = subprocess.run(
        [sys.executable, "-c", "from oort.store import processes; print(processes.signature())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert processes.is_alive(gone) is False


def test_many_processes_race_for_a_new_store_and_one_wins(url: str) -> None:
    script = _HOLD.replace('print("holding", flush=True)', 'print("holding", flush=True); input()')
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", script, url],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    winners = [racer for racer in racers if racer.stdout and racer.stdout.readline()]
    for racer in racers:
        if racer in winners:
            racer.kill()
        _, told = racer.communicate()
        assert racer in winners or "LeaseError" in told, told
    assert len(winners) == 1
