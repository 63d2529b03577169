"""What a durable selector does beyond the contract, on both databases."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oort
from oort.errors import (
    ConfigError,
    InvalidFeedbackError,
    StoreError,
    StoreUnavailableError,
)
from oort.store import capture, keeper, recovery, schema, snapshots, sqlite
from oort.store.database import connect
from oort.store.driver import Driver
from oort.store.journal import Journal
from tests.store import histories
from tests.store.conftest import Open

_ROOT = Path(__file__).parents[2]
STORE = oort.StoreConfig(snapshot_entries=13)


def read_back(url: str, job: str = "default") -> recovery.Replayed:
    """What is on disk, without touching it."""
    database = connect(url)
    try:
        found = schema.job_named(database, job)
        assert found is not None
        selector = recovery.Replayed(recovery.config_of(found))
        recovery.recover(database, found, selector)
        return selector
    finally:
        database.close()


def a_few_rounds(selector: Any, rounds: int = 3) -> None:
    selector.register_clients([f"c{i}" for i in range(40)], expected_duration_s=5.0)
    for number in range(rounds):
        picks = selector.select(6).participants
        selector.update_clients(picks, utility=np.arange(6.0) + number, duration_s=2.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_recovered_selector_picks_what_the_lost_one_would_have(opened: Open, seed: int) -> None:
    twin = oort.create_training_selector(histories.CONFIG)
    selector = opened(config=histories.CONFIG, store=STORE)
    for step in range(70):
        ours, theirs = (histories.play(s, seed, step) for s in (selector, twin))
        assert ours == theirs
        if step % 9 == 4:
            selector.close()
            selector = opened(config=histories.CONFIG, store=STORE)
            assert histories.state_of(selector) == histories.state_of(twin)
    assert selector.select(20).participants == twin.select(20).participants


def test_when_a_call_returns_it_is_on_disk(opened: Open, url: str) -> None:
    selector = opened(config=histories.CONFIG)
    for step in range(40):
        histories.play(selector, 7, step)
        assert histories.state_of(read_back(url)) == histories.state_of(selector)


def test_large_tables_recover_too(opened: Open, url: str) -> None:
    ids = [f"device-{i:07d}" for i in range(40_000)]
    durations = np.linspace(1, 90, 40_000)
    twin = oort.create_training_selector({"seed": 4})
    selector = opened(config={"seed": 4}, store=oort.StoreConfig(snapshot_entries=6))
    for each in (selector, twin):
        each.register_clients(ids, expected_duration_s=durations)
    for number in range(6):
        picks = selector.select(50).participants
        assert picks == twin.select(50).participants
        for each in (selector, twin):
            each.update_clients(picks, utility=np.arange(50.0) + number, duration_s=3.0)
    selector.forget(ids[:5])
    twin.forget(ids[:5])
    selector.close()
    again = opened()
    assert again.select(50).participants == twin.select(50).participants
    assert again.rows(ids[5:9]).tolist() == twin.rows(ids[5:9]).tolist()


def test_calls_that_name_nobody_can_be_recovered(opened: Open) -> None:
    selector = opened()
    selector.register_clients(["a", "b"])
    selector.register_clients([])
    selector.mark_offline([])
    selector.mark_online([])
    assert selector.forget([]) == selector.remove_clients([]) == 0
    selector.select(2, among=[])
    selector.select(2)
    selector.update_clients([], utility=1.0)
    with selector.batch():
        pass
    state = histories.state_of(selector)
    selector.close()
    assert histories.state_of(opened()) == state


def test_several_jobs_share_a_store(opened: Open) -> None:
    first = opened(job="first", config={"seed": 1})
    second = opened(job="second", config={"seed": 2})
    first.register_clients(["a", "b"])
    second.register_clients(["c"])
    assert set(first.select_participant(9)) == {"a", "b"}
    assert second.select_participant(9) == ["c"]
    assert (first.job, second.job) == ("first", "second")


# Batches


def test_a_batch_is_one_commit(opened: Open, url: str) -> None:
    selector = opened()
    a_few_rounds(selector)
    before = histories.state_of(selector)
    with selector.batch():
        picks = selector.select(4).participants
        selector.update_clients(picks, utility=1.0, duration_s=1.0)
        with selector.batch():
            selector.register_client("inside")
        assert histories.state_of(read_back(url)) == before
    assert histories.state_of(read_back(url)) == histories.state_of(selector) != before


def test_a_batch_that_raises_happened_nowhere(opened: Open, url: str) -> None:
    selector = opened()
    a_few_rounds(selector)
    before = histories.state_of(selector)
    with pytest.raises(InvalidFeedbackError), selector.batch():  # noqa: PT012
        selector.select(4)
        selector.update_client_util("c1", {"utility": float("nan")})
    assert histories.state_of(selector) == histories.state_of(read_back(url)) == before
    assert len(selector.select_participant(3)) == 3


def test_a_batch_cannot_be_committed_where_one_inside_it_failed(opened: Open, url: str) -> None:
    selector = opened()
    a_few_rounds(selector)
    before = histories.state_of(selector)

    def fail_inside() -> None:
        with selector.batch():
            selector.register_client("half")
            selector.update_client_util("c1", {"utility": float("nan")})

    with pytest.raises(StoreError, match="failed halfway: none of it"), selector.batch():  # noqa: PT012
        selector.select(4)
        with pytest.raises(InvalidFeedbackError):
            fail_inside()
    assert histories.state_of(selector) == histories.state_of(read_back(url)) == before
    with selector.batch():
        selector.select(4)
        with pytest.raises(InvalidFeedbackError):
            selector.update_client_util("c1", {"utility": float("nan")})
    assert histories.state_of(selector) == histories.state_of(read_back(url)) != before


def test_a_utility_that_fails_leaves_no_newcomers(opened: Open, url: str) -> None:
    """Selection registers whom ``among`` names, then asks the user's function, which raises."""

    @oort.register_utility("broken, for the store")
    def broken(columns: oort.ClientColumns) -> Any:
        message = "no such table"
        raise RuntimeError(message)

    selector = opened(config={"utility": "broken, for the store"})
    selector.register_clients(["a", "b"])
    before = histories.state_of(selector)
    with pytest.raises(RuntimeError, match="no such table"):
        selector.select(2, among=["a", "new-1", "new-2"])
    assert histories.state_of(selector) == histories.state_of(read_back(url)) == before
    assert selector.num_clients == 2


