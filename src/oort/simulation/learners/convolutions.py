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
        patches, height, width = self._patches(x)
        weights = self.weight.flatten(1)
        if weights.numel() < patches.shape[1] * patches.shape[2]:
            # One product per image: repeating small weights moves less than turning large patches.
            out = weights @ patches
        else:
            out = torch.einsum("ok,bkp->bop", weights, patches)
        out = out.unflatten(2, (height, width))
        return out if self.bias is None else out + self.bias[:, None, None]

    def _patches(self, x: torch.Tensor) -> tuple[torch.Tensor, int, int]:
        """What each place of the output is a product with, (batch, values, places), and its shape.

        Views and one copy: ``nn.functional.unfold`` starts a kernel for every image on CUDA.
        """
        (rows, columns), (down, right) = self.kernel_size, self.stride
        above, left = self.padding
        if (rows, columns, down, right, above, left) != (1, 1, 1, 1, 0, 0):
            x = nn.functional.pad(x, (left, left, above, above))
            x = x.unfold(2, rows, down).unfold(3, columns, right)
            x = x.permute(0, 1, 4, 5, 2, 3).flatten(1, 3)
        height, width = x.shape[-2:]
        return x.flatten(2), height, width


def as_products(module: nn.Module, *, pointwise_only: bool = False) -> None:
    """Make every convolution of a module that can be one a matrix product, in place.

    Args:
        module: Whose parts are changed.
        pointwise_only: Only those of single pixels, which need no patches.
    """
    for part in module.modules():
        if type(part) is nn.Conv2d and (part.kernel_size == (1, 1) or not pointwise_only):
            simple = part.groups == 1 and part.dilation == (1, 1)
            if simple and part.padding_mode == "zeros" and not isinstance(part.padding, str):
                part.__class__ = ProductConv2d  # the same parameters, another forward pass
