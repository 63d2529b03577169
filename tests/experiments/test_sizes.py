"""What ``python -m experiments.pacer.sizes`` does besides measuring."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from experiments.pacer import sizes


def test_results_go_into_a_folder_that_was_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new" / "results"
    monkeypatch.setattr(sizes, "WORLDS", {})
    monkeypatch.setattr(sys, "argv", ["sizes", "--out", str(folder)])
    sizes.main()
    assert {path.name for path in folder.iterdir()} == {"sizes.json", "sizes.md"}
