"""Every way to decide a round gives the same picks and leaves the same state, in any history.

Five selectors live through one history, each deciding in a way of its own: NumPy's steps, compiled
steps, one compiled call, and candidates remembered by either. After every call they must have
answered the same; now and then what they save must be the same, and one of them is loaded anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import oort
from oort import kernels, savefile
from oort.clients import statistics, table
from oort.training import at_once, candidates, scoring
from oort.training.selector import GuidedSelector
from oort.types import Floats
from tests.support import exploring

pytest.importorskip("numba", reason="compiled kernels need the extra 'fast'")

WAYS = ("numpy", "compiled", "at once", "numpy, remembering", "compiled, remembering")
POSSIBLE = at_once.is_possible
COLUMNS = ("how", "score", "utility", "staleness", "speed", "fairness", "duration_s")
ODD = [0.0, 5e-324, 9e-31, 1e-30, 1e-25, 1e-6, 1.0, 1.0000001, 20.0, 1e30, 1e300]

SETTINGS: list[dict[str, Any]] = [
    {},
    {"seed": 2**70, "staleness": 0.0, "max_participations": 2, "pacer": {"window": 1}},
    {"staleness": 1e25, "cutoff": 1.0, "clip_quantile": 0.5, "pacer": {"step_s": 1e-30}},
    {"staleness": 1e-42, "exploration": exploring(0.0), "pacer": {"preferred_s": 1e-26}},
    {"cutoff": 0.0, "clip_quantile": 0.0, "exploration": exploring(0.5), "strict_rounds": True},
    {"alpha": 0.0, "max_participations": 1, "pacer": {"preferred_s": 1e300}},
    {"alpha": 1e4, "exploration": exploring(0.1), "pacer": {"window": 2}},
    {"alpha": "inf", "pacer": {"window": 3, "smallest_step": 0.0}},
    {"fairness_weight": 0.4, "max_participations": None},
]


class Sameness:
    """One history, lived through in every way."""

    def __init__(self, patch: pytest.MonkeyPatch, seed: int, settings: dict[str, Any]) -> None:
        self.patch, self.random = patch, np.random.default_rng(seed)
        self.odd = bool(self.random.random() < 0.5)
        self.selectors = {way: GuidedSelector(settings) for way in WAYS}
        self.rows = 0

    def each(self, call: Callable[[GuidedSelector], Any]) -> Any:
        """Do the same in every way, and give what all of them answer."""
        answers = {}
        for way, selector in self.selectors.items():
            self.decide_by(way)
            try:
                answers[way] = told(call(selector))
            except oort.OortError as error:
                answers[way] = str(error)
        for way in WAYS:
            assert repr(answers[way]) == repr(answers["numpy"]), way
        self.rows = self.selectors["numpy"].num_rows
        return answers["numpy"]

    def decide_by(self, way: str) -> None:
        """From now on, decide in this way."""
        fast = None if way.startswith("numpy") else kernels.fast_kernels()
        at_all = POSSIBLE if way == "at once" else lambda *given: False
        self.patch.setattr(kernels, "compiled_for", lambda num_rows: fast)
        self.patch.setattr(at_once, "is_possible", at_all)
        self.patch.setattr(scoring, "MANY_ROWS", 1 if "remembering" in way else 10**9)

    def numbers(self, count: int) -> Floats:
        """Utilities or durations: usual ones, or such as are at the ends of what is possible."""
        usual = self.random.lognormal(3, 1, count)
        return self.random.choice(ODD, count) if self.odd else usual

    def some(self, most: int) -> npt.NDArray[np.int64]:
        """Ids, most of them known."""
        return self.random.integers(0, self.rows + 2, int(self.random.integers(1, most)))

    def whom(self) -> Any:
        """Among whom to select: anyone, a mask, ids."""
        some = self.random.random(self.rows) < self.random.choice([0.01, 0.6])
        return [None, some, self.some(80)][self.random.integers(3)]


def told(answer: Any) -> Any:
    """Everything that an answer says."""
    if not isinstance(answer, oort.Selection):
        return answer
    facts = [answer.participants, answer.round_number, answer.preferred_s, answer.epsilon]
    facts += [answer.cutoff, answer.pool_size]
    if answer.table is None:
        return facts
    return facts + [np.asarray(getattr(answer.table, name)).tolist() for name in COLUMNS]


def play_a_round(all_ways: Sameness) -> None:
    random = all_ways.random
    wanted = int(random.choice([1, 7, 100, 10**6], p=[0.2, 0.5, 0.25, 0.05]))
    among = all_ways.whom()
    chosen = all_ways.each(lambda s: s.select(wanted, among=among))
    if random.random() < 0.3:
        all_ways.each(lambda s: s.select(9, round_number=chosen[1] or None))
    picked = chosen[0][:500]
    utility, duration_s = all_ways.numbers(len(picked)), all_ways.numbers(len(picked))
    outcome = random.choice(["completed", "failed", "unused"], len(picked), p=[0.8, 0.1, 0.1])
    for part in (slice(0, None, 2), slice(1, None, 2)):
        reports = {"utility": utility[part], "duration_s": duration_s[part]}
        report(all_ways, picked[part], {**reports, "outcome": outcome[part]})


def report(all_ways: Sameness, clients: list[oort.ClientId], reports: dict[str, Any]) -> None:
    all_ways.each(lambda s: s.update_clients(clients, **reports))


def come_and_go(all_ways: Sameness) -> None:
    random, some = all_ways.random, all_ways.some(200)
    hints = all_ways.numbers(some.size)
    new = np.arange(all_ways.rows, all_ways.rows + int(random.choice([1, 900])))
    calls: list[Callable[[GuidedSelector], Any]] = [
        lambda s: s.register_clients(new),
        lambda s: s.register_clients(some, expected_duration_s=hints),
        lambda s: s.remove_clients(some),
        lambda s: s.forget(some[:5]),
        lambda s: s.mark_offline(some),
        lambda s: s.mark_online(),
        lambda s: s.preview(20),
        lambda s: s.update_clients(np.unique(some), utility=np.unique(some) % 3),
    ]
    all_ways.each(calls[random.integers(len(calls))])


def save_and_load(all_ways: Sameness, path: Path) -> None:
    def saved(selector: GuidedSelector) -> Any:
        selector.save(path)
        meta, arrays = savefile.read(path)
        return meta, {name: array.tobytes() for name, array in arrays.items()}

    all_ways.each(saved)
    way = WAYS[all_ways.random.integers(len(WAYS))]
    all_ways.selectors[way] = GuidedSelector.load(path)


@pytest.fixture
def as_if_many() -> Iterator[pytest.MonkeyPatch]:
    """Histograms and remembered candidates from a few rows on."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (statistics, table):
            patch.setattr(module, "EXACT_ROWS", 10)
        patch.setattr(candidates, "_FEWEST", 50)
        patch.setattr(candidates, "_PER_PICK", 2)
        yield patch


@pytest.mark.parametrize("clients", [12, 700, 4_090])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_whatever_happens_every_way_gives_the_same(
    settings: dict[str, Any], clients: int, as_if_many: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    all_ways = Sameness(as_if_many, clients, settings)
    hints = all_ways.numbers(clients)
    all_ways.each(lambda s: s.register_clients(range(clients), expected_duration_s=hints))
    for number in range(30):
        play_a_round(all_ways)
        come_and_go(all_ways)
        if number % 10 == 9:
            save_and_load(all_ways, tmp_path / "job.oort")
