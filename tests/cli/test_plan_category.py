"""``oort plan --counts`` as a user runs it."""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import pytest

pytest.importorskip("rich", reason="the command line needs the extra 'cli'")

from oort.cli import plan_category
from oort.errors import (
    InvalidArgumentError,
    InvalidClientInfoError,
    NotEnoughSamplesError,
    OortError,
    UnknownCategoryError,
)

COUNTS = "client,category,samples\n" + "".join(
    f"{n},{kind},{10 + n % 7}\n" for n in range(40) for kind in ("cat", "dog")
)
DEVICES = "client,samples_per_s,bandwidth_mbps\n" + "".join(
    f"{n},{5 + n},{1 + n % 9}\n" for n in range(40)
)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with counts and devices, and the user in it."""
    (tmp_path / "counts.csv").write_text(COUNTS)
    (tmp_path / "devices.csv").write_text(DEVICES)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def oort_plan(arguments: str) -> int:
    parser = argparse.ArgumentParser()
    plan_category.add_arguments(parser)
    parser.add_argument("--picture", default="oort-plan.png")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(f"--counts counts.csv --devices devices.csv {arguments}".split())
    assert plan_category.asked(options)
    return plan_category.run(options)


def test_a_plan_is_told_written_and_drawn(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plots'")
    asked = "--want cat=90 --want dog=120 --budget 15 --transfer-mb 2 --out plan.csv"
    assert oort_plan(asked) == 0
    said = capsys.readouterr().out
    for text in (
        "210 samples",
        "of the 15 allowed",
        "Everyone waits for",
        "slowest first",
        "plan: plan.csv",
    ):
        assert text in said
    assert (files / "oort-plan.png").read_bytes().startswith(b"\x89PNG")
    with (files / "plan.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert sum(int(line["samples"]) for line in lines if line["category"] == "cat") == 90
    assert sum(int(line["samples"]) for line in lines if line["category"] == "dog") == 120
    assert len({line["client"] for line in lines}) <= 15


def test_a_plan_can_be_read_by_machines(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert oort_plan("--representative 100 --json --out plan.json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan == json.loads((files / "plan.json").read_text())
    assert sum(k for p in plan["participants"] for _, k in p["samples"]) == 100


@pytest.mark.parametrize(
    "arguments", ["--balanced", "--balanced 50", "--want cat=5 --require 3 --exclude 4"]
)
def test_other_requests_work_too(
    files: Path, arguments: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert oort_plan(f"{arguments} --picture none") == 0
    assert "samples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "one of --want, --representative and --balanced; got 0"),
        ("--want cat=5 --balanced", "one of --want, --representative and --balanced; got 2"),
        ("--want cat", "--want must be CATEGORY=N with a whole N; got 'cat'"),
        ("--want cat=-5", "--want must be CATEGORY=N"),
        (f"--want cat={'9' * 5000}", "--want must be CATEGORY=N"),
        ("--want cat=5 --budget 0", "^--budget must be a whole number, 1 or more; got 0"),
        ("--want cat=5 --time-limit 0", "^--time-limit must be a number above 0"),
        ("--want cat=5 --require a --exclude a", "^--"),
        ("--want cat=5 --out plan.xls", "--out must name a .csv or a .json file"),
    ],
)
def test_wrong_calls_are_explained(files: Path, arguments: str, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        oort_plan(arguments)


def test_an_unknown_category_is_named(files: Path) -> None:
    with pytest.raises(UnknownCategoryError, match="'cow'"):
        oort_plan("--want cow=5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--want cat=5 --balanced -1", "Balanced.samples must be a whole number"),
        ("--want cat=5 --out nowhere/plan.csv", "--out must be in a folder"),
        ("--want cat=5 --picture plan.xyz", "--picture must name a .png"),
        ("--want cat=5 --picture nowhere/plan.png", "--picture must be in a folder"),
        ("--want cat=5 --counts nowhere.csv", "must be files that can be read"),
        ("--want cat=5 --counts .", "must be files that can be read"),
        ("--want cat=5 --require ²", "client '²' is not known"),
    ],
)
def test_what_cannot_be_read_or_written_is_said_before_any_search(
    files: Path, arguments: str, message: str
) -> None:
    arguments = arguments.replace("--want cat=5 --balanced", "--balanced")
    with pytest.raises(OortError, match=message):
        oort_plan(arguments)
    assert sorted(path.name for path in files.iterdir()) == ["counts.csv", "devices.csv"]


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (b"", "must begin with a line that names its columns"),
        (b"client,category,samples\n\xe4,cat,3\n", "must be a CSV file in UTF-8"),
        ("client,category,samples\na,cat,3\n".encode("utf-16"), "must be a CSV file in UTF-8"),
        (b"client,category,samples\n" + b"a" * 200_000 + b",cat,3\n", "must be a CSV file"),
        (b"client,cat,cat\na,3,4\n", "must name each column once; got 'cat' twice"),
        (b"client,category,samples\na,cat\n", "got another number in line 2"),
        (b"client,category,samples\na,,3\n", "client 'a': category must be"),
        (b"client,category,samples\na,cat,1e20\n", "client 'a': samples\\['cat'\\] must be"),
        (b"client,category,samples\na,cat,3_0\n", "client 'a': samples\\['cat'\\] must be"),
        (b"client,category,samples\na,cat,%d\n" % 10**25, "samples\\['cat'\\] must be"),
        (b"client,category,samples\na,cat,3\na,cat,4\n", "must be in one line of the table"),
    ],
)
def test_a_file_that_cannot_be_used_is_explained(files: Path, counts: bytes, message: str) -> None:
    (files / "counts.csv").write_bytes(counts)
    with pytest.raises(InvalidClientInfoError, match=message):
        oort_plan("--want cat=5")


def test_a_parquet_file_that_is_none_is_explained(files: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs the extra 'tables'")
    (files / "counts.parquet").write_text("hello")
    with pytest.raises(InvalidClientInfoError, match="must be a Parquet file"):
        oort_plan("--want cat=5 --counts counts.parquet")


def test_devices_without_any_known_column_are_refused(files: Path) -> None:
    (files / "devices.csv").write_text("client,sample_per_s\n1,5\n")
    with pytest.raises(InvalidClientInfoError, match="got 'client', 'sample_per_s'"):
        oort_plan("--want cat=5")


def test_ids_stay_as_they_are_written(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "counts.csv").write_text("client, category, samples\n007, cat, 30\n1_0, cat, 20\n")
    (files / "devices.csv").write_text("client,samples_per_s\n007,5\n1_0,5\n")
    assert oort_plan("--want cat=50 --json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert {p["client"] for p in plan["participants"]} == {"007", "1_0"}


def test_ids_that_look_like_markup_are_shown_as_they_are(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "counts.csv").write_text("client,category,samples\n[/b],[red]cat,30\n")
    (files / "devices.csv").write_text("client,samples_per_s\n[/b],5\n")
    assert oort_plan("--balanced --picture none") == 0
    said = capsys.readouterr().out
    assert "[/b]" in said
    assert "[red]cat" in said


def test_what_is_left_out_is_said_in_words(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "devices.csv").write_text("client,bandwidth_mbps\n0,5\n")
    with pytest.raises(
        NotEnoughSamplesError, match=r"40 clients are left out .* no samples_per_s"
    ):
        oort_plan("--want cat=5 --exclude 99")
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "oort plan: --exclude 99: no such client"
    assert said[1].startswith("oort plan: 40 clients are left out because their speed")
    assert len(said) == 2
