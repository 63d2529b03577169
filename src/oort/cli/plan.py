"""``oort plan``: who should test, before anybody is asked.

Each kind of plan is a module of its own with ``asked(options)``, ``add_arguments(parser)`` and
``run(options)``; this one finds out which was asked for.
"""

from __future__ import annotations

import argparse

from oort.cli import plan_category, plan_deviation
from oort.errors import InvalidArgumentError

KINDS = (plan_deviation, plan_category)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of every kind."""
    for kind in KINDS:
        kind.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Make the plan that was asked for."""
    for kind in KINDS:
        if kind.asked(options):
            return int(kind.run(options))
    message = f"oort plan must be given {' or '.join(kind.ASKED_BY for kind in KINDS)}; got none"
    raise InvalidArgumentError(message)
