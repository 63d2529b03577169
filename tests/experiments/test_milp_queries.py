"""The requests of Fig. 18."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from experiments import milp
from experiments.milp.queries import grid, stratified


def test_the_straw_man_is_asked_for_every_size_with_small_and_with_large_budgets() -> None:
    queries = grid(200)
    chosen = stratified(queries, 20)
    sizes = sorted({q.samples for q in queries})
    assert [q.samples for q in chosen] == sizes
    assert {q.budget for q in chosen} == {q.budget for q in queries}
    for half in (chosen[:10], chosen[10:]):
        assert min(q.budget or 0 for q in half) <= 154
        assert max(q.budget or 0 for q in half) >= 3_000


@pytest.mark.parametrize("number", [0, 1, 7, 200, 500])
def test_as_many_are_chosen_as_asked_for_and_none_twice(number: int) -> None:
    queries = grid(200)
    chosen = stratified(queries, number)
    assert len(set(chosen)) == len(chosen) == min(number, len(queries))


def test_a_run_that_goes_on_forgets_answers_to_what_it_does_not_ask(tmp_path: Path) -> None:
    parser = argparse.ArgumentParser()
    milp.add_arguments(parser)
    options = parser.parse_args(["--resume", "--queries", "20", "--out", str(tmp_path)])
    begun = milp._begun(options)
    known = {"method": "milp", "samples": 4_000, "budget": 100, "outcome": "plan"}
    old = [known, known | {"samples": 4_001}, known | {"method": "oort"}]
    for content in begun["workloads"].values():
        content["answers"] = old
    (tmp_path / "milp.json").write_text(json.dumps(begun))
    for content in milp._begun(options)["workloads"].values():
        assert content["answers"] == [old[0], old[2]]
