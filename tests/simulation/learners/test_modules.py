from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oort
from oort.errors import ConfigError
from oort.simulation import Job, StrategyConfig
from oort.simulation.data.base import Encoding
from oort.simulation.learners.base import Chunk
from oort.simulation.learners.network import NetworkLearner
from tests.simulation.examples import small_world
from tests.simulation.learners.test_network import CLIENTS, LABELS, POOL, chunk_of

torch = pytest.importorskip("torch", reason="torch models need the extra 'sim'")

from oort.simulation.learners.modules import ModuleLearner  # noqa: E402


def make_perceptron() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3))


def make_noisy() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 3))


def make_normalised() -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3)
    )


def learner_of(make: Any = make_perceptron, **settings: Any) -> ModuleLearner:
    return ModuleLearner(make, encoding=Encoding(), learning_rate=0.3, **settings)


@pytest.mark.parametrize("proximal", [0.0, 0.7])
def test_a_chunk_trains_as_torch_itself_would_train_each_client(proximal: float) -> None:
    learner = learner_of(proximal=proximal)
    params = learner.initial(5)
    result = learner.train(params, POOL, chunk_of(*CLIENTS))
    expected = {k: np.zeros_like(v) for k, v in params.items()}
    for place, batches in enumerate(CLIENTS):
        module = make_perceptron()
        module.load_state_dict({k: torch.tensor(v) for k, v in params.items()})
        optimizer = torch.optim.SGD(module.parameters(), lr=0.3)
        meter = oort.LossMeter()
        for batch in batches:
            x, y = torch.tensor(POOL[batch]), torch.tensor(LABELS[batch])
            loss = torch.nn.functional.cross_entropy(module(x), y, reduction="none")
            apart = sum(
                ((p - torch.tensor(params[k])) ** 2).sum() for k, p in module.named_parameters()
            )
            meter.update(loss.detach())
            optimizer.zero_grad()
            (loss.mean() + proximal / 2 * apart).backward()
            optimizer.step()
        for name, value in module.named_parameters():
            expected[name] += value.detach().numpy() - params[name]
        measured = result.sum_of_squares[place] / result.seen[place]
        assert measured == pytest.approx(meter.mean_squared_loss, rel=1e-5)
    for name, value in expected.items():
        np.testing.assert_allclose(result.update[name], value, rtol=1e-4, atol=1e-5)


def test_torch_and_numpy_agree_on_the_same_network() -> None:
    ours = NetworkLearner((5, 4, 3), encoding=Encoding(), learning_rate=0.3)
    params = ours.initial(2)
    names = {"0.weight": "w0", "0.bias": "b0", "2.weight": "w1", "2.bias": "b1"}
    given = {t: params[n].T.copy() for t, n in names.items()}
    theirs = learner_of().train(given, POOL, chunk_of(*CLIENTS))
    mine = ours.train(params, POOL, chunk_of(*CLIENTS))
    for t, n in names.items():
        np.testing.assert_allclose(theirs.update[t], mine.update[n].T, rtol=1e-4, atol=1e-5)
    their_loss, their_right = learner_of().losses(given, POOL, LABELS)
    our_loss, our_right = ours.losses(params, POOL, LABELS)
    np.testing.assert_allclose(their_loss, our_loss, rtol=1e-5)
    np.testing.assert_array_equal(their_right, our_right)


def make_convolutions() -> Any:
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 5, 1)),
        torch.nn.Conv2d(1, 4, (3, 1), padding=(1, 0)),
        torch.nn.ReLU(),
        torch.nn.Conv2d(4, 6, 1, stride=(2, 1), bias=False),
        torch.nn.Conv2d(6, 6, (3, 1), padding=(2, 0), dilation=(2, 1), groups=6),
        torch.nn.Conv2d(6, 3, (2, 1), padding="same", padding_mode="circular"),
        torch.nn.Flatten(),
        torch.nn.Linear(9, 3),
    )


class LooksAtValues(torch.nn.Module):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(5, 3)
        self.idle = torch.nn.Parameter(torch.zeros(2))

    def forward(self, x: Any) -> Any:
        return self.layer(x) * (2.0 if x.sum() > 0 else 1.0)


