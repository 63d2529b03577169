"""The client: a NumPyClient as ever, and three lines for Oort."""

from __future__ import annotations

import numpy as np
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import Context
from sklearn.datasets import load_digits

from oort.integrations.flower import ClientReport, oort_mod


class DigitsClient(NumPyClient):
    """Softmax regression on the images of two digits."""

    def __init__(self, partition: int, num_partitions: int, epochs: int, rate: float) -> None:
        data = load_digits()
        digits = (partition % 10, (partition + 1) % 10)
        mine = np.flatnonzero(np.isin(data.target, digits))[
            partition // 10 :: num_partitions // 10
        ]
        self.images, self.labels = data.data[mine] / 16.0, data.target[mine]
        self.epochs, self.rate = epochs, rate

    def fit(self, parameters: list[np.ndarray], config: dict) -> tuple:
        """Train, and say what Oort needs to know."""
        weights = parameters[0]
        report = ClientReport(num_samples=len(self.labels))  # for Oort
        for _ in range(self.epochs):
            shares = self.shares(weights)
            report.update(-np.log(shares[np.arange(len(self.labels)), self.labels]))  # for Oort
            shares[np.arange(len(self.labels)), self.labels] -= 1.0
            weights = weights - self.rate * self.images.T @ shares / len(self.labels)
        return [weights], len(self.labels), report.metrics()

    def evaluate(self, parameters: list[np.ndarray], config: dict) -> tuple:
        """Test on the local images."""
        shares = self.shares(parameters[0])
        loss = -np.log(shares[np.arange(len(self.labels)), self.labels]).mean()
        right = (shares.argmax(axis=1) == self.labels).mean()
        return float(loss), len(self.labels), {"accuracy": float(right)}

    def shares(self, weights: np.ndarray) -> np.ndarray:
        """How probable each digit is, for each image."""
        scores = self.images @ weights
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


def client_fn(context: Context):
    """A client for the partition that this node holds."""
    return DigitsClient(
        int(context.node_config["partition-id"]),
        int(context.node_config["num-partitions"]),
        int(context.run_config["local-epochs"]),
        float(context.run_config["learning-rate"]),
    ).to_client()


app = ClientApp(client_fn, mods=[oort_mod])  # for Oort: says which partition this is
