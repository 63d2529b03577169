"""A client that moves the model by its partition's number. Partition 2 is slow."""

from __future__ import annotations

import time

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from oort.integrations.flower import ClientReport, introduce

app = introduce(ClientApp())


@app.train()
def train(message: Message, context: Context) -> Message:
    partition = int(context.node_config["partition-id"])
    report = ClientReport()
    report.update(np.full(10 + partition, 1.0 + partition))
    arrays = message.content.array_records["arrays"].to_numpy_ndarrays()
    if partition == 2:
        time.sleep(5.0)
    moved = ArrayRecord([array + 1.0 for array in arrays])
    metrics = MetricRecord({"num-examples": 1, "train_loss": 1.0, **report.metrics()})
    return Message(RecordDict({"arrays": moved, "metrics": metrics}), reply_to=message)
