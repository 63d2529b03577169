"""Our data and traces in the paper's terms.

Table 1     clients and samples of each dataset that we have figures of, beside the paper's
Figure 1a   samples per client
Figure 1b   L1 distance between the label shares of two clients, over random pairs
Figure 2    compute time per sample and bandwidth over devices
and         the share of clients online over the day, traced (were every day like the observed
            one) and generated
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oort.simulation.availability import DAY_S, DailyCycle
from oort.simulation.config import DevicesConfig
from oort.simulation.data import partition
from oort.simulation.demo import config as demo_config
from oort.simulation.population import draw_devices
from oort.simulation.tables import table

Floats = npt.NDArray[np.float64]
PAIRS = 100_000
LEVELS = range(0, 101, 5)
#: Table 1 of the paper: clients, samples
PAPER = {
    "Google Speech": (2_618, 105_829),
    "OpenImage-Easy": (14_477, 871_368),
    "OpenImage": (14_477, 1_672_231),
    "StackOverflow": (315_902, 135_818_730),
    "Reddit": (1_660_820, 351_523_459),
}
#: what the text of §2.2 says of Figure 2
SIZES_NOTE = (
    "(sizes) are those in the published code's repository, larger per client than the paper's "
    "Table 1 has them"
)
PAPER_SPREAD = "an order-of-magnitude difference in both compute and bandwidth"


def measure(root: Path, *, seed: int) -> dict[str, Any]:
    """Everything, as plain numbers."""
    sizes, counts = _sizes(root), _counts(root, seed)
    return {
        "seed": seed,
        "table_1": {"paper": PAPER, "ours": _table(sizes, counts)},
        "figure_1a_samples_per_client": {k: quantiles(v) for k, v in sizes.items()},
        "figure_1b_pairwise_l1": {k: quantiles(pairwise_l1(v, seed)) for k, v in counts.items()},
        "figure_2_devices": _devices(root, seed),
        "online_share_per_hour": _online(seed),
    }


def quantiles(values: npt.ArrayLike) -> dict[str, float]:
    """Chosen percentiles, and the spread from the 5th to the 95th.

    >>> quantiles([1.0, 10.0])["p50"]
    5.5
    """
    array = np.asarray(values, np.float64)
    found = {f"p{p}": round(float(np.percentile(array, p)), 4) for p in LEVELS}
    low = max(found["p5"], 1e-9)
    return found | {
        "mean": round(float(array.mean()), 4),
        "p95_over_p5": round(found["p95"] / low, 2),
    }


def pairwise_l1(counts: Floats, seed: int) -> Floats:
    """Σ|p − q| of the label shares of two clients, over random pairs of different clients.

    >>> float(pairwise_l1(np.array([[2.0, 0.0], [0.0, 5.0]]), 0)[0])
    2.0
    """
    share = counts[counts.sum(axis=1) > 0]
    share = share / share.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(seed)
    first = rng.integers(0, len(share), PAIRS)
    second = (first + rng.integers(1, len(share), PAIRS)) % len(share)
    return np.asarray(np.abs(share[first] - share[second]).sum(axis=1))


def lines(found: dict[str, Any]) -> list[str]:
    """The results as a table of text."""
    rows = [f"{'dataset':39} {'clients':>9} {'samples':>14} {'per client':>11}"]
    for who in ("paper", "ours"):
        for name, (clients, samples) in found["table_1"][who].items():
            rows.append(
                f"{who:6} {name:32} {clients:>9,} {samples:>14,} {samples / clients:>11,.0f}"
            )
    rows += [SIZES_NOTE, ""]
    for title, key in (
        ("samples per client", "figure_1a_samples_per_client"),
        ("L1 distance of label shares, pairs of clients", "figure_1b_pairwise_l1"),
        ("devices", "figure_2_devices"),
    ):
        rows.append(f"{title:52} {'p5':>10} {'median':>10} {'p95':>10} {'p95/p5':>8}")
        for name, q in found[key].items():
            values = (
                f"{q['p5']:>10.4g} {q['p50']:>10.4g} {q['p95']:>10.4g} {q['p95_over_p5']:>8.3g}"
            )
            rows.append(f"  {name:50} {values}")
    rows.append(f"  the paper on devices (§2.2): {PAPER_SPREAD}")
    traced, made = (np.array(found["online_share_per_hour"][k]) for k in ("traced", "generated"))
    off = made / traced - 1.0
    rows.append("")
    rows.append(
        f"online over the day: traced {traced.min():.1%} to {traced.max():.1%}, generated "
        f"{made.min():.1%} to {made.max():.1%}; by the hour off by {np.abs(off).mean():.1%} on "
        f"average, from {off.min():+.1%} to {off.max():+.1%} (of the traced share)"
    )
    rows.append("hour      " + " ".join(f"{h:>5}" for h in range(0, 24, 3)))
    rows.append("traced    " + " ".join(f"{v:>5.1%}" for v in traced[::3]))
    rows.append("generated " + " ".join(f"{v:>5.1%}" for v in made[::3]))
    return rows


def _sizes(root: Path) -> dict[str, Floats]:
    folder = root / "client_sizes"
    names = {
        "OpenImage": "openimg",
        "Reddit": "reddit",
        "StackOverflow": "stackoverflow",
        "Google Speech": "speech",
    }
    return {name: np.load(folder / f"{file}_size.npy") for name, file in names.items()}


def _counts(root: Path, seed: int) -> dict[str, Floats]:
    folder = root / "counts"
    files = {
        "OpenImage, 50 commonest": "openimage_counts_12745x50",
        "Google Speech": "google_speech_counts_2187x35",
        "NIST digits by writer": "nist_digits_writer_class_counts",
    }
    found = {name: np.load(folder / f"{file}.npz")["counts"] for name, file in files.items()}
    demo = demo_config().data
    generated = partition.label_counts(demo, np.full(10, 0.1), demo.clients, seed=seed)
    return {
        k: v.astype(np.float64) for k, v in (found | {"the demo (generated)": generated}).items()
    }


def _table(sizes: dict[str, Floats], counts: dict[str, Floats]) -> dict[str, tuple[int, int]]:
    by_size = {f"{k} (sizes)": (len(v), int(v.sum())) for k, v in sizes.items()}
    kept = {k: v[v.sum(axis=1) > 0] for k, v in counts.items()}
    return by_size | {f"{k} (labels)": (len(v), int(v.sum())) for k, v in kept.items()}


def _devices(root: Path, seed: int) -> dict[str, dict[str, float]]:
    trace = np.load(root / "devices" / "fedscale_capacity_51496.npz")
    made = draw_devices(DevicesConfig(), 51_496, seed=seed)
    return {
        "compute, ms per sample: traced": quantiles(trace["computation_ms"]),
        "compute, ms per sample: generated": quantiles(made.compute_ms_per_sample),
        "bandwidth, kbit/s: traced": quantiles(trace["communication_kbps"]),
        "bandwidth, kbit/s: generated": quantiles(made.bandwidth_kbps),
    }


def _online(seed: int) -> dict[str, list[float]]:
    cycle = DailyCycle(20_000, seed=seed)
    days = (2, 3, 4)
    made = [
        float(np.mean([cycle.online(d * DAY_S + (h + 0.5) * 3600).mean() for d in days]))
        for h in range(24)
    ]
    return {"traced": table("availability")["online_per_hour"], "generated": made}
