"""``oort plan --deviation`` and ``oort reproduce``, run as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oort.cli import main, reproduce

pytest.importorskip("rich", reason="the command line needs the extra 'cli'")


def test_a_plan_is_readable_and_comes_with_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plots'")
    monkeypatch.chdir(tmp_path)
    arguments = "plan --deviation 0.05 --unit share_of_range --clients 14477"
    assert main(arguments.split()) == 0
    said = capsys.readouterr().out
    for text in ("703 participants", "at least 0.95", "Serfling (1974)", "576", "needs --std"):
        assert text in said
    assert (tmp_path / "oort-plan.png").read_bytes().startswith(b"\x89PNG")


def test_more_knowledge_and_strata_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "plan --deviation 0.2 --unit share_of_mean --clients 1660820 --range 47422 --min 33 "
        "--mean 1436 --std 2568 --expected-std 2600 --take-all 2000:15000:2200 --picture none"
    )
    assert main(arguments.split()) == 0
    said = capsys.readouterr().out
    assert "784 participants" in said
    assert "take-all+bennett" in said
    assert "picture" not in said


def test_one_participant_is_not_said_in_the_plural(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "plan --deviation 3 --range 3 --clients 1 --picture none"
    assert main(arguments.split()) == 0
    said = capsys.readouterr().out
    assert "1 participant (100.00% of 1 client)" in said
    assert "The only client takes part" in said


def test_a_plan_can_be_read_by_machines(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "plan --deviation 5,10 --range 100,200 --clients 1000 --over-commit 0.3 --json"
    assert main(arguments.split()) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["bound"] == "serfling"
    assert plan["invited"] > plan["participants"]
    assert {s["bound"] for s in plan["every_bound"]} >= {"paper", "kl", "bennett"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("plan --deviation -1 --clients 10 --range 3", "--deviation must be"),
        ("plan --deviation 1 --clients 10 --range 3 --confidence 1", "confidence must be"),
        ("plan --deviation 1 --clients 10 --range 3 --unit miles", "unit must be one of"),
        ("plan --deviation x --clients 10 --range 3", "--deviation must be one number"),
        ("plan --deviation 1 --range 3", "--clients must be given"),
        ("plan --deviation 1 --range 3 --clients 9 --bound kl", "needs --mean, --min)"),
        (
            "plan --deviation 1 --range 3 --clients 9 --min 1 --mean 7",
            "--mean must be between --min",
        ),
        ("plan --deviation 1 --range 3 --clients 9 --unit share_of_mean", "--mean must be given"),
        ("plan --deviation 1 --range 3 --clients 9 --take-all 2:4", "RANGE of --take-all must be"),
        ("plan --deviation 1 --clients 9 --range 3 --take-all 5", "--take-all must be K:RANGE"),
        ("plan --clients 9", "oort plan must be given --deviation"),
        ("reproduce nonsense", "the experiment must be one of"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    arguments: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments.split()) == 1
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


def test_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 0
    assert "deviation" in capsys.readouterr().out


def test_without_a_checkout_reproduce_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(reproduce, "_package_folder", lambda: tmp_path / "lib" / "oort")
    assert main(["reproduce", "deviation"]) == 1
    assert "must be run from a checkout" in capsys.readouterr().err


def test_the_deviation_experiment_writes_numbers_pictures_and_a_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plots'")
    options = ["--draws", "20", "--clients", "3000", "--data", str(tmp_path)]
    assert main(["reproduce", "deviation", *options, "--out", str(tmp_path / "results")]) == 0
    assert "Verdict" in capsys.readouterr().out
    results = json.loads((tmp_path / "results" / "deviation.json").read_text())
    found = results["populations"]["Reddit-like"]
    assert found["clients"] == 3_000
    for unit in ("share_of_range", "share_of_mean", "l1"):
        assert found["checked"][unit]
        assert all(row["exceeded"] <= 20 * 0.3 for row in found["checked"][unit])
    assert all(row["held"] >= 0.8 for row in found["intervals"])
    pictures = list((tmp_path / "results").glob("*.png"))
    assert len(pictures) == 3
