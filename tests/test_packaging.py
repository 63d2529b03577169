"""What ``pip install`` gives: the wheel and the sdist, built and used in a fresh environment."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import oort

ROOT = Path(__file__).parents[1]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not importlib.util.find_spec("build"), reason="the package 'build' is not installed"
    ),
]

LOOP = """
import oort

selector = oort.create_training_selector(oort.TrainingConfig(seed=7))
selector.register_client("phone-17", num_samples=120, expected_duration_s=42.0)
for _ in range(3):
    for client in selector.select_participant(100):
        feedback = oort.Feedback(num_samples=120, mean_squared_loss=1.9, duration_s=38.5)
        selector.update_client_util(client, feedback)
assert selector.round_number == 3
"""


def run(*command: object, cwd: Path | None = None) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, built from the sdist, and the sdist."""
    how = ["--no-isolation"] if importlib.util.find_spec("hatchling") else []
    source = tmp_path_factory.mktemp("source") / "oort"
    ignored = shutil.ignore_patterns(".*", "build", "dist", "_build", "__pycache__")
    shutil.copytree(ROOT, source, ignore=ignored)
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", *how, "--outdir", out, source)
    return out


@pytest.fixture(scope="module")
def python(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the wheel, and NumPy and SciPy of this one."""
    folder = tmp_path_factory.mktemp("fresh") / "venv"
    run(sys.executable, "-m", "venv", folder)
    executable = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    (wheel,) = built.glob("*.whl")
    run(executable, "-m", "pip", "install", "--no-deps", "--no-index", wheel)
    site = Path(
        run(executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    here = Path(sysconfig.get_path("purelib"))
    for package in ("numpy", "scipy", "numpy.libs", "scipy.libs"):
        if (here / package).exists():
            (site / package).symlink_to(here / package)
    return executable


def metadata(wheel: Path) -> dict[str, list[str]]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        message = Parser().parsestr(archive.read(name).decode("utf-8"))
    return {key: message.get_all(key, []) for key in set(message.keys())}


def test_the_wheel_holds_the_library_its_types_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "oort/py.typed" in names
    shipped = {n for n in names if n.startswith("oort/") and n.endswith(".py")}
    source = ROOT / "src"
    assert shipped == {str(p.relative_to(source)) for p in (source / "oort").rglob("*.py")}
    assert {n.split("/")[0] for n in names} == {"oort", f"oort_fl-{oort.__version__}.dist-info"}


def test_the_sdist_holds_what_is_needed_to_test_it(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[-1] for name in archive.getnames()}
    for needed in (
        *("pyproject.toml", "README.md", "LICENSE", "src/oort/py.typed"),
        *(
            "tests/test_packaging.py",
            "tests/fixtures/selector-v1.oort",
            "tests/golden/selections.json",
        ),
    ):
        assert needed in names
    assert not [n for n in names if ".venv" in n or "__pycache__" in n]


def test_the_metadata_says_what_it_is_and_needs(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    facts = metadata(wheel)
    assert facts["Name"] == ["oort-fl"]
    assert facts["Version"] == [oort.__version__]
    assert facts["Requires-Python"] == [">=3.11"]
    assert facts["License-Expression"] == ["Apache-2.0"]
    assert "Typing :: Typed" in facts["Classifier"]
    needed = {r for r in facts["Requires-Dist"] if "extra ==" not in r}
    assert needed == {"numpy>=1.25", "scipy>=1.9.3"}


def test_the_installed_wheel_runs_the_papers_loop_and_the_readme(
    python: Path, tmp_path: Path
) -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    blocks = [LOOP, *re.findall(r"^```python\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)]
    plain = [block for block in blocks if ">>>" not in block]
    script = tmp_path / "readme.py"
    script.write_text("\n".join(plain), "utf-8")
    run(python, "-W", "error", script, cwd=tmp_path)
    where = run(python, "-c", "import oort; print(oort.__file__)", cwd=tmp_path)
    assert str(python.parent.parent) in where, "not the checkout"


def test_the_installed_command_runs(python: Path, tmp_path: Path) -> None:
    command = python.with_name("oort")
    assert oort.__version__ in run(command, "--version", cwd=tmp_path)
