"""The durable selector is a training selector: the contract, on both databases."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

import oort
from oort.checks import TRAINING_CHECKS, Make

_jobs = itertools.count()


@pytest.fixture
def make(url: str) -> Iterator[Make]:
    made: list[oort.DurableSelector] = []

    def fresh(config: oort.TrainingConfig) -> oort.DurableSelector:
        made.append(oort.open_selector(url, job=f"job-{next(_jobs)}", config=config))
        return made[-1]

    yield fresh
    for selector in made:
        selector.close()


@pytest.mark.parametrize("check", TRAINING_CHECKS, ids=lambda check: check.__name__)
def test_a_durable_selector_keeps_the_contract(check: Callable[[Make], None], make: Make) -> None:
    check(make)
