"""``oort plan --counts``: who tests how many samples of what, from counts and devices."""

from __future__ import annotations

import argparse
import csv
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from oort.config import TestingConfig
from oort.errors import ConfigError, InvalidArgumentError, MissingExtraError, OortWarning
from oort.testing.category.information import Category, ClientInformation
from oort.testing.category.plan import COLUMNS, TestPlan
from oort.testing.category.request import Balanced, Representative, Request
from oort.testing.selector import create_testing_selector

ASKED_BY = "--counts"
_SHOWN = 10
_PICTURE = "oort-plan.png"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    group = parser.add_argument_group(
        "samples of categories",
        "the fastest way to so many samples of each category, with a proof",
    )
    group.add_argument(
        "--counts",
        metavar="FILE",
        help="CSV or Parquet: client, category, samples; or client and a column per category",
    )
    group.add_argument(
        "--devices",
        metavar="FILE",
        help="CSV or Parquet: client, samples_per_s, bandwidth_mbps[, transfer_mb, max_samples]",
    )
    group.add_argument(
        "--want", action="append", default=[], metavar="CATEGORY=N", help="may be repeated"
    )
    group.add_argument(
        "--representative", type=int, metavar="N", help="N samples, categories as in all the data"
    )
    group.add_argument(
        "--balanced",
        type=int,
        nargs="?",
        const=True,
        metavar="N",
        help="N samples, the same of each category; without N as many as the scarcest allows",
    )
    group.add_argument("--budget", type=int, metavar="B", help="at most B participants")
    group.add_argument(
        "--transfer-mb", type=float, default=0.0, metavar="MB", help="moved per participant"
    )
    group.add_argument(
        "--max-samples-per-client", type=int, metavar="N", help="nobody tests more than N"
    )
    group.add_argument("--require", action="append", default=[], metavar="ID", help="takes part")
    group.add_argument("--exclude", action="append", default=[], metavar="ID", help="does not")
    group.add_argument(
        "--tolerance", type=float, default=0.01, help="gap at which to stop (default 0.01)"
    )
    group.add_argument(
        "--time-limit", type=float, metavar="S", help="the best plan after S seconds"
    )
    group.add_argument("--method", default="oort", help='"oort" (default), "paper" or "milp"')
    group.add_argument("--solver", default="auto", help='"auto" (default), "highs" or "gurobi"')
    group.add_argument("--out", metavar="FILE", help="write the plan: .csv or .json")


def asked(options: argparse.Namespace) -> bool:
    """Whether this kind of plan was asked for."""
    return options.counts is not None


def run(options: argparse.Namespace) -> int:
    """Answer in words, in a table and in a picture; write the plan where asked."""
    _refuse_unwritable(options)
    tester = create_testing_selector()
    try:
        tester.load_client_info(options.counts, options.devices)
    except OSError as error:
        message = f"--counts and --devices must be files that can be read; got {error}"
        raise InvalidArgumentError(message) from None
    request = _request(options, tester.information)
    config = _config(options, tester.information)
    _note_strangers(options.exclude, config.excluded, tester.information)
    with _notes(), _bar() as progress, _solvers_silent():
        plan = tester.select_by_category(request, config, progress=progress)
    _show(plan, options)
    return 0


def _config(options: argparse.Namespace, known: ClientInformation) -> TestingConfig:
    """The settings; what is wrong with one is said of the option that was typed."""
    try:
        return TestingConfig(
            budget=options.budget,
            transfer_mb=options.transfer_mb,
            max_samples_per_client=options.max_samples_per_client,
            required=_ids(options.require, known),
            excluded=_ids(options.exclude, known),
            tolerance=options.tolerance,
            time_limit_s=options.time_limit,
            method=options.method,
            solver=options.solver,
        )
    except ConfigError as error:
        in_flags = re.sub(r"TestingConfig\.(\w+)", lambda found: _flag(found[1]), str(error))
        raise InvalidArgumentError(in_flags) from None


def _flag(setting: str) -> str:
    """The option of a setting.

    >>> _flag("transfer_mb"), _flag("time_limit_s")
    ('--transfer-mb', '--time-limit')
    """
    others = {"time_limit_s": "time-limit", "required": "require", "excluded": "exclude"}
    return f"--{others.get(setting, setting.replace('_', '-'))}"


def _show(plan: TestPlan, options: argparse.Namespace) -> None:
    """Everything that the user sees or gets."""
    console = Console(highlight=False)
    if options.out is not None:
        write_plan(plan, Path(options.out))
    if getattr(options, "json", False):
        print(plan.to_json())  # noqa: T201
        return
    console.print(plan.explain(), markup=False, soft_wrap=True)
    console.print(_table(plan))
    if options.out is not None:
        console.print(f"plan: {options.out}", markup=False, soft_wrap=True)
    picture = getattr(options, "picture", _PICTURE)
    if picture != "none":
        console.print(_picture(plan, Path(picture)), markup=False, soft_wrap=True)


