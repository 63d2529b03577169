"""What the answers of Fig. 18 come to."""

from __future__ import annotations

from typing import Any

import pytest
from experiments.milp.verdict import summary


def answer(method: str, samples: int, **more: Any) -> dict[str, Any]:
    row = {"method": method, "samples": samples, "budget": 10, "spent_s": 1.0, "binding": True}
    return row | {"outcome": "plan", "gap": 0.01, "lower_bound_s": 4.0} | more


def plan(method: str, samples: int, solver_s: float, duration_s: float) -> dict[str, Any]:
    times = {"solver_s": solver_s, "duration_s": duration_s}
    return answer(method, samples, **times, end_to_end_s=solver_s + duration_s)


def test_ratios_are_over_what_both_answered_and_unanswered_count_at_least_their_time() -> None:
    answers = [
        plan("oort", 1, 0.5, 4.5),
        plan("oort", 2, 1.0, 9.0),
        answer("oort", 3, outcome="no plan exists"),
        plan("paper", 1, 10.0, 40.0),
        plan("paper", 2, 10.0, 40.0),
        answer("paper", 3, outcome="no plan found"),
        plan("milp", 1, 10.0, 10.0),
        answer("milp", 2, outcome="out of time", spent_s=116.0),
    ]
    s = summary(answers)
    assert s["without_any_solution"] == {"no plan exists": 1}
    assert s["paper"]["asked"] == s["paper"]["answered"] == 2
    assert s["against_paper"]["ratio_of_mean_end_to_end"] == pytest.approx(100 / 15)
    assert s["against_paper"]["ours_slower_in_duration"] == 0
    assert s["against_milp"]["queries"] == s["against_milp"]["out_of_time"] == 1
    assert s["against_milp"]["ratio_with_unanswered"] == pytest.approx((20 + 120) / 15)
