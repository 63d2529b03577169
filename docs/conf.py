"""How the documentation is built: ``make docs``.

Before Sphinx reads a page, ``figures`` draws the pictures by running the selector and
``settings`` writes the tables of settings from the dataclasses; both go to ``_generated``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext.napoleon.docstring import GoogleDocstring

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
autodoc_type_aliases = {
    name: name for name in ("Among", "Floats", "Integers", "Rows", "ColumnFunction")
} | {"npt.ArrayLike": "ArrayLike"}
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"Oort {release}"
html_static_path: list[str] = []


# Napoleon takes the words before a colon in "rows given out: the length of a mask" for a type.
GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end  # type: ignore[method-assign]


def setup(app: Sphinx) -> None:
    """Generate what the pages include."""
    app.connect("builder-inited", _generate)
    app.connect("autodoc-process-signature", _plain_aliases)


def _generate(app: Sphinx) -> None:
    folder = HERE / "_generated"
    folder.mkdir(exist_ok=True)
    settings.write(folder)
    figures.draw(folder)


def _plain_aliases(
    app: Sphinx,
    what: str,
    name: str,
    obj: object,
    options: Any,
    args: str | None,
    gives: str | None,
) -> tuple[str | None, str | None]:
    """Sphinx 9.0 writes an alias inside a union as ``TypeAliasForwardRef('Among')``."""
    args, gives = (
        text and re.sub(r"TypeAliasForwardRef\('([\w.]+)'\)", r"\1", text)
        for text in (args, gives)
    )
    return args, gives
