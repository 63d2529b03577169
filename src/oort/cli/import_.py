"""``oort import FILE URL``: a job of a store from a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from oort.cli.inspect_store import standing
from oort.store.database import shown
from oort.store.transfer import import_job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "file", type=Path, help="a file that oort export or selector.save(...) wrote"
    )
    parser.add_argument(
        "url",
        metavar="URL",
        help="the store: sqlite:///FILE, made where it is not there, or postgresql://…",
    )
    parser.add_argument("--job", default="default", help="the new job (default: default)")


def run(options: argparse.Namespace) -> int:
    """Import, and say what."""
    selector = import_job(options.file, options.url, options.job)
    told = f"{shown(options.url)}: job {options.job!r}, {standing(selector)}"
    Console().print(escape(told), highlight=False, soft_wrap=True)
    return 0
