"""Large tables take other ways (histograms, remembered candidates, compiled passes, proposals):
the same picks, or picks of the same distribution, come out.
"""

from __future__ import annotations

import importlib.util
from functools import partial
from typing import Any

import numpy as np
import pytest

import oort
from oort import kernels
from oort.clients.table import Statistics
from oort.training import candidates, exploit, scoring
from oort.training.selector import GuidedSelector
from oort.training.utility import Scale, Single
from oort.types import Rows
from tests.support import (
    NO_EXPLORATION,
    ONLY_EXPLORATION,
    as_if_large,
    fits,
    heard_of,
    heavy_tailed,
    new_selector,
)

__all__ = ["as_if_large"]

Picked = tuple[list[oort.ClientId], float, float, int]
Played = list[Picked]


def told(selection: oort.Selection) -> Picked:
    """What has to be the same, whichever way it was decided."""
    facts = (selection.preferred_s, selection.cutoff, selection.pool_size)
    return selection.participants, *facts


def drifting(alpha: float | str, rounds: int = 40) -> tuple[Played, GuidedSelector]:
    """A job whose fast clients become slow, so that T grows and slow clients rise."""
    generator = np.random.default_rng(0)
    count = 3000
    worth, duration_s = generator.uniform(0, 1, count), generator.uniform(5.5, 60, count)
    fast = generator.choice(count, 200, replace=False)
    duration_s[fast], worth[fast] = 5.0, worth[fast] * 0.6
    selector = heard_of(worth, duration_s, alpha=alpha, exploration=NO_EXPLORATION)
    played: Played = []
    for number in range(rounds):
        selection = selector.select(2)
        played.append(told(selection))
        if number > 10:
            tired = generator.choice(fast, 8, replace=False)
            selector.update_clients(tired, utility=0.1, duration_s=80.0)
            risen = generator.choice(count, 3, replace=False)
            selector.update_clients(risen, utility=0.99, duration_s=4.0)
    return played, selector


