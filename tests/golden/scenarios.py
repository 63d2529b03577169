"""Small jobs whose selections are pinned in ``selections.json``.

A change of the picks is a change that users see. When it is meant, write the file anew:

    python -m tests.golden.scenarios
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

import oort
from oort.baselines import RoundRobinSelector, UniformSelector
from oort.training.bookkeeping import BookkeepingSelector

FILE: Final = Path(__file__).with_name("selections.json")
FIXTURE: Final = Path(__file__).parents[1] / "fixtures" / "selector-v1.oort"

Picks = list[list[oort.ClientId]]


def play(selector: BookkeepingSelector, count: int, wanted: int, rounds: int) -> Picks:
    """A job with hints for half of its clients, top-ups, failures, unused picks and a late one."""
    generator = np.random.default_rng(2021)
    worth = generator.lognormal(3.0, 1.0, count)
    duration_s = generator.lognormal(3.0, 0.6, count)
    selector.register_clients(range(count))
    selector.register_clients(range(0, count, 2), expected_duration_s=duration_s[::2])
    played: Picks = []
    for number in range(1, rounds + 1):
        picks = selector.select_participant(wanted)
        picks += selector.select(2, round_number=number)
        played.append(picks)
        rows = np.array(picks)
        selector.update_clients(
            rows[3:], utility=worth[rows[3:]] * 0.97**number, duration_s=duration_s[rows[3:]]
        )
        selector.update_clients(rows[:1], outcome="failed")
        selector.update_clients(rows[1:2], outcome="unused", duration_s=30.0)
    return played


def guided(count: int, wanted: int, rounds: int, **settings: Any) -> Picks:
    """The same with the guided selector."""
    return play(oort.create_training_selector(settings), count, wanted, rounds)


def of_the_fixture() -> Picks:
    """What the stored selector of the first version does next."""
    selector = oort.load_selector(FIXTURE)
    played: Picks = []
    for _ in range(4):
        picks = selector.select_participant(4)
        played.append([*picks, *selector.select(2, round_number=selector.round_number)])
        selector.update_clients(picks, utility=3.0, duration_s=5.0)
    return played


SCENARIOS: Final[dict[str, Callable[[], Picks]]] = {
    "defaults": lambda: guided(300, 10, 12),
    "another seed": lambda: guided(300, 10, 12, seed=1),
    "the paper's values, tired": lambda: guided(
        20, 8, 30, seed=2, max_participations=10, pacer={"largest_step": 1.0}
    ),
    "a short window": lambda: guided(200, 10, 20, pacer={"window": 3}),
    "fairness": lambda: guided(100, 10, 12, fairness_weight=0.5),
    "deadline": lambda: guided(100, 10, 12, alpha="inf", pacer={"preferred_s": 25.0}),
    "seconds and steepness": lambda: guided(100, 10, 12, alpha=0.7, pacer={"step_s": 9.0}),
    "exploitation only": lambda: guided(50, 5, 10, exploration={"start": 0.0, "minimum": 0.0}),
    "a larger job": lambda: guided(2000, 20, 6),
    "uniform": lambda: play(UniformSelector({"seed": 3}), 100, 10, 4),
    "round robin": lambda: play(RoundRobinSelector(), 30, 10, 4),
    "the stored selector of version 1": of_the_fixture,
}


def main() -> None:
    """Write the file."""
    lines = [f"{json.dumps(name)}: {json.dumps(play())}" for name, play in SCENARIOS.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
