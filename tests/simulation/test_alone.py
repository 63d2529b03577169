from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from oort.errors import LeaseError, MissingExtraError
from oort.simulation import run
from oort.simulation.alone import alone_in
from tests.simulation.examples import small

pytestmark = pytest.mark.skipif(os.name != "posix", reason="locks as POSIX has them")


def test_two_at_once_do_not_write_into_one_folder(tmp_path: Path) -> None:
    with alone_in(tmp_path / "run"):
        with pytest.raises(LeaseError, match="one process at a time; got another at work"):
            run(small(), tmp_path / "run")
        assert list((tmp_path / "run").iterdir()) == []
    assert run(small(), tmp_path / "run")


def test_a_run_that_failed_lets_go_of_its_folder(tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        run(small(), tmp_path, progress=broken)
    assert run(small(), tmp_path)


def test_where_there_are_no_locks_runs_go_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    def refused(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refused)
    entered = 0
    with alone_in(tmp_path), alone_in(tmp_path):
        entered += 1
    assert entered == 1
    assert run(small(), tmp_path)


@pytest.mark.parametrize(
    ("package", "extra", "settings"),
    [
        ("pyarrow", "parquet", {"output": {"format": "parquet"}}),
        ("tensorboard", "tensorboard", {"output": {"tensorboard": True}}),
        ("mlflow", "mlflow", {"output": {"mlflow": True}}),
        ("ray", "ray", {"executor": {"kind": "ray"}}),
        ("torch", "sim", {"learner": {"model": "chars"}}),
    ],
)
def test_a_missing_extra_is_noticed_before_anything_is_made(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    extra: str,
    settings: dict[str, Any],
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"'{package}': pip install 'oort-fl\[{extra}\]'"):
        run(small(**settings), tmp_path / "run")
    assert not (tmp_path / "run").exists()
