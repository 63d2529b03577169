"""The client: the usual train and evaluate of a Flower app, and four lines for Oort."""

from __future__ import annotations

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from oort.integrations.flower import ClientReport, introduce, samples_to_test
from oort_digits import task


def describe(context: Context) -> dict[str, object]:
    """What this client tells Oort of itself when asked: how fast it is, and what it holds."""
    client, _, labels = local_data(context)
    digits, counts = np.unique(labels, return_counts=True)
    about = {  # what a test by category needs
        "samples": dict(zip(digits.tolist(), counts.tolist(), strict=True)),
        "samples_per_s": 1.0 / task.seconds_per_sample(client),
        "bandwidth_mbps": 10.0,
    }
    if context.run_config["speed-hints"]:
        about["expected_duration_s"] = duration_s(client, context)
    return about


app = introduce(ClientApp(), describe)  # for Oort: who am I?


@app.train()
def train(message: Message, context: Context) -> Message:
    """Train on the local images."""
    client, images, labels = local_data(context)
    model = message.content["arrays"].to_numpy_ndarrays()
    steps, rate = (
        int(context.run_config["local-steps"]),
        float(context.run_config["learning-rate"]),
    )
    batch_size = int(context.run_config["batch-size"])
    rng = np.random.default_rng([client, int(message.content["config"]["server-round"])])
    report = ClientReport(num_samples=len(labels))  # for Oort: the loss of every sample ...
    for _ in range(steps):
        rows = rng.choice(len(labels), size=min(batch_size, len(labels)), replace=False)
        losses = task.step(model, images[rows], labels[rows], rate)
        report.update(losses)  # ... batch by batch
    # The device is simulated, and so is its time. On a real one, leave duration_s out.
    metrics = {
        "num-examples": len(labels),
        "train_loss": float(np.mean(losses)),
        **report.metrics(duration_s=duration_s(client, context)),  # for Oort: what to send
    }
    content = RecordDict({"arrays": ArrayRecord(model), "metrics": MetricRecord(metrics)})
    return Message(content=content, reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Test on the local images, or on those that Oort asks for."""
    _, images, labels = local_data(context)
    wanted = samples_to_test(message.content["config"])
    rows = np.arange(len(labels)) if wanted is None else pick(labels, wanted)
    model = message.content["arrays"].to_numpy_ndarrays()
    metrics = {
        "num-examples": len(rows),
        "accuracy": task.accuracy(model, images[rows], labels[rows]),
    }
    return Message(content=RecordDict({"metrics": MetricRecord(metrics)}), reply_to=message)


def duration_s(client: int, context: Context) -> float:
    """What a round takes this client's simulated device, with two seconds for the way."""
    config = context.run_config
    samples = int(config["local-steps"]) * int(config["batch-size"])
    return samples * task.seconds_per_sample(client) + 2.0


def pick(labels: np.ndarray, wanted: dict[int, int]) -> np.ndarray:
    """As many images of each digit as asked for."""
    return np.concatenate([np.flatnonzero(labels == d)[:count] for d, count in wanted.items()])


def local_data(context: Context) -> tuple[int, np.ndarray, np.ndarray]:
    """Which client this is, and what it holds."""
    client = int(context.node_config["partition-id"])
    return client, *task.partition(client, int(context.node_config["num-partitions"]))