def _refuse_unwritable(options: argparse.Namespace) -> None:
    """Say at once, rather than after a long search, that there is nowhere to put the plan."""
    picture = getattr(options, "picture", _PICTURE)
    drawn = picture not in ("none", _PICTURE) and not getattr(options, "json", False)
    for option, name, kinds in (
        ("--out", options.out, (".csv", ".json")),
        ("--picture", picture if drawn else None, (".png", ".svg", ".pdf", ".jpg")),
    ):
        if name is None:
            continue
        path = Path(name)
        if path.suffix.lower() not in kinds:
            message = f"{option} must name a {' or a '.join(kinds)} file; got {name!r}"
            raise InvalidArgumentError(message)
        if not path.parent.is_dir() or path.is_dir() or not os.access(path.parent, os.W_OK):
            message = f"{option} must be in a folder that can be written to; got {name!r}"
            raise InvalidArgumentError(message)


def write_plan(plan: TestPlan, path: Path) -> None:
    """Write a plan as CSV, one line per participant and category, or as JSON."""
    if path.suffix.lower() == ".json":
        path.write_text(plan.to_json(indent=1) + "\n", encoding="utf-8")
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(plan.records())


def _request(options: argparse.Namespace, known: ClientInformation) -> Request:
    """What is wanted, from one of three options."""
    given = [bool(options.want), options.representative is not None, options.balanced is not None]
    if sum(given) != 1:
        options_ = "one of --want, --representative and --balanced"
        message = f"--counts must come with {options_}; got {sum(given)}"
        raise InvalidArgumentError(message)
    if options.representative is not None:
        return Representative(options.representative)
    if options.balanced is not None:
        return Balanced(None if options.balanced is True else options.balanced)
    request: dict[Category, int] = {}
    for want in options.want:
        name, _, number = want.rpartition("=")
        if not name or not re.fullmatch("[0-9]{1,99}", number):
            message = f"--want must be CATEGORY=N with a whole N; got {want!r:.80}"
            raise InvalidArgumentError(message)
        category = _category(name, known)
        request[category] = request.get(category, 0) + int(number)
    return request


def _category(name: str, known: ClientInformation) -> Category:
    """A category as it was typed, or as the number that it looks like where only that is known."""
    if known.column(name) is None:
        with suppress(ValueError):
            if known.column(int(name)) is not None:
                return int(name)
    return name


def _ids(typed: list[str], known: ClientInformation) -> tuple[str | int, ...]:
    """Client ids as they were typed, or as the numbers that they look like."""
    ids: list[str | int] = []
    for text in typed:
        with suppress(ValueError):
            if not known.knows(text) and str(int(text)) == text and known.knows(int(text)):
                ids.append(int(text))
                continue
        ids.append(text)
    return tuple(ids)


def _note_strangers(
    typed: list[str], ids: tuple[str | int, ...], known: ClientInformation
) -> None:
    """Say which --exclude excludes nobody: a slip of the pen would let a client take part."""
    for text, client in zip(typed, ids, strict=True):
        if not known.knows(client):
            print(f"oort plan: --exclude {text}: no such client", file=sys.stderr)  # noqa: T201


@contextmanager
def _notes() -> Iterator[None]:
    """Warnings as plain sentences on standard error, where Python would show lines of code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", OortWarning)
        try:
            yield
        finally:
            for warning in caught:
                print(f"oort plan: {warning.message}", file=sys.stderr)  # noqa: T201


@contextmanager
def _bar() -> Iterator[Any]:
    """A progress bar on standard error, which shows how the bounds close in; only on terminals."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("planning", total=None)

        def moved(lower_s: float, best_s: float) -> None:
            found = f"plan of {best_s:.4g} s" if math.isfinite(best_s) else "no plan yet"
            closed = lower_s / best_s if math.isfinite(best_s) and best_s > 0 else 0.0
            text = f"{found}, proven: at least {lower_s:.4g} s"
            bar.update(task, description=text, total=1.0, completed=closed)

        yield moved


@contextmanager
def _solvers_silent() -> Iterator[None]:
    """Keep what solvers print by themselves out of standard output, which is the plan's."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError, AttributeError):
        yield
        return
    sys.stdout.flush()
    saved = os.dup(number)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, number)
        yield
    finally:
        os.dup2(saved, number)
        os.close(saved)
        os.close(nowhere)


def _table(plan: TestPlan) -> Table:
    """The slowest participants: whom everyone waits for."""
    hidden = len(plan) - _SHOWN
    title = "participants, slowest first" + (f" ({hidden:,} more)" if hidden > 0 else "")
    table = Table(title=title, title_justify="left")
    table.add_column("client")
    for name in ("samples", "transfer, s", "testing, s", "in all, s"):
        table.add_column(name, justify="right")
    table.add_column("of")
    for n in np.argsort(-plan.client_duration_s, kind="stable")[:_SHOWN].tolist():
        client = plan.participants[n]
        own = plan.assignment[client]
        total, transfer = float(plan.client_duration_s[n]), float(plan.client_transfer_s[n])
        most = sorted(own.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{k} {name}" for name, k in most[:3]) + (
            ", …" if len(most) > 3 else ""
        )
        numbers = (
            f"{sum(own.values()):,}",
            f"{transfer:.3f}",
            f"{total - transfer:.3f}",
            f"{total:.3f}",
        )
        table.add_row(Text(str(client)), *numbers, Text(listed))
    return table


def _picture(plan: TestPlan, path: Path) -> str:
    """Draw the plan, and say where; or say what is missing."""
    from oort.plots.plans import draw_plan

    try:
        draw_plan(plan, path)
    except (MissingExtraError, OSError) as error:
        return f"no picture: {error}"
    return f"picture: {path}"
