from __future__ import annotations

import math
from pathlib import Path

import pytest

from oort.plots.page import page, spread
from oort.simulation import compare, read_runs, run
from oort.simulation.report import Curve, time_to, usual_target
from tests.simulation.examples import small

pytest.importorskip("matplotlib", reason="pictures need the extra 'plots'")

from oort.plots.histories import PANELS, as_svg, draw


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> list[Curve]:
    into = tmp_path_factory.mktemp("curves")
    run(small(seeds=[1, 2], output={"format": "csv"}), into)
    return read_runs([into])


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_has_a_line_for_each_strategy(curves: list[Curve], panel: str) -> None:
    axes = draw(curves, None, panel).axes[0]
    labels = [line.get_label().split(":")[0] for line in axes.lines]
    assert labels == ["oort", "random"]
    assert axes.get_title()
    assert axes.get_xlabel()
    assert axes.get_ylabel()


def test_the_same_curves_give_the_same_picture(curves: list[Curve]) -> None:
    assert as_svg(curves, 0.1, "participation") == as_svg(curves, 0.1, "participation")


def test_a_run_without_tested_clients_says_so(tmp_path: Path) -> None:
    run(small(evaluation={"clients": 0}, rounds={"count": 2}), tmp_path)
    axes = draw(read_runs([tmp_path]), None, "worst-decile").axes[0]
    assert "not measured" in axes.texts[0].get_text()


def test_names_in_a_page_cannot_break_out_of_it(curves: list[Curve]) -> None:
    text = page(curves, 0.1, title="<script>alert(1)</script>", settings=[("a", "<b>")])
    assert "<script>" not in text
    assert "&lt;b&gt;" in text


def test_speed_ups_compare_the_same_seed(curves: list[Curve]) -> None:
    target = usual_target(curves)
    oort, random = compare(curves, target)
    assert random.speedup == (1.0, 1.0)
    by_hand = [
        time_to(curves[1], target)[0] / time_to(curves[0], target)[0],
        time_to(curves[3], target)[0] / time_to(curves[2], target)[0],
    ]
    assert list(oort.speedup) == pytest.approx(by_hand)


def test_a_target_never_reached_is_not_a_speed_up(curves: list[Curve]) -> None:
    oort, _ = compare(curves, 1.1)
    assert all(math.isinf(h) for h in oort.hours_to_target)
    assert spread(oort.speedup) == "–"
