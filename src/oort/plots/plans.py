"""Test plans as pictures: who takes how long, and how planners compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np

from oort.errors import missing_extra
from oort.testing.category.plan import TestPlan

_TRANSFER, _WORK, _LAST = "#9ecae1", "#3182bd", "#d62728"
_COLOURS = {"oort": "#3182bd", "paper": "#fd8d3c", "milp": "#756bb1"}
_NAMES = {"oort": "Oort", "paper": "paper's greedy + MILP", "milp": "straw-man MILP"}
_BUDGETS = {
    "none": "no budget",
    "half": "half the participants",
    "tenth": "a tenth of the participants",
}
_BARS = 400
_NAMED = 24  # participants up to which each is named


def draw_plan(plan: TestPlan, path: str | PathLike[str]) -> None:
    """Draw the duration of every participant, slowest first, with the bottleneck marked.

    Of more than 400 participants as many are drawn, evenly spread over the order.
    """
    order = np.argsort(-plan.client_duration_s, kind="stable")
    if len(order) > _BARS:
        order = order[np.linspace(0, len(order) - 1, _BARS).round().astype(int)]
    place = np.arange(len(order))
    transfer, total = plan.client_transfer_s[order], plan.client_duration_s[order]
    figure = _figure(8, 4)
    axes = figure.subplots()
    axes.bar(place, transfer, width=1.0, color=_TRANSFER, label="transfer")
    axes.bar(place, total - transfer, width=1.0, bottom=transfer, color=_WORK, label="testing")
    axes.bar(0, total[0], width=1.0, fill=False, edgecolor=_LAST, linewidth=1.5)
    axes.annotate(
        f"bottleneck: {_short(plan.bottleneck)}",
        (0, total[0]),
        xytext=(14, 10),
        textcoords="offset points",
        color=_LAST,
        arrowprops={"arrowstyle": "-", "color": _LAST},
        parse_math=False,
    )
    if plan.lower_bound_s > 0.0:
        said = "optimum" if plan.optimal else f"no plan is faster ({plan.gap:.2%} below)"
        axes.axhline(plan.lower_bound_s, color="black", linestyle="--", linewidth=0.8, label=said)
    axes.set_xlim(-0.5 - 0.01 * len(order), len(order) - 0.5)
    axes.set_ylim(0, 1.3 * plan.duration_s)
    if len(order) <= _NAMED:
        names = [_short(plan.participants[n]) for n in order.tolist()]
        axes.set_xticks(place, names, rotation=45, ha="right", parse_math=False)
    else:
        axes.set_xticks([])
    shown = "" if len(order) == len(plan) else f" ({len(order)} of {len(plan):,} shown)"
    axes.set_xlabel(f"participants, slowest first{shown}")
    axes.set_ylabel("seconds")
    total_samples = int(plan.samples.sum())
    axes.set_title(
        f"{total_samples:,} samples from {len(plan):,} participants in {plan.duration_s:.4g} s"
    )
    axes.legend(loc="upper right", frameon=False, ncols=3)
    figure.savefig(path, dpi=150)


def _short(client: object) -> str:
    """An id as it fits into a picture."""
    text = str(client)
    return text if len(text) <= 24 else f"{text[:23]}…"


def draw_comparison(
    queries: Mapping[str, Sequence[Mapping[str, Any]]], path: str | PathLike[str], *, title: str
) -> None:
    """Draw the distribution of end-to-end times and of solver times, method beside method.

    Args:
        queries: For each method the answered queries, each with ``solver_s`` and ``end_to_end_s``.
        path: Where the picture goes.
        title: What the queries were.
    """
    figure = _figure(9, 3.8)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, key, label in (
        (panels[0], "end_to_end_s", "solver + test, seconds"),
        (panels[1], "solver_s", "solver alone, seconds"),
    ):
        for method, answered in queries.items():
            if not answered:
                continue
            values = np.sort([q[key] for q in answered])
            share = np.arange(1, len(values) + 1) / len(values)
            name = f"{_NAMES[method]} ({len(values)} queries)"
            axes.step(values, share, where="post", color=_COLOURS[method], label=name)
        axes.set_xscale("log")
        axes.set_xlabel(label)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("share of answered queries")
    lines = panels[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)


def draw_scale(cases: Sequence[Mapping[str, Any]], path: str | PathLike[str]) -> None:
    """Draw solver time over the number of categories, a line per population and budget."""
    names = list(dict.fromkeys(case["population"] for case in cases))
    figure = _figure(max(5.0, 3.6 * len(names)), 4.2)
    panels = figure.subplots(1, len(names), sharey=True, squeeze=False)
    for axes, name in zip(panels[0], names, strict=True):
        for kind, style in zip(_BUDGETS, ("-", "--", ":"), strict=True):
            own = [c for c in cases if c["population"] == name and c["budget_kind"] == kind]
            for method in ("oort", "paper"):
                done = [c for c in own if c["method"] == method and c.get("solver_s") is not None]
                done.sort(key=lambda case: case["categories"])
                if not done:
                    continue
                axes.plot(
                    [c["categories"] for c in done],
                    [c["solver_s"] for c in done],
                    style,
                    marker="o",
                    markersize=3,
                    color=_COLOURS[method],
                    label=f"{_NAMES[method]}, {_BUDGETS[kind]}",
                )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("categories asked for")
        axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("solver, seconds")
    known: dict[str, Any] = {}
    for axes in panels[0]:
        lines, labels = axes.get_legend_handles_labels()
        known |= dict(zip(labels, lines, strict=True))
    figure.legend(
        known.values(), known, loc="outside lower center", ncols=2, frameon=False, fontsize=8
    )
    figure.savefig(path, dpi=150)


def _figure(width: float, height: float) -> Any:
    """An empty picture that is drawn to a file and touches nothing global."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        missing_extra("oort.plots", "matplotlib", "plots")
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
