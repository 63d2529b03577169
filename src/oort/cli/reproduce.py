"""``oort reproduce NAME``: one table or figure of the paper, measured again.

Experiments are not part of the installed package: they live in ``experiments/`` of a checkout, one
folder each, with ``HELP``, ``add_arguments(parser)`` and ``run(arguments) -> int`` in it.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import oort
from oort.errors import InvalidArgumentError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; those of one experiment are its own."""
    names = ", ".join(available()) or "none here: this needs a checkout of the project"
    parser.add_argument("name", nargs="?", help=f"which experiment ({names})")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="options of the experiment")


def run(options: argparse.Namespace) -> int:
    """Run one experiment, or list them all."""
    names = available()
    if options.name is None:
        for name in names:
            print(f"{name:12} {_experiment(name).HELP}")  # noqa: T201
        return 0
    if not names:
        message = (
            "oort reproduce must be run from a checkout of the project: the experiments folder is "
            f"not part of the installed package; got no experiments/ beside {_package_folder()}"
            f" or in {Path.cwd()}"
        )
        raise InvalidArgumentError(message)
    if options.name not in names:
        message = f"the experiment must be one of {', '.join(names)}; got {options.name!r}"
        raise InvalidArgumentError(message)
    experiment = _experiment(options.name)
    parser = argparse.ArgumentParser(
        prog=f"oort reproduce {options.name}", description=experiment.HELP
    )
    experiment.add_arguments(parser)
    return int(experiment.run(parser.parse_args(options.rest)))


def available() -> list[str]:
    """The experiments of this checkout."""
    folder = _folder()
    if folder is None:
        return []
    return sorted(p.parent.name.replace("_", "-") for p in folder.glob("*/__init__.py"))


def _folder() -> Path | None:
    """The experiments folder: beside the sources, or where the command was called."""
    for root in (_package_folder().parent.parent, Path.cwd()):
        if (root / "experiments" / "__init__.py").is_file():
            return root / "experiments"
    return None


def _package_folder() -> Path:
    """Where the package is."""
    return Path(oort.__file__).resolve().parent


def _experiment(name: str) -> Any:
    """The module of one experiment."""
    folder = _folder()
    if folder is not None and str(folder.parent) not in sys.path:
        sys.path.insert(0, str(folder.parent))
    return import_module(f"experiments.{name.replace('-', '_')}")
