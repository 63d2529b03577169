"""What all the answers say: numbers, tables, and the paper's sentences beside them."""

from __future__ import annotations

from typing import Any

import numpy as np

METHODS = {"oort": "ours", "paper": "paper's greedy + MILP", "milp": "straw-man MILP"}
_NO_SOLUTION = ("no plan exists", "too few samples exist")


def summary(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Means, distributions and ratios; ratios only over requests that both methods answered."""
    by = {
        method: {(a["samples"], a["budget"]): a for a in answers if a["method"] == method}
        for method in METHODS
    }
    ours = by["oort"]
    impossible = {key for key, a in ours.items() if a["outcome"] in _NO_SOLUTION}
    result: dict[str, Any] = {
        "without_any_solution": _counted([ours[key]["outcome"] for key in sorted(impossible)])
    }
    for method, rows in by.items():
        possible = [a for key, a in rows.items() if key not in impossible]
        done = [a for a in possible if a["outcome"] == "plan"]
        result[method] = {
            "asked": len(possible),
            "answered": len(done),
            "other_outcomes": _counted([a["outcome"] for a in possible if a["outcome"] != "plan"]),
            **{
                key: _spread([a[key] for a in done])
                for key in ("end_to_end_s", "solver_s", "duration_s")
                if done
            },
        }
    planned = [a for a in ours.values() if a["outcome"] == "plan"]
    for name, binding in (("slack", False), ("tight", True)):
        own = [a for a in planned if a["binding"] == binding]
        gaps, times = [a["gap"] for a in own], [a["solver_s"] for a in own]
        result[name] = {"gap": _spread(gaps), "solver_s": _spread(times)} if own else None
    for method in ("paper", "milp"):
        result[f"against_{method}"] = _against(ours, by[method])
    return result


def _against(
    ours: dict[Any, dict[str, Any]], theirs: dict[Any, dict[str, Any]]
) -> dict[str, Any] | None:
    """How much longer the other one takes, over the requests that ours answered."""
    pairs = [
        (ours[key], other)
        for key, other in theirs.items()
        if ours.get(key, {}).get("outcome") == "plan"
        and other["outcome"] in ("plan", "out of time")
    ]
    both = [(a, b) for a, b in pairs if b["outcome"] == "plan"]
    if not pairs:
        return None
    result: dict[str, Any] = {"queries": len(both), "out_of_time": len(pairs) - len(both)}
    if both:
        times = np.array([[a["end_to_end_s"], b["end_to_end_s"]] for a, b in both])
        tests = np.array([[a["duration_s"], b["duration_s"]] for a, b in both])
        result |= {
            "ratio_of_mean_end_to_end": float(times[:, 1].mean() / times[:, 0].mean()),
            "median_of_ratios": float(np.median(times[:, 1] / times[:, 0])),
            "ratio_of_mean_duration": float(tests[:, 1].mean() / tests[:, 0].mean()),
            "ours_slower_in_duration": int((tests[:, 0] > tests[:, 1] * (1 + 1e-9)).sum()),
        }
    # Without an answer: the time that was spent, and the shortest test that any plan can have.
    least = [b.get("end_to_end_s", b["spent_s"] + a["lower_bound_s"]) for a, b in pairs]
    own = [a["end_to_end_s"] for a, _ in pairs]
    result["ratio_with_unanswered"] = float(np.mean(least) / np.mean(own))
    result["median_with_unanswered"] = float(np.median(np.array(least) / np.array(own)))
    return result


def _spread(values: list[float]) -> dict[str, float]:
    """A distribution in a few numbers."""
    q = np.quantile(values, [0.05, 0.5, 0.95])
    return {
        "mean": float(np.mean(values)),
        "p5": float(q[0]),
        "median": float(q[1]),
        "p95": float(q[2]),
        "max": float(np.max(values)),
    }


def _counted(names: list[str]) -> dict[str, int]:
    return {name: names.count(name) for name in sorted(set(names))}


def as_markdown(results: dict[str, Any]) -> str:
    """The tables, and the paper's sentences beside them."""
    e = results["environment"]
    lines = [
        "# Category requests on real counts",
        "",
        f"{e['processor']}, {e['cores']} cores, {e['memory_gib']} GiB; Python {e['python']}, "
        f"SciPy {e['scipy']}, kernels: {e['kernels']}; {results['workers']} measurements at a "
        f"time, one core each ({max(1, results['workers'] // 3)} for ours).",
        "",
        f"Per workload {results['queries']} requests for 4,000 to 200,000 representative samples "
        f"from at most 100 to 5,000 participants; {results['milp_queries']} of them also by the "
        f"straw man. HiGHS had {results['milp_limit_s']:g} seconds for the straw man and "
        f"{results['paper_limit_s']:g} for the MILP behind the paper's greedy, and gives the best "
        "plan by then. Ours had no limit. Seconds: mean (median, 95th percentile).",
        "",
        "| workload | method | answered | solver | test | end to end |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, content in results["workloads"].items():
        lines += [_line(name, method, content["summary"][method]) for method in METHODS]
    for name, content in results["workloads"].items():
        lines += ["", *_sentences(name, content["summary"], results)]
    return "\n".join(lines) + "\n"


def _line(workload: str, method: str, m: dict[str, Any]) -> str:
    """A row of the table."""
    cells = [workload, METHODS[method], f"{m['answered']} of {m['asked']}"]
    for key in ("solver_s", "duration_s", "end_to_end_s"):
        if m["answered"]:
            s = m[key]
            cells.append(f"{s['mean']:.3g} ({s['median']:.3g}, {s['p95']:.3g})")
        else:
            cells.append("–")
    return f"| {' | '.join(cells)} |"


def _sentences(name: str, s: dict[str, Any], results: dict[str, Any]) -> list[str]:
    """What the numbers of one workload say."""
    lines = [f"**{name}**", ""]
    apart = s["without_any_solution"]
    if apart:
        listed = ", ".join(f"{number} × {reason}" for reason, number in apart.items())
        lines.append(f"- Requests without any solution, not in the table: {listed}.")
    for method in METHODS:
        other = s[method]["other_outcomes"]
        if other:
            listed = ", ".join(f"{number} × {reason}" for reason, number in other.items())
            lines.append(f"- Without a plan by {METHODS[method]}: {listed}.")
    for kind, words in (("slack", "does not bind"), ("tight", "binds")):
        if s[kind]:
            gap, time_s = s[kind]["gap"], s[kind]["solver_s"]
            lines.append(
                f"- Where the budget {words}: certified gap {gap['median']:.2%} in the median, "
                f"{gap['p95']:.2%} at the 95th percentile, {gap['max']:.2%} at most; solver "
                f"{time_s['median']:.3g} s in the median, {time_s['max']:.3g} s at most."
            )
    for method, target, paper in (("paper", 5, ""), ("milp", 10, " The paper reports 4.7×.")):
        against = s[f"against_{method}"]
        if against:
            lines.append(_ratio(METHODS[method], against, target) + paper)
    lines.append(
        "- Solving took the paper 274 s by its MILP (with Gurobi) and 15 s by its greedy; here "
        f"{_mean(s, 'milp', results['milp_limit_s'])} and "
        f"{_mean(s, 'paper', results['paper_limit_s'])}, ours {_mean(s, 'oort', None)}."
    )
    return lines


def _ratio(title: str, against: dict[str, Any], target: int) -> str:
    """End to end, the other over ours."""
    parts = []
    if against["queries"]:
        parts.append(
            f"{against['ratio_of_mean_end_to_end']:.1f}× over the {against['queries']} requests "
            f"that both answered ({against['median_of_ratios']:.1f}× in the median; tests alone "
            f"{against['ratio_of_mean_duration']:.1f}×; ours was the slower test in "
            f"{against['ours_slower_in_duration']})"
        )
    if against["out_of_time"]:
        parts.append(
            f"at least {against['ratio_with_unanswered']:.1f}× "
            f"({against['median_with_unanswered']:.1f}× in the median) with the "
            f"{against['out_of_time']} that it did not answer, counted as the time spent "
            "and the shortest test that any plan can have"
        )
    return f"- Mean end to end, {title} over ours: {'; '.join(parts)}. Our target is {target}×."


def _mean(s: dict[str, Any], method: str, limit_s: float | None) -> str:
    """The mean solver time of a method, in words."""
    m = s[method]
    if m["answered"]:
        return f"{m['solver_s']['mean']:.3g} s"
    return f"no answer within {limit_s:g} s" if limit_s else "no answer"
