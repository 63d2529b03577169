from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
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


def test_seeds_that_reached_other_clients_are_drawn_together(curves: list[Curve]) -> None:
    unequal = [replace(c, num_clients=c.num_clients + 5 * i) for i, c in enumerate(curves)]
    axes = draw(unequal, None, "participation").axes[0]
    assert len(axes.lines) == 2
    assert all(line.get_ydata()[-1] == 0 for line in axes.lines), "down to those never used"


def test_the_number_of_clients_that_the_settings_leave_open_is_read_from_the_history(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(0)
    for name in ("", "test_"):
        np.save(tmp_path / f"{name}x.npy", rng.normal(size=(400, 3)).astype(np.float32))
        np.save(tmp_path / f"{name}y.npy", rng.integers(0, 2, 400))
    np.save(tmp_path / "client.npy", np.repeat(np.arange(40), 10))
    data = {"dataset": "folder", "path": str(tmp_path), "clients": None}
    run(small(data=data, rounds={"count": 1}, seeds=[1, 2, 3]), tmp_path / "run")
    curves = read_runs([tmp_path / "run"])
    assert {c.num_clients for c in curves} == {40}
    assert draw(curves, 0.5).axes


def test_several_runs_are_compared_run_by_run(curves: list[Curve]) -> None:
    hasty = [r for r in curves[0].records if r.round % 2]
    other = [replace(c, run="other", records=hasty) for c in curves[:1]]
    lines = compare([*curves, *other], 0.0)
    names = [line.strategy for line in lines]
    run_name = curves[0].run
    assert names == [f"oort ({run_name})", f"random ({run_name})", "oort (other)"]
    assert lines[0].speedup == compare(curves, 0.0)[0].speedup
    assert len(lines[2].speedup) == 1


def test_runs_in_folders_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for parent in ("a", "b"):
        run(small(rounds={"count": 2}), tmp_path / parent / "run")
    curves = read_runs([tmp_path / "a" / "run", tmp_path / "b" / "run"])
    assert {c.run for c in curves} == {str(tmp_path / "a" / "run"), str(tmp_path / "b" / "run")}
    assert len(compare(curves, 0.0)) == 4


def test_a_baseline_of_its_own_run_is_not_needed(curves: list[Curve]) -> None:
    oort = [replace(c, run="guided") for c in curves if c.strategy == "oort"]
    random = [replace(c, run="plain") for c in curves if c.strategy == "random"]
    target = usual_target(curves)
    apart, together = compare([*oort, *random], target), compare(curves, target)
    assert [line.speedup for line in apart] == [line.speedup for line in together]


def test_names_that_look_like_formulas_are_drawn_as_they_are(curves: list[Curve]) -> None:
    named = [replace(c, strategy=r"$\frac$") for c in curves]
    assert r"$\frac$" in as_svg(named, None, "round-duration").replace("\\$", "$")


def test_where_colours_run_out_lines_are_broken(curves: list[Curve]) -> None:
    many = [replace(curves[0], strategy=f"s{i}") for i in range(8)]
    lines = draw(many, None, "round-duration").axes[0].lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 8


def test_rounds_and_updates_are_counted_in_whole_numbers(curves: list[Curve]) -> None:
    few = [replace(curve, records=curve.records[:4]) for curve in curves]
    for panel, axis in (("rounds-to-accuracy", 0), ("round-duration", 0), ("participation", 1)):
        axes = draw(few, None, panel).axes[0]
        ticks = (axes.xaxis, axes.yaxis)[axis].get_majorticklocs()
        assert all(float(tick).is_integer() for tick in ticks), (panel, ticks)


def test_a_name_that_begins_with_an_underscore_is_in_the_legend(curves: list[Curve]) -> None:
    mine = [replace(curve, strategy=f"_{curve.strategy}") for curve in curves]
    for panel in ("time-to-accuracy", "round-duration", "participation"):
        said = [text.get_text() for text in draw(mine, 0.1, panel).axes[0].legend_.texts]
        assert [text.split(":")[0].strip() for text in said] == ["_oort", "_random"]


def test_the_legend_says_when_the_target_is_reached(curves: list[Curve]) -> None:
    target = usual_target(curves)
    for panel, unit in (("time-to-accuracy", "h"), ("rounds-to-accuracy", "rounds")):
        said = [text.get_text() for text in draw(curves, target, panel).axes[0].legend_.texts]
        assert [text.split(":")[0] for text in said] == ["oort", "random"]
        assert all(text.endswith(unit) for text in said)
        never = [text.get_text() for text in draw(curves, 1.1, panel).axes[0].legend_.texts]
        assert all(text.endswith("never") for text in never)


def test_a_page_says_what_is_compared_and_what_each_picture_shows(curves: list[Curve]) -> None:
    text = page(curves, 0.1, title="t")
    assert "“times sooner” is beside random under the same seed" in text
    assert text.count("<figcaption>") == len(PANELS)


def test_a_seed_that_has_hardly_begun_does_not_bend_the_others(curves: list[Curve]) -> None:
    late = [r for r in curves[2].records if r.round >= 4]
    early = [r for r in curves[0].records if r.round <= 2]
    seeds = [replace(curves[0], records=early), replace(curves[2], records=late)]
    (line,) = draw(seeds, None, "rounds-to-accuracy").axes[0].lines
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (4, 6)


def test_a_single_test_is_a_dot(curves: list[Curve]) -> None:
    seeds = [replace(curves[0], records=curves[0].records[:2])]
    (line,) = draw(seeds, None, "rounds-to-accuracy").axes[0].lines
    assert line.get_marker() == "o"
