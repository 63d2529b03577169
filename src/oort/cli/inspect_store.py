"""``oort inspect URL``: the jobs of a store, whether it is sound, and its repair."""

from __future__ import annotations

import argparse
from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from oort.cli import inspect as files
from oort.store.inspection import JobReport, StoreReport, inspect
from oort.store.recovery import Replayed
from oort.store.repair import repair
from oort.store.testing import ReplayedTesting
from oort.training.bookkeeping import BookkeepingSelector


def run(options: argparse.Namespace) -> int:
    """Repair if asked to, then show; 1 if something is damaged."""
    console = Console()
    if options.repair:
        _repair(console, options.file, options.job)
    report = inspect(options.file, options.job)
    where = f"{escape(report.url)}: schema version {report.version}, {report.bytes:,} bytes"
    console.print(where, highlight=False, soft_wrap=True)
    console.print(_jobs(report))
    if options.job is not None:
        for job in report.jobs:
            console.print(_job(job))
            if isinstance(job.selector, BookkeepingSelector):
                files.show_clients(console, job.selector, options.clients)
    _verdict(console, report)
    return 0 if report.is_sound else 1


def _repair(console: Console, url: str, job: str | None) -> None:
    repaired, aside = repair(url, job)
    if aside is not None:
        told = f"The damaged file is now {aside}; what could be read of it was copied."
        console.print(escape(told), highlight=False, soft_wrap=True)
    for each in repaired:
        name = escape(repr(each.job))
        if not each.lost:
            console.print(f"Job {name}: nothing to repair.")
            continue
        console.print(f"Job {name} goes on from round {each.round_number}. Lost:")
        for line in each.lost:
            console.print(f"  {escape(line)}", highlight=False)


def _jobs(report: StoreReport) -> Table:
    table = Table()
    headings = ("job", "round or plan", "clients", "journal", "snapshots", "driven by", "sound")
    for heading in headings:
        left = heading in ("job", "driven by", "sound")
        table.add_column(heading, justify="left" if left else "right")
    for job in report.jobs:
        table.add_row(
            escape(job.job.name),
            f"{job.selector.round_number:,}",
            f"{job.selector.num_clients:,}",
            f"{job.entries:,} entries, {job.journal_bytes:,} bytes",
            f"{len(job.snapshots)}, {job.snapshot_bytes:,} bytes" if job.snapshots else "none",
            job.driver or "nobody",
            "no" if job.damage else "with a flaw" if job.problems else "yes",
        )
    return table


def _job(job: JobReport) -> Table:
    table = Table(title=escape(job.job.name), show_header=False)
    for name, value in _facts(job):
        table.add_row(name, value)
    table.add_row("last good entry", f"{job.sequence:,}")
    for snapshot in job.snapshots:
        size = f"{snapshot.chunks} chunks, {snapshot.bytes:,} bytes"
        table.add_row("snapshot", f"after entry {snapshot.sequence:,}: {size}")
    for kind, count in Counter(kind for kind, _ in job.records).items():
        table.add_row("stored", f"{count:,} of kind '{escape(kind)}'")
    table.add_row("settings", escape(job.job.settings))
    return table


def _facts(job: JobReport) -> list[tuple[str, str]]:
    selector = job.selector
    if isinstance(selector, BookkeepingSelector):
        return files.facts(selector)
    return [
        ("kind", "testing selector"),
        ("clients", f"{selector.num_clients:,}"),
        ("clients with information", f"{selector.information.num_clients:,}"),
        ("categories", f"{len(selector.information.categories):,}"),
        ("plans", f"{selector.round_number:,}"),
    ]


def standing(selector: Replayed | ReplayedTesting) -> str:
    """How far a job has come, in a few words."""
    is_training = isinstance(selector, BookkeepingSelector)
    far = "round {:,}" if is_training else "{:,} plans"
    return f"{far.format(selector.round_number)}, {selector.num_clients:,} clients"


def _verdict(console: Console, report: StoreReport) -> None:
    if report.is_sound:
        console.print("Every byte that was read is as it was written.")
        return
    for line in report.damage:
        console.print(f"The database is damaged: {escape(line)}", highlight=False)
    for job in report.jobs:
        name = escape(repr(job.job.name))
        for line in job.problems:
            console.print(f"Job {name}: {escape(line)}; nothing is lost.", highlight=False)
        if job.damage:
            intact = f"intact up to entry {job.sequence}, round {job.selector.round_number}"
            console.print(f"Job {name}: {escape(job.damage)}; {intact}.", highlight=False)
    console.print("To cut off what is damaged and go on: add --repair.")
