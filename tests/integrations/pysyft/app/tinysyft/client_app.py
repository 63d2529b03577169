"""A datasite whose private data is one number: it moves the model by it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from oort.integrations.flower import ClientReport

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    number = int((Path(os.environ["DATA_DIR"]) / "number.txt").read_text())
    if number >= 9:
        time.sleep(60.0)  # not to be waited for
    report = ClientReport()
    report.update(np.full(10, float(number)))
    metrics = MetricRecord({"num-examples": 10, **report.metrics(duration_s=float(number))})
    arrays = message.content.array_records["arrays"].to_numpy_ndarrays()
    moved = ArrayRecord([array + number for array in arrays])
    return Message(RecordDict({"arrays": moved, "metrics": metrics}), reply_to=message)
