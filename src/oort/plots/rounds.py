"""Round duration and utility over rounds, strategy beside strategy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from oort.errors import missing_extra


class Played(Protocol):
    """What a strategy did, one entry per round."""

    @property
    def duration_s(self) -> Sequence[float]:
        """How long the round took."""

    @property
    def utility(self) -> Sequence[float]:
        """Mean utility of its participants."""

    @property
    def clock_s(self) -> Sequence[float]:
        """When it ended."""

    @property
    def mean_loss(self) -> Sequence[float]:
        """Over all clients, after it."""


def draw_rounds(played: Mapping[str, Played], path: str | os.PathLike[str]) -> None:
    """Save a picture with three panels: round duration, utility, and mean loss over time.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        missing_extra("oort.plots", "matplotlib", "plots")
    figure = Figure(figsize=(13, 4), layout="constrained")
    FigureCanvasAgg(figure)
    durations, worth, loss = figure.subplots(1, 3)
    for name, run in played.items():
        rounds = np.arange(1, len(run.duration_s) + 1)
        durations.plot(rounds, _smoothed(run.duration_s), label=name)
        worth.plot(rounds, _smoothed(run.utility), label=name)
        loss.plot(np.asarray(run.clock_s) / 3600, run.mean_loss, label=name)
    durations.set(title="How long a round takes", xlabel="round", ylabel="seconds")
    worth.set(title="Utility that participants bring", xlabel="round", ylabel="mean utility")
    loss.set(title="What it comes to", xlabel="simulated hours", ylabel="mean loss of all clients")
    for axes in (durations, worth, loss):
        axes.grid(alpha=0.3)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def _smoothed(values: Sequence[float], window: int = 5) -> Sequence[float]:
    """A centred moving mean: single rounds jump too much to be read."""
    if len(values) <= window:
        return values
    kernel = np.ones(window)
    weight = np.convolve(np.ones(len(values)), kernel, mode="same")
    smooth: list[float] = (np.convolve(values, kernel, mode="same") / weight).tolist()
    return smooth