def test_a_selection_with_newcomers_is_one_commit(opened: Open, url: str) -> None:
    selector = opened()
    selector.select(2, among=["a", "b", "c"])
    database = connect(url)
    kinds = [row[0] for row in database.query("SELECT kind FROM oort_journal ORDER BY sequence")]
    database.close()
    assert kinds == ["opened", "joined", "selected"]


# Commits that fail


@pytest.mark.parametrize("step", range(1, 40, 3))
def test_a_commit_that_fails_changes_nothing(
    opened: Open, url: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    selector = opened(config=histories.CONFIG, store=oort.StoreConfig(patience_s=0.0))
    twin = oort.create_training_selector(histories.CONFIG)
    for each in (selector, twin):
        for number in range(step):
            histories.play(each, 3, number)
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "_write", _no_space)
        try:
            histories.play(selector, 3, step)
        except StoreUnavailableError:
            pass
        else:
            histories.play(twin, 3, step)  # a call that changes nothing needs no commit
    assert histories.state_of(selector) == histories.state_of(twin)
    assert histories.state_of(read_back(url)) == histories.state_of(twin)
    for number in range(step, step + 5):
        assert histories.play(selector, 3, number) == histories.play(twin, 3, number)


def _no_space(journal: Journal, *given: object) -> None:
    message = "no space left"
    raise StoreUnavailableError(message)


