"""Pictures of plans and of how planners compare."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="pictures need the extra 'plots'")

import oort
from oort.plots.plans import draw_comparison, draw_plan, draw_scale

PNG = b"\x89PNG"


@pytest.mark.parametrize("clients", [1, 30, 900])
def test_a_plan_of_any_size_can_be_drawn(clients: int, tmp_path: Path) -> None:
    g = np.random.default_rng(clients)
    tester = oort.create_testing_selector()
    tester.update_clients_info(
        np.arange(clients),
        g.integers(1, 9, (clients, 3)),
        samples_per_s=g.uniform(1, 9, clients),
        bandwidth_mbps=g.uniform(1, 9, clients),
    )
    share: dict[str | int, int] = dict.fromkeys(range(3), clients)
    draw_plan(tester.select_by_category(share, {"transfer_mb": 1}), tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(PNG)


def test_methods_are_drawn_side_by_side_even_where_one_answered_nothing(tmp_path: Path) -> None:
    answers = [{"solver_s": s, "end_to_end_s": 10 * s} for s in (0.1, 0.2, 0.4)]
    queries = {"oort": answers, "paper": answers[:1], "milp": []}
    draw_comparison(queries, tmp_path / "compared.png", title="three requests")
    assert (tmp_path / "compared.png").read_bytes().startswith(PNG)


def test_times_are_drawn_over_the_number_of_categories(tmp_path: Path) -> None:
    cases = [
        {"population": p, "budget_kind": b, "method": m, "categories": k, "solver_s": s}
        for p in ("small", "large")
        for b in ("none", "half")
        for m in ("oort", "paper")
        for k, s in ((1, 0.1), (100, None), (1_000, 2.0))
    ]
    draw_scale(cases, tmp_path / "scale.png")
    assert (tmp_path / "scale.png").read_bytes().startswith(PNG)


def test_ids_of_any_look_can_be_drawn(tmp_path: Path) -> None:
    tester = oort.create_testing_selector()
    for name in ("$a_{", "x" * 300, "a\nb", "[red]", "7"):
        tester.update_client_info(name, {"samples": {"cat": 10}, "samples_per_s": 5.0})
    draw_plan(tester.select_by_category({"cat": 50}), tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 0
