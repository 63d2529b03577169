"""The same datasite in Flower's classic API."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import Context

from oort.integrations.flower import ClientReport


class Datasite(NumPyClient):
    def fit(self, parameters: Any, config: Any) -> Any:
        number = int((Path(os.environ["DATA_DIR"]) / "number.txt").read_text())
        if number >= 9:
            time.sleep(60.0)  # not to be waited for
        report = ClientReport()
        report.update(np.full(10, float(number)))
        return [a + number for a in parameters], 10, report.metrics(duration_s=float(number))


def client_fn(context: Context) -> Any:
    return Datasite().to_client()


app = ClientApp(client_fn)
