"""``oort inspect FILE`` or ``URL``: what a saved selector or a store holds."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from oort import savefile
from oort.baselines import RoundRobinSelector, UniformSelector
from oort.cli import inspect_store
from oort.clients.columns import EXPLORED, PRESENT, SCHEMA
from oort.errors import InvalidArgumentError, SaveFileError
from oort.store.database import is_url
from oort.training.bookkeeping import BookkeepingSelector
from oort.training.selector import GuidedSelector
from oort.types import ClientColumns, Mask

_STRATEGIES: dict[str, type[BookkeepingSelector]] = {
    kind.strategy: kind for kind in (GuidedSelector, UniformSelector, RoundRobinSelector)
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "file",
        metavar="FILE|URL",
        help="a file that selector.save(...) wrote, or a store: sqlite:///FILE, postgresql://…",
    )
    parser.add_argument("--job", help="of a store: only this job, in detail")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="of a store: cut what is damaged off the end, and say what was lost",
    )
    parser.add_argument("--clients", type=int, default=10, help="how many to list (default 10)")


def run(options: argparse.Namespace) -> int:
    """Show the state of the job and its most useful clients."""
    if _is_sqlite(options.file):
        options.file = f"sqlite:///{options.file}"
    if is_url(options.file):
        return inspect_store.run(options)
    if options.job or options.repair:
        message = f"--job and --repair are for stores; {options.file} is a file"
        raise InvalidArgumentError(message)
    path = Path(options.file)
    selector = _load(path)
    console = Console()
    console.print(_summary(path, selector))
    show_clients(console, selector, options.clients)
    return 0


def show_clients(console: Console, selector: BookkeepingSelector, count: int) -> None:
    """What is known of clients, and the most useful of them."""
    columns = selector.columns()
    if len(columns):
        console.print(_distribution(columns, _explored(selector)))
        console.print(_clients(selector, columns, count))


def _load(path: Path) -> BookkeepingSelector:
    meta, _ = savefile.read(path)
    strategy = _STRATEGIES.get(str(meta.get("strategy")))
    if strategy is None:
        held = meta.get("strategy", meta.get("what", "nothing"))
        message = f"{path} holds {held!r}, which can be looked at in a store: oort import it"
        raise SaveFileError(message)
    return strategy.load(path)


def _is_sqlite(name: str) -> bool:
    """Whether this is the name of a SQLite file: a store, given without its scheme."""
    try:
        with Path(name).open("rb") as file:
            return file.read(15) == b"SQLite format 3"
    except (OSError, ValueError):
        return False


def _summary(path: Path, selector: BookkeepingSelector) -> Table:
    table = Table(title=escape(str(path)), show_header=False)
    for name, value in facts(selector):
        table.add_row(name, value)
    table.add_row("size", f"{path.stat().st_size:,} bytes")
    return table


def facts(selector: BookkeepingSelector) -> list[tuple[str, str]]:
    """Where a selector stands, in a few lines."""
    columns = selector.columns()
    tried = columns.participations > 0
    heard = (columns.last_round > 0) | _explored(selector)
    return [
        ("strategy", f"{selector.strategy}, mode {selector.mode}, seed {selector.config.seed}"),
        ("round", f"{selector.round_number:,}"),
        ("clients", f"{selector.num_clients:,} ({selector.num_rows:,} rows)"),
        ("tried", f"{np.count_nonzero(tried):,}"),
        ("heard of", f"{np.count_nonzero(heard):,}"),
        ("picks in all", f"{int(columns.participations.sum(dtype=np.int64)):,}"),
    ]


def _explored(selector: BookkeepingSelector) -> Mask:
    """Which of the present clients have a utility."""
    flags = selector._table.flags
    return np.asarray((flags[(flags & PRESENT) != 0] & EXPLORED) != 0)


def _distribution(columns: ClientColumns, explored: Mask) -> Table:
    table = Table(title="What is known of clients")
    for heading in ("column", "unit", "known", "lowest", "median", "95 %", "highest"):
        table.add_column(heading, justify="left" if heading in ("column", "unit") else "right")
    units = {column.name: column.unit for column in SCHEMA}
    known = {
        "utility": explored,
        "duration_s": ~np.isnan(columns.duration_s),
        "num_samples": columns.num_samples > 0,
        "participations": np.ones(len(columns), np.bool_),
        "last_round": columns.last_round > 0,
    }
    for name, there in known.items():
        values = getattr(columns, name)[there]
        shown = np.quantile(values, [0, 0.5, 0.95, 1]).tolist() if values.size else []
        cells = [f"{v:,.1f}".removesuffix(".0") for v in shown] or ["–"] * 4
        table.add_row(name, units[name], f"{values.size:,}", *cells)
    return table


def _clients(selector: BookkeepingSelector, columns: ClientColumns, count: int) -> Table:
    best = np.argsort(-columns.utility, kind="stable")[: max(0, count)]
    ids = selector.client_ids()
    table = Table(title=f"The {best.size} clients of the highest utility")
    for heading in ("client", "utility", "duration s", "samples", "picked", "last round"):
        table.add_column(heading, justify="right")
    for place in best.tolist():
        duration_s = float(columns.duration_s[place])
        table.add_row(
            escape(repr(ids[place])[:40]),
            f"{columns.utility[place]:,.2f}",
            "–" if np.isnan(duration_s) else f"{duration_s:,.1f}",
            f"{columns.num_samples[place]:,}",
            f"{columns.participations[place]:,}",
            f"{columns.last_round[place]:,}",
        )
    return table
