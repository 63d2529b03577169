"""The same seed and the same calls give the same picks, today and after every change.

If a change of the picks is meant, ``python -m tests.golden.scenarios`` writes them anew.
"""

from __future__ import annotations

import json

import pytest

from tests.golden.scenarios import FILE, SCENARIOS


@pytest.mark.parametrize("name", SCENARIOS)
def test_picks_are_those_of_the_golden_file(name: str) -> None:
    golden = json.loads(FILE.read_text("utf-8"))
    assert SCENARIOS[name]() == golden[name], "meant? python -m tests.golden.scenarios"


def test_the_golden_file_has_every_scenario_and_no_other() -> None:
    assert list(json.loads(FILE.read_text("utf-8"))) == list(SCENARIOS)
