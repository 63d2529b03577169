"""One request by one method."""

from __future__ import annotations

import time
from typing import Any

import scipy
from benchmarks import machine

from experiments.milp.queries import TRANSFER_MB, Query, load_workload
from experiments.workers import Task
from oort.config import TestingConfig
from oort.errors import BudgetTooSmallError, NotEnoughSamplesError, OutOfTimeError
from oort.testing import LocalTestingSelector
from oort.testing.category import Representative


def environment() -> dict[str, Any]:
    """What the numbers were measured on."""
    return machine.describe() | {"scipy": scipy.__version__}


def load(name: str, settings: dict[str, Any]) -> LocalTestingSelector:
    """The clients of a workload, after one request outside the books.

    With it machine code is loaded and solvers are imported.
    """
    tester = load_workload(name, settings["data"], settings["seed"])
    for budget in (None, 2_000, 500, 200):
        asked(tester, ("oort", Query(2_000, budget), None))
    asked(tester, ("paper", Query(100, 100), 1.0))
    return tester


def asked(
    tester: LocalTestingSelector, request: tuple[str, Query, float | None]
) -> dict[str, Any]:
    """One request by one method, with a time limit or with none."""
    method, query, limit_s = request
    config = TestingConfig(
        budget=query.budget,
        transfer_mb=TRANSFER_MB,
        method=method,
        time_limit_s=limit_s,
    )
    row = _row(request)
    started_s, busy_s = time.monotonic(), time.process_time()
    try:
        plan = tester.select_by_category(Representative(query.samples), config)
        found = _found(plan)
    except BudgetTooSmallError as error:
        proven = query.budget is not None and error.proven_minimum > query.budget
        found = {
            "outcome": "no plan exists" if proven else "no plan found",
            "proven_minimum": error.proven_minimum,
            "least_found": error.least_found,
        }
    except NotEnoughSamplesError:
        found = {"outcome": "too few samples exist"}
    except OutOfTimeError:
        found = {"outcome": "out of time"}
    spent = {"spent_s": time.monotonic() - started_s, "processor_s": time.process_time() - busy_s}
    return row | found | spent


def overstayed(task: Task) -> dict[str, Any]:
    """A request whose solver did not heed its time limit, and was ended."""
    return _row(task.what) | {"outcome": "out of time", "spent_s": task.limit_s, "ended": True}


def _row(request: tuple[str, Query, float | None]) -> dict[str, Any]:
    method, query, _ = request
    return {"method": method, "samples": query.samples, "budget": query.budget}


def _found(plan: Any) -> dict[str, Any]:
    return {
        "outcome": "plan",
        "solver_s": plan.solver_s,
        "duration_s": plan.duration_s,
        "end_to_end_s": plan.solver_s + plan.duration_s,
        "lower_bound_s": plan.lower_bound_s,
        "gap": plan.gap,
        "participants": len(plan),
        "binding": plan.certificate is not None and plan.certificate.kind in ("prices", "search"),
    }
