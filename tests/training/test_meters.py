"""The client's side: |B| · √(mean loss²) over every sample trained on, and Appendix B's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oort

losses = st.lists(st.floats(-1e6, 1e6), max_size=30)


@given(st.lists(losses, max_size=6))
def test_a_meter_over_batches_equals_the_formula_over_all_samples(
    batches: list[list[float]],
) -> None:
    meter = oort.LossMeter()
    for batch in batches:
        meter.update(batch)
    every = [loss for batch in batches for loss in batch]
    mean_square = sum(x * x for x in every) / len(every) if every else 0.0
    assert meter.utility == pytest.approx(len(every) * math.sqrt(mean_square))
    assert meter.utility == pytest.approx(oort.loss_utility(every))
    feedback = meter.feedback(duration_s=2.0)
    assert feedback.num_samples == len(every)
    assert feedback.mean_squared_loss == pytest.approx(mean_square)
    assert feedback.duration_s == 2.0
    assert oort.Feedback.from_losses(every).mean_squared_loss == pytest.approx(mean_square)


def test_epochs_count_towards_the_mean_but_not_towards_the_samples() -> None:
    meter = oort.LossMeter(num_samples=2)
    for loss in (4.0, 2.0):  # two epochs of two samples each
        meter.update([loss, loss])
    assert meter.num_samples == 2
    assert meter.utility == pytest.approx(2 * math.sqrt((16 + 4) / 2))


def test_losses_may_have_any_shape() -> None:
    assert oort.loss_utility(np.full((2, 3), 2.0)) == 12.0
    assert oort.loss_utility(5.0) == 5.0
    assert oort.loss_utility([]) == 0.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_is_refused_with_its_place_and_adds_nothing(bad: float) -> None:
    meter = oort.LossMeter()
    meter.update([1.0])
    with pytest.raises(oort.InvalidArgumentError, match=r"losses must be finite .* at place 2"):
        meter.update([1.0, 1.0, bad])
    assert meter.num_samples == 1
    with pytest.raises(oort.InvalidArgumentError, match="losses must be finite"):
        oort.loss_utility([bad])
    with pytest.raises(oort.InvalidArgumentError, match="gradient_norms must be finite"):
        oort.gradient_norm_utility([bad])


def test_gradient_norms_of_samples_or_of_batches() -> None:
    assert oort.gradient_norm_utility([3.0, 4.0]) == pytest.approx(2 * math.sqrt(12.5))
    assert oort.gradient_norm_utility([3.0, 4.0], num_samples=64) == pytest.approx(
        64 * math.sqrt(12.5)
    )
    assert oort.gradient_norm_utility([], num_samples=64) == 0.0