@pytest.mark.parametrize("moment", ["before the commit", "after the commit", "in memory"])
@pytest.mark.parametrize("in_batch", [False, True])
def test_an_interrupt_leaves_a_call_whole_or_absent(
    opened: Open, url: str, moment: str, in_batch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C may come anywhere, also between the commit and the change in memory."""
    selector = opened(config=histories.CONFIG)
    for step in range(12):
        histories.play(selector, 3, step)
    write, make_so = Journal._write, oort.DurableSelector._make_so

    def interrupted_write(journal: Journal, *given: Any) -> None:
        if moment == "after the commit":
            write(journal, *given)
        raise KeyboardInterrupt

    def interrupted(selector: oort.DurableSelector, change: Any) -> None:
        make_so(selector, change)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        if moment == "in memory":
            patched.setattr(oort.DurableSelector, "_make_so", interrupted)
        else:
            patched.setattr(Journal, "_write", interrupted_write)
        batch = selector.batch() if in_batch else nullcontext()
        with pytest.raises(KeyboardInterrupt), batch:
            selector.register_clients(["x", "y", "z"], expected_duration_s=[1.0, 2.0, 3.0])
    selector._tried_s = -100.0
    there = {"before the commit": 0, "after the commit": 3, "in memory": 0 if in_batch else 3}
    found = selector.client_ids()
    assert len({"x", "y", "z"} & set(found)) == there[moment]
    assert histories.state_of(read_back(url)) == histories.state_of(selector)
    selector.select(3)
    assert histories.state_of(read_back(url)) == histories.state_of(selector)


def test_a_selector_that_nobody_holds_gives_its_job_back(url: str) -> None:
    selector = oort.open_selector(url)
    selector.register_client("a")
    del selector
    gc.collect()
    with oort.open_selector(url) as selector:
        assert selector.num_clients == 1


# Settings


def test_another_config_is_refused_unless_asked_for(opened: Open) -> None:
    opened(config={"seed": 1}).close()
    with pytest.raises(ConfigError, match="seed is 1, not 2"):
        opened(config={"seed": 2})
    assert opened(config={"seed": 1}).config.seed == 1


def test_a_job_keeps_its_settings(opened: Open) -> None:
    opened(config={"seed": 9, "alpha": float("inf")}).close()
    assert opened().config == oort.TrainingConfig(seed=9, alpha=float("inf"))


def test_a_job_can_be_given_other_settings(opened: Open) -> None:
    selector = opened(config=histories.CONFIG)
    for step in range(50):
        histories.play(selector, 1, step)
    known, number = selector.columns(), selector.round_number
    selector.close()
    changes: dict[str, Any] = {"max_participations": 1, "sketch_width": 3, "seed": 8}
    other = oort.TrainingConfig.from_dict({**histories.CONFIG.to_dict(), **changes})
    selector = opened(config=other, reconfigure=True)
    assert (selector.config, selector.round_number) == (other, number)
    after = selector.columns()
    assert after.utility.tolist() == known.utility.tolist()
    assert after.sketch is not None
    assert after.sketch.shape == (len(known), 3)
    removed = selector._table.flags & 16 != 0
    assert np.array_equal(removed, selector._table.participations > 1)
    selector.select(5)
    selector.close()
    assert opened(config=other).round_number == number + 1


# The end


def test_a_closed_selector_refuses_calls(opened: Open) -> None:
    selector = opened()
    selector.close()
    selector.close()
    for call in (lambda: selector.select(1), lambda: selector.register_client("a")):
        with pytest.raises(StoreError, match="was closed"):
            call()


def test_a_fork_cannot_use_its_parents_selector(url: str) -> None:
    """In a process of its own, which has no threads but the selector's."""
    done = _run(_FORK, url)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["child: refused", "child: closed", "parent: 2 clients"]
    assert read_back(url).num_clients == 2


_FORK = """
import gc, os, sys, warnings, oort
warnings.simplefilter("ignore")
selector = oort.open_selector(sys.argv[1])
selector.register_client("a")
pid = os.fork()
if pid == 0:
    try:
        selector.register_client("b")
    except oort.StoreError as error:
        assert "opened by another process" in str(error), error
        print("child: refused", flush=True)
    selector.close()
    del selector
    gc.collect()
    print("child: closed", flush=True)
    sys.exit(0)
os.waitpid(pid, 0)
selector.register_client("c")
print("parent:", selector.num_clients, "clients")
"""


def test_a_process_may_end_while_a_snapshot_is_taken(url: str) -> None:
    done = _run(_END, url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ending\n", "")
    with oort.open_selector(url) as selector:
        assert (selector.num_clients, selector.round_number) == (200_000, 1)


_END = """
import sys, threading, time, oort
selector = oort.open_selector(sys.argv[1], store=oort.StoreConfig(snapshot_entries=2))
selector.register_clients(range(200_000))
selector.select(5)
while selector._capture is None and not selector._snapshot_sequence:
    time.sleep(0.001)
print("ending", flush=True)
"""


def _run(script: str, url: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script, url], cwd=_ROOT, capture_output=True, text=True
    )


def test_threads_may_call_at_once(opened: Open, url: str) -> None:
    selector = opened(store=oort.StoreConfig(snapshot_entries=20))
    selector.register_clients(range(500))
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for _ in range(12):
                with selector.batch():
                    chosen = selector.select(5)
                    selector.update_clients(
                        chosen.participants, utility=1.0, round_number=chosen.round_number
                    )
                selector.register_client(f"thread-{number}")
                selector.mark_online([number])
            selector.compact()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert selector.round_number == 48
    assert histories.state_of(read_back(url)) == histories.state_of(selector)
    selector.close()
    assert histories.state_of(opened()) == histories.state_of(selector)


def test_a_file_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="load_selector"):
        oort.DurableSelector.load(tmp_path / "x.oort")


