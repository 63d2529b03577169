"""Where a history goes beside its file: TensorBoard, MLflow (each an extra of its own)."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, Protocol

from oort.errors import missing_extra
from oort.simulation.config import OutputConfig
from oort.simulation.history import RoundRecord

MLFLOW_RUN = "mlflow-run"


class Sink(Protocol):
    """Takes rounds as they end."""

    def write(self, record: RoundRecord) -> None:
        """Take a round."""

    def close(self) -> None:
        """Write what is left."""


class TensorBoardSink:
    """Scalars for TensorBoard, in the run's own folder.

    Args:
        folder: The run's.
        after: The last round that it goes on after; later ones, which a kill left behind, are
            taken back.
    """

    def __init__(self, folder: Path, *, after: int = 0) -> None:
        try:
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError:
            missing_extra("output.tensorboard", "tensorboard", "tensorboard")
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._writer = EventFileWriter(str(folder / "tensorboard"))
        begins = SessionLog(status=SessionLog.START)
        self._writer.add_event(Event(step=after + 1, session_log=begins))

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
    """Metrics of an MLflow run, at the tracking server that MLflow is set up for.

    Args:
        folder: The run's; the number that MLflow gave it is kept there.
        label: What MLflow calls the run.
        after: The last round that it goes on after, in the same MLflow run; 0 for a new one.
    """

    def __init__(self, folder: Path, label: str, *, after: int = 0) -> None:
        try:
            from mlflow.tracking import MlflowClient
        except ImportError:
            missing_extra("output.mlflow", "mlflow", "mlflow")
        self._client: Any = MlflowClient()
        known = folder / MLFLOW_RUN
        self._run = known.read_text(encoding="utf-8") if after and known.is_file() else ""
        if not self._run:
            self._run = self._new(label)
            known.write_text(self._run, encoding="utf-8")
        self._client.update_run(self._run, status="RUNNING")

    def _new(self, label: str) -> str:
        experiment = self._client.get_experiment_by_name("oort")
        number = experiment.experiment_id if experiment else self._client.create_experiment("oort")
        return str(self._client.create_run(number, run_name=label).info.run_id)

    def write(self, record: RoundRecord) -> None:
        """Take a round."""
        from mlflow.entities import Metric

        milliseconds = int(record.clock_s * 1000)
        self._client.log_batch(
            self._run,
            metrics=[Metric(k, v, milliseconds, record.round) for k, v in scalars(record).items()],
        )

    def close(self) -> None:
        """Mark the run as ended."""
        self._client.set_terminated(self._run)


def create(config: OutputConfig, folder: Path, label: str, *, after: int = 0) -> list[Sink]:
    """The sinks that the settings ask for, to go on after a round."""
    asked: list[Sink] = []
    if config.tensorboard:
        asked.append(TensorBoardSink(folder, after=after))
    if config.mlflow:
        asked.append(MLflowSink(folder, label, after=after))
    return asked


def scalars(record: RoundRecord) -> dict[str, float]:
    """What of a round is a finite number."""
    values = dataclasses.asdict(record)
    return {k: float(v) for k, v in values.items() if k != "round" and math.isfinite(v)}
