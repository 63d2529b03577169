from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch models need the extra 'sim'")

from oort.simulation.learners.convolutions import ProductConv2d, as_products  # noqa: E402

SHAPES: list[dict[str, Any]] = [
    {"kernel_size": 1},
    {"kernel_size": 1, "padding": 1},
    {"kernel_size": 1, "stride": 2, "bias": False},
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "bias": False},
    {"kernel_size": (1, 5), "stride": (2, 1), "padding": (0, 2)},
    {"kernel_size": 9},
]


@pytest.mark.parametrize("settings", SHAPES)
@pytest.mark.parametrize("channels", [(1, 4), (3, 2), (40, 50)])
def test_products_give_what_convolutions_give_to_every_client(
    settings: dict[str, Any], channels: tuple[int, int]
) -> None:
    """Values and gradients, for three clients with weights of their own at once."""
    torch.manual_seed(0)
    x = torch.randn(3, 2, channels[0], 9, 9)
    plain = [torch.nn.Conv2d(*channels, **settings) for _ in range(3)]
    products = ProductConv2d(*channels, **settings)
    names = [name for name, _ in products.named_parameters()]
    stacked = {
        name: torch.stack([dict(p.named_parameters())[name].detach() for p in plain])
        for name in names
    }
    for value in stacked.values():
        value.requires_grad_()

    def forward(params: Any, images: Any) -> Any:
        return torch.func.functional_call(products, params, (images,))

    inputs = x.clone().requires_grad_()
    out = torch.func.vmap(forward)(stacked, inputs)
    weight = torch.randn_like(out)
    found = torch.autograd.grad((out * weight).sum(), [inputs, *stacked.values()])
    for client, module in enumerate(plain):
        own = x[client].clone().requires_grad_()
        expected = module(own)
        torch.testing.assert_close(out[client], expected, rtol=1e-4, atol=1e-4)
        wanted = torch.autograd.grad(
            (expected * weight[client]).sum(), [own, *module.parameters()]
        )
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours[client], theirs, rtol=1e-4, atol=1e-3)


def test_only_what_can_be_a_product_becomes_one() -> None:
    plain = torch.nn.Sequential(
        torch.nn.Conv2d(4, 4, 3),
        torch.nn.Conv2d(4, 4, 3, groups=4),
        torch.nn.Conv2d(4, 4, 3, dilation=2),
        torch.nn.Conv2d(4, 4, 3, padding="same"),
        torch.nn.Conv2d(4, 4, 3, padding=1, padding_mode="reflect"),
        torch.nn.ConvTranspose2d(4, 4, 3),
    )
    as_products(plain)
    assert [type(part) is ProductConv2d for part in plain] == [True] + [False] * 5
    small = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3), torch.nn.Conv2d(4, 4, 1))
    as_products(small, pointwise_only=True)
    assert [type(part) is ProductConv2d for part in small] == [False, True]
