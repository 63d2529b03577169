"""``oort export URL FILE``: a job of a store as a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from oort.cli.inspect_store import standing
from oort.store.transfer import export_job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "url", metavar="URL", help="the store: sqlite:///FILE or postgresql://USER@HOST/NAME"
    )
    parser.add_argument("file", type=Path, help="where to; oort.load_selector reads it")
    parser.add_argument("--job", help="which job (default: the only one)")


def run(options: argparse.Namespace) -> int:
    """Export, and say what."""
    name, selector = export_job(options.url, options.job, options.file)
    size = f"{options.file.stat().st_size:,} bytes"
    told = f"{options.file}: job {name!r}, {standing(selector)}, {size}"
    Console().print(escape(told), highlight=False, soft_wrap=True)
    return 0
