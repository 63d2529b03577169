"""``oort simulate``: an experiment from a TOML file, into a folder that it can go on from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
from oort.errors import ConfigError, MissingDataError, OortError, SaveFileError
from oort.simulation import load, read_runs
from oort.simulation import run as run_experiment
from oort.simulation.config import SECTIONS, SimulationConfig, StrategyConfig
from oort.simulation.experiment import check
from oort.simulation.settings import Settings
from oort.simulation.store import CONFIG, RunFolder

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
    if (options.config is None) == (options.resume is None):
        message = "oort simulate must be given a config or --resume RUN, one of the two"
        raise ConfigError(message)
    if options.resume is not None and options.into is not None:
        message = "--into must be left out with --resume, which goes on in the folder of the run"
        raise ConfigError(message)
    with _naming(options.config or options.resume / CONFIG):
        return _simulated(options, console)


def _simulated(options: argparse.Namespace, console: Console) -> int:
    """Run what was asked for; says how it went."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)  # models and strategies of one's own, beside which it is called
    config, into = _asked(options)
    if options.check:
        checked = options.config or options.resume / CONFIG
        console.print(f"{escape(str(checked))}: fine; {count_of(config)} runs")
        return 0
    try:
        with stopping_at_a_round(console) as stop, Bars(config, console) as bars:
            complete = run_experiment(config, into, progress=bars, stop=stop)
    except MemoryError as error:
        message = f"data, clients and model must fit into memory; got {error}"
        raise ConfigError(message) from error
    except OortError:
        raise
    except OSError as error:
        message = (
            f"{into} must hold the files of the run and have room for more; got {error}; once it "
            f"does, go on with: oort simulate --resume {into}"
        )
        raise SaveFileError(message) from error
    curves = read_runs([into])
    console.print(table(curves, target_of(config, curves)))
    warn_of_divergence(curves, console)
    if not complete:
        console.print(f"stopped; to go on: oort simulate --resume {escape(str(into))}")
        return INTERRUPTED
    console.print(f"pictures and a page: oort report {escape(str(into))}")
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
    if options.resume is not None:
        config, into = RunFolder.config_of(options.resume), options.resume
    else:
        config = load(options.config)
        into = options.into or Path("runs") / config.name
    check(config)
    return config, into


@contextmanager
def _naming(file: Path) -> Iterator[None]:
    """Errors about settings begin with the file that holds them."""
    try:
        yield
    except (ConfigError, MissingDataError) as error:
        if str(error).startswith(str(file)):
            raise
        message = f"{file}: {error}"
        raise type(error)(message) from error
