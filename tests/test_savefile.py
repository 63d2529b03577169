"""Save and load: whole or not at all, checked byte by byte, and nothing believed.

What a file claims (lengths, types, shapes, rows) may come from anyone. Whatever is wrong with it
is a ``SaveFileError``; nothing is allocated on its word; nothing in it can run.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import oort
from oort import savefile
from oort.baselines import RoundRobinSelector
from oort.training.selector import GuidedSelector
from tests.support import new_selector

HEADER = struct.Struct("<8sIIQ")


def lived_in() -> GuidedSelector:
    """A small selector with everything in it that can be saved."""
    selector = oort.create_training_selector(
        {"seed": 5, "sketch_width": 2, "pacer": {"window": 2}}
    )
    selector.register_clients(["a", 1, "1", "ü客", -5, 2**64 - 1, "gone", "erased"], num_samples=3)
    selector.register_client("slow", expected_duration_s=50.0)
    for _ in range(5):
        picks = selector.select_participant(4)
        selector.update_clients(
            picks[:3], utility=[1.0, 2.5, 0.0], duration_s=[1.0, 2.0, 3.0], sketch=[[1.0, 2.0]] * 3
        )
        selector.update_clients(picks[3:], outcome="failed")
    selector.remove_clients(["gone"])
    selector.forget(["erased"])
    selector.mark_offline(["slow"])
    selector.select(2, round_number=5)
    return selector


def future(selector: GuidedSelector, rounds: int = 6) -> list[Any]:
    """What a selector would do next."""
    seen: list[Any] = []
    for number in range(rounds):
        selection = selector.select(3)
        more = selector.select(2, round_number=selection.round_number)
        seen.append((selection, repr(selection.why), more.participants))
        selector.update_clients(selection, utility=float(number), duration_s=1.0)
    return seen


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "selector.oort"
    lived_in().save(path)
    return path


def forge(
    path: Path,
    change: Callable[[dict[str, Any]], object] = lambda content: None,
    *,
    description: bytes | None = None,
    **head: Any,
) -> Path:
    """A file whose description was changed and whose checksum is right again."""
    raw = path.read_bytes()
    magic, version, _, length = HEADER.unpack(raw[: HEADER.size])
    content = json.loads(raw[HEADER.size : HEADER.size + length])
    start = -(-(HEADER.size + length) // 64) * 64
    if description is None:
        change(content)
        description = json.dumps(content).encode()
    crc = head.get("crc", zlib.crc32(description))
    length = head.get("length", len(description))
    out = HEADER.pack(head.get("magic", magic), head.get("version", version), crc, length)
    out += description
    out += b"\0" * (-len(out) % 64)
    forged = path.with_name("forged.oort")
    forged.write_bytes(out + raw[start:])
    return forged


def rewritten(path: Path, **changes: Any) -> Path:
    """A whole, well-formed file with other arrays or other facts in it.

    ``None`` leaves something out; a function is given what was there.
    """
    meta, arrays = savefile.read(path)
    for name, value in changes.items():
        target: dict[str, Any] = arrays if name in arrays else meta
        if value is None:
            del target[name]
        else:
            target[name] = value(target[name]) if callable(value) else value
    forged = path.with_name("rewritten.oort")
    savefile.write(forged, meta, arrays)
    return forged


# Round trips


def test_a_loaded_selector_draws_what_the_saved_one_would_have(saved: Path) -> None:
    assert future(oort.load_selector(saved)) == future(lived_in())


def test_saving_changes_nothing_and_saving_again_gives_the_same_bytes(tmp_path: Path) -> None:
    selector = lived_in()
    selector.save(tmp_path / "one")
    selector.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    oort.load_selector(tmp_path / "one").save(tmp_path / "three")
    assert (tmp_path / "three").read_bytes() == (tmp_path / "one").read_bytes()
    assert future(selector) == future(lived_in())


def test_an_empty_selector_and_one_with_forgotten_clients_only_come_back(tmp_path: Path) -> None:
    for count in (0, 3):
        selector = new_selector(count)
        selector.forget(range(count))
        selector.save(tmp_path / "s.oort")
        again = oort.load_selector(tmp_path / "s.oort")
        assert (again.num_clients, again.num_rows, again.round_number) == (0, count, 0)
        assert again.select_participant(3, among=["x"]) == ["x"]


def test_mode_settings_and_round_come_back(tmp_path: Path) -> None:
    selector = oort.create_training_selector(
        oort.TrainingConfig(alpha=float("inf"), seed=2**100, pacer=oort.PacerConfig(step_s=4.0))
    )
    selector.register_clients(range(5))
    selector.mode = "uniform"
    selector.select_participant(2)
    selector.save(str(tmp_path / "s.oort"))
    again = oort.load_selector(str(tmp_path / "s.oort"))
    assert again.config == selector.config
    assert (again.mode, again.round_number) == ("uniform", 1)


def test_an_unregistered_utility_is_named_when_a_file_needs_it(tmp_path: Path) -> None:
    from oort.training import utility

    oort.register_utility("test: soon gone")(lambda clients: clients.utility)
    new_selector(2, utility="test: soon gone").save(tmp_path / "s.oort")
    del utility._UTILITIES["test: soon gone"]
    with pytest.raises(oort.ConfigError, match="or registered first; got 'test: soon gone'"):
        oort.load_selector(tmp_path / "s.oort")


# Damage


def test_a_file_torn_at_any_length_is_refused(saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    torn = tmp_path / "torn.oort"
    for length in range(len(whole)):
        torn.write_bytes(whole[:length])
        with pytest.raises(oort.SaveFileError) as caught:
            oort.load_selector(torn)
        assert isinstance(caught.value, oort.DamagedFileError) == (length > 0), length
        assert str(torn) in str(caught.value)


def test_a_file_with_bytes_added_is_refused(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes() + b"\0")
    with pytest.raises(oort.DamagedFileError, match=r"it has .* bytes instead of"):
        oort.load_selector(saved)


def test_a_changed_byte_is_noticed_wherever_it_lies(saved: Path) -> None:
    whole = saved.read_bytes()
    generator = np.random.default_rng(0)
    places = {*range(HEADER.size), *generator.choice(len(whole), 1500, replace=False).tolist()}
    unnoticed = set()
    for place in sorted(places):
        changed = bytearray(whole)
        changed[place] ^= 1 << int(generator.integers(8))
        saved.write_bytes(changed)
        try:
            oort.load_selector(saved)
        except oort.SaveFileError:
            continue
        unnoticed.add(place)
    assert not unnoticed


def test_damage_says_which_part(saved: Path) -> None:
    whole = bytearray(saved.read_bytes())
    whole[-1] ^= 1
    saved.write_bytes(whole)
    with pytest.raises(oort.DamagedFileError, match="column 'unfolded_utility' has changed bytes"):
        oort.load_selector(saved)


def test_a_newer_file_is_refused_with_both_versions(saved: Path) -> None:
    with pytest.raises(
        oort.NewerFileError, match=r"newer Oort \(format 2; this one reads up to 1"
    ):
        oort.load_selector(forge(saved, version=2))
    with pytest.raises(oort.NewerFileError):
        oort.load_selector(forge(saved, version=2**32 - 1))
    with pytest.raises(oort.DamagedFileError):
        oort.load_selector(forge(saved, version=0))


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x89PNG" * 50, b"OORTSAVX" + b"\0" * 99, b"O"]
)
def test_what_is_not_ours_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(
        oort.SaveFileError, match=r"is not a saved selector|ends inside its header"
    ):
        oort.load_selector(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(oort.SaveFileError, match=r"cannot read .*No such file"):
        oort.load_selector(tmp_path / "nothing.oort")
    with pytest.raises(oort.SaveFileError, match="cannot read"):
        oort.load_selector(tmp_path)


# Forgeries


def entry(content: dict[str, Any], name: str = "utility") -> dict[str, Any]:
    return next(e for e in content["arrays"] if e["name"] == name)


FORGED: dict[str, Callable[[dict[str, Any]], object]] = {
    "a huge shape": lambda c: entry(c).update(shape=[2**40]),
    "a huge last shape": lambda c: c["arrays"][-1].update(shape=[2**40]),
    "a shape beyond any memory": lambda c: entry(c).update(shape=[2**62, 2**62]),
    "a negative shape": lambda c: entry(c).update(shape=[-1]),
    "a fractional shape": lambda c: entry(c).update(shape=[1.5]),
    "a boolean shape": lambda c: entry(c).update(shape=[True]),
    "a textual shape": lambda c: entry(c).update(shape="9"),
    "no shape": lambda c: entry(c).pop("shape"),
    "many dimensions": lambda c: entry(c).update(shape=[1] * 40),
    "an object type": lambda c: entry(c).update(dtype="|O"),
    "an object type of the same size": lambda c: entry(c, "id_number").update(dtype="|O"),
    "a date of the same size": lambda c: entry(c, "id_number").update(dtype="<M8[s]"),
    "a complex type of the same size": lambda c: entry(c, "id_number").update(dtype="<c8"),
    "a text type": lambda c: entry(c).update(dtype="<U9"),
    "a huge void type": lambda c: entry(c).update(dtype="|V2147483647"),
    "a complex type": lambda c: entry(c).update(dtype="<c8"),
    "a big-endian type": lambda c: entry(c).update(dtype=">f4"),
    "a type by another name": lambda c: entry(c).update(dtype="float32"),
    "a type that is no text of NumPy's": lambda c: entry(c).update(dtype="f4,("),
    "no such type": lambda c: entry(c).update(dtype="nonsense"),
    "a structured type": lambda c: entry(c).update(dtype=[["a", "<f4"]]),
    "another type of the same size": lambda c: entry(c).update(dtype="<u4"),
    "a null type": lambda c: entry(c).update(dtype=None),
    "a negative offset": lambda c: entry(c).update(offset=-64),
    "a huge offset": lambda c: entry(c).update(offset=2**62),
    "an overlapping offset": lambda c: entry(c).update(offset=0),
    "a textual checksum": lambda c: entry(c).update(crc32="x"),
    "another checksum": lambda c: entry(c).update(crc32=1),
    "a null name": lambda c: entry(c).update(name=None),
    "a name twice": lambda c: entry(c).update(name="flags"),
    "an entry that is no object": lambda c: c["arrays"].append(5),
    "arrays that are no list": lambda c: c.update(arrays=5),
    "arrays that are null": lambda c: c.update(arrays=None),
    "no arrays": lambda c: c.pop("arrays"),
    "no columns": lambda c: c.update(arrays=[]),
    "no meta": lambda c: c.pop("meta"),
    "meta that is no object": lambda c: c.update(meta=[1]),
    "a missing column": lambda c: c["arrays"].remove(entry(c)),
    "an unknown strategy": lambda c: c["meta"].update(strategy="other"),
    "a null strategy": lambda c: c["meta"].update(strategy=None),
    "no config": lambda c: c["meta"].pop("config"),
    "a config that is a list": lambda c: c["meta"].update(config=[1]),
    "an unknown setting": lambda c: c["meta"]["config"].update(nonsense=1),
    "a wrong setting": lambda c: c["meta"]["config"].update(alpha=-1),
    "another sketch width": lambda c: c["meta"]["config"].update(sketch_width=60_000),
    "a huge sketch width": lambda c: c["meta"]["config"].update(sketch_width=2**62),
    "an unknown mode": lambda c: c["meta"].update(mode="other"),
    "a null mode": lambda c: c["meta"].update(mode=None),
    "a negative round": lambda c: c["meta"].update(round_number=-1),
    "a fractional round": lambda c: c["meta"].update(round_number=1.5),
    "a huge round": lambda c: c["meta"].update(round_number=10**400),
    "a textual round": lambda c: c["meta"].update(round_number="5"),
    "no round": lambda c: c["meta"].pop("round_number"),
    "no patience": lambda c: c["meta"].update(pacer_steps=0),
    "negative draws": lambda c: c["meta"].update(draws=-1),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_a_forged_description_is_refused_without_allocating(saved: Path, forgery: str) -> None:
    forged = forge(saved, FORGED[forgery])
    tracemalloc.start()
    try:
        with pytest.raises(oort.SaveFileError) as caught:
            oort.load_selector(forged)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert str(forged) in str(caught.value)


@pytest.mark.parametrize(
    "description",
    [b"", b"{", b"null", b"[]", b'"text"', b"\xff\xfe", b"[" * 100_000, b"1" * 10_000, b"{}"],
    ids=lambda d: repr(d[:10]),
)
def test_a_description_that_is_no_description_is_refused(saved: Path, description: bytes) -> None:
    with pytest.raises(oort.DamagedFileError):
        oort.load_selector(forge(saved, description=description))


@pytest.mark.parametrize("shape", [[2**62, 0], [0, 2**62], [0, 2**70]])
def test_a_forged_shape_of_nothing_is_refused(tmp_path: Path, shape: list[int]) -> None:
    savefile.write(tmp_path / "x", {}, {"nothing": np.empty(0)})
    forged = forge(tmp_path / "x", lambda c: entry(c, "nothing").update(shape=shape))
    with pytest.raises(oort.DamagedFileError, match="an array cannot be"):
        savefile.read(forged)


@pytest.mark.parametrize("length", [0, 1, 2**31, 2**63, 2**64 - 1])
def test_a_forged_length_is_refused_without_allocating(saved: Path, length: int) -> None:
    with pytest.raises(oort.DamagedFileError):
        oort.load_selector(forge(saved, length=length))


def test_the_forger_itself_leaves_a_good_file_good(saved: Path) -> None:
    assert future(oort.load_selector(forge(saved))) == future(lived_in())
    assert future(oort.load_selector(rewritten(saved))) == future(lived_in())


WRONG_ARRAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "a column too short": ("float32 of shape", {"utility": np.zeros(3, np.float32)}),
    "a column to be stretched": ("float32 of shape", {"utility": np.zeros(1, np.float32)}),
    "a column too wide": ("float32 of shape", {"utility": np.zeros((9, 2), np.float32)}),
    "a column of another type": ("must be uint8", {"flags": np.zeros(9, np.float64)}),
    "a NaN utility": ("a utility is impossible", {"utility": np.full(9, np.nan, np.float32)}),
    "a negative utility": ("a utility is imp", {"utility": np.full(9, -1, np.float32)}),
    "a negative duration": ("a duration is imp", {"duration_s": np.full(9, -1, np.float32)}),
    "an infinite duration": ("a duration is", {"duration_s": np.full(9, np.inf, np.float32)}),
    "a present client without id": ("without an id", {"flags": np.full(9, 3, np.uint8)}),
    "an unknown kind of id": ("kind 77 is none", {"id_kind": np.full(9, 77, np.uint8)}),
    "an id twice": ("in two rows", {"id_kind": np.ones(9, "u1"), "id_number": np.ones(9, "u8")}),
    "text too short": ("column 'id_text'", {"id_text": np.zeros(1, np.uint8)}),
    "text that is no UTF-8": ("codec can't decode", {"id_text": np.full(15, 255, np.uint8)}),
    "lengths beyond the text": ("'id_text'", {"id_length": np.full(9, 2**32 - 1, np.uint32)}),
    "rows beyond the table": (
        "'unfolded_row' must be rows",
        {"unfolded_row": lambda old: old + 10**12},
    ),
    "selected rows beyond": ("must be rows from 0 to 8", {"selected_row": lambda old: old + 9}),
    "negative rows": ("'received_row' must be rows", {"received_row": lambda old: old - 9}),
    "negative counts": ("must be counts", {"selected_count": lambda old: -old}),
    "counts that do not add up": ("of shape", {"selected_count": lambda old: old + 1}),
    "counts that overflow": ("of shape", {"selected_count": lambda old: old + 2**62}),
    "fewer counts than rounds": ("'received_count'", {"received_count": lambda old: old[1:]}),
    "history of different lengths": ("'history_sum'", {"history_sum": lambda old: old[1:]}),
    "history of another type": ("'history_count'", {"history_count": lambda old: old * 1.0}),
    "no ids": ("it is missing", {"id_kind": None}),
    "no history": ("it is missing", {"history_round": None}),
}


@pytest.mark.parametrize("wrong", WRONG_ARRAYS)
def test_columns_that_do_not_fit_together_are_refused(saved: Path, wrong: str) -> None:
    says, changes = WRONG_ARRAYS[wrong]
    with pytest.raises(oort.DamagedFileError) as caught:
        oort.load_selector(rewritten(saved, **changes))
    assert "its parts do not fit together" in str(caught.value)
    assert says in str(caught.value)


def test_a_round_robin_file_without_its_place_is_refused(tmp_path: Path) -> None:
    selector = RoundRobinSelector()
    selector.register_clients(range(3))
    selector.save(tmp_path / "r.oort")
    with pytest.raises(oort.DamagedFileError):
        RoundRobinSelector.load(rewritten(tmp_path / "r.oort", next_row=None))


def test_only_plain_numbers_are_written(tmp_path: Path) -> None:
    with pytest.raises(oort.SaveFileError, match="arrays of type object are not plain numbers"):
        savefile.write(tmp_path / "x", {}, {"bad": np.array([object()])})
    assert list(tmp_path.iterdir()) == []


def test_arrays_of_any_plain_kind_and_layout_come_back(tmp_path: Path) -> None:
    arrays = {
        "big": np.arange(5, dtype=">i4"),
        "strided": np.arange(10.0)[::3],
        "empty": np.empty((0, 4), np.float32),
        "bools": np.array([True, False]),
        "two": np.arange(6, dtype=np.uint16).reshape(2, 3).T,
    }
    savefile.write(tmp_path / "x", {"ü": [1, None]}, arrays)
    meta, again = savefile.read(tmp_path / "x")
    assert meta == {"ü": [1, None]}
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)
    savefile.write(tmp_path / "x", {}, {})
    assert savefile.read(tmp_path / "x") == ({}, {})


# Writing


def test_saving_replaces_the_old_file_and_leaves_nothing_else(saved: Path) -> None:
    new_selector(1).save(saved)
    assert oort.load_selector(saved).num_clients == 1
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


@pytest.mark.skipif(os.name != "posix", reason="needs links")
def test_saving_to_a_link_writes_where_it_points_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link, target = tmp_path / "newest.oort", tmp_path / "elsewhere" / "s.oort"
    link.symlink_to(target)
    for clients in (3, 5):  # when it points to nothing, and when it does
        new_selector(clients).save(link)
        assert link.is_symlink()
        assert oort.load_selector(target).num_clients == clients
    assert [p.name for p in target.parent.iterdir()] == [target.name]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_when_writing_fails_midway_the_old_file_is_intact_and_no_other_is_left(
    saved: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    before = saved.read_bytes()

    def fail(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(oort.SaveFileError, match=r"cannot save to .*Input/output error"):
        new_selector(1).save(saved)
    monkeypatch.undo()
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_when_saving_is_interrupted_the_old_file_is_intact(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        new_selector(1).save(saved)
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


@pytest.mark.skipif(os.name != "posix", reason="needs pipes with a name")
def test_what_is_no_ordinary_file_is_refused_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(oort.SaveFileError, match=r"save to \S+: it is no ordinary file"):
        oort.create_training_selector().save(pipe)
    assert pipe.is_fifo()
    for folder in (tmp_path, "", "/"):
        with pytest.raises(oort.SaveFileError, match="it is a folder"):
            oort.create_training_selector().save(folder)
    assert list(tmp_path.iterdir()) == [pipe]


def test_places_that_cannot_be_written_are_refused(saved: Path) -> None:
    for place in (
        saved / "below a file",
        saved.parent / "no such folder" / "s.oort",
        saved.parent,
        saved.parent / ("x" * 300),
    ):
        with pytest.raises(oort.SaveFileError, match="cannot save to"):
            new_selector(1).save(place)
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    with pytest.raises(oort.SaveFileError, match="Permission denied"):
        new_selector(1).save(folder / "s.oort")


def test_a_name_as_long_as_the_system_allows_can_be_saved_to(tmp_path: Path) -> None:
    path = tmp_path / ("x" * 250 + ".oort")
    new_selector(1).save(path)
    assert oort.load_selector(path).num_clients == 1


@pytest.mark.skipif(os.name != "posix", reason="needs limits on the size of files")
def test_a_file_that_outgrows_its_limit_leaves_the_old_one_intact(saved: Path) -> None:
    before = saved.read_bytes()
    code = (
        "import resource, signal, sys, oort\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))\n"
        "selector = oort.create_training_selector()\n"
        "selector.register_clients(range(10_000))\n"
        "try:\n"
        "    selector.save(sys.argv[1])\n"
        "except oort.SaveFileError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(saved)], capture_output=True, text=True, check=True
    )
    assert "File too large" in done.stdout
    assert saved.read_bytes() == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.name != "posix" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk to fill")
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this system does not let root mount a small disk to fill")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_the_old_file_intact(small_disk: Path) -> None:
    path = small_disk / "s.oort"
    new_selector(5).save(path)
    with pytest.raises(oort.SaveFileError, match="No space left on device"):
        new_selector(5_000).save(path)
    assert oort.load_selector(path).num_clients == 5
    assert [p.name for p in small_disk.iterdir()] == [path.name]


@pytest.mark.skipif(os.name != "posix", reason="file modes")
def test_a_saved_file_has_the_mode_of_any_new_file_and_the_umask_stays(tmp_path: Path) -> None:
    def save_often(path: Path) -> None:
        for _ in range(10):
            new_selector(3).save(path)

    before = os.umask(0o027)
    try:
        threads = [Thread(target=save_often, args=[tmp_path / f"{i}"]) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o640}


def test_a_file_read_while_it_is_replaced_is_always_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.oort"
    small, large = new_selector(3), new_selector(3_000)
    small.save(path)
    done = False

    def write() -> None:
        nonlocal done
        for _ in range(30):
            large.save(path)
            small.save(path)
        done = True

    writer = Thread(target=write)
    writer.start()
    seen = set()
    while not done:
        seen.add(oort.load_selector(path).num_clients)
    writer.join()
    assert seen <= {3, 3_000}
