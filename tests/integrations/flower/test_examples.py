"""The examples run as their READMEs say: ``flwr run .``, on a SuperLink that Flower starts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .processes import EXAMPLES, flwr_run

pytestmark = pytest.mark.skipif(not EXAMPLES.is_dir(), reason="needs examples/")


@pytest.mark.slow
def test_the_example_trains_with_both_selectors_tests_by_category_and_continues(
    tmp_path: Path,
) -> None:
    first, again = tmp_path / "first", tmp_path / "again"
    first.mkdir()
    again.mkdir()
    kept = f"state-folder='{tmp_path / 'state'}'"
    config = f"num-server-rounds=3 test-by-category=true {kept}"
    out = flwr_run("flower", first, config, nodes=30)
    table = dict(re.findall(r"^(oort|random)\s.*?([\d.]+)%\s*$", out, re.MULTILINE))
    assert set(table) == {"oort", "random"}, out[-6000:]
    assert all(float(accuracy) > 0 for accuracy in table.values())
    assert out.count("oort: round 3 ended by quorum") == 2
    assert re.search(r"oort: [1-9]\d* clients test", out)
    out = flwr_run("flower", again, f"num-server-rounds=4 {kept}", nodes=30)
    assert out.count("oort: round 4 ended by quorum") == 2, out[-6000:]
    assert "oort: round 3 ended" not in out


@pytest.mark.slow
def test_the_classic_example_runs(tmp_path: Path) -> None:
    out = flwr_run("flower-classic", tmp_path, "num-server-rounds=2", nodes=20)
    assert "oort: round 2 ended by quorum" in out, out[-6000:]
    assert "Run finished 2 round(s)" in out
