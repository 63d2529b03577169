"""Time and certified gap of category requests at the size of OpenImage, slack and tight.

    python -m benchmarks.categories [--requests N] [--out FOLDER]

Clients are generated: 14,477 of them with a skewed choice of 60 categories, lognormal sizes and
speeds. A request is a number of representative samples; a slack budget is as many participants as
the fastest plan without one, a tight one half or a quarter of these. Writes ``categories.json``
and ``categories.md``.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

import oort
from benchmarks import machine

CLIENTS, CATEGORIES, TRANSFER_MB = 14_477, 60, 14.0
_KINDS = {
    "none": "none",
    "slack": "as many as that takes",
    "tight": "a half or a quarter of these",
}
_RESULTS = Path(__file__).parent / "results"


def make_tester(seed: int) -> Any:
    """A selector that knows the generated clients."""
    generator = np.random.default_rng(seed)
    prior = generator.dirichlet(np.full(CATEGORIES, 0.8))
    shares = generator.gamma(prior * CATEGORIES * 0.3 + 1e-3, size=(CLIENTS, CATEGORIES))
    shares /= shares.sum(axis=1, keepdims=True)
    sizes = np.minimum(np.ceil(generator.lognormal(3.6, 1.0, CLIENTS)), 2_000).astype(int)
    counts = generator.multinomial(sizes, shares)
    tester = oort.create_testing_selector()
    tester.update_clients_info(
        np.arange(CLIENTS),
        counts,
        samples_per_s=1000.0 / generator.lognormal(np.log(41.0), 0.8, CLIENTS),
        bandwidth_mbps=generator.lognormal(np.log(6.1), 1.1, CLIENTS),
    )
    return tester


def measure(requests: int, seed: int) -> list[dict[str, Any]]:
    """Every request without a budget, with a slack one and with tight ones."""
    tester = make_tester(seed)
    for budget in (1_000, 200, 100):  # imports and machine code, outside the books
        tester.select_by_category(oort.Representative(5_000), {"budget": budget})
    rows = []
    for samples in np.geomspace(2_000, 150_000, requests).round().astype(int).tolist():
        free = _ask(tester, samples, None)
        rows.append(free | {"kind": "none"})
        for kind, share in (("slack", 1.0), ("tight", 0.5), ("tight", 0.25)):
            budget = max(CATEGORIES, int(share * free["participants"]))
            rows.append(_ask(tester, samples, budget) | {"kind": kind})
    return rows


def _ask(tester: Any, samples: int, budget: int | None) -> dict[str, Any]:
    """One request."""
    config = oort.TestingConfig(budget=budget, transfer_mb=TRANSFER_MB)
    try:
        plan = tester.select_by_category(oort.Representative(samples), config)
    except oort.BudgetTooSmallError:
        return {"samples": samples, "budget": budget, "solver_s": None}
    return {
        "samples": samples,
        "budget": budget,
        "solver_s": plan.solver_s,
        "duration_s": plan.duration_s,
        "gap": plan.gap,
        "participants": len(plan),
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians and extremes, by kind of budget."""
    result = {}
    for kind in ("none", "slack", "tight"):
        own = [r for r in rows if r["kind"] == kind and r["solver_s"] is not None]
        times, gaps = [r["solver_s"] for r in own], [r["gap"] for r in own]
        result[kind] = {
            "requests": len(own),
            "solver_s_median": float(np.median(times)),
            "solver_s_max": float(np.max(times)),
            "gap_median": float(np.median(gaps)),
            "gap_max": float(np.max(gaps)),
        }
    return result


def as_markdown(results: dict[str, Any]) -> str:
    """The summary as a table."""
    m = results["machine"]
    lines = [
        "# Category requests at the size of OpenImage",
        "",
        f"{m['processor']}, {m['cores']} cores, {m['memory_gib']} GiB; Python {m['python']}, "
        f"NumPy {m['numpy']}, kernels: {m['kernels']}; load average {m['load_average']} at the "
        "start.",
        "",
        f"{results['clients']:,} generated clients, {results['categories']} categories, 2,000 to "
        "150,000 representative samples. Seconds of the plan call.",
        "",
        "| budget | requests | median | longest | gap, median | gap, most |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind, words in _KINDS.items():
        r = results["summary"][kind]
        lines.append(
            f"| {words} | {r['requests']} | {r['solver_s_median']:.3f} | {r['solver_s_max']:.3f} "
            f"| {r['gap_median']:.2%} | {r['gap_max']:.2%} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=_RESULTS)
    options = parser.parse_args()
    rows = measure(options.requests, options.seed)
    results = {
        "command": f"python -m benchmarks.categories --requests {options.requests}",
        "clients": CLIENTS,
        "categories": CATEGORIES,
        "seed": options.seed,
        "machine": machine.describe(),
        "summary": summary(rows),
        "requests": rows,
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "categories.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "categories.md").write_text(as_markdown(results))
    print(as_markdown(results))


if __name__ == "__main__":
    main()
