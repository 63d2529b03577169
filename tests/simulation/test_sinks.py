from __future__ import annotations

from pathlib import Path

import pytest

from oort.errors import MissingExtraError
from oort.simulation import run
from oort.simulation.config import OutputConfig
from oort.simulation.history import RoundRecord
from oort.simulation.sinks import create
from tests.simulation.examples import small


def test_tensorboard_gets_a_scalar_for_every_finite_number(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra 'tensorboard'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run(small(output={"tensorboard": True}, strategies=[{"kind": "random"}]), tmp_path)
    events = EventAccumulator(str(tmp_path / "random-seed0" / "tensorboard"))
    events.Reload()
    assert len(events.Scalars("train_loss")) == 6
    assert len(events.Scalars("accuracy")) == 3


def test_what_a_kill_left_in_tensorboard_is_taken_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra 'tensorboard'")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def killed(_: object, record: RoundRecord) -> None:
        if record.round == 5:
            raise KeyboardInterrupt

    config = small(output={"tensorboard": True}, strategies=[{"kind": "random"}])
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path, progress=killed)
    run(config, tmp_path)
    folder = tmp_path / "random-seed0" / "tensorboard"
    events = EventAccumulator(str(folder))
    events.Reload()
    assert [s.step for s in events.Scalars("train_loss")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_mlflow_gets_the_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs the extra 'mlflow'")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    config = small(output={"mlflow": True}, strategies=[{"kind": "random"}])
    assert not run(config, tmp_path / "run", stop=lambda: True)
    assert run(config, tmp_path / "run")
    client = mlflow.tracking.MlflowClient()
    number = client.get_experiment_by_name("oort").experiment_id
    (found,) = client.search_runs([number])  # the run that was stopped went on
    assert len(client.get_metric_history(found.info.run_id, "train_loss")) == 6


def test_a_missing_sink_names_its_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("tensorboard.summary.writer.event_file_writer", "mlflow.tracking"):
        monkeypatch.setitem(sys.modules, name, None)
    for asked in ({"tensorboard": True}, {"mlflow": True}):
        extra = next(iter(asked))
        with pytest.raises(MissingExtraError, match=rf"pip install 'oort-fl\[{extra}\]'"):
            create(OutputConfig(**asked), tmp_path, "x")  # type: ignore[arg-type]
