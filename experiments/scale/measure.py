"""Requests of one per cent of the data of more and more categories."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from experiments.milp.queries import TRANSFER_MB
from experiments.scale.population import make_tester
from experiments.workers import Task, forget_peak_memory, peak_memory_gb
from oort.config import TestingConfig
from oort.errors import BudgetTooSmallError, OutOfTimeError
from oort.testing import LocalTestingSelector

SHARE = 0.01
#: HiGHS does not look at its time limit while it presolves: at 315,902 clients and one category it
#: was still at it after twelve minutes. The straw man is tried where it comes back.
MILP_CLIENTS = 20_000
SWEEP = (1, 10, 100, 500, 1_000, 5_000)
BUDGETS = {"half": 0.5, "tenth": 0.1}

Loaded = tuple[LocalTestingSelector, dict[str, Any]]


def load(name: str, settings: dict[str, Any]) -> Loaded:
    """A population and what to say of it, after one request outside the books.

    With it machine code is loaded and solvers are imported.
    """
    started_s = time.monotonic()
    tester = make_tester(name, settings["data"], settings["seed"])
    made_s = time.monotonic() - started_s
    lengths = np.diff(tester.information.matrix()[0])
    for budget in (None, 40):
        request: dict[Any, int] = {0: 50, 1: 50}
        tester.select_by_category(request, TestingConfig(transfer_mb=TRANSFER_MB, budget=budget))
    return tester, {
        "non_zeros": int(lengths.sum()),
        "non_zeros_per_client": [int(lengths.min()), float(lengths.mean()), int(lengths.max())],
        "making_s": made_s,
    }


def asked(loaded: Loaded, what: tuple[str, int, float | None]) -> tuple[Any, list[dict[str, Any]]]:
    """One request by one method; ours also with half and a tenth of the participants it took."""
    (tester, made), (method, wanted, limit_s) = loaded, what
    request = _request(tester, wanted)
    config = TestingConfig(transfer_mb=TRANSFER_MB, method=method, time_limit_s=limit_s)
    rows = [_case(tester, request, config, "none")]
    if method == "oort":
        for kind, share in BUDGETS.items():
            budget = max(1, int(share * rows[0]["participants"]))
            config = TestingConfig(transfer_mb=TRANSFER_MB, budget=budget)
            rows.append(_case(tester, request, config, kind))
    return made, [{"categories": wanted} | row for row in rows]


def overstayed(task: Task) -> dict[str, Any]:
    """A request whose solver did not heed its time limit, and was ended."""
    method, wanted, _ = task.what
    return {
        "categories": wanted,
        "method": method,
        "budget_kind": "none",
        "budget": None,
        "outcome": "OutOfTimeError",
        "spent_s": task.limit_s,
        "solver_s": None,
        "ended": True,
    }


def _request(tester: LocalTestingSelector, wanted: int) -> dict[Any, int]:
    """One per cent of the data of so many categories, evenly spread over their popularity."""
    totals = tester.information.totals()
    chosen = np.unique(np.linspace(0, len(totals) - 1, wanted).round().astype(int))
    return {int(i): max(1, int(SHARE * totals[i])) for i in chosen}


def _case(
    tester: LocalTestingSelector, request: dict[Any, int], config: TestingConfig, kind: str
) -> dict[str, Any]:
    """One request."""
    row: dict[str, Any] = {
        "method": config.method,
        "budget_kind": kind,
        "budget": config.budget,
        "samples": sum(request.values()),
    }
    forget_peak_memory()
    started_s, busy_s = time.monotonic(), time.process_time()
    try:
        plan = tester.select_by_category(request, config)
        row |= {
            "outcome": "plan",
            "solver_s": plan.solver_s,
            "duration_s": plan.duration_s,
            "end_to_end_s": plan.solver_s + plan.duration_s,
            "lower_bound_s": plan.lower_bound_s,
            "gap": plan.gap,
            "participants": len(plan),
        }
    except (BudgetTooSmallError, OutOfTimeError) as error:
        row |= {"outcome": type(error).__name__, "solver_s": None}
    return row | {
        "spent_s": time.monotonic() - started_s,
        "processor_s": time.process_time() - busy_s,
        "peak_memory_gb": peak_memory_gb(),
    }
