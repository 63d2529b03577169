"""``oort simulate``, ``report`` and ``demo``, run as a user runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from oort.simulation import demo
from tests.cli.test_cli import oort_command

pytest.importorskip("rich", reason="the command line needs the extra 'cli'")
pytest.importorskip("matplotlib", reason="reports draw with the extra 'plots'")

CONFIG = """
name = "small"
seeds = [1, 2]
[data]
dataset = "synthetic"
clients = 60
common_model = 0.9
[rounds]
count = 12
participants = 6
[evaluation]
every = 2
clients = 20
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulate")
    (folder / "small.toml").write_text(CONFIG)
    done = oort_command("simulate", folder / "small.toml", "--into", folder / "run")
    assert done.returncode == 0, done.stderr
    assert "times sooner" in done.stdout
    assert "12/12" in done.stdout, "a progress bar per run"
    return folder / "run"


def test_simulate_leaves_a_history_for_each_strategy_and_seed(finished: Path) -> None:
    cells = sorted(p.name for p in finished.iterdir() if p.is_dir())
    assert cells == ["oort-seed1", "oort-seed2", "random-seed1", "random-seed2"]
    lines = (finished / "oort-seed1" / "history.csv").read_text().splitlines()
    assert len(lines) == 13


def test_report_makes_pictures_and_a_page_that_opens_offline(finished: Path) -> None:
    done = oort_command("report", finished)
    assert done.returncode == 0, done.stderr
    pictures = sorted(p.stem for p in (finished / "report").glob("*.png"))
    assert pictures == [
        "client-hours",
        "participation",
        "round-duration",
        "rounds-to-accuracy",
        "time-to-accuracy",
        "worst-decile",
    ]
    page = (finished / "report" / "index.html").read_text()
    assert page.count("<svg") == 6
    fetched = re.findall(r"""(?:src|href)\s*=\s*["'](?!#)([^"']+)""", page)
    assert fetched == [], "nothing is fetched from anywhere"
    assert "@import" not in page
    assert "<script" not in page


def test_reports_put_several_runs_side_by_side(finished: Path, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(CONFIG.replace("[1, 2]", "[3]"))
    done = oort_command("simulate", tmp_path / "other.toml", "--into", tmp_path / "other")
    assert done.returncode == 0, done.stderr
    done = oort_command("report", finished, tmp_path / "other", "--out", tmp_path / "both")
    assert done.returncode == 0, done.stderr
    assert "oort (other)" in (tmp_path / "both" / "index.html").read_text()


def test_a_bad_config_is_explained_without_a_traceback(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[data]\npartition = 'dirichlets'\n")
    done = oort_command("simulate", path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"{path}: data.partition must be one of 'iid', 'dirichlet'" in done.stderr
    assert "got 'dirichlets'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["simulate"], "must be given a config or --resume RUN"),
        (["simulate", "--resume", "nowhere"], "must be the folder of a run"),
        (["report", "nowhere"], "must be the folder of a run"),
    ],
)
def test_calls_that_cannot_work_are_explained(arguments: list[str], says: str) -> None:
    done = oort_command(*arguments)
    assert done.returncode == 1
    assert says in done.stderr


def test_settings_can_be_checked_and_listed(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(CONFIG)
    done = oort_command("simulate", path, "--check")
    assert "4 runs" in done.stdout
    listed = oort_command("simulate", "--settings").stdout
    assert "data.alpha" in listed.replace("\n", "")


def test_the_settings_of_a_run_can_be_checked(finished: Path) -> None:
    done = oort_command("simulate", "--resume", finished, "--check")
    assert done.returncode == 0, done.stderr
    assert "config.json: fine; 4 runs" in done.stdout.replace("\n", "")
    done = oort_command("simulate", "--resume", finished, "--into", finished)
    assert done.returncode == 1
    assert "--into must be left out with --resume" in done.stderr


def test_strategies_and_models_may_lie_where_the_command_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = "from oort.baselines import UniformSelector\n\n\ndef make(seed):\n"
    (tmp_path / "my_strategy.py").write_text(
        source + "    return UniformSelector({'seed': seed})\n"
    )
    own = '\n[[strategies]]\nkind = "my_strategy:make"\nname = "own"\n'
    (tmp_path / "small.toml").write_text(CONFIG.replace("count = 12", "count = 2") + own)
    done = oort_command("simulate", "small.toml")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "runs" / "small" / "own-seed1" / "complete").is_file()


def test_names_in_brackets_are_shown_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    named = '\n[[strategies]]\nkind = "random"\nname = "[/bold]"\n'
    path.write_text(CONFIG.replace("count = 12", "count = 2") + named)
    done = oort_command("simulate", path, "--into", tmp_path / "[red]")
    assert done.returncode == 0, done.stderr
    assert "[/bold]" in done.stdout
    assert str(tmp_path / "[red]") in done.stdout.replace("\n", "")


@pytest.mark.parametrize("target", ["7", "nan", "-1"])
def test_a_target_that_no_accuracy_can_be_is_refused(finished: Path, target: str) -> None:
    done = oort_command("report", finished, "--target", target)
    assert done.returncode == 1
    assert "--target must be a number from 0 to 1" in done.stderr


@pytest.mark.slow
def test_the_demo_trains_and_shows_that_oort_is_sooner(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the demo needs the extra 'demo'")
    done = oort_command("demo", "--seeds", 1, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "time-to-accuracy.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "index.html").read_text()
    from oort.simulation import compare, read_runs

    lines = compare(read_runs([tmp_path / "seeds-1"]), 0.94)
    assert {line.strategy for line in lines} == {"oort", "random"}
    speedup = next(line.speedup[0] for line in lines if line.strategy == "oort")
    assert speedup > 2.0


def test_the_demo_has_the_settings_that_it_describes() -> None:
    config = demo.config()
    assert (config.data.clients, config.rounds.participants) == (14_477, 50)
    assert config.seeds == (1, 2, 3)


def test_a_warning_is_a_line_for_people(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text(
        "seeds = [1]\n[data]\ndataset = 'digits'\nclients = 30\n"
        "[rounds]\ncount = 40\nparticipants = 10\n"
        "[[strategies]]\nkind = 'oort'\nsettings = { max_participations = 3 }\n"
    )
    main = "import sys; from oort.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["simulate", str(config), "--into", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-c", main, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "cannot last" in line]
    assert len(said) == 1
    assert said[0].startswith("oort simulate: max_participations=3 cannot last: 30 clients")
