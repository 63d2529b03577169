"""``oort simulate``: an experiment from a TOML file, into a folder that it can go on from."""

from __future__ import annotations

import argparse
from dataclasses import MISSING, fields
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from oort.cli.watching import (
    Bars,
    count_of,
    stopping_at_a_round,
    table,
    target_of,
    warn_of_divergence,
)
from oort.errors import ConfigError
from oort.simulation import load, read_runs
from oort.simulation import run as run_experiment
from oort.simulation.config import SECTIONS, SimulationConfig, StrategyConfig
from oort.simulation.experiment import check
from oort.simulation.settings import Settings
from oort.simulation.store import RunFolder

INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "config", type=Path, nargs="?", help="TOML file that says what to simulate"
    )
    parser.add_argument("--into", type=Path, help="folder of the run (default runs/NAME)")
    parser.add_argument(
        "--resume", type=Path, metavar="RUN", help="go on with the run in a folder"
    )
    parser.add_argument("--check", action="store_true", help="only check the settings")
    parser.add_argument("--settings", action="store_true", help="list every setting there is")


def run(options: argparse.Namespace) -> int:
    """Run the experiment, or go on with it; the same folder twice goes on, too."""
    console = Console()
    if options.settings:
        console.print(_reference())
        return 0
    config, into = _asked(options)
    if options.check:
        console.print(f"{options.config}: fine; {count_of(config)} runs")
        return 0
    try:
        with stopping_at_a_round(console) as stop, Bars(config, console) as bars:
            complete = run_experiment(config, into, progress=bars, stop=stop)
    except MemoryError as error:
        message = f"data, clients and model must fit into memory; got {error}"
        raise ConfigError(message) from error
    curves = read_runs([into])
    console.print(table(curves, target_of(config, curves)))
    warn_of_divergence(curves, console)
    if not complete:
        console.print(f"stopped; to go on: oort simulate --resume {into}")
        return INTERRUPTED
    console.print(f"pictures and a page: oort report {into}")
    return 0


def _reference() -> Table:
    """Every key of a config file, with its default, what is allowed and what it means."""
    listed = Table("key", "default", "allowed", "meaning", show_lines=False)
    kinds: tuple[type[Settings], ...] = (SimulationConfig, *SECTIONS.values(), StrategyConfig)
    for kind in kinds:
        for f in fields(kind):
            if "rule" not in f.metadata:
                continue
            default = {} if f.default is MISSING else f.default
            shown = "" if default is None else escape(str(default))
            about = (escape(f.metadata["rule"].allowed), escape(f.metadata["doc"]))
            listed.add_row(kind.key(f.name), shown, *about)
    return listed


def _asked(options: argparse.Namespace) -> tuple[SimulationConfig, Path]:
    if (options.config is None) == (options.resume is None):
        message = "oort simulate must be given a config or --resume RUN, one of the two"
        raise ConfigError(message)
    if options.resume is not None:
        return RunFolder.config_of(options.resume), options.resume
    config = load(options.config)
    try:
        check(config)
    except ConfigError as error:
        message = f"{options.config}: {error}"
        raise ConfigError(message) from error
    return config, options.into or Path("runs") / config.name
