"""What runs of the simulator look like: accuracy over time and rounds, durations, participation.

A strategy is a colour; the line is the mean over seeds, the band reaches from the lowest to the
highest seed.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from oort.errors import missing_extra
from oort.simulation.report import Curve, by_strategy, time_to
from oort.types import Floats

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")
LINES = ("-", "--", ":")
GRID_POINTS = 400
SMOOTHED_ROUNDS = 9

Draw = Callable[[Any, Sequence[Curve], float | None], None]


def time_to_accuracy(axes: Any, curves: Sequence[Curve], target: float | None = None) -> None:
    """Accuracy over simulated hours, with the moment at which the target is reached."""
    _over(axes, curves, "accuracy", lambda c, name: c.tested(name)[1:], scale=1 / 3600)
    _mark_target(axes, curves, target, place=0, form="{:.3g} h")
    axes.set(title="Time to accuracy", xlabel="simulated hours", ylabel="test accuracy")


def rounds_to_accuracy(axes: Any, curves: Sequence[Curve], target: float | None = None) -> None:
    """Accuracy over rounds, with the round in which the target is reached."""
    _over(axes, curves, "accuracy", lambda c, name: c.tested(name)[::2])
    _mark_target(axes, curves, target, place=1, form="{:.0f} rounds")
    axes.set(title="Rounds to accuracy", xlabel="round", ylabel="test accuracy")
    axes.xaxis.get_major_locator().set_params(integer=True)


def round_duration(axes: Any, curves: Sequence[Curve], target: float | None = None) -> None:
    """How long rounds take, as a moving mean."""
    _over(axes, curves, "duration_s", _smoothed)
    axes.set(title="Round duration", xlabel="round", ylabel="seconds (moving mean)")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylim(bottom=0)


def worst_decile(axes: Any, curves: Sequence[Curve], target: float | None = None) -> None:
    """Accuracy on the data of the tenth of the tested clients where it is lowest."""
    if all(len(c.tested("worst_decile")[2]) == 0 for c in curves):
        axes.text(0.5, 0.5, "not measured:\nset evaluation.clients", ha="center", va="center")
        axes.set(title="Worst decile of clients", xticks=[], yticks=[])
        return
    _over(axes, curves, "worst_decile", lambda c, name: c.tested(name)[1:], scale=1 / 3600)
    axes.set(title="Worst decile of clients", xlabel="simulated hours", ylabel="mean accuracy")


def participation(axes: Any, curves: Sequence[Curve], target: float | None = None) -> None:
    """How often clients' updates were used, the busiest client first, in equally many rounds."""
    rounds = min(len(c.records) for c in curves)
    for name, style, some in _by_strategy(curves):
        counts = [_sorted_counts(c, rounds) for c in some]
        reached = np.mean([np.count_nonzero(c) for c in counts])
        mean = np.zeros(max(map(len, counts)))
        for one in counts:
            mean[: len(one)] += one / len(counts)
        mean = mean[: np.count_nonzero(mean) + 1]
        axes.plot(
            np.arange(1, len(mean) + 1), mean, label=f"{name}: {reached:,.0f} clients", **style
        )
    axes.set(
        title=f"Participation in the first {rounds} rounds",
        xlabel="clients, busiest first",
        ylabel="updates used",
        xscale="log",
    )
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.get_major_locator().set_params(integer=True)


def client_seconds(axes: Any, curves: Sequence[Curve], target: float | None = None) -> None:
    """Accuracy over the hours that all clients together have spent, for used updates or not."""
    _over(axes, curves, "used_s", _spent)
    axes.set(title="What it costs clients", xlabel="client-hours spent", ylabel="test accuracy")


PANELS: dict[str, Draw] = {
    "time-to-accuracy": time_to_accuracy,
    "rounds-to-accuracy": rounds_to_accuracy,
    "round-duration": round_duration,
    "participation": participation,
    "worst-decile": worst_decile,
    "client-hours": client_seconds,
}


