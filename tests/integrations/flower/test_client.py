"""What runs on a client: losses of any framework, and what is sent along."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oort import loss_utility
from oort.integrations.flower import ClientReport, keras_losses
from oort.integrations.flower.reports import read_feedback

LOSSES = [[0.5, 2.0], [1.0, 0.0, 3.0]]


def report_of(batches: list[Any], **options: Any) -> ClientReport:
    report = ClientReport(**options)
    for batch in batches:
        report.update(batch)
    return report


def test_utility_is_over_all_samples_of_all_batches() -> None:
    report = report_of(LOSSES)
    assert report.utility == pytest.approx(loss_utility([0.5, 2.0, 1.0, 0.0, 3.0]))
    assert report.metrics()["oort-num-samples"] == 5


def test_what_is_sent_is_what_the_server_reads() -> None:
    feedback = read_feedback(report_of(LOSSES).metrics(duration_s=7.5))
    assert feedback.duration_s == 7.5
    assert feedback.num_samples == 5
    assert feedback.mean_squared_loss == pytest.approx((0.25 + 4 + 1 + 0 + 9) / 5)


def test_a_client_does_not_look_larger_for_repeating_itself() -> None:
    once, thrice = report_of(LOSSES), report_of(LOSSES * 3, num_samples=5)
    assert thrice.utility == pytest.approx(once.utility)


def test_the_duration_is_measured_from_the_start() -> None:
    assert 0 <= report_of(LOSSES).metrics()["oort-duration-s"] < 60


def test_a_loss_that_is_not_finite_spoils_the_report_and_not_the_training() -> None:
    report = report_of([[1.0, math.nan], [2.0]])
    assert math.isnan(report.metrics()["oort-mean-squared-loss"])
    assert math.isnan(report.utility)


def test_a_noised_utility_replaces_the_losses() -> None:
    sent = report_of(LOSSES).metrics(utility=3.25, duration_s=1.0)
    assert sent == {"oort-utility": 3.25, "oort-duration-s": 1.0}


def test_losses_of_pytorch_may_carry_a_gradient() -> None:
    torch = pytest.importorskip("torch")
    scores = torch.tensor([[1.0, -1.0], [0.5, 2.0]], requires_grad=True)
    labels = torch.tensor([0, 0])
    losses = torch.nn.functional.cross_entropy(scores, labels, reduction="none")
    report = report_of([losses])
    losses.mean().backward()
    assert scores.grad is not None
    assert report.utility == pytest.approx(loss_utility(losses.detach().numpy()), rel=1e-6)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras on torch
@pytest.mark.parametrize("kind", ["function", "object"])
def test_losses_of_keras_are_those_of_the_compiled_model(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))  # it writes its settings there
    monkeypatch.setenv("KERAS_BACKEND", os.environ.get("KERAS_BACKEND", "torch"))
    keras = pytest.importorskip("keras")
    name = "sparse_categorical_crossentropy"
    loss = name if kind == "function" else keras.losses.SparseCategoricalCrossentropy()
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    model.compile(optimizer="sgd", loss=loss)
    rng = np.random.default_rng(1)
    inputs, targets = rng.standard_normal((50, 4)).astype("float32"), rng.integers(0, 3, 50)
    losses = keras_losses(model, inputs, targets)
    assert losses.shape == (50,)
    shares = model.predict(inputs, verbose=0)
    np.testing.assert_allclose(losses, -np.log(shares[np.arange(50), targets]), rtol=1e-4)
    assert model.evaluate(inputs, targets, verbose=0) == pytest.approx(losses.mean(), rel=1e-4)
