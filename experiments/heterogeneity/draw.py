"""Pictures of the results: the paper's Figures 1 and 2, and the day."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from oort.errors import missing_extra


def draw(found: dict[str, Any], out: Path) -> None:
    """Save ``figure-1.png``, ``figure-2.png`` and ``availability.png``."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        missing_extra("oort reproduce heterogeneity", "matplotlib", "plots")
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _curves(left, found["figure_1a_samples_per_client"])
    left.set(title="1a: samples per client", xlabel="samples", xscale="log")
    _curves(right, found["figure_1b_pairwise_l1"], of="pairs of clients", legend_at=(0.13, 0.45))
    right.set(title="1b: how different two clients are", xlabel="L1 distance of label shares")
    figure.savefig(out / "figure-1.png", dpi=110)

    figure = Figure(figsize=(11, 4), layout="constrained")
    for axes, name in zip(figure.subplots(1, 2), ("compute", "bandwidth"), strict=True):
        chosen = {k: v for k, v in found["figure_2_devices"].items() if k.startswith(name)}
        _curves(axes, {k.split(": ")[1]: v for k, v in chosen.items()})
        unit = next(iter(chosen)).split(": ")[0]
        scale = "log" if name == "bandwidth" else "linear"
        axes.set(title=f"2: {name} of 51,496 phones", xlabel=unit, xscale=scale)
    figure.savefig(out / "figure-2.png", dpi=110)

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, share in found["online_share_per_hour"].items():
        axes.plot(range(24), share, label=name, linestyle="--" if name == "traced" else "-")
    axes.set(title="Who is online", xlabel="hour of the day", ylabel="share of clients")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    figure.savefig(out / "availability.png", dpi=110)


def _curves(
    axes: Any,
    by_name: dict[str, dict[str, float]],
    *,
    of: str = "clients",
    legend_at: str | tuple[float, float] = "best",
) -> None:
    """Cumulative curves through the percentiles that were kept."""
    for name, values in by_name.items():
        points = [(v, int(k[1:]) / 100) for k, v in values.items() if k[1:].isdigit()]
        style = "--" if name == "traced" else "-"
        axes.plot([v for v, _ in points], [p for _, p in points], style, label=name)
    axes.set(ylabel=f"share of {of}", ylim=(0, 1))
    axes.grid(alpha=0.25)
    axes.legend(frameon=False, fontsize=8, loc=legend_at)
