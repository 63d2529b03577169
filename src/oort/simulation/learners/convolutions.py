"""Convolutions of many clients at once, as matrix products.

Vectorised over clients that each have their own weights, a convolution becomes one with a group
for each client, which libraries run slowly. As a product of the weights with the patches of the
images it becomes one batched matrix product, which they run fast.
"""

from __future__ import annotations

import torch
from torch import nn


class ProductConv2d(nn.Conv2d):
    """A two-dimensional convolution, without groups, as a matrix product.

    >>> image, plain = torch.arange(16.0).view(1, 1, 4, 4), nn.Conv2d(1, 2, 3, padding=1)
    >>> products = ProductConv2d(1, 2, 3, padding=1)
    >>> _ = products.load_state_dict(plain.state_dict())
    >>> torch.allclose(plain(image), products(image), atol=1e-5)
    True
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """What ``nn.Conv2d`` gives for a batch of images."""
        height, width = (
            (size + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
            for size, pad, dilation, kernel, stride in zip(
                x.shape[-2:],
                self.padding,
                self.dilation,
                self.kernel_size,
                self.stride,
                strict=True,
            )
        )
        pointwise = self.kernel_size == self.stride == (1, 1) and self.padding == (0, 0)
        patches = (
            x.flatten(2)
            if pointwise
            else nn.functional.unfold(
                x, self.kernel_size, self.dilation, self.padding, self.stride
            )
        )
        out = torch.einsum("ok,bkp->bop", self.weight.flatten(1), patches)
        out = out.unflatten(2, (height, width))
        return out if self.bias is None else out + self.bias[:, None, None]


def as_products(module: nn.Module) -> None:
    """Make every convolution of a module that can be one a matrix product, in place."""
    for part in module.modules():
        plain = type(part) is nn.Conv2d and part.groups == 1
        if plain and part.padding_mode == "zeros" and not isinstance(part.padding, str):
            part.__class__ = ProductConv2d  # the same parameters, another forward pass
