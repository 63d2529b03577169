"""How the documentation is built: ``make docs``.

Before Sphinx reads a page, ``figures`` draws the pictures by running the selector and
``settings`` writes the tables of settings from the dataclasses; both go to ``_generated``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import figures  # noqa: E402
import settings  # noqa: E402

import oort  # noqa: E402

project = "Oort"
version = release = oort.__version__
project_copyright = "the Oort developers"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_generated"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"Oort {release}"
html_static_path: list[str] = []


def setup(app: Sphinx) -> None:
    """Generate what the pages include."""
    app.connect("builder-inited", _generate)


def _generate(app: Sphinx) -> None:
    folder = HERE / "_generated"
    folder.mkdir(exist_ok=True)
    settings.write(folder)
    figures.draw(folder)
