"""Time and memory of selection, from thousands to a hundred million clients.

    python -m benchmarks.selection [--clients N …] [--out FOLDER]

Every size runs in a process of its own, so that peak memory means something. Writes
``selection.json``, ``selection.md`` and ``selection.png``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import oort
from benchmarks import machine
from benchmarks.population import draw, job

SIZES = [2_618, 14_477, 315_902, 1_660_820, 10_000_000, 100_000_000]
BYTES_PER_ROW = 14  # flags, mask, utility, duration, last round: what one pass reads
_RESULTS = Path(__file__).parent / "results"


def timed(action: Callable[[], object]) -> float:
    """Seconds that an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def spread(seconds: list[float]) -> dict[str, float]:
    """Median and 95th percentile, milliseconds."""
    return {
        "median_ms": round(1e3 * float(np.median(seconds)), 4),
        "p95_ms": round(1e3 * float(np.quantile(seconds, 0.95)), 4),
    }


def peak_mb() -> float:
    """The most memory that this process has held.

    Not ``ru_maxrss``: a child begins with that of its parent.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 1024, 1)
    return float("nan")


def measure_rounds(selector: Any, wanted: int, rounds: int) -> dict[str, Any]:
    """Rounds in mid-job: select among a mask, report; then among a tenth given as ids."""
    generator = np.random.default_rng(wanted)
    mask = generator.random(selector.num_rows) < 0.9
    some = generator.choice(selector.num_rows, selector.num_rows // 10, replace=False)
    selects, reports, by_ids = [], [], []
    for number in range(rounds + 3):
        start = time.perf_counter()
        selection = selector.select(wanted, among=mask)
        selected = time.perf_counter()
        utility, duration_s = draw(len(selection), generator), draw(len(selection), generator)
        begin = time.perf_counter()
        selector.update_clients(selection.participants, utility=utility, duration_s=duration_s)
        end = time.perf_counter()
        if number >= 3:
            selects.append(selected - start)
            reports.append(selected - start + end - begin)
    for _ in range(max(3, rounds // 10)):
        by_ids.append(timed(lambda: selector.select(wanted, among=some)))
    return {
        "select": spread(selects),
        "round": spread(reports),
        "select_among_tenth_by_ids": spread(by_ids),
    }


def measure_registration(clients: int) -> dict[str, Any]:
    """Registering string ids, up to 1,660,820 of them, and integer ids."""
    count = min(clients, 1_660_820)
    names = [f"device-{i:09d}" for i in range(count)]
    strings = oort.create_training_selector()
    integers = oort.create_training_selector()
    return {
        "register_strings": count,
        "register_strings_s": round(timed(lambda: strings.register_clients(names)), 3),
        "register_integers_s": round(
            timed(lambda: integers.register_clients(np.arange(clients))), 3
        ),
    }


def measure_files(selector: Any, clients: int) -> dict[str, Any]:
    """Saving and loading."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.oort"
        return {
            "save_s": round(timed(lambda: selector.save(path)), 3),
            "peak_mb": peak_mb(),
            "load_s": round(timed(lambda: oort.load_selector(path)), 3),
            "file_bytes_per_client": round(path.stat().st_size / clients, 2),
        }


def measure(clients: int, explored: float) -> dict[str, Any]:
    """Everything about one size, in this process."""
    rounds = 200 if clients < 10**7 else 60 if clients < 10**8 else 25
    results: dict[str, Any] = {"clients": clients, "explored": explored, "rounds": rounds}
    selector = job(clients, explored)
    for wanted in (100, 1_300):
        results[f"K={wanted}"] = measure_rounds(selector, wanted, rounds)
    results["full_passes"] = selector._candidates.full_passes
    arrays = selector._table.to_arrays()
    columns = sum(a.nbytes for name, a in arrays.items() if not name.startswith("id_"))
    results["bytes_per_client"] = round(columns / clients, 2)
    del arrays
    results.update(measure_files(selector, clients))
    del selector
    results.update(measure_registration(clients))
    return results


