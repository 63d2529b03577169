"""The command line: ``oort COMMAND``.

    demo       a real model across simulated phones, Oort beside random selection
    simulate   an experiment from a TOML file
    report     pictures of runs and a page that opens offline
    inspect    what a saved selector knows, or a store; repairs a store
    export     a job of a store to a file
    import_    a file to a job of a store
    migrate    a store to the newest schema, after a backup
    plan       who should test, and how many samples of what
    reproduce  one table or figure of the paper, measured again

    watching   what long commands share: progress bars, a Ctrl-C that stops at a good place
    plan_deviation    the representative kind of plan
    inspect_store     what inspect shows of a store
    plan_category     the kind that asks for samples of categories

A command is a module here with ``HELP``, ``add_arguments(parser)`` and ``run(arguments) -> int``;
it is imported when it is asked for, so that ``oort --help`` needs none of what the commands need.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from keyword import iskeyword
from typing import Any

import oort

COMMANDS = {
    "demo": "a real model across simulated phones, Oort beside random selection",
    "simulate": "an experiment from a TOML file, into a folder that it can go on from",
    "report": "pictures of runs, and a page that opens offline",
    "inspect": "what a saved selector or a store holds, and whether it is sound",
    "export": "write a job of a store to a file",
    "import": "make a job of a store from a file",
    "migrate": "bring a store to the newest schema, after a backup",
    "plan": "who should test: for a representative test set, or for samples of categories",
    "reproduce": "a table or figure of the paper, measured again",
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
    try:
        for name, summary in COMMANDS.items():
            about = f"{summary[0].upper()}{summary[1:]}."
            sub = subparsers.add_parser(name, help=summary, description=about)
            if name == asked:
                _command(name).add_arguments(sub)
        options = parser.parse_args(arguments)
        with _warnings_in_words(options.command):
            return int(_command(options.command).run(options))
    except oort.OortError as error:
        print(f"oort {asked}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except OSError as error:
        print(f"oort {asked}: {error}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt:
        print(f"oort {asked}: interrupted", file=sys.stderr)  # noqa: T201
        return 130


@contextmanager
def _warnings_in_words(command: str) -> Iterator[None]:
    """Show our own warnings as a line for people, without the place in the code."""
    before = warnings.formatwarning

    def shown(message: Any, category: type[Warning], *place: Any, **rest: Any) -> str:
        if issubclass(category, oort.errors.OortWarning):
            return f"oort {command}: {message}\n"
        return before(message, category, *place, **rest)

    warnings.formatwarning = shown
    try:
        yield
    finally:
        warnings.formatwarning = before


def _command(name: str) -> Any:
    """The module of one command.

    Raises:
        MissingExtraError: The command line's own dependency is not installed.
    """
    try:
        import rich  # noqa: F401
    except ImportError:
        oort.errors.missing_extra("the command line", "rich", "cli")
    module = f"{name}_" if iskeyword(name) else name
    return import_module(f"oort.cli.{module}")