@pytest.mark.parametrize("alpha", [0.5, 2.0, 3.0, 8.0, "inf"])
def test_remembered_candidates_give_the_pool_of_a_full_pass_for_any_alpha(
    alpha: float | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, _ = drifting(alpha)
    monkeypatch.setattr(scoring, "MANY_ROWS", 1)
    monkeypatch.setattr(candidates, "_FEWEST", 50)
    monkeypatch.setattr(candidates, "_PER_PICK", 4)
    found, selector = drifting(alpha)
    assert found == expected
    assert 0 < selector._candidates.full_passes < 40, "some rounds were spared a full pass"


def alike(rounds: int = 30) -> tuple[Played, GuidedSelector]:
    """A job in which more clients are the best alike than a full pass is asked for."""
    generator = np.random.default_rng(0)
    worth = np.where(generator.random(3000) < 0.04, 1.0, generator.uniform(0, 0.7, 3000))
    selector = heard_of(worth, np.full(3000, 9.0), exploration=NO_EXPLORATION, clip_quantile=1.0)
    played: Played = []
    for _ in range(rounds):
        selection = selector.select(3)
        played.append(told(selection))
        selector.update_clients(selection.participants, utility=0.1, duration_s=9.0)
    return played, selector


def test_clients_that_are_the_best_alike_are_remembered_with_all_of_their_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, _ = alike()
    monkeypatch.setattr(scoring, "MANY_ROWS", 1)
    monkeypatch.setattr(candidates, "_FEWEST", 50)
    found, selector = alike()
    assert found == expected
    assert found[0][3] > 50, "the pool is larger than what a full pass is asked for"
    assert 0 < selector._candidates.full_passes < 15


def test_no_full_pass_is_made_twice_in_vain() -> None:
    everyone, asked = np.arange(40_000), []

    def best(count: int, share: float, hint: float) -> tuple[Rows, Single]:
        """So many are alike that all down to the cut-off are too many."""
        asked.append((count, share))
        rows = everyone[: count if share == 1.0 else None]
        return rows, np.ones(rows.size, np.float32)

    remembered = candidates.Candidates()
    remembered._is_deep = True
    yardstick = candidates.Yardstick(Scale.between(0.0, 1.0), 0.1, 10.0)
    among = partial(exploit.settled, scores=np.ones(8192, np.float32), wanted=9, share=0.95)
    assert remembered.pool(9, 0.95, yardstick, among=among, best=best) is None
    assert len(asked) == len(set(asked)) == 2
    assert remembered.pool(9, 0.95, yardstick, among=among, best=best) is None
    assert len(asked) == 2, "nor soon again"


def wearing_out(rounds: int = 300) -> tuple[Played, list[int], GuidedSelector]:
    """A job that uses its best clients up, then hears of nobody; also, how deep it remembers."""
    worth = np.random.default_rng(0).exponential(1, 6000)
    settings = {"exploration": NO_EXPLORATION, "clip_quantile": 1.0, "max_participations": None}
    selector = heard_of(worth, np.full(6000, 9.0), **settings)
    played: Played = []
    depths = []
    for number in range(rounds):
        selection = selector.select(20)
        played.append(told(selection))
        depths.append(selector._candidates._depth)
        if number < 30:
            selector.update_clients(selection.participants, utility=0.1, duration_s=9.0)
    return played, depths, selector


def test_more_candidates_are_remembered_where_they_wear_out_and_fewer_where_they_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, depths, _ = wearing_out()
    assert set(depths) == {1}, "nothing is remembered of a small table"
    monkeypatch.setattr(scoring, "MANY_ROWS", 1)
    monkeypatch.setattr(candidates, "_FEWEST", 50)
    monkeypatch.setattr(candidates, "_PER_PICK", 4)
    found, depths, selector = wearing_out()
    assert found == expected
    assert max(depths[:30]) > 1
    assert depths[-1] < max(depths)
    assert 0 < selector._candidates.full_passes < 30, "of three hundred rounds"


def now_many_now_few(rounds: int = 40) -> tuple[Played, GuidedSelector]:
    """A job whose rounds are large and topped up by a few."""
    worth, duration_s = heavy_tailed(6000)
    selector = heard_of(worth, duration_s, exploration=NO_EXPLORATION, max_participations=None)
    played: Played = []
    for _ in range(rounds):
        many = selector.select(100)
        few = selector.select(2, round_number=many.round_number)
        played += [told(many), told(few)]
    return played, selector


def test_candidates_for_many_picks_serve_for_few_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, _ = now_many_now_few()
    monkeypatch.setattr(scoring, "MANY_ROWS", 1)
    monkeypatch.setattr(candidates, "_FEWEST", 50)
    monkeypatch.setattr(candidates, "_PER_PICK", 16)
    found, selector = now_many_now_few()
    assert found == expected
    assert selector._candidates.full_passes <= 10, "of eighty selections"
    assert selector._candidates._depth == 1, "nothing wore out"


@pytest.mark.parametrize("wanted", [1, 9_999, 10_000, 10**6, 10**9, 2**62, 10**400])
def test_any_k_works_on_a_large_table(wanted: int) -> None:
    selector = heard_of(np.arange(10_000.0), 1.0, exploration=NO_EXPLORATION)
    picks = selector.select_participant(wanted)
    assert len(picks) == len(set(picks)) == min(wanted, 10_000)


def test_minus_zero_is_zero_on_a_large_table() -> None:
    selector = new_selector(5_000)
    selector.register_clients([0, 1], expected_duration_s=[-0.0, -0.0])
    selector.select_participant(5)
    result = selector.update_clients([1, 2], utility=[-0.0, 5.0], duration_s=[-0.0, 3.0])
    assert result.applied == 2
    assert not np.signbit(selector.columns([1, 2]).utility).any()
    assert not np.signbit(selector.columns([0, 1]).duration_s).any()
    assert len(selector.select_participant(9)) == 9


@pytest.mark.skipif(not importlib.util.find_spec("numba"), reason="numba is not installed")
@pytest.mark.parametrize("settings", [{}, {"staleness": 0.0}, {"pacer": {"preferred_s": 1e300}}])
def test_compiled_and_plain_kernels_pick_the_same(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def play() -> list[list[oort.ClientId]]:
        worth, duration_s = heavy_tailed(9_000)
        selector = heard_of(worth, duration_s, exploration=NO_EXPLORATION, **settings)
        played = []
        for _ in range(4):
            picks = selector.select_participant(50, among=np.arange(9_000) % 3 > 0)
            selector.update_clients(picks, utility=worth[np.array(picks)] * 0.9)
            played.append(picks)
        return played

    monkeypatch.setattr(kernels, "COMPILED_FROM_ROWS", 1)
    compiled = play()
    monkeypatch.setattr(kernels, "COMPILED_FROM_ROWS", 10**9)
    assert play() == compiled


def test_quantiles_of_a_large_table_are_those_of_its_columns_rounded_up_a_little() -> None:
    worth, duration_s = heavy_tailed(6_000)
    selector = heard_of(worth, duration_s, exploration=NO_EXPLORATION)
    selector.update_clients(range(0, 6_000, 2), utility=worth[::2] * 3, round_number=0)
    selector.remove_clients(range(100))
    selector.forget(range(100, 200))
    left = np.sort(np.float32(duration_s[200:]))
    selection = selector.select(50)
    exact = float(left[int(20 * 50 / 5_800 * (left.size - 1))])
    assert exact <= selection.preferred_s <= exact * 1.0005
    kept = np.sort(np.float32(worth[200:]))  # the second reports were repeats
    cap = float(kept[int(0.95 * (kept.size - 1))])
    best = max(pick.utility for pick in selection.why)
    assert best == pytest.approx(1.0, abs=1e-3)
    middling = selector.preview(5_800).why
    scale = {int(p.client): p.utility for p in middling}
    client = int(np.argsort(worth[200:])[3000]) + 200
    expected = (worth[client] - kept[0]) / (cap - kept[0])
    assert scale[client] == pytest.approx(expected, rel=2e-3)


def test_statistics_kept_row_by_row_are_those_counted_anew(as_if_large: None) -> None:
    generator = np.random.default_rng(4)
    selector = new_selector(200, max_participations=5)
    for number in range(60):
        picks = np.array(selector.select_participant(20))
        values = generator.lognormal(2, 1, 20)
        outcome = generator.choice(["completed", "failed", "unused"], 20)
        selector.update_clients(picks, utility=values, duration_s=values[::-1], outcome=outcome)
        selector.register_clients([number, 200 + number], expected_duration_s=float(number))
        selector.remove_clients([number * 2])
        selector.forget([number * 3])
        selector.mark_online([number])
    kept, anew = selector._table.statistics, Statistics(selector._table)
    assert kept is not anew
    assert (kept.num_untried, kept.num_explored) == (anew.num_untried, anew.num_explored)
    assert kept.expected_duration_s() == anew.expected_duration_s()
    for level in np.linspace(0, 1, 30):
        assert kept.utility_range(level) == anew.utility_range(level)
        assert kept.explored_duration_s(level) == anew.explored_duration_s(level)


def test_exploration_among_many_is_in_proportion_to_speed() -> None:
    selector = oort.create_training_selector({"exploration": ONLY_EXPLORATION})
    kinds_s = np.array([1.0, 2.0, 5.0, 20.0])
    selector.register_clients(range(8_000), expected_duration_s=np.tile(kinds_s, 2_000))
    counts = np.zeros(4)
    for _ in range(150):
        picks = np.array(selector.select_participant(40))
        counts += np.bincount(picks % 4, minlength=4)
        selector.update_clients(picks, outcome="unused")
    assert fits(counts, 1 / kinds_s)


def test_exploitation_from_a_large_pool_is_in_proportion_to_score() -> None:
    worth = np.tile([0.0, 1.0, 2.0, 4.0], 2_000)
    selector = heard_of(
        worth, 1.0, exploration=NO_EXPLORATION, cutoff=0.0, staleness=0.0, clip_quantile=1.0
    )
    counts = np.zeros(4)
    for _ in range(150):
        picks = np.array(selector.select_participant(40))
        counts += np.bincount(picks % 4, minlength=4)
    assert counts[0] == 0
    assert fits(counts[1:], [1.0, 2.0, 4.0])