def as_markdown(results: dict[str, Any]) -> str:
    """The results as a table for people."""
    about = results["machine"]
    lines = [
        "# Selection: time and memory",
        "",
        f"{about['processor']}, {about['cores']} cores, {about['memory_gib']} GiB; Python "
        f"{about['python']}, NumPy {about['numpy']}, kernels: {about['kernels']}; one core reads "
        f"{about['read_gb_per_s']} GB/s; load average {about['load_average']} at the start.",
        "",
        "Milliseconds, median (95th percentile). *Round* is reporting K and selecting K. *One "
        "pass* is what reading the columns once would take at that bandwidth.",
        "",
        "| clients | explored | K | select | round | among 10 % as ids | one pass | full passes | "
        "peak MB | B/client | save s | load s |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for run in results["runs"]:
        for wanted in (100, 1_300):
            part = run.get(f"K={wanted}")
            if part is None:
                continue
            cells = [part[k] for k in ("select", "round", "select_among_tenth_by_ids")]
            shown = [f"{c['median_ms']:.3g} ({c['p95_ms']:.3g})" for c in cells]
            one_pass = run["clients"] * BYTES_PER_ROW / about["read_gb_per_s"] / 1e6
            lines.append(
                f"| {run['clients']:,} | {run['explored']:.0%} | {wanted:,} | "
                + " | ".join(shown)
                + f" | {one_pass:.3g} | {run['full_passes']} | {run['peak_mb']:,.0f} | "
                f"{run['bytes_per_client']} | {run['save_s']} | {run['load_s']} |"
            )
    strings = max(run["register_strings"] for run in results["runs"])
    slowest = max(
        run["register_strings_s"] for run in results["runs"] if run["register_strings"] == strings
    )
    lines += ["", f"Registering {strings:,} string ids took at most {slowest} s."]
    return "\n".join(lines) + "\n"


def draw_picture(results: dict[str, Any], path: Path) -> None:
    """Time against the number of clients, both on logarithmic scales."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for wanted in (100, 1_300):
        for explored, style in ((0.1, "--"), (1.0, "-")):
            runs = [
                run
                for run in results["runs"]
                if run["explored"] == explored and f"K={wanted}" in run
            ]
            axes.plot(
                [run["clients"] for run in runs],
                [run[f"K={wanted}"]["select"]["median_ms"] for run in runs],
                style,
                marker="o",
                color="tab:blue" if wanted == 100 else "tab:orange",
                label=f"select {wanted:,}, {explored:.0%} explored",
            )
    sizes = np.array(sorted({run["clients"] for run in results["runs"]}))
    bandwidth = results["machine"]["read_gb_per_s"]
    axes.plot(sizes, sizes * BYTES_PER_ROW / bandwidth / 1e6, ":k", label="reading columns once")
    axes.set(xscale="log", yscale="log", xlabel="clients", ylabel="milliseconds, median")
    axes.grid(alpha=0.3, which="both")
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure every size in its own process and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=SIZES)
    parser.add_argument("--out", type=Path, default=_RESULTS)
    parser.add_argument("--one", nargs=2, metavar=("CLIENTS", "EXPLORED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(int(options.one[0]), float(options.one[1]))))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    results: dict[str, Any] = {"machine": machine.describe(), "runs": []}
    for clients in options.clients:
        for explored in (0.1, 1.0):
            command = [sys.executable, "-m", "benchmarks.selection"]
            child = subprocess.run(
                [*command, "--one", str(clients), str(explored)],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            run = json.loads(child.stdout)
            results["runs"].append(run)
            median = run.get("K=100", {}).get("select", {}).get("median_ms")
            print(f"{clients:>12,} clients, {explored:.0%} explored: select(100) {median} ms")
    (options.out / "selection.json").write_text(json.dumps(results, indent=1) + "\n")
    (options.out / "selection.md").write_text(as_markdown(results))
    draw_picture(results, options.out / "selection.png")
    print(f"written to {options.out}")


if __name__ == "__main__":
    main()