def draw(curves: Sequence[Curve], target: float | None, *panels: str) -> Any:
    """A figure with these panels side by side, three to a row; all of them by default.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        missing_extra("oort.plots", "matplotlib", "plots")
    names = panels or tuple(PANELS)
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(5.2 * columns, 3.9 * rows), layout="constrained")
    for axes, name in zip(figure.subplots(rows, columns, squeeze=False).flat, names, strict=False):
        PANELS[name](axes, curves, target)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9)
    return figure


def save(
    curves: Sequence[Curve], target: float | None, path: str | os.PathLike[str], *panels: str
) -> None:
    """Save such a figure; the ending of the path says in which format."""
    draw(curves, target, *panels).savefig(path, dpi=120)


def as_svg(curves: Sequence[Curve], target: float | None, panel: str) -> str:
    """One panel as SVG, for a page that needs no other file; the same curves, the same text."""
    import matplotlib as mpl

    stream = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": panel, "svg.fonttype": "none"}):
        draw(curves, target, panel).savefig(stream, format="svg", metadata={"Date": None})
    text = stream.getvalue()
    return text[text.index("<svg") :]


def _over(
    axes: Any,
    curves: Sequence[Curve],
    column: str,
    points: Callable[[Curve, str], tuple[Floats, Floats]],
    *,
    scale: float = 1.0,
) -> None:
    """A line per strategy: mean over seeds on the stretch that all of its seeds cover."""
    for name, style, some in _by_strategy(curves):
        lines = [points(c, column) for c in some]
        lines = [(x * scale, y) for x, y in lines if len(x)]
        if not lines:
            continue
        begin, end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
        if (
            begin > end
        ):  # a seed that has hardly begun: the one that has come furthest stands alone
            lines = [max(lines, key=lambda line: float(line[0][-1]))]
            begin, end = lines[0][0][0], lines[0][0][-1]
        grid = np.linspace(begin, end, GRID_POINTS)
        values = np.array([np.interp(grid, x, y) for x, y in lines])
        dot = "o" if begin == end else ""
        axes.plot(grid, values.mean(axis=0), label=name, marker=dot, **style)
        if len(lines) > 1:
            low, high = values.min(axis=0), values.max(axis=0)
            axes.fill_between(grid, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _mark_target(
    axes: Any, curves: Sequence[Curve], target: float | None, *, place: int, form: str
) -> None:
    """A line at the target, and where strategies reach it (mean over seeds), also in words."""
    if target is None:
        return
    lines = {line.get_label(): line for line in axes.lines}
    axes.axhline(target, color="0.4", linewidth=0.8, linestyle="--")
    for name, style, some in _by_strategy(curves):
        when = np.array([time_to(c, target)[place] for c in some])
        there = np.isfinite(when)
        if there.all():
            axes.plot([when.mean()], [target], "o", color=style["color"], zorder=5)
            reached = form.format(when.mean())
        else:
            reached = f"in {there.sum()} of {len(some)} seeds" if there.any() else "never"
        if name in lines:
            lines[name].set_label(f"{name}: {target:.1%} {_after(there.all(), reached)}")


def _after(everywhere: bool, reached: str) -> str:
    return f"after {reached}" if everywhere else reached


def _by_strategy(curves: Sequence[Curve]) -> list[tuple[str, dict[str, str], list[Curve]]]:
    """Each strategy's name as a legend shows it, its look and its curves.

    Where colours run out, lines of the next ones are broken.
    """
    groups = enumerate(by_strategy(curves).items())
    return [(_shown(name), _style(i), some) for i, (name, some) in groups]


def _shown(name: str) -> str:
    """A name free of what matplotlib takes for formulas, and for lines to leave out of legends.

    >>> _shown("_mine"), _shown("oort")
    (' _mine', 'oort')
    """
    return f"{' ' if name.startswith('_') else ''}{name}".replace("$", r"\$")


def _style(place: int) -> dict[str, str]:
    again, colour = divmod(place, len(COLOURS))
    return {"color": COLOURS[colour], "linestyle": LINES[again % len(LINES)]}


def _smoothed(curve: Curve, column: str) -> tuple[Floats, Floats]:
    """Rounds, and a centred moving mean of a column: single rounds jump too much to be read."""
    values = curve.column(column)
    kernel = np.ones(min(SMOOTHED_ROUNDS, len(values)))
    weight = np.convolve(np.ones(len(values)), kernel, mode="same")
    return curve.column("round"), np.convolve(values, kernel, mode="same") / weight


def _spent(curve: Curve, _column: str) -> tuple[Floats, Floats]:
    """Client-hours spent, used or not, and accuracy at that point."""
    accuracy = curve.column("accuracy")
    spent = np.cumsum(curve.column("used_s") + curve.column("wasted_s")) / 3600.0
    there = np.isfinite(accuracy)
    return spent[there], accuracy[there]


def _sorted_counts(curve: Curve, rounds: int) -> Floats:
    used = [
        p.client for p in curve.participations if p.outcome == "completed" and p.round <= rounds
    ]
    counts = np.sort(np.unique(np.array(used, np.int64), return_counts=True)[1])[::-1]
    beyond = np.zeros(min(1, curve.num_clients - len(counts)))  # the first who was never used
    return np.concatenate([counts, beyond])
