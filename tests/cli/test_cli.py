"""The command line, run as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import oort
from oort.baselines import RoundRobinSelector

pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="the demo draws with the extra 'plots'")


def oort_command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run ``oort`` in a process of its own."""
    code = "import sys; from oort.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_inspect_shows_what_a_saved_selector_knows(tmp_path: Path) -> None:
    selector = oort.create_training_selector({"seed": 4})
    selector.register_clients(["cam-1", 17])
    selector.select(2)
    selector.update_client_util("cam-1", {"utility": 12.5, "duration_s": 3.0})
    selector.save(tmp_path / "job.oort")
    done = oort_command("inspect", tmp_path / "job.oort")
    assert done.returncode == 0, done.stderr
    for text in ("seed 4", "'cam-1'", "12.5", "17"):
        assert text in done.stdout


def test_inspect_shows_baselines_and_empty_selectors_too(tmp_path: Path) -> None:
    RoundRobinSelector().save(tmp_path / "empty.oort")
    done = oort_command("inspect", tmp_path / "empty.oort")
    assert done.returncode == 0, done.stderr
    assert "round_robin" in done.stdout


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "cannot read"), (b"hello", "is not a saved selector"), (b"OORTSAVE\1", "is damaged")],
)
def test_inspect_explains_what_is_wrong_with_a_file(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    path = tmp_path / "job.oort"
    if content is not None:
        path.write_bytes(content)
    done = oort_command("inspect", path)
    assert done.returncode == 1
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_help_lists_every_command() -> None:
    done = oort_command("--help")
    assert done.returncode == 0
    for command in ("demo", "inspect"):
        assert command in done.stdout


def test_an_unknown_command_is_refused() -> None:
    assert oort_command("dance").returncode == 2


def test_inspect_shows_ids_that_look_like_markup_and_what_came_before_the_first_round(
    tmp_path: Path,
) -> None:
    selector = oort.create_training_selector()
    selector.register_clients(["evil[/bold]", "quiet"])
    selector.update_client_util("evil[/bold]", {"utility": 5.0})
    selector.save(tmp_path / "job[red].oort")
    done = oort_command("inspect", tmp_path / "job[red].oort")
    assert done.returncode == 0, done.stderr
    assert "evil[/bold]" in done.stdout
    assert "heard of     │ 1" in done.stdout
