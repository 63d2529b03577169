"""How many participants a deviation target takes, and what draws of that size really do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oort.errors import missing_extra

#: one colour and dash per bound, the same in every picture (colour-blind safe, after Okabe & Ito)
STYLES: dict[str, tuple[str, str]] = {
    "paper": ("#999999", "--"),
    "serfling": ("#000000", "-"),
    "kl": ("#E69F00", "-"),
    "bennett": ("#0072B2", "-"),
    "bernstein-serfling": ("#009E73", "-"),
    "empirical-bernstein-serfling": ("#CC79A7", "-."),
    "l1-subsets": ("#D55E00", "-"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Deviations over many draws of the same size: one entry per size."""

    title: str
    participants: Sequence[int]
    lowest: Sequence[float]
    median: Sequence[float]
    highest: Sequence[float]
    planned: Mapping[str, tuple[Sequence[float], Sequence[int]]]  #: bound → targets, participants
    axis: str = "deviation"


def draw_sizes(
    curves: Mapping[str, tuple[Sequence[float], Sequence[int]]],
    path: str | os.PathLike[str],
    *,
    target: float,
    chosen: tuple[str, int],
    axis: str,
    num_clients: int,
) -> None:
    """Save a picture of participants needed against the target, one line per bound.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    figure = _figure((8, 5))
    axes = figure.subplots()
    for name, (targets, participants) in curves.items():
        colour, dash = style(name)
        axes.plot(targets, participants, dash, color=colour, label=name, linewidth=1.8)
    axes.axhline(num_clients, color="#bbbbbb", linewidth=1)
    axes.text(
        0.99, num_clients * 0.93, "all clients", transform=axes.get_yaxis_transform(),
        ha="right", va="top", color="#888888", fontsize=9,
    )  # fmt: skip
    axes.plot([target], [chosen[1]], "o", color=style(chosen[0])[0], markersize=8, zorder=5)
    axes.annotate(
        f"{chosen[1]:,} participants\n({chosen[0]})", (target, chosen[1]), (12, 10),
        textcoords="offset points", fontsize=10, zorder=6,
        bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "#cccccc", "alpha": 0.9},
    )  # fmt: skip
    axes.set(xscale="log", yscale="log", xlabel=axis, ylabel="participants needed")
    axes.set_title("Participants that a target takes, by bound", loc="left")
    axes.set_ylim(bottom=0.8, top=num_clients * 1.6)
    _plain_numbers(axes)
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False, fontsize=9, loc="lower left")
    figure.savefig(path, dpi=120)


def draw_spreads(spreads: Sequence[Spread], path: str | os.PathLike[str]) -> None:
    """Save one panel per population: deviation of draws against their size, and the bounds.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    columns = min(len(spreads), 2)
    rows = -(-len(spreads) // columns)
    figure = _figure((6.6 * columns, 4.3 * rows))
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, spread in zip(panels, spreads, strict=False):
        axes.fill_between(
            spread.participants, spread.lowest, spread.highest, color="#56B4E9", alpha=0.35,
            label="draws, smallest to largest", linewidth=0,
        )  # fmt: skip
        axes.plot(spread.participants, spread.median, color="#7A5195", label="draws, median")
        for name, (targets, participants) in spread.planned.items():
            colour, dash = style(name)
            axes.plot(participants, targets, dash, color=colour, label=name, linewidth=1.6)
        axes.set(xscale="log", yscale="log", title=spread.title)
        axes.set(xlabel="participants", ylabel=spread.axis)
        # Single draws come arbitrarily close to 0; what matters is how far the others are.
        axes.set_ylim(bottom=min(v for v in spread.median if v > 0) / 4)
        _plain_numbers(axes)
        axes.grid(alpha=0.3, which="both")
        axes.legend(frameon=False, fontsize=8)
    for axes in panels[len(spreads) :]:
        axes.set_visible(False)
    figure.savefig(path, dpi=120)


def style(name: str) -> tuple[str, str]:
    """Colour and dash of a bound; a take-all stratum dots the line.

    >>> style("take-all+bennett")
    ('#0072B2', ':')
    """
    bound = name.removeprefix("take-all+")
    colour, dash = STYLES.get(bound, ("#444444", "-"))
    return colour, ":" if bound != name else dash


def _figure(size: tuple[float, float]) -> Any:
    """An empty figure that no window system needs to know of."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        missing_extra("oort.plots", "matplotlib", "plots")
    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _plain_numbers(axes: Any) -> None:
    """Write 1,000 and 0.05, not powers of ten."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}")
        )
        axis.set_minor_formatter(NullFormatter())
