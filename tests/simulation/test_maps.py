"""Every package opens with its map."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from oort import simulation

ROOT = Path(simulation.__file__).parent


@pytest.mark.parametrize(
    "package", ["oort.simulation", "oort.simulation.data", "oort.simulation.learners"]
)
def test_every_module_is_on_its_packages_map(package: str) -> None:
    folder = ROOT.joinpath(*package.split(".")[2:])
    document = import_module(package).__doc__ or ""
    modules = {p.stem for p in folder.glob("*.py")} | {
        p.parent.name for p in folder.glob("*/__init__.py")
    }
    listed = {line.split()[0] for line in document.splitlines() if line.strip()}
    assert modules - {"__init__"} <= listed
