"""The documentation builds and leaves nothing public out; ``conftest.py`` runs the code in it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import oort

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="needs docs/, which is not installed")


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("sphinx"), reason="needs sphinx (make docs)")
def test_the_documentation_builds_without_a_warning(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-E", "-b", "html", "-d"]
    done = subprocess.run(
        [*command, str(tmp_path / "trees"), str(DOCS), str(tmp_path / "html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    settings = (tmp_path / "html" / "configuration.html").read_text(encoding="utf-8")
    assert all(name in settings for name in oort.TrainingConfig().to_dict())
    concepts = (tmp_path / "html" / "concepts.html").read_text(encoding="utf-8")
    assert concepts.count(".svg") >= 8


def test_every_public_name_is_in_the_api_reference() -> None:
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    methods = [name for name in dir(oort.create_training_selector()) if not name.startswith("_")]
    names = {*oort.__all__, *methods} - {"strategy"}
    missing = [name for name in names if not re.search(rf"\b{name}\b", page)]
    assert not missing


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {page.stem for page in DOCS.glob("*.md")} - {"index"}
    assert pages <= set(index.split())


def test_every_file_that_the_design_names_is_there() -> None:
    page = (DOCS / "design.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)`", page)
    roots = (ROOT, ROOT / "src" / "oort")
    assert len(named) > 30
    assert not [name for name in named if not any((root / name).is_file() for root in roots)]


def test_links_between_documents_lead_somewhere() -> None:
    for document in [*ROOT.glob("*.md"), *DOCS.glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8")):
            assert (document.parent / target).exists(), f"{document.name} links to {target}"
