"""The contract holds for every implementation, and the checks can fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import oort
from oort import checks
from oort.baselines import RoundRobinSelector, UniformSelector
from oort.training.selector import GuidedSelector


@pytest.mark.parametrize("make", [GuidedSelector, UniformSelector, RoundRobinSelector])
@pytest.mark.parametrize("check", checks.TRAINING_CHECKS, ids=lambda check: check.__name__)
def test_every_selector_keeps_the_contract(
    check: Callable[[checks.Make], None], make: checks.Make
) -> None:
    check(make)  # raises AssertionError where the contract is broken
    assert check in checks.TRAINING_CHECKS


class _Repeats(GuidedSelector):
    """Picks the same client twice."""

    def select_participant(
        self, num_participants: int, among: oort.types.Among | None = None
    ) -> list[oort.ClientId]:
        picks = super().select_participant(num_participants, among)
        return [*picks[:-1], picks[0]] if len(picks) > 1 else picks


def test_a_selector_that_repeats_a_client_fails_the_contract() -> None:
    with pytest.raises(AssertionError, match="distinct"):
        checks.check_training_selector(_Repeats)


def test_every_check_of_the_module_is_on_the_list() -> None:
    public = {
        name
        for name, value in vars(checks).items()
        if callable(value)
        and getattr(value, "__module__", "") == checks.__name__
        and not name.startswith("_")
        and name != "check_training_selector"
    }
    assert public == {check.__name__ for check in checks.TRAINING_CHECKS}
