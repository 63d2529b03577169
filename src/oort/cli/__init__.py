"""The command line: ``oort COMMAND``.

    demo       Oort beside random selection on a generated population
    inspect    what a saved selector knows

A command is a module here with ``HELP``, ``add_arguments(parser)`` and ``run(arguments) -> int``;
it is imported when it is asked for, so that ``oort --help`` needs none of what the commands need.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

import oort

COMMANDS = {
    "demo": "Oort beside random selection on a generated population",
    "inspect": "what a saved selector knows, as a readable table",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; gives its exit status: 0, 1 if it failed, 2 if it was called wrongly."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        prog="oort", description="Guided participant selection for federated learning."
    )
    parser.add_argument("--version", action="version", version=f"oort-fl {oort.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    asked = next((a for a in arguments if a in COMMANDS), None)
    for name, summary in COMMANDS.items():
        sub = subparsers.add_parser(
            name, help=summary, description=f"{summary[0].upper()}{summary[1:]}."
        )
        if name == asked:
            _command(name).add_arguments(sub)
    options = parser.parse_args(arguments)
    try:
        return int(_command(options.command).run(options))
    except oort.OortError as error:
        print(f"oort {options.command}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        print(f"oort {options.command}: interrupted", file=sys.stderr)  # noqa: T201
        return 130


def _command(name: str):  # type: ignore[no-untyped-def]
    """The module of one command."""
    return import_module(f"oort.cli.{name}")
