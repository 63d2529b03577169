"""Any ``torch.nn.Module``, a chunk of clients at once with ``torch.func``, on CPU or CUDA.

The module's parameters get the clients as a new first axis and its forward pass is vectorised over
it, so that a step of the whole chunk is one pass through the network. Modules are called with a
batch of inputs: images with their channels first, vectors, or numbers of tokens. Batch
normalisation has no running statistics here (clients' would not agree); group normalisation is the
better choice.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oort.errors import ConfigError, missing_extra
from oort.simulation.config import TORCH_MODELS, SimulationConfig
from oort.simulation.data.base import Encoding, FederatedData
from oort.simulation.learners.base import Chunk, ChunkResult, Params
from oort.types import Floats, Mask, Rows

if TYPE_CHECKING:
    import torch

EVALUATION_BATCH = 1024

Tensors = dict[str, "torch.Tensor"]


class ModuleLearner:
    """Trains and tests a torch module.

    Args:
        make: Makes the module; called once, under the seed of the run, and once for its shape.
        encoding: What stored inputs mean.
        learning_rate: Of the clients' gradient steps.
        proximal: FedProx's μ.
        device: "cpu", "cuda", or "auto" for CUDA where there is one.
    """

    takes_threads = False

    def __init__(
        self,
        make: Callable[[], torch.nn.Module],
        *,
        encoding: Encoding,
        learning_rate: float,
        proximal: float = 0.0,
        device: str = "cpu",
    ) -> None:
        self._torch = _import_torch()
        self._make = make
        self._encoding = encoding
        self._rate = learning_rate
        self._proximal = proximal
        self._device = self._torch.device(_device(self._torch, device))
        self._module = self._built(0).to(self._device)
        self._pool: npt.NDArray[Any] | None = None
        self._pool_there: torch.Tensor | None = None
        one_client = self._torch.func.grad_and_value(self._objective, has_aux=True)
        self._gradients = self._torch.func.vmap(
            one_client, in_dims=(0, None, 0, 0, 0), randomness="different"
        )

    @classmethod
    def from_config(cls, config: SimulationConfig, data: FederatedData) -> ModuleLearner:
        """The learner that the settings describe."""
        _import_torch()
        return cls(
            _maker(config, data),
            encoding=data.encoding,
            learning_rate=config.learner.learning_rate,
            proximal=config.proximal,
            device=config.learner.device,
        )

    def initial(self, seed: int) -> Params:
        """The module's own initial parameters under the seed."""
        module = self._built(seed)
        return {k: v.detach().cpu().numpy().copy() for k, v in module.named_parameters()}

    def train(self, params: Params, pool: npt.NDArray[Any], chunk: Chunk) -> ChunkResult:
        """Train every client of the chunk from the same model."""
        torch = self._torch
        given = self._tensors(params)
        local = {k: v.expand(len(chunk), *v.shape).clone() for k, v in given.items()}
        stored = self._on_device(pool)
        rows = torch.as_tensor(chunk.rows, device=self._device)
        labels = torch.as_tensor(np.maximum(chunk.labels, 0), device=self._device)
        sums = torch.zeros((2, len(chunk)), dtype=torch.float64, device=self._device)
        steps = chunk.num_steps
        self._module.train()
        with self._own_randomness(zlib.crc32(chunk.rows.tobytes())):
            for step in range(chunk.rows.shape[1]):
                busy = int(np.count_nonzero(steps > step))
                there = rows[:busy, step] >= 0
                x = self._inputs(stored[rows[:busy, step].clamp(min=0)])
                loss = self._step(local, given, x, labels[:busy, step], there).double()
                loss = torch.where(there, loss, 0.0)
                sums[0, :busy] += (loss * loss).sum(dim=1)
                sums[1, :busy] += loss.sum(dim=1)
        seen = np.count_nonzero(chunk.rows >= 0, axis=(1, 2))
        return self._result(given, local, chunk.weights, sums, seen)

    def losses(self, params: Params, x: npt.NDArray[Any], y: Rows) -> tuple[Floats, Mask]:
        """The loss of every sample, and whether its label was the likeliest."""
        torch = self._torch
        loss, right = np.empty(len(y)), np.empty(len(y), bool)
        tensors = self._tensors(params)
        self._module.eval()
        with torch.no_grad():
            for begin in range(0, len(y), EVALUATION_BATCH):
                part = slice(begin, begin + EVALUATION_BATCH)
                inputs = self._inputs(torch.as_tensor(np.array(x[part])).to(self._device)[None])[0]
                logits = torch.func.functional_call(self._module, tensors, (inputs,))
                labels = torch.as_tensor(y[part], device=self._device)
                each = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
                loss[part] = each.double().cpu().numpy()
                right[part] = (logits.argmax(dim=1) == labels).cpu().numpy()
        return loss, right

    def _objective(
        self, local: Tensors, given: Tensors, x: torch.Tensor, y: torch.Tensor, there: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """One client's mean loss over the samples that are there, and every sample's loss."""
        logits = self._torch.func.functional_call(self._module, local, (x,))
        loss = self._torch.nn.functional.cross_entropy(logits, y, reduction="none")
        mean = self._torch.where(there, loss, 0.0).sum() / there.sum()
        if self._proximal:
            apart = sum(((local[k] - given[k]) ** 2).sum() for k in local)
            mean = mean + 0.5 * self._proximal * apart
        return mean, loss

    def _step(
        self, local: Tensors, given: Tensors, x: torch.Tensor, y: torch.Tensor, there: torch.Tensor
    ) -> torch.Tensor:
        """One gradient step of the first clients, in place; returns their losses before it."""
        at_work = {k: v[: len(x)] for k, v in local.items()}
        gradients, (_, loss) = self._gradients(at_work, given, x, y, there)
        with self._torch.no_grad():
            for name, value in at_work.items():
                value.sub_(gradients[name], alpha=self._rate)
        return loss.detach()  # type: ignore[no-any-return]

    def _result(
        self, given: Tensors, local: Tensors, weights: Floats, sums: torch.Tensor, seen: Rows
    ) -> ChunkResult:
        """Add up the updates of clients whose losses and parameters are finite."""
        torch = self._torch
        finite = torch.isfinite(sums[0])
        for value in local.values():
            finite &= torch.isfinite(value.flatten(1)).all(dim=1)
        counted = torch.where(finite, torch.as_tensor(weights, device=self._device), 0.0).float()
        update = {}
        for name, value in local.items():
            delta = (value - given[name]).flatten(1)
            delta = torch.where(finite[:, None], delta, 0.0)
            update[name] = (counted @ delta).reshape(given[name].shape).cpu().numpy()
        squares, losses = sums.cpu().numpy()
        return ChunkResult(update, squares, losses, seen, ~finite.cpu().numpy())

    def _inputs(self, stored: torch.Tensor) -> torch.Tensor:
        """Stored inputs as the module wants them; the first two axes are clients and samples."""
        if self._encoding.num_tokens:
            return stored.long()
        x = stored.float() * self._encoding.scale
        if x.ndim == 4:
            return x.unsqueeze(2)
        return x.permute(0, 1, 4, 2, 3) if x.ndim == 5 and x.shape[-1] in (1, 3) else x

    def _tensors(self, params: Params) -> Tensors:
        return {k: self._torch.as_tensor(v).to(self._device) for k, v in params.items()}

    def _on_device(self, pool: npt.NDArray[Any]) -> torch.Tensor:
        """The pool of samples; moved once as long as it stays the same."""
        if pool is not self._pool or self._pool_there is None:
            self._pool = pool
            self._pool_there = self._torch.as_tensor(np.array(pool)).to(self._device)
        return self._pool_there

    def _built(self, seed: int) -> torch.nn.Module:
        with self._own_randomness(seed):
            module = self._make()
        self._torch.func.replace_all_batch_norm_modules_(module)
        return module

    def _own_randomness(self, seed: int) -> Any:
        return _Seeded(self._torch, seed)

    def __getstate__(self) -> dict[str, Any]:
        """For Ray: a worker builds its own copy."""
        return {
            "make": self._make,
            "encoding": self._encoding,
            "learning_rate": self._rate,
            "proximal": self._proximal,
            "device": self._device.type,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class _Seeded:
    """Torch's generators under a seed, put back afterwards."""

    def __init__(self, torch: Any, seed: int) -> None:
        self._torch = torch
        self._seed = seed
        self._fork = torch.random.fork_rng()

    def __enter__(self) -> None:
        self._fork.__enter__()
        self._torch.manual_seed(self._seed)

    def __exit__(self, *details: Any) -> None:
        self._fork.__exit__(*details)


class _Maker:
    """Makes a module from a class and its arguments; can be sent to another process."""

    def __init__(self, module: str, name: str, arguments: dict[str, Any]) -> None:
        self._module = module
        self._name = name
        self._arguments = arguments

    def __call__(self) -> Any:
        try:
            return getattr(import_module(self._module), self._name)(**self._arguments)
        except (ImportError, AttributeError, TypeError) as error:
            given = f"{self._module}:{self._name} with {self._arguments}"
            message = f"learner.model must be a module that can be made; got {given}: {error}"
            raise ConfigError(message) from error


def _maker(config: SimulationConfig, data: FederatedData) -> _Maker:
    model, settings = config.learner.model, config.learner.model_settings
    if model in TORCH_MODELS:
        about = {
            "sample_shape": data.sample_shape,
            "num_classes": data.num_classes,
            "num_tokens": data.encoding.num_tokens,
        }
        return _Maker("oort.simulation.learners.models", model.capitalize(), about | settings)
    module, colon, name = model.partition(":")
    if not colon:
        known = ", ".join(map(repr, ("softmax", "mlp", *TORCH_MODELS)))
        message = f"learner.model must be one of {known}, or 'package.module:Class'; got {model!r}"
        raise ConfigError(message)
    return _Maker(module, name, settings)


def _import_torch() -> Any:
    try:
        import torch
        import torch.func
    except ImportError:
        missing_extra("this learner.model", "torch", "sim")
    return torch


def _device(torch: Any, asked: str) -> str:
    there = bool(torch.cuda.is_available())
    if asked == "cuda" and not there:
        message = "learner.device must be 'cpu' or 'auto' where there is no CUDA; got 'cuda'"
        raise ConfigError(message)
    return "cuda" if asked != "cpu" and there else "cpu"
