"""Runs the Python code in README.md, CONTRIBUTING.md and docs/*.md as tests.

Each document is one story: its blocks share one namespace, run in order, in a folder of their own,
and on one worker where tests are spread over several.
"""

from __future__ import annotations

import os
import tempfile
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE
from typing import Any

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser

collect_ignore_glob = ["docs/*.py", "docs/_*"]


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a document's blocks on one worker: a later one needs what an earlier one made."""
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker(pytest.mark.xdist_group(item.path.name))
