"""Runs the Python code in README.md, CONTRIBUTING.md and docs/*.md as tests.

Each document is one story: its blocks share one namespace and run in order, in a folder of their
own. A file's tests stay on one worker (``--dist=loadfile``), because a block needs what the blocks
before it made.
"""

from __future__ import annotations

import os
import tempfile
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from importlib.util import find_spec
from typing import Any

import hypothesis
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

# A test never asserts a time: machines are slow when they like. And what passes once passes again:
# properties are tried on the same examples every time, unless ``make fuzz`` asks for fresh ones.
hypothesis.settings.register_profile("same", deadline=None, derandomize=True)
hypothesis.settings.register_profile("fresh", deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("OORT_EXAMPLES", "same"))

# Engines that are tested must not call home.
os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["FLWR_DISABLE_UPDATE_CHECK"] = "1"

collect_ignore_glob = ["docs/*.py", "docs/_*"]

# Where an extra is not installed (the oldest environment has none), what needs it is left out.
_EXTRAS = {
    "numba": ["src/oort/kernels/compiled.py"],
    "rich": ["src/oort/cli", "tests/cli"],
    "matplotlib": ["src/oort/plots", "tests/plots", "tests/cli"],
    "syft_flwr": ["tests/integrations/pysyft/app/*"],
    "flwr": ["src/oort/integrations/*", "tests/integrations/*", "docs/flower.md"],
    "torch": ["src/oort/simulation/learners/models.py"],
}
for _package, _folders in _EXTRAS.items():
    if find_spec(_package) is None:
        collect_ignore_glob += _folders


def _enter_folder(namespace: dict[str, Any]) -> None:
    """A document may save files: not into the repository."""
    folder = tempfile.TemporaryDirectory()
    namespace["_folder"], namespace["_came_from"] = folder, os.getcwd()
    os.chdir(folder.name)


def _leave_folder(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_came_from"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[
        PythonCodeBlockParser(doctest_optionflags=ELLIPSIS | NORMALIZE_WHITESPACE),
        SkipParser(),
    ],
    patterns=["*.md"],
    excludes=["docs/_*", "CHANGELOG.md"],
    setup=_enter_folder,
    teardown=_leave_folder,
).pytest()
