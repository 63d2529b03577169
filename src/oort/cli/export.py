"""``oort export URL FILE``: a job of a store as a file."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from oort.store.transfer import export_job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("url", metavar="URL", help="the store")
    parser.add_argument("file", type=Path, help="where to; oort.load_selector reads it")
    parser.add_argument("--job", default="default", help="which job (default: default)")


def run(options: argparse.Namespace) -> int:
    """Export, and say what."""
    selector = export_job(options.url, options.job, options.file)
    what = f"round {selector.round_number:,}, {selector.num_clients:,} clients"
    size = f"{options.file.stat().st_size:,} bytes"
    Console().print(f"{options.file}: job {options.job!r}, {what}, {size}", highlight=False)
    return 0
