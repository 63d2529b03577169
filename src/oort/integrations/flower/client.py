"""What runs on a client: a few lines that report its loss, its duration, and who it is."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from oort.errors import InvalidArgumentError
from oort.integrations.flower.asking import ACTION, RECORD
from oort.integrations.flower.reports import (
    DURATION_S,
    MEAN_SQUARED_LOSS,
    NUM_SAMPLES,
    UTILITY,
)
from oort.integrations.flower.roster import PARTITION, Description
from oort.training.meters import LossMeter

Describe: TypeAlias = Callable[[Context], Mapping[str, Any]]
"""What a client tells of itself: see :func:`introduce`."""

CallNext: TypeAlias = Callable[[Message, Context], Message]
Mod: TypeAlias = Callable[[Message, Context, CallNext], Message]

_HINTS: Final = ("id", "num_samples", "expected_duration_s")
_PROPERTIES: Final = "getpropertiesres"  #: as the classic API names these records


class ClientReport:
    """Measures one training on a client: the loss of every sample, and the time from here on.

        report = ClientReport(num_samples=len(dataset))
        for images, labels in loader:
            losses = cross_entropy(model(images), labels, reduction="none")
            losses.mean().backward()
            optimizer.step()
            report.update(losses)
        metrics = {"num-examples": len(dataset), **report.metrics()}

    Works on the losses of PyTorch, TensorFlow, Keras, JAX and NumPy, on any device. A sample that
    is seen again in a later epoch counts again towards the mean; say how many samples there are,
    so that a client does not look larger for repeating itself.

    >>> report = ClientReport()
    >>> report.update([1.0, 3.0])
    >>> {name: round(value, 3) for name, value in report.metrics(duration_s=2.5).items()}
    {'oort-num-samples': 2, 'oort-mean-squared-loss': 5.0, 'oort-duration-s': 2.5}
    """

    def __init__(self, *, num_samples: int | None = None) -> None:
        self._started = time.perf_counter()
        self._meter = LossMeter(num_samples=num_samples)
        self._is_broken = False

    def update(self, losses: object) -> None:
        """Add the losses of one batch, one per sample.

        A loss that is not finite spoils the report and not the training: the server refuses the
        report and says whose it was.
        """
        try:
            self._meter.update(as_array(losses))
        except InvalidArgumentError:
            self._is_broken = True

    @property
    def utility(self) -> float:
        """``|B| · √(mean loss²)``, NaN if a loss was not finite."""
        return math.nan if self._is_broken else self._meter.utility

    def metrics(
        self, *, duration_s: float | None = None, utility: float | None = None
    ) -> dict[str, int | float]:
        """Numbers to send along, in either API: merge them into the metrics that you return.

        ``duration_s`` replaces the time measured. ``utility`` replaces the losses: give it a
        noised one (``oort.privacy``) where the exact value must not leave the client.
        """
        seconds = time.perf_counter() - self._started if duration_s is None else duration_s
        if utility is not None:
            return {UTILITY: float(utility), DURATION_S: float(seconds)}
        square = math.nan if self._is_broken else self._meter.mean_squared_loss
        return {
            NUM_SAMPLES: self._meter.num_samples,
            MEAN_SQUARED_LOSS: square,
            DURATION_S: float(seconds),
        }


def keras_losses(model: Any, inputs: Any, targets: Any, *, batch_size: int = 32) -> Any:
    """The loss of every sample under a compiled Keras model, which ``fit`` itself does not give.

    report = ClientReport()
    report.update(keras_losses(model, x_train, y_train))
    model.fit(x_train, y_train)
    metrics = {"num-examples": len(x_train), **report.metrics()}
    """
    import keras

    loss = keras.losses.get(model.loss)
    per_sample = getattr(loss, "call", loss)
    outputs = model.predict(inputs, batch_size=batch_size, verbose=0)
    values = as_array(per_sample(keras.ops.convert_to_tensor(targets), outputs))
    return values.reshape(len(values), -1).mean(axis=1)


def introduce(app: ClientApp, describe: Describe | None = None) -> ClientApp:
    """Let a client app say who it is when Oort asks: the partition that it holds.

        app = introduce(ClientApp())

    ``describe(context)`` may tell more, all of it optional: ``id``, where ids are your own;
    ``num_samples`` and ``expected_duration_s``, hints for the first rounds; and what a test by
    category needs to know: ``samples`` (of each category), ``samples_per_s``, ``bandwidth_mbps``,
    ``transfer_mb``, ``max_samples``.
    """

    @app.query(ACTION)
    def who(message: Message, context: Context) -> Message:
        values = _description(context, describe).to_values()
        return Message(RecordDict({RECORD: ConfigRecord(dict(values))}), reply_to=message)

    return app


def describing_mod(describe: Describe | None = None) -> Mod:
    """As :func:`oort_mod`, for a client that tells more of itself: see :func:`introduce`."""

    def mod(message: Message, context: Context, call_next: CallNext) -> Message:
        if message.metadata.message_type == "get_properties":
            reply = call_next(message, context)
            return _with_properties(reply, _description(context, describe))
        started = time.perf_counter()
        reply = call_next(message, context)
        if message.metadata.message_type.split(".")[0] == "train" and not reply.has_error():
            _add_duration(reply.content, time.perf_counter() - started)
        return reply

    return mod


def oort_mod(message: Message, context: Context, call_next: CallNext) -> Message:
    """A Flower mod: measures how long training takes, and says who the client is.

        app = ClientApp(client_fn, mods=[oort_mod])

    For the classic API, and for apps whose training code is not to be touched. Put it last, next
    to the app, so that other mods' work is not counted.
    """
    return describing_mod()(message, context, call_next)


def as_array(values: object) -> npt.NDArray[np.float64]:
    """Numbers from a tensor of any framework, on any device, with or without a gradient.

    >>> as_array([1, 2]).tolist()
    [1.0, 2.0]
    """
    tensor: Any = values
    for step in ("detach", "cpu", "numpy"):
        if hasattr(tensor, step):
            tensor = getattr(tensor, step)()
    return np.asarray(tensor, dtype=np.float64)


def _description(context: Context, describe: Describe | None) -> Description:
    told = dict(describe(context)) if describe is not None else {}
    told.setdefault("id", context.node_config.get(PARTITION))
    hints = {name: told.pop(name) for name in _HINTS if name in told}
    return Description(**hints, info=told)


def _with_properties(reply: Message, description: Description) -> Message:
    """The client's own properties, if it has any, with the description added."""
    if reply.has_error() or description.id is None:
        return reply
    content = reply.content
    known: Any = content.config_records.get(f"{_PROPERTIES}.properties", {})
    content[f"{_PROPERTIES}.properties"] = ConfigRecord({**description.to_values(), **known})
    content[f"{_PROPERTIES}.status"] = ConfigRecord({"code": 0, "message": ""})
    return reply


def _add_duration(content: RecordDict, seconds: float) -> None:
    """Put a duration where the API keeps a client's metrics, if the app has not put one there."""
    records: Any = content.metric_records
    if "fitres.metrics" in content.config_records:
        records = {"": content.config_records["fitres.metrics"]}
    for record in list(records.values())[:1]:
        record.setdefault(DURATION_S, seconds)
