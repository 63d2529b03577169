"""``oort demo``: the loop of a training job, Oort beside random selection."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import oort
from oort.baselines import UniformSelector
from oort.cli.falling_losses import Population, Record, play, reached
from oort.plots.rounds import draw_rounds
from oort.training.bookkeeping import BookkeepingSelector


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--clients", type=int, default=10_000, help="how many (default 10,000)")
    parser.add_argument("--rounds", type=int, default=300, help="how many to play (default 300)")
    parser.add_argument("--participants", type=int, default=100, help="per round (default 100)")
    parser.add_argument("--seed", type=int, default=1, help="of the population and the selectors")
    parser.add_argument("--out", type=Path, default=Path("oort-demo"), help="folder for results")


def run(options: argparse.Namespace) -> int:
    """Play both strategies, show a table, save a picture and the selector."""
    for name in ("clients", "rounds", "participants"):
        if getattr(options, name) < 1:
            message = f"--{name} must be 1 or more; got {getattr(options, name)}"
            raise oort.InvalidArgumentError(message)
    options.out.mkdir(parents=True, exist_ok=True)
    console = Console()
    console.print(
        f"{options.clients:,} clients with uneven data on uneven devices (generated, seed "
        f"{options.seed}); {options.participants} train in each of {options.rounds} rounds.\n"
        "No model is trained here: losses fall by a simple rule, described in "
        "oort/cli/falling_losses.py."
    )
    population = Population.generate(options.clients, options.seed)
    config = oort.TrainingConfig(seed=options.seed)
    guided = oort.create_training_selector(config)
    strategies: dict[str, BookkeepingSelector] = {
        "random": UniformSelector(config),
        "Oort": guided,
    }
    played = _play_all(strategies, population, options, console)

    target = played["random"].mean_loss[-1]
    console.print(_table(played, target))
    picture, saved = options.out / "rounds.png", options.out / "selector.oort"
    draw_rounds(played, picture)
    guided.save(saved)
    console.print(f"picture: {picture}")
    console.print(f"what the selector learned: oort inspect {saved}")
    return 0


def _play_all(
    strategies: dict[str, BookkeepingSelector],
    population: Population,
    options: argparse.Namespace,
    console: Console,
) -> dict[str, Record]:
    played: dict[str, Record] = {}
    with Progress(console=console) as progress:
        for name, selector in strategies.items():
            game = play(
                selector,
                population,
                rounds=options.rounds,
                wanted=options.participants,
                seed=options.seed,
            )
            task = progress.add_task(f"{name:>8}", total=options.rounds)
            for record in game:
                played[name] = record
                progress.advance(task)
    return played


def _table(played: dict[str, Record], target: float) -> Table:
    table = Table(title=f"Until the mean loss is {target:.3f}, where random selection ends")
    for heading in (
        "",
        "rounds",
        "hours",
        "mean round",
        "mean utility",
        "times sooner",
    ):
        table.add_column(heading, justify="right")
    slowest = reached(played["random"], target)
    for name, record in played.items():
        got = reached(record, target)
        rounds, clock_s = got if got else (len(record.clock_s), float("nan"))
        sooner = slowest[1] / clock_s if slowest else float("nan")
        table.add_row(
            name,
            f"{rounds:,}" if got else "not reached",
            f"{clock_s / 3600:.1f}" if got else "–",
            f"{np.mean(record.duration_s[:rounds]):.0f} s",
            f"{np.mean(record.utility[:rounds]):.1f}",
            f"{sooner:.1f}×" if got else "–",
        )
    return table
