"""What the numbers say of the paper's sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.milp.verdict import elsewhere

_KINDS = {"none": "none", "half": "half of the participants", "tenth": "a tenth of them"}
_OTHERS = {"paper": "paper's greedy + MILP", "milp": "straw-man MILP"}


def as_markdown(results: dict[str, Any]) -> str:
    """The tables, and the paper's sentence beside them."""
    e = results["environment"]
    lines = [
        "# Category requests at scale",
        "",
        f"{e['processor']}, {e['cores']} cores, {e['memory_gib']} GiB; Python {e['python']}, "
        f"SciPy {e['scipy']}, kernels: {e['kernels']}; {results['workers']} measurements at a "
        f"time, one core each ({max(1, results['workers'] // 3)} for ours)." + elsewhere(results),
        "",
        "One per cent of the data of 1, 10, 100, … and of all categories, generated clients, "
        f"devices: {results['devices']}. *Solver* is the plan call alone, seconds: mean, and the "
        "longest with its number of categories. *Memory* is the most that the process had during "
        f"the call, the data included. The paper's way had {results['paper_limit_s']:g} seconds "
        f"for its MILP, the straw man {results['milp_limit_s']:g}.",
        "",
        "| clients × categories | method | budget | plans | solver | longest | test "
        "| gap, median | gap, most | memory, GB |",
        "|---:|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for p in results["populations"].values():
        own = [c for c in p["cases"] if c["method"] == "oort"]
        for kind, words in _KINDS.items():
            lines += _line(p, "ours", words, [c for c in own if c["budget_kind"] == kind])
        for method, title in _OTHERS.items():
            lines += _line(p, title, "none", [c for c in p["cases"] if c["method"] == method])
    lines += ["", *_notes(results)]
    return "\n".join(lines) + "\n"


def _line(p: dict[str, Any], method: str, budget: str, cases: list[dict[str, Any]]) -> list[str]:
    """A row of the table; none where nothing was asked."""
    if not cases:
        return []
    done = [c for c in cases if c["outcome"] == "plan"]
    cells = [
        f"{p['clients']:,} × {p['categories']:,}",
        method,
        budget,
        f"{len(done)} of {len(cases)}",
    ]
    if done:
        longest = max(done, key=lambda c: c["solver_s"])
        gaps = [c["gap"] for c in done]
        cells += [
            f"{np.mean([c['solver_s'] for c in done]):.3g}",
            f"{longest['solver_s']:.3g} ({longest['categories']:,})",
            f"{np.mean([c['duration_s'] for c in done]):.3g}",
            f"{np.median(gaps):.2%}",
            f"{np.max(gaps):.2%}",
            f"{max(c['peak_memory_gb'] for c in done):.2f}",
        ]
    else:
        cells += ["–"] * 6
    return [f"| {' | '.join(cells)} |"]


def _notes(results: dict[str, Any]) -> list[str]:
    """What the table does not say."""
    lines = []
    for p in results["populations"].values():
        if "non_zeros_per_client" in p:
            low, mean, high = p["non_zeros_per_client"]
            lines.append(
                f"- {p['clients']:,} clients hold {low} to {high} categories each, {mean:.1f} on "
                f"average; telling the selector took {p['making_s']:.3g} s with making them up."
            )
        failed = [
            f"{c['categories']:,} categories with {_KINDS[c['budget_kind']]} ({c['outcome']})"
            for c in p["cases"]
            if c["method"] == "oort" and c["outcome"] != "plan"
        ]
        if failed:
            lines.append(f"- Ours without a plan there: {', '.join(failed)}.")
    lines.append(
        "- The straw man is tried once, with one category, and not above 20,000 clients: HiGHS "
        "does not heed its time limit there."
    )
    lines.append('- The paper: "a few minutes at the scale of millions of clients".')
    return lines
