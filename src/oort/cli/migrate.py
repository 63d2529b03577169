"""``oort migrate URL``: the newest schema, after a backup."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from oort.store.database import shown
from oort.store.migration import migrate


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "url",
        metavar="URL",
        help="the store: sqlite:///FILE or postgresql://…; nobody may be driving a job in it",
    )
    parser.add_argument(
        "--backup",
        type=Path,
        metavar="FILE",
        help="where the backup goes, a SQLite store itself (default: beside a SQLite file, or in "
        "the working directory)",
    )


def run(options: argparse.Namespace) -> int:
    """Upgrade, and say from what to what."""
    done = migrate(options.url, options.backup)
    where, console = shown(options.url), Console()
    if done.backup is None:
        console.print(
            escape(f"{where} is of version {done.after}, the newest, already"),
            highlight=False,
            soft_wrap=True,
        )
    else:
        upgrade = f"from version {done.before} to {done.after}"
        told = f"{where}: {upgrade}; backup in {done.backup}"
        console.print(escape(told), highlight=False, soft_wrap=True)
    return 0
