"""Selectors in a known state, for tests of what they do next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from scipy.special import chdtrc

import oort
from oort import kernels
from oort.clients import table
from oort.kernels import arrays, draws
from oort.training import candidates, scoring
from oort.training.selector import GuidedSelector
from oort.types import Floats

NO_EXPLORATION: Final = {"start": 0.0, "minimum": 0.0}
ONLY_EXPLORATION: Final = {"start": 1.0, "minimum": 1.0, "decay": 1.0}


def exploring(share: float) -> dict[str, float]:
    """A share of exploration that stays."""
    return {"start": share, "minimum": share, "decay": 1.0}


def new_selector(count: int = 0, **settings: Any) -> GuidedSelector:
    """A selector with clients 0, 1, … registered."""
    selector = oort.create_training_selector(settings)
    selector.register_clients(range(count))
    return selector


def heard_of(utility: npt.ArrayLike, duration_s: Any = None, /, **settings: Any) -> GuidedSelector:
    """A selector whose clients 0, 1, … have all reported, before the first round."""
    values = np.asarray(utility, dtype=np.float64)
    selector = new_selector(values.size, **settings)
    result = selector.update_clients(range(values.size), utility=values, duration_s=duration_s)
    assert result.applied == values.size
    return selector


def scores_of(selection: oort.Selection) -> dict[oort.ClientId, float]:
    """What each pick's draw was weighted with."""
    return {pick.client: pick.score for pick in selection.why}


def participations(selector: GuidedSelector, clients: Sequence[oort.ClientId]) -> list[int]:
    """How often each of these took part."""
    return [int(n) for n in selector.columns(clients).participations]


def fits(observed: npt.ArrayLike, probability: npt.ArrayLike) -> bool:
    """Whether counts are those that chances let expect: chi-squared, p above 1e-4.

    The seeds of tests are fixed, so that the answer changes only if the sampling does.
    """
    seen, chance = np.asarray(observed, np.float64), np.asarray(probability, np.float64)
    expected = chance / chance.sum() * seen.sum()
    return bool(chdtrc(seen.size - 1, ((seen - expected) ** 2 / expected).sum()) > 1e-4)


def heavy_tailed(count: int, seed: int = 0) -> tuple[Floats, Floats]:
    """Utilities and durations of a mixed population."""
    generator = np.random.default_rng(seed)
    return generator.lognormal(3.0, 1.0, count), generator.lognormal(3.0, 0.6, count)


@pytest.fixture
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Histograms, remembered candidates, compiled passes and proposals from a few rows on."""
    monkeypatch.setattr(table, "EXACT_ROWS", 3)
    monkeypatch.setattr(scoring, "MANY_ROWS", 4)
    monkeypatch.setattr(candidates, "_FEWEST", 4)
    monkeypatch.setattr(candidates, "_PER_PICK", 2)
    monkeypatch.setattr(kernels, "COMPILED_FROM_ROWS", 2)
    monkeypatch.setattr(draws, "FEW", 2)
    monkeypatch.setattr(arrays, "_FEW", 2)
    monkeypatch.setattr(arrays, "_CHUNK", 5)
