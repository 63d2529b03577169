"""Where a history goes beside its file: TensorBoard, MLflow (each an extra of its own)."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, Protocol

from oort.errors import missing_extra
from oort.simulation.config import OutputConfig
from oort.simulation.history import RoundRecord


class Sink(Protocol):
    """Takes rounds as they end."""

    def write(self, record: RoundRecord) -> None:
        """Take a round."""

    def close(self) -> None:
        """Write what is left."""


class TensorBoardSink:
    """Scalars for TensorBoard, in the run's own folder."""

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            missing_extra("output.tensorboard", "tensorboard", "tensorboard")
        self._writer = EventFileWriter(str(folder / "tensorboard"))

    def write(self, record: RoundRecord) -> None:
        """Take a round; the simulated clock is the events' wall time."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=k, simple_value=v) for k, v in scalars(record).items()]
        event = Event(step=record.round, wall_time=record.clock_s, summary=Summary(value=values))
        self._writer.add_event(event)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


class MLflowSink:
    """Metrics of an MLflow run, at the tracking server that MLflow is set up for."""

    def __init__(self, label: str) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            missing_extra("output.mlflow", "mlflow", "mlflow")
        self._client: Any = MlflowClient()
        experiment = self._client.get_experiment_by_name("oort")
        number = experiment.experiment_id if experiment else self._client.create_experiment("oort")
        self._run = self._client.create_run(number, run_name=label).info.run_id

    def write(self, record: RoundRecord) -> None:
        """Take a round."""
        for name, value in scalars(record).items():
            milliseconds = int(record.clock_s * 1000)
            self._client.log_metric(self._run, name, value, milliseconds, record.round)

    def close(self) -> None:
        """Mark the run as ended."""
        self._client.set_terminated(self._run)


def create(config: OutputConfig, folder: Path, label: str) -> list[Sink]:
    """The sinks that the settings ask for."""
    asked: list[Sink] = []
    if config.tensorboard:
        asked.append(TensorBoardSink(folder))
    if config.mlflow:
        asked.append(MLflowSink(label))
    return asked


def scalars(record: RoundRecord) -> dict[str, float]:
    """What of a round is a finite number."""
    values = dataclasses.asdict(record)
    return {k: float(v) for k, v in values.items() if k != "round" and math.isfinite(v)}
