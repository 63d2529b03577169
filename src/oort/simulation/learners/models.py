"""Torch models that come with Oort: they know the shape of the data that they are made for.

Cnn          two convolutions and two layers, for small images
Mobilenet    inverted residuals as in MobileNetV2 (Sandler et al., CVPR 2018), group-normalised
Chars        embedded characters into a perceptron: the next character
"""

from __future__ import annotations

import torch
from torch import nn

from oort.errors import require
from oort.simulation.learners.base import channels_last


class Cnn(nn.Module):
    """Two convolutions with pooling, then two layers."""

    def __init__(
        self,
        sample_shape: tuple[int, ...],
        num_classes: int,
        num_tokens: int = 0,
        channels: int = 16,
        hidden: int = 128,
    ) -> None:
        super().__init__()
        depth, height, width = _image(sample_shape)
        self.convolutions = nn.Sequential(
            nn.Conv2d(depth, channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        features = 2 * channels * (height // 4) * (width // 4)
        self.layers = nn.Sequential(
            nn.Linear(features, hidden), nn.ReLU(), nn.Linear(hidden, num_classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of a batch of images."""
        logits: torch.Tensor = self.layers(self.convolutions(x).flatten(1))
        return logits


class Mobilenet(nn.Module):
    """MobileNetV2's body (2.2 million parameters at width 1) for images of any size."""

    #: expansion, channels, repeats, stride of the first
    PLAN = (
        (1, 16, 1, 1),
        (6, 24, 2, 1),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(
        self,
        sample_shape: tuple[int, ...],
        num_classes: int,
        num_tokens: int = 0,
        width: float = 1.0,
    ) -> None:
        super().__init__()
        depth = _image(sample_shape)[0]
        channels = _eights(32 * width)
        blocks: list[nn.Module] = [_convolution(depth, channels, kernel=3)]
        for expansion, base, repeats, stride in self.PLAN:
            out = _eights(base * width)
            for repeat in range(repeats):
                blocks.append(_Residual(channels, out, expansion, stride if repeat == 0 else 1))
                channels = out
        last = _eights(1280 * max(1.0, width))
        blocks.append(_convolution(channels, last, kernel=1))
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(last, num_classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of a batch of images."""
        logits: torch.Tensor = self.head(self.blocks(x).mean(dim=(2, 3)))
        return logits


class Chars(nn.Module):
    """Embedded characters, one after the other, into a perceptron."""

    def __init__(
        self,
        sample_shape: tuple[int, ...],
        num_classes: int,
        num_tokens: int = 0,
        width: int = 16,
        hidden: int = 128,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(max(num_tokens, 1), width)
        self.layers = nn.Sequential(
            nn.Linear(sample_shape[0] * width, hidden), nn.ReLU(), nn.Linear(hidden, num_classes)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits of the next character."""
        logits: torch.Tensor = self.layers(self.embedding(x).flatten(1))
        return logits


class _Residual(nn.Module):
    """Widen, filter each channel, narrow; added to the input where shapes agree."""

    def __init__(self, channels: int, out: int, expansion: int, stride: int) -> None:
        super().__init__()
        wide = channels * expansion
        self.added = stride == 1 and channels == out
        self.body = nn.Sequential(
            _convolution(channels, wide, kernel=1),
            _convolution(wide, wide, kernel=3, stride=stride, groups=wide),
            nn.Conv2d(wide, out, 1, bias=False),
            nn.GroupNorm(8, out),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.body(x)
        return x + out if self.added else out


def _convolution(
    channels: int, out: int, *, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.GroupNorm(8, out),
        nn.ReLU6(),
    )


def _eights(channels: float) -> int:
    return max(8, int(channels + 4) // 8 * 8)


def _image(sample_shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Channels, height and width of an image stored as (H, W), (H, W, C) or (C, H, W).

    Raises:
        ConfigError: Samples are no images.
    """
    if len(sample_shape) == 2:
        return 1, sample_shape[0], sample_shape[1]
    images = "one for samples that are not images, or the samples images of two or three axes"
    require(len(sample_shape) == 3, "learner.model", images, sample_shape)
    if channels_last(sample_shape):
        return sample_shape[2], sample_shape[0], sample_shape[1]
    return sample_shape[0], sample_shape[1], sample_shape[2]
