"""``oort migrate URL``: the newest schema, after a backup."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from oort.store.database import shown
from oort.store.migration import migrate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("url", metavar="URL", help="the store; nobody may be driving it")
    parser.add_argument(
        "--backup", type=Path, help="where the backup goes (default: beside the store)"
    )


def run(options: argparse.Namespace) -> int:
    """Upgrade, and say from what to what."""
    done = migrate(options.url, options.backup)
    where, console = shown(options.url), Console()
    if done.backup is None:
        console.print(f"{where} is of version {done.after} already", highlight=False)
    else:
        upgrade = f"from version {done.before} to {done.after}"
        console.print(f"{where}: {upgrade}; backup in {done.backup}", highlight=False)
    return 0
