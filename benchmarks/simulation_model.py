"""The perceptron of the simulation benchmark in torch, and a client's training loop around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.simulation import HIDDEN


class Perceptron(nn.Module):
    """64–64–10, with what pfl-research asks of a model."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, HIDDEN)
        self.second = nn.Linear(HIDDEN, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        logits: torch.Tensor = self.second(torch.relu(self.first(x.flatten(1))))
        return logits

    def loss(self, x: torch.Tensor, y: torch.Tensor, eval: bool = False) -> torch.Tensor:  # noqa: A002
        """Mean cross-entropy."""
        return nn.functional.cross_entropy(self(x), y)

    def metrics(self, x: torch.Tensor, y: torch.Tensor, eval: bool = True) -> dict[str, Any]:  # noqa: A002
        """None: nothing is evaluated."""
        return {}


def train(
    model: nn.Module,
    x: np.ndarray[Any, Any],
    y: np.ndarray[Any, Any],
    *,
    steps: int,
    batch: int,
    rate: float,
) -> None:
    """One client's steps, in a new random order."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    inputs, labels = torch.from_numpy(x), torch.from_numpy(y)
    order = torch.randperm(len(labels))
    for step in range(steps):
        rows = order[step * batch : (step + 1) * batch]
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[rows]), labels[rows]).backward()
        optimizer.step()
