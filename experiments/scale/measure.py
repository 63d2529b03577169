"""Requests of one per cent of the data of more and more categories."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from experiments.milp.measure import peak_memory_gb
from experiments.milp.queries import TRANSFER_MB
from experiments.scale.population import POPULATIONS, make_tester
from oort.config import TestingConfig
from oort.errors import BudgetTooSmallError, OutOfTimeError
from oort.testing import LocalTestingSelector

SHARE = 0.01
#: HiGHS does not look at its time limit while it presolves: at 315,902 clients and one category it
#: was still at it after twelve minutes. The straw man is tried where it comes back.
MILP_CLIENTS = 20_000
SWEEP = (1, 10, 100, 500, 1_000, 5_000)


def measure_population(
    name: str, data: Path | None, seed: int, paper_limit_s: float, milp_limit_s: float
) -> dict[str, Any]:
    """Every request to one population; in a process of its own, so that memory is its own."""
    started = time.monotonic()
    tester = make_tester(name, data, seed)
    made_s = time.monotonic() - started
    number, categories = POPULATIONS[name]
    lengths = np.diff(tester.information.matrix()[0])
    # One request outside the books: machine code is compiled or loaded, solvers are imported.
    tester.select_by_category({0: 1}, TestingConfig(transfer_mb=TRANSFER_MB, budget=10))
    cases = []
    for wanted in [k for k in SWEEP if k < categories] + [categories]:
        cases += _cases(tester, name, wanted, paper_limit_s)
        print(f"  {wanted} categories: {cases[-1]}", flush=True)
    if milp_limit_s > 0 and number <= MILP_CLIENTS:
        request = _request(tester, 1)
        config = TestingConfig(transfer_mb=TRANSFER_MB, method="milp", time_limit_s=milp_limit_s)
        cases.append(_case(tester, name, request, config, "none") | {"categories": 1})
    return {
        "clients": number,
        "categories": categories,
        "non_zeros": int(lengths.sum()),
        "non_zeros_per_client": [int(lengths.min()), float(lengths.mean()), int(lengths.max())],
        "making_s": made_s,
        "peak_memory_gb": peak_memory_gb(),
        "cases": cases,
    }


def _cases(
    tester: LocalTestingSelector, name: str, wanted: int, paper_limit_s: float
) -> list[dict[str, Any]]:
    """One request without a budget, with half and with a tenth of the participants that took."""
    request = _request(tester, wanted)
    free = _case(tester, name, request, TestingConfig(transfer_mb=TRANSFER_MB), "none")
    cases = [free]
    for kind, share in (("half", 0.5), ("tenth", 0.1)):
        budget = max(1, int(share * free["participants"]))
        config = TestingConfig(transfer_mb=TRANSFER_MB, budget=budget)
        cases.append(_case(tester, name, request, config, kind))
    if paper_limit_s > 0:
        config = TestingConfig(transfer_mb=TRANSFER_MB, method="paper", time_limit_s=paper_limit_s)
        cases.append(_case(tester, name, request, config, "none"))
    return [case | {"categories": wanted} for case in cases]


def _request(tester: LocalTestingSelector, wanted: int) -> dict[Any, int]:
    """One per cent of the data of so many categories, evenly spread over their popularity."""
    totals = tester.information.totals()
    chosen = np.unique(np.linspace(0, len(totals) - 1, wanted).round().astype(int))
    return {int(i): max(1, int(SHARE * totals[i])) for i in chosen}


def _case(
    tester: LocalTestingSelector,
    name: str,
    request: dict[Any, int],
    config: TestingConfig,
    kind: str,
) -> dict[str, Any]:
    """One request."""
    row: dict[str, Any] = {
        "population": name,
        "method": config.method,
        "budget_kind": kind,
        "budget": config.budget,
        "samples": sum(request.values()),
    }
    started, busy_s = time.monotonic(), time.process_time()
    try:
        plan = tester.select_by_category(request, config)
    except (BudgetTooSmallError, OutOfTimeError) as error:
        spent = time.monotonic() - started
        return row | {"outcome": type(error).__name__, "spent_s": spent, "solver_s": None}
    return row | {
        "outcome": "plan",
        "solver_s": plan.solver_s,
        "processor_s": time.process_time() - busy_s,
        "duration_s": plan.duration_s,
        "end_to_end_s": plan.solver_s + plan.duration_s,
        "lower_bound_s": plan.lower_bound_s,
        "gap": plan.gap,
        "participants": len(plan),
        "peak_memory_gb": peak_memory_gb(),
    }


def verdict(results: dict[str, Any]) -> str:
    """What the numbers say of the paper's sentence."""
    lines = ["Category requests at scale: one per cent of the data of 1 … 5,000 categories."]
    for name, p in results["populations"].items():
        low, mean, high = p["non_zeros_per_client"]
        lines.append("")
        lines.append(
            f"{name}: {p['clients']:,} clients × {p['categories']:,} categories, {low}–{high} "
            "non-zeros per client "
            f"(mean {mean:.1f}); peak memory {p['peak_memory_gb']:.2f} GB, data and all"
        )
        ours = [c for c in p["cases"] if c["method"] == "oort" and c["outcome"] == "plan"]
        for kind in ("none", "half", "tenth"):
            own = [c for c in ours if c["budget_kind"] == kind]
            if own:
                lines.append(
                    f"- ours, budget {kind}: {len(own)} requests, solver at most "
                    f"{max(c['solver_s'] for c in own):.3g} s "
                    f"(mean {np.mean([c['solver_s'] for c in own]):.3g}; processor time at most "
                    f"{max(c['processor_s'] for c in own):.3g}, mean "
                    f"{np.mean([c['processor_s'] for c in own]):.3g}), gap at most "
                    f"{max(c['gap'] for c in own):.2%}, end to end "
                    f"{np.mean([c['end_to_end_s'] for c in own]):.3g} s on average"
                )
        failed = [c for c in p["cases"] if c["method"] == "oort" and c["outcome"] != "plan"]
        if failed:
            lines.append(
                f"- ours without a plan: {[(c['budget_kind'], c['outcome']) for c in failed]}"
            )
        for method, title in (
            ("paper", "the paper's greedy and MILP"),
            ("milp", "the straw-man MILP"),
        ):
            own = [c for c in p["cases"] if c["method"] == method]
            done = [c for c in own if c["outcome"] == "plan"]
            if done:
                lines.append(
                    f"- {title}: {len(done)} of {len(own)} requests in time, solver "
                    f"{np.mean([c['solver_s'] for c in done]):.3g} s on average, end to end "
                    f"{np.mean([c['end_to_end_s'] for c in done]):.3g} s"
                )
            elif own:
                lines.append(f"- {title}: none of {len(own)} requests in time")
            elif method == "milp":
                lines.append(f"- {title}: not tried, HiGHS does not heed its time limit here")
    lines.append("")
    lines.append('The paper: "a few minutes at the scale of millions of clients".')
    return "\n".join(lines)
