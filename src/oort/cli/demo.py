"""``oort demo``: a real model on real images across simulated phones, Oort beside random."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from oort.cli.watching import Bars, stopping_at_a_round, table, target_of
from oort.plots.histories import PANELS, save
from oort.plots.page import page
from oort.simulation import demo
from oort.simulation.store import CONFIG

INTRODUCTION = (
    "A neural network learns scikit-learn's 8×8 digits (1,347 to train on, 450 to test) across "
    "14,477 simulated phones. Their speed and bandwidth are drawn from the figures of 51,496 real "
    "phones, their numbers of samples from OpenImage's clients; each holds few of the ten digits, "
    "and images are shared. A round selects 65 phones and waits for the first 50. Time is "
    "simulated, training is real. Selectors get noisy hints of phones' speed; without them, or "
    "with fewer phones, Oort gains less (docs/simulator.md). Seeds: {seeds}.\n"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="one run for each")
    parser.add_argument("--out", type=Path, default=Path("oort-demo"), help="folder for results")


def run(options: argparse.Namespace) -> int:
    """Train with both strategies, show a table, save the picture and the page."""
    seeds = tuple(options.seeds)
    config = demo.config(seeds=seeds)
    console = Console()
    console.print(INTRODUCTION.format(seeds=", ".join(map(str, seeds))))
    began = time.perf_counter()
    into = options.out / f"seeds-{'-'.join(map(str, seeds))}"
    with stopping_at_a_round(console) as stop, Bars(config, console) as bars:
        curves = demo.play(into, seeds=seeds, progress=bars, stop=stop)
    target = target_of(config, curves)
    with console.status("drawing ..."):
        picture, about = options.out / "time-to-accuracy.png", options.out / "index.html"
        save(curves, target, picture, "time-to-accuracy", "round-duration", "worst-decile")
        settings = [("the demo", (into / CONFIG).read_text(encoding="utf-8"))]
        title = "Oort beside random selection"
        about.write_text(page(curves, target, title=title, settings=settings), encoding="utf-8")
    console.print(table(curves, target))
    console.print(escape(f"picture: {picture}\npage with {len(PANELS)} pictures: {about}"))
    console.print(f"{time.perf_counter() - began:.0f} s of real time")
    return 0 if all(curve.complete for curve in curves) else 130