@pytest.mark.parametrize(
    "ways",
    [{"cohort": "in-turn"}, {"convolutions": "products"}, {"cohort": "at-once"}],
)
def test_however_a_chunk_is_trained_the_update_is_the_same(ways: dict[str, str]) -> None:
    plain = learner_of(make_convolutions, convolutions="grouped")
    params = plain.initial(4)
    expected = plain.train(params, POOL, chunk_of(*CLIENTS))
    result = learner_of(make_convolutions, **ways).train(params, POOL, chunk_of(*CLIENTS))
    np.testing.assert_allclose(result.sum_of_squares, expected.sum_of_squares, rtol=1e-5)
    for name, value in expected.update.items():
        np.testing.assert_allclose(result.update[name], value, rtol=1e-4, atol=1e-6)


def test_a_module_that_cannot_be_vectorised_trains_in_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    learner = learner_of(LooksAtValues)
    params = learner.initial(4)
    result = learner.train(params, POOL, chunk_of(*CLIENTS))
    assert "trained in turn" in caplog.text
    alone = [learner.train(params, POOL, chunk_of(client)) for client in CLIENTS]
    summed = sum(one.update["layer.weight"] for one in alone)
    np.testing.assert_allclose(result.update["layer.weight"], summed, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(result.update["idle"], 0.0)
    with pytest.raises(RuntimeError):
        learner_of(LooksAtValues, cohort="at-once").train(params, POOL, chunk_of(*CLIENTS))


def test_a_chunk_that_does_not_fit_into_memory_is_explained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def too_much(*_: Any) -> Any:
        message = "CUDA out of memory. Tried to allocate 80 GiB"
        raise torch.cuda.OutOfMemoryError(message)

    learner = learner_of()
    monkeypatch.setattr(learner, "_vectorised", too_much)
    with pytest.raises(ConfigError, match=r"executor.chunk_size must be .* got 3: CUDA out of"):
        learner.train(learner.initial(4), POOL, chunk_of(*CLIENTS))


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_a_lower_precision_is_close_and_is_torchs_no_longer_than_training(precision: str) -> None:
    before = torch.get_float32_matmul_precision()
    params = learner_of().initial(4)
    expected = learner_of().train(params, POOL, chunk_of(*CLIENTS))
    result = learner_of(precision=precision).train(params, POOL, chunk_of(*CLIENTS))
    assert torch.get_float32_matmul_precision() == before
    assert not torch.is_autocast_enabled("cpu")
    for name, value in expected.update.items():
        assert result.update[name].dtype == np.float32
        np.testing.assert_allclose(result.update[name], value, rtol=0.1, atol=0.05)


def test_a_learner_sent_to_another_process_trains_the_same() -> None:
    settings = {"convolutions": "products", "cohort": "in-turn", "proximal": 0.1}
    learner = learner_of(make_convolutions, **settings)
    params = learner.initial(4)
    sent = pickle.loads(pickle.dumps(learner))  # noqa: S301
    here, there = (each.train(params, POOL, chunk_of(*CLIENTS)) for each in (learner, sent))
    for name, value in here.update.items():
        np.testing.assert_array_equal(there.update[name], value)


def test_torchs_own_random_state_is_left_alone() -> None:
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    learner = learner_of(make_noisy)
    learner.train(learner.initial(1), POOL, chunk_of(*CLIENTS))
    assert torch.equal(torch.rand(3), expected)


def test_modules_with_drop_out_train_the_same_twice() -> None:
    results = []
    for _ in range(2):
        learner = learner_of(make_noisy)
        results.append(learner.train(learner.initial(1), POOL, chunk_of(*CLIENTS)))
    for name, value in results[0].update.items():
        np.testing.assert_array_equal(value, results[1].update[name])


def test_batch_normalisation_works_without_running_statistics() -> None:
    learner = learner_of(make_normalised)
    result = learner.train(learner.initial(1), POOL, chunk_of(*CLIENTS))
    assert not result.diverged.any()


def test_a_diverging_client_is_left_out() -> None:
    pool = POOL.copy()
    pool[20:22] = 3e38
    learner = learner_of(lambda: torch.nn.Linear(5, 3))
    params = learner.initial(3)
    result = learner.train(params, pool, chunk_of(CLIENTS[0], CLIENTS[1], [[20, 21], [20, 21]]))
    assert result.diverged.tolist() == [False, False, True]
    assert all(np.isfinite(v).all() for v in result.update.values())


@pytest.mark.parametrize(
    ("model", "shape", "tokens"),
    [("Cnn", (8, 8), 0), ("Mobilenet", (8, 8), 0), ("Chars", (6,), 11)],
)
def test_our_models_train_a_chunk_at_once(model: str, shape: tuple[int, ...], tokens: int) -> None:
    from oort.simulation.learners import models

    settings = {"width": 0.25} if model == "Mobilenet" else {}
    learner = ModuleLearner(
        lambda: getattr(models, model)(shape, 4, tokens, **settings),
        encoding=Encoding(num_tokens=tokens),
        learning_rate=0.05,
    )
    pool = np.random.default_rng(0).integers(0, max(tokens, 2), (12, *shape)).astype(np.uint8)
    rows = np.arange(12).reshape(2, 2, 3)
    result = learner.train(learner.initial(0), pool, Chunk(rows, rows % 4, np.ones(2)))
    assert not result.diverged.any()
    assert result.seen.tolist() == [6, 6]


def test_a_simulation_takes_any_module_by_its_name() -> None:
    model = {"model": "torch.nn:Linear", "model_settings": {"in_features": 60, "out_features": 10}}
    world = small_world(learner=model)
    assert sorted(world.learner.initial(1)) == ["bias", "weight"]


def test_a_module_that_is_not_there_is_explained() -> None:
    with pytest.raises(ConfigError, match=r"learner.model must be a module that can be made; got"):
        small_world(learner={"model": "torch.nn:Lineal"})


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_asking_for_cuda_where_there_is_none_is_explained() -> None:
    with pytest.raises(ConfigError, match=r"learner.device must be 'cpu' or 'auto'"):
        small_world(learner={"model": "torch.nn:Linear", "device": "cuda"})


@pytest.mark.parametrize("cohort", ["at-once", "in-turn"])
def test_parameters_that_a_module_froze_stay_as_they_are(cohort: str) -> None:
    def half_frozen() -> Any:
        module = make_perceptron()
        module[0].requires_grad_(False)
        return module

    learner = learner_of(half_frozen, cohort=cohort, proximal=0.5)
    result = learner.train(learner.initial(1), POOL, chunk_of(*CLIENTS))
    assert not result.update["0.weight"].any()
    assert not result.update["0.bias"].any()
    assert result.update["2.weight"].any()


@pytest.mark.parametrize(
    ("model", "settings", "says"),
    [
        ("torch.nn:Linear", {"in_features": 3, "out_features": 10}, "samples of shape .60,. of"),
        ("torch.nn:Linear", {"in_features": 60, "out_features": 3}, "10 scores .* shape .2, 3."),
        ("torch.nn:Identity", {}, "a module with parameters to train"),
        ("cnn", {}, "samples that are not images"),
        ("chars", {}, "a module that takes samples of shape"),
        ("mobilenet", {"wide": 1}, "a module that can be made"),
        ("builtins:dict", {}, "a torch.nn.Module; got dict"),
        (":Linear", {}, "a module that can be made"),
    ],
)
def test_a_module_that_does_not_fit_the_data_is_explained_before_the_first_round(
    model: str, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=f"learner.model must be .*{says}"):
        small_world(learner={"model": model, "model_settings": settings})


@pytest.mark.parametrize("shape", [(3, 8, 8), (8, 8, 3), (8, 8, 4), (1, 8, 8), (8, 8)])
@pytest.mark.parametrize("model", ["cnn", "mobilenet"])
def test_images_may_have_their_channels_first_or_last(
    tmp_path: Path, shape: tuple[int, ...], model: str
) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("", 40), ("test_", 5)):
        np.save(tmp_path / f"{name}x.npy", rng.normal(size=(count, *shape)).astype(np.float32))
        np.save(tmp_path / f"{name}y.npy", (np.arange(count) % 2).astype(np.uint8))
    settings = {"width": 0.1} if model == "mobilenet" else {"channels": 2, "hidden": 4}
    world = small_world(
        data={"dataset": "folder", "path": str(tmp_path), "clients": 4},
        learner={"model": model, "model_settings": settings, "steps": 1},
        rounds={"count": 1},
    )
    (result,) = Job(world, StrategyConfig()).rounds()
    assert result.record.completed == 4
    assert np.isfinite(result.record.test_loss)