def test_a_durable_selector_can_be_saved_to_a_file(opened: Open, tmp_path: Path) -> None:
    selector = opened()
    a_few_rounds(selector)
    selector.save(tmp_path / "x.oort")
    assert oort.load_selector(tmp_path / "x.oort").select_participant(
        8
    ) == selector.select_participant(8)


# Snapshots


def test_snapshots_are_taken_and_the_journal_is_compacted(opened: Open, url: str) -> None:
    selector = opened(config=histories.CONFIG)
    for step in range(60):
        histories.play(selector, 2, step)
        if step % 10 == 9:
            _snapshot(url, selector)
    database = connect(url)
    listed = snapshots.listed(database, 1)
    ((first,),) = database.query("SELECT min(sequence) FROM oort_journal")
    database.close()
    assert 1 <= len(listed) <= 2
    assert first == listed[-1].sequence + 1
    assert histories.state_of(read_back(url)) == histories.state_of(selector)


def test_a_snapshot_is_of_one_moment(
    opened: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls between its slices do not show in it."""
    monkeypatch.setattr(capture, "SLICE_ROWS", 4)
    selector = opened(config=histories.CONFIG)
    for seed in range(12):
        step = 0
        for step in range(12):
            histories.play(selector, seed, step)
        then = histories.state_of(selector)
        copy = selector.begin_capture()
        if copy is None:
            continue
        while selector.copy_slice(copy):
            step += 1
            histories.play(selector, seed, step)
        selector.drop_capture(copy)
        if not copy.spoiled:
            state = snapshots.State(copy.sequence, copy.meta, copy.arrays())
            captured = recovery.Replayed(histories.CONFIG)
            captured.take_state(state)
            assert histories.state_of(captured) == then


def test_forgetting_spoils_a_snapshot_under_way(opened: Open) -> None:
    selector = opened()
    a_few_rounds(selector)
    copy = selector.begin_capture()
    assert copy is not None
    while selector.copy_slice(copy):
        pass
    selector.forget(["c1"])
    assert copy.spoiled
    selector.drop_capture(copy)


def test_a_damaged_snapshot_costs_nothing_while_there_is_one_before_it(
    opened: Open, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    selector = opened()
    a_few_rounds(selector)
    for _ in range(2):
        selector.select(5)
        _snapshot(url, selector)
    selector.select(3)
    state = histories.state_of(selector)
    selector.close()
    database = connect(url)
    newest = snapshots.listed(database, 1)[0].sequence
    with database.transaction():
        database.execute("UPDATE oort_chunks SET payload = ? WHERE sequence = ?", b"x", newest)
    database.close()
    with caplog.at_level(logging.WARNING):
        assert histories.state_of(opened()) == state
    assert f"snapshot {newest}: chunk 0" in caplog.text


def test_forgotten_clients_leave_no_bytes_behind(sqlite_url: str, tmp_path: Path) -> None:
    with oort.open_selector(sqlite_url) as selector:
        selector.register_clients(["keep-me", "erase-this-client"])
        a_few_rounds(selector)
        selector.select(9)
        _snapshot(sqlite_url, selector)
        selector.forget(["erase-this-client"])
        selector.compact()
    held = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"keep-me" not in held  # compressed: so look at what it decompresses to
    database = connect(sqlite_url)
    (only,) = snapshots.listed(database, 1)
    text = snapshots.read(database, 1, only).arrays["id_text"].tobytes()
    database.close()
    assert b"keep-me" in text
    assert b"erase-this-client" not in text
    assert b"erase-this-client" not in held


def test_the_next_snapshot_erases_forgotten_clients(opened: Open, url: str) -> None:
    selector = opened()
    selector.register_clients(["keep-me", "erase-this-client"])
    _snapshot(url, selector)
    selector.forget(["erase-this-client"])
    selector.select(1)
    _snapshot(url, selector)
    database = connect(url)
    left = snapshots.listed(database, 1)
    entries = database.query("SELECT payload FROM oort_journal")
    database.close()
    assert len(left) == 1
    assert not [payload for (payload,) in entries if b"erase-this-client" in bytes(payload)]


def test_two_snapshots_are_not_taken_at_once(
    opened: Open, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper is copying; compact() comes in between, and so do calls: both must be right."""
    monkeypatch.setattr(capture, "SLICE_ROWS", 8)
    selector = opened()
    a_few_rounds(selector)
    background = connect(url, background=True)
    waiting, go_on = threading.Event(), threading.Event()
    copy_slice = selector.copy_slice

    def slowly(copy: Any) -> bool:
        more = copy_slice(copy)
        if threading.current_thread() is keeping:
            waiting.set()
            assert go_on.wait(30)
        return more

    monkeypatch.setattr(selector, "copy_slice", slowly)
    keeping = threading.Thread(
        target=keeper.snapshot, args=(background, selector, selector._lease)
    )
    keeping.start()
    assert waiting.wait(30)
    compacting = threading.Thread(target=selector.compact)
    compacting.start()
    time.sleep(0.1)
    state = histories.state_of(selector)
    selector.update_clients([f"c{i}" for i in range(40)], utility=9.0, duration_s=1.0)
    go_on.set()
    keeping.join()
    compacting.join()
    background.close()
    assert state != histories.state_of(selector) == histories.state_of(read_back(url))
    database = connect(url)
    assert len(snapshots.listed(database, 1)) == 1
    database.close()


def test_compacting_says_when_a_reader_is_in_its_way(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was forgotten is still in the log: that must not pass for done."""
    monkeypatch.setattr(sqlite, "_WAIT_S", 0.05)
    with oort.open_selector(sqlite_url) as selector:
        selector.register_clients(["keep-me", "erase-this-client"])
        reader = connect(sqlite_url)
        with reader.reading():
            reader.query("SELECT count(*) FROM oort_journal")
            selector.forget(["erase-this-client"])
            with pytest.raises(StoreUnavailableError, match="somebody is reading it"):
                selector.compact()
        reader.close()
        selector.compact()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_between_snapshot_and_compaction_loses_nothing(
    opened: Open, url: str, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    selector = opened()
    a_few_rounds(selector)
    selector.forget(["c3"])
    discard = keeper.discard_entries

    def dies(*given: Any) -> None:
        if moment == "after":
            discard(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(keeper, "discard_entries", dies)
        with pytest.raises(KeyboardInterrupt):
            _snapshot(url, selector)
    selector.select(3)
    state = histories.state_of(selector)
    assert histories.state_of(read_back(url)) == state
    selector.close()
    selector = opened()
    assert histories.state_of(selector) == state
    selector.compact()
    assert histories.state_of(read_back(url)) == state


def test_the_keeper_outlives_what_it_did_not_expect(
    opened: Open, url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def unexpected(*given: Any, **options: Any) -> None:
        message = "out of luck"
        raise RuntimeError(message)

    monkeypatch.setattr(keeper, "snapshot", unexpected)
    selector = opened(store=oort.StoreConfig(snapshot_entries=1, lease_s=0.2))
    selector.register_client("a")
    until_s = time.monotonic() + 30
    while "out of luck" not in caplog.text and time.monotonic() < until_s:
        time.sleep(0.02)
    assert "out of luck" in caplog.text
    assert selector._keeper._thread.is_alive()


def test_compacting_inside_a_batch_is_refused(opened: Open) -> None:
    selector = opened()
    with pytest.raises(StoreError, match="outside a batch"), selector.batch():
        selector.compact()


def _snapshot(url: str, selector: Driver) -> None:
    database = connect(url, background=True)
    try:
        keeper.snapshot(database, selector, selector._lease)
    finally:
        database.close()
