"""Client apps for tests, of both APIs: nothing here depends on the version of Flower."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp

from oort.integrations.flower import ClientReport, introduce, oort_mod, samples_to_test

Train = Callable[[int, Message], tuple[list[np.ndarray], dict[str, float]]]


class BrokenError(RuntimeError):
    """What a client with bad luck raises."""


def usual(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
    """Moves the model by the partition's number; loss and duration depend on it too."""
    report = ClientReport()
    report.update(np.full(10 + partition, 1.0 + partition))
    arrays = [a + partition for a in message.content["arrays"].to_numpy_ndarrays()]  # type: ignore[union-attr]
    metrics = {"num-examples": 10 + partition, "train_loss": 1.0 + partition}
    return arrays, {**metrics, **report.metrics(duration_s=1.0 + partition)}


def client_app(
    train: Train = usual,
    *,
    says_who: bool = True,
    evaluate: Callable[[int, Message], dict[str, float]] | None = None,
    describe: Callable[[Context], dict[str, object]] | None = None,
    train_mods: list[Any] | None = None,
) -> ClientApp:
    """A client app out of a function of the partition and the message."""
    app = ClientApp()
    if says_who:
        introduce(app, describe)

    @app.train(mods=train_mods)
    def do_train(message: Message, context: Context) -> Message:
        arrays, metrics = train(int(context.node_config["partition-id"]), message)
        content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": MetricRecord({**metrics})})
        return Message(content, reply_to=message)

    @app.evaluate()
    def do_evaluate(message: Message, context: Context) -> Message:
        partition = int(context.node_config["partition-id"])
        metrics = {"num-examples": 1.0}
        metrics |= evaluate(partition, message) if evaluate else {"accuracy": 0.5}
        return Message(RecordDict({"metrics": MetricRecord({**metrics})}), reply_to=message)

    return app


class Phone(NumPyClient):
    """Moves the model by its partition's number; may be slow, broken or mute."""

    def __init__(self, partition: int, **luck: Any) -> None:
        self.partition = partition
        self.luck = luck

    def fit(self, parameters: Any, config: Any) -> Any:
        if self.partition in self.luck.get("broken", ()):
            raise BrokenError
        if self.partition in self.luck.get("slow", ()):
            time.sleep(60.0)
        report = ClientReport()
        report.update(np.full(10 + self.partition, 1.0 + self.partition))
        metrics = {} if self.luck.get("mute") else report.metrics(duration_s=1.0 + self.partition)
        # Flower's private strategies divide by an update's norm: nudge it away from 0.
        arrays = [array + self.partition + self.luck.get("nudge", 0.0) for array in parameters]
        return arrays, 10 + self.partition, {"loss": 2.0, **metrics}

    def evaluate(self, parameters: Any, config: Any) -> Any:
        told = self.luck.get("told")
        if told is not None:
            told[self.partition] = samples_to_test(config)
        return 0.5, 1, {"accuracy": 0.5}


def phones(mods: list[Any] | None = None, **luck: Any) -> ClientApp:
    def client_fn(context: Context) -> Any:
        return Phone(int(context.node_config["partition-id"]), **luck).to_client()

    return ClientApp(client_fn, mods=[oort_mod] if mods is None else mods)
