"""``oort report``: pictures of runs, and a page that opens offline."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from oort.cli.watching import table, target_of
from oort.errors import require
from oort.plots.histories import PANELS, save
from oort.plots.page import page
from oort.simulation import read_runs
from oort.simulation.store import CONFIG, RunFolder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run")
    parser.add_argument("--target", type=float, help="accuracy whose time is compared")
    parser.add_argument("--out", type=Path, help="folder for the report (default RUN/report)")


def run(options: argparse.Namespace) -> int:
    """Read the runs, draw, write the page."""
    curves = read_runs(options.runs)
    config = RunFolder.config_of(options.runs[0])
    target = target_of(config, curves) if options.target is None else options.target
    require(0.0 <= target <= 1.0, "--target", "a number from 0 to 1", target)
    out = options.out or options.runs[0] / "report"
    out.mkdir(parents=True, exist_ok=True)
    console = Console()
    with console.status("drawing ..."):
        for name in PANELS:
            save(curves, target, out / f"{name}.png", name)
        settings = [(str(p), (p / CONFIG).read_text(encoding="utf-8")) for p in options.runs]
        title = " and ".join(dict.fromkeys(curve.run for curve in curves))
        text = page(curves, target, title=f"Simulation: {title}", settings=settings)
        (out / "index.html").write_text(text, encoding="utf-8")
    console.print(table(curves, target))
    console.print(f"page: {escape(str(out / 'index.html'))}")
    return 0
