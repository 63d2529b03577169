"""Any ``torch.nn.Module``, a chunk of clients at once with ``torch.func``, on CPU or CUDA.

The module's parameters get the clients as a new first axis and its forward pass is vectorised over
it, so that a step of the whole chunk is one pass through the network. The backward pass is that of
the sum of the clients' losses: each depends on its own parameters alone, so the gradients are the
same. Modules that cannot be vectorised (they look at values, or use what has no rule for it) are
passed through client by client. Modules are called with a batch of inputs: images with their
channels first, vectors, or numbers of tokens. Batch normalisation has no running statistics here
(clients' would not agree); group normalisation is the better choice. Parameters that the module
froze (``requires_grad`` off) stay as they are.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oort.errors import ConfigError, missing_extra, require
from oort.simulation.config import TORCH_MODELS, SimulationConfig
from oort.simulation.data.base import Encoding, FederatedData
from oort.simulation.learners.base import Chunk, ChunkResult, Params, channels_last
from oort.types import Floats, Mask, Rows

if TYPE_CHECKING:
    import torch

EVALUATION_BATCH = 1024

Tensors = dict[str, "torch.Tensor"]

logger = logging.getLogger(__name__)


class ModuleLearner:
    """Trains and tests a torch module.

    Args:
        make: Makes the module; called once, under the seed of the run, and once for its shape.
        encoding: What stored inputs mean.
        learning_rate: Of the clients' gradient steps.
        proximal: FedProx's μ.
        device: "cpu", "cuda", or "auto" for CUDA where there is one.
        cohort: "at-once", "in-turn" (client by client), or "auto" for at once where the module
            can be vectorised.
        convolutions: "grouped", "products", or "auto": on CUDA those of single pixels as products.
        precision: "float32", "tf32" or "bfloat16"; parameters and losses stay in 32 bits.
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
        cohort: str = "auto",
        convolutions: str = "auto",
        precision: str = "float32",
    ) -> None:
        self._torch = _import_torch()
        self._make = make
        self._encoding = encoding
        self._rate = learning_rate
        self._proximal = proximal
        self._device = self._torch.device(_device(self._torch, device))
        self._cohort = cohort
        self._convolutions = convolutions
        self._precision = precision
        self._module = self._built(0).to(self._device)
        self._pool = _Moved(self._device)
        self._params = _Moved(self._device)
        self._vectorised = self._torch.func.vmap(self._logits, randomness="different")
        self._frozen = {k for k, v in self._module.named_parameters() if not v.requires_grad}

    @classmethod
    def from_config(cls, config: SimulationConfig, data: FederatedData) -> ModuleLearner:
        """The learner that the settings describe."""
        _import_torch()
        learner = cls(
            _maker(config, data),
            encoding=data.encoding,
            learning_rate=config.learner.learning_rate,
            proximal=config.proximal,
            device=config.learner.device,
            cohort=config.learner.cohort,
            convolutions=config.learner.convolutions,
            precision=config.learner.precision,
        )
        learner.check(data)
        return learner

    def check(self, data: FederatedData) -> None:
        """Pass one sample, twice, so that a module that does not fit the data shows at once.

        Raises:
            ConfigError: It does not take the samples, does not give a score for every label, or
                has nothing to train.
        """
        wanted = (
            f"a module that takes samples of shape {data.sample_shape} of {data.name} and gives "
            f"{data.num_classes} scores for each"
        )
        try:
            with self._torch.no_grad():
                x = self._torch.as_tensor(data.test.x[[0, 0]], device=self._device)
                given = tuple(self._module.eval()(self._inputs(x[None])[0]).shape)
        except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
            message = f"learner.model must be {wanted}; got {error}"
            raise ConfigError(message) from error
        fits = len(given) == 2 and given[0] == 2 and given[1] >= data.num_classes
        require(fits, "learner.model", wanted, f"scores of shape {given} for two samples")
        idle = len(self._frozen) == len(list(self._module.parameters()))
        require(not idle, "learner.model", "a module with parameters to train", "none")

    def initial(self, seed: int) -> Params:
        """The module's own initial parameters under the seed."""
        module = self._built(seed)
        return {k: v.detach().cpu().numpy().copy() for k, v in module.named_parameters()}

    def train(self, params: Params, pool: npt.NDArray[Any], chunk: Chunk) -> ChunkResult:
        """Train every client of the chunk from the same model.

        Raises:
            ConfigError: The device's memory does not hold so many clients at once.
        """
        try:
            return self._trained(params, pool, chunk)
        except self._torch.cuda.OutOfMemoryError as error:
            message = (
                "executor.chunk_size must be so small that the clients of a chunk fit into the "
                f"device's memory together; got {len(chunk)}: {error}"
            )
            raise ConfigError(message) from error

    def _trained(self, params: Params, pool: npt.NDArray[Any], chunk: Chunk) -> ChunkResult:
        torch = self._torch
        given = self._params.tensors(params)
        local = {k: v.expand(len(chunk), *v.shape).clone() for k, v in given.items()}
        stored = self._pool.tensor(pool)
        rows = torch.as_tensor(chunk.rows, device=self._device)
        labels = torch.as_tensor(np.maximum(chunk.labels, 0), device=self._device)
        there = rows >= 0
        sums = torch.zeros((2, len(chunk)), dtype=torch.float64, device=self._device)
        busy = np.count_nonzero(chunk.num_steps[:, None] > np.arange(rows.shape[1]), axis=0)
        self._module.train()
        with self._own_randomness(zlib.crc32(chunk.rows.tobytes())), self._own_precision():
            for step, count in enumerate(busy.tolist()):
                now = slice(count), step
                x = self._inputs(stored[rows[now].clamp(min=0)])
                loss = self._step(local, given, x, labels[now], there[now]).double()
                sums[0, :count] += (loss * loss).sum(dim=1)
                sums[1, :count] += loss.sum(dim=1)
        seen = np.count_nonzero(chunk.rows >= 0, axis=(1, 2))
        return self._result(given, local, chunk.weights, sums, seen)

    def losses(self, params: Params, x: npt.NDArray[Any], y: Rows) -> tuple[Floats, Mask]:
        """The loss of every sample, and whether its label was the likeliest."""
        torch = self._torch
        loss, right = np.empty(len(y)), np.empty(len(y), bool)
        tensors = self._params.tensors(params)
        self._module.eval()
        with torch.no_grad(), self._own_precision():
            for begin in range(0, len(y), EVALUATION_BATCH):
                part = slice(begin, begin + EVALUATION_BATCH)
                inputs = self._inputs(torch.as_tensor(np.array(x[part])).to(self._device)[None])[0]
                logits = self._logits(tensors, inputs)
                labels = torch.tensor(y[part], device=self._device)
                each = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
                loss[part] = each.double().cpu().numpy()
                right[part] = (logits.argmax(dim=1) == labels).cpu().numpy()
        return loss, right

    def _step(
        self, local: Tensors, given: Tensors, x: torch.Tensor, y: torch.Tensor, there: torch.Tensor
    ) -> torch.Tensor:
        """One gradient step of the first clients, in place; returns their losses before it.

        The loss of a sample that is not there is 0.
        """
        torch = self._torch
        at_work = {k: v[: len(x)].detach() for k, v in local.items()}
        learning = {k: v.requires_grad_() for k, v in at_work.items() if k not in self._frozen}
        logits = self._passed(at_work, x)
        each = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), y.flatten(), reduction="none"
        )
        loss = torch.where(there, each.view_as(y), 0.0)
        gradients = torch.autograd.grad(
            (loss / there.sum(dim=1, keepdim=True)).sum(),
            list(learning.values()),
            materialize_grads=True,  # a parameter that the module does not use
        )
        with torch.no_grad():
            for (name, value), gradient in zip(learning.items(), gradients, strict=True):
                if self._proximal:
                    gradient.add_(value - given[name], alpha=self._proximal)
                value.sub_(gradient, alpha=self._rate)
        return loss.detach()  # type: ignore[no-any-return]

    def _passed(self, local: Tensors, x: torch.Tensor) -> torch.Tensor:
        """The logits of every client's batch."""
        if self._cohort != "in-turn":
            try:
                return self._vectorised(local, x)  # type: ignore[no-any-return]
            except RuntimeError as error:
                out_of_memory = isinstance(error, self._torch.cuda.OutOfMemoryError)
                if self._cohort == "at-once" or out_of_memory:
                    raise
                logger.warning("clients are trained in turn, which is slower: %s", error)
                self._cohort = "in-turn"
        of_clients = zip(*(value.unbind() for value in local.values()), strict=True)
        each = [
            self._logits(dict(zip(local, values, strict=True)), batch)
            for values, batch in zip(of_clients, x, strict=True)
        ]
        return self._torch.stack(each)  # type: ignore[no-any-return]

    def _logits(self, params: Tensors, x: torch.Tensor) -> torch.Tensor:
        """One client's logits, in 32 bits."""
        return self._torch.func.functional_call(self._module, params, (x,)).float()  # type: ignore[no-any-return]

    def _result(
        self, given: Tensors, local: Tensors, weights: Floats, sums: torch.Tensor, seen: Rows
    ) -> ChunkResult:
        """Add up the updates of clients whose losses and parameters are finite."""
        torch = self._torch
        finite = torch.isfinite(sums[0])
        for value in local.values():
            finite &= torch.isfinite(value.flatten(1)).all(dim=1)
        counted = torch.as_tensor(weights, dtype=torch.float32, device=self._device)
        counted = torch.where(finite, counted, 0.0)
        updates = []
        for name, value in local.items():
            delta = torch.where(finite[:, None], (value - given[name]).flatten(1), 0.0)
            updates.append(counted @ delta)
        # One copy from the device instead of one per parameter: each waits for the device.
        flat = torch.cat(updates).cpu().numpy()
        ends = np.cumsum([value.numel() for value in given.values()])[:-1]
        update = {
            name: part.reshape(tuple(value.shape))
            for (name, value), part in zip(given.items(), np.split(flat, ends), strict=True)
        }
        squares, losses = sums.cpu().numpy()
        return ChunkResult(update, squares, losses, seen, ~finite.cpu().numpy())

    def _inputs(self, stored: torch.Tensor) -> torch.Tensor:
        """Stored inputs as the module wants them; the first two axes are clients and samples."""
        if self._encoding.num_tokens:
            return stored.long()
        x = stored.float() * self._encoding.scale
        if x.ndim == 4:
            return x.unsqueeze(2)
        return x.permute(0, 1, 4, 2, 3) if channels_last(tuple(x.shape[2:])) else x

    def _built(self, seed: int) -> torch.nn.Module:
        with self._own_randomness(seed):
            module = self._make()
        if not isinstance(module, self._torch.nn.Module):
            message = f"learner.model must be a torch.nn.Module; got {type(module).__name__}"
            raise ConfigError(message)
        self._torch.func.replace_all_batch_norm_modules_(module)
        on_cuda = self._convolutions == "auto" and self._device.type == "cuda"
        if on_cuda or self._convolutions == "products":
            from oort.simulation.learners.convolutions import as_products

            as_products(module, pointwise_only=on_cuda)
        return module

    @contextmanager
    def _own_precision(self) -> Iterator[None]:
        """Products in the precision asked for; how torch does them elsewhere is put back."""
        torch = self._torch
        lower: AbstractContextManager[Any] = nullcontext()
        if self._precision == "bfloat16":
            lower = torch.autocast(self._device.type, dtype=torch.bfloat16)
        before = torch.get_float32_matmul_precision()
        if self._precision == "tf32":
            torch.set_float32_matmul_precision("high")
        convolutions = torch.backends.cudnn
        rounds_off, convolutions.allow_tf32 = convolutions.allow_tf32, self._precision == "tf32"
        try:
            with lower:
                yield
        finally:
            torch.set_float32_matmul_precision(before)
            convolutions.allow_tf32 = rounds_off

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
            "cohort": self._cohort,
            "convolutions": self._convolutions,
            "precision": self._precision,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class _Moved:
    """Arrays on a device, moved there once for as long as they stay the same."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._source: object = None
        self._there: Tensors = {}

    def tensor(self, array: npt.NDArray[Any]) -> torch.Tensor:
        """One array."""
        return self._moved(array, {"": array})[""]

    def tensors(self, params: Params) -> Tensors:
        """A model."""
        return self._moved(params, params)

    def _moved(self, source: object, arrays: Params) -> Tensors:
        if source is not self._source:
            torch = _import_torch()
            self._there = {k: torch.tensor(v, device=self._device) for k, v in arrays.items()}
            self._source = source
        return self._there


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
        except ConfigError:
            raise
        except (ImportError, AttributeError, TypeError, ValueError, RuntimeError) as error:
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
