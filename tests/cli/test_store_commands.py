"""``oort inspect URL``, ``export``, ``import``, ``migrate``."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import oort
from oort.cli import main
from oort.store.database import connect

_FIXTURES = Path(__file__).parents[1] / "fixtures"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("COLUMNS", "200")
    address = f"sqlite:///{tmp_path / 'jobs.db'}"
    for job in ("kb", "vision"):
        with oort.open_selector(address, job=job, config={"seed": 3}) as selector:
            selector.register_clients([f"{job}-{i}" for i in range(30)])
            for _ in range(4):
                picks = selector.select(5).participants
                selector.update_clients(picks, utility=[1.0, 2.0, 3.0, 4.0, 5.0], duration_s=2.0)
    return address


def test_inspect_lists_jobs(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", url]) == 0
    shown = capsys.readouterr().out
    for words in ("schema version 2", "kb", "vision", "10 entries", "nobody", "Every byte"):
        assert words in shown


def test_inspect_shows_one_job(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", url, "--job", "kb", "--clients", "2"]) == 0
    shown = capsys.readouterr().out
    assert "last good entry" in shown
    assert "The 2 clients of the highest utility" in shown
    assert "vision" not in shown


def test_inspect_says_who_drives(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with oort.open_selector(url, job="kb"):
        assert main(["inspect", url]) == 0
    assert ", alive" in capsys.readouterr().out


def test_inspect_finds_damage_and_repairs_it(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    database = connect(url)
    with database.transaction():
        database.execute("UPDATE oort_journal SET payload = ? WHERE job = 1 AND sequence = 8", b"")
    database.close()
    assert main(["inspect", url]) == 1
    shown = capsys.readouterr().out
    assert "journal entry 8 ('reported') has changed bytes; intact up to entry 7, round 3" in shown
    assert "--repair" in shown

    assert main(["inspect", url, "--repair"]) == 0
    shown = capsys.readouterr().out
    assert "Job 'kb' goes on from round 3. Lost:" in shown
    assert "entry 8: 'reported', damaged" in shown
    assert "entry 9: the selection of 5 clients in round 4" in shown
    assert "entry 10: 5 reports of round 4" in shown
    assert "Job 'vision': nothing to repair." in shown
    assert main(["inspect", url]) == 0


def test_repair_writes_large_numbers_as_the_rest_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/large.db"
    with oort.open_selector(url, job="kb") as selector:
        selector.register_clients(range(2_000))
        selector.update_clients(selector.select_participant(1_300), utility=1.0)
        selector.update_clients(selector.select_participant(1_300), utility=1.0)
    database = connect(url)
    with database.transaction():
        database.execute("UPDATE oort_journal SET payload = ? WHERE sequence = 3", b"")
    database.close()
    assert main(["inspect", url, "--repair"]) == 0
    shown = capsys.readouterr().out
    assert "the selection of 1,300 clients in round 2" in shown
    assert "1,300 reports of round 2" in shown


def test_options_of_stores_are_refused_for_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(tmp_path / "x.oort"), "--repair"]) == 1
    assert "--job and --repair are for stores" in capsys.readouterr().err


def test_a_job_is_exported_and_imported(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, other = tmp_path / "kb.oort", f"sqlite:///{tmp_path / 'other.db'}"
    assert main(["export", url, str(file), "--job", "kb"]) == 0
    assert "job 'kb', round 4, 30 clients" in capsys.readouterr().out
    assert main(["import", str(file), other, "--job", "again"]) == 0
    assert "job 'again', round 4, 30 clients" in capsys.readouterr().out
    assert main(["import", str(file), other, "--job", "again"]) == 1
    assert "must have no job 'again' yet" in capsys.readouterr().err
    with oort.open_selector(other, job="again") as selector:
        assert selector.round_number == 4


def test_a_job_that_is_not_there_is_told_from_those_that_are(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = "; it has 'kb', 'vision'"
    for command in (["inspect", url], ["inspect", url, "--repair"], ["export", url, "x.oort"]):
        assert main([*command, "--job", "none"]) == 1
        assert f"must have a job 'none'{told}" in capsys.readouterr().err
    assert main(["export", url, str(tmp_path / "x.oort")]) == 1
    assert f"must have one job: say which{told}" in capsys.readouterr().err


def test_the_only_job_needs_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = f"sqlite:///{tmp_path / 'jobs.db'}"
    with oort.open_testing_selector(where, job="cameras") as tester:
        tester.register_clients(range(40))
        tester.select_by_deviation(dev_target=20, range_of_capacity=100)
    file = tmp_path / "cameras.oort"
    assert main(["export", where, str(file)]) == 0
    assert "job 'cameras', 1 plans, 40 clients" in capsys.readouterr().out
    assert main(["inspect", str(file)]) == 1
    assert "oort import it" in capsys.readouterr().err


def test_a_store_is_known_by_its_file(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", url.removeprefix("sqlite:///")]) == 0
    assert "vision" in capsys.readouterr().out


def test_names_in_brackets_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where, file = f"sqlite:///{tmp_path / 'a[b].db'}", tmp_path / "x[y].oort"
    oort.open_selector(where, job="[red]kb").close()
    assert main(["export", where, str(file)]) == 0
    assert main(["import", str(file), where, "--job", "[bold]"]) == 0
    assert main(["inspect", where]) == 0
    shown = capsys.readouterr().out
    for words in ("x[y].oort: job '[red]kb'", "a[b].db: job '[bold]'", "[red]kb", "[bold]"):
        assert words in shown


@pytest.mark.parametrize("command", ["export", "inspect", "migrate"])
def test_a_store_that_is_not_there_is_named(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = f"sqlite:///{tmp_path / 'none.db'}"
    rest = [str(tmp_path / "x.oort")] if command == "export" else []
    assert main([command, where, *rest]) == 1
    assert "there is no store" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_migrate_upgrades_after_a_backup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(_FIXTURES / "store-v1.db", tmp_path / "jobs.db")
    where = f"sqlite:///{tmp_path / 'jobs.db'}"
    assert main(["migrate", where, "--backup", str(tmp_path / "old.db")]) == 0
    assert "from version 1 to 2" in capsys.readouterr().out
    assert main(["migrate", where]) == 0
    assert "is of version 2, the newest, already" in capsys.readouterr().out
