"""Derive the tables that the simulator ships from the traces in ``OORT_DATA``.

Run ``python -m experiments.heterogeneity.derive`` where ``OORT_DATA`` points at the traces. What
is shipped are quantiles and shares, never the traces themselves.

    devices.json         101 quantiles of compute time and of bandwidth over 51,496 phones
    client_sizes.json    101 quantiles of samples per client of four datasets
    availability.json    when sessions of phones begin, how many there are, how long they last
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

HERE = Path(__file__).resolve()
TABLES = HERE.parents[2] / "src" / "oort" / "simulation" / "figures"
DAY_S = 86_400
SHORTEST_GAP_S = 60  #: shorter interruptions are closed: no round would notice
SHORTEST_SESSION_S = 60  #: shorter sessions are dropped: nothing can be trained in them
OBSERVED_FROM_S = DAY_S // 2  #: noon to noon, the 24 hours in which most sessions begin
LAST_DAY = 6  #: no session of the trace lasts longer
LEVELS = 21  #: quantiles kept of session lengths, for each hour of the day that they begin in
GROUPS = ((1, 1), (2, 3), (4, 99))  #: sessions per day: who has few has longer ones, and at night

Floats = npt.NDArray[np.float64]
Intervals = list[tuple[float, float]]


def quantiles(values: npt.ArrayLike, digits: int = 2, levels: int = 101) -> list[float]:
    """Evenly spaced quantiles from smallest to largest.

    >>> quantiles([0, 10])[:3]
    [0.0, 0.1, 0.2]
    """
    found = np.quantile(np.asarray(values, np.float64), np.linspace(0, 1, levels))
    return [round(float(q), digits) for q in found]


def devices(root: Path) -> dict[str, Any]:
    """Quantiles of compute time and bandwidth over the phones."""
    trace = np.load(root / "devices" / "fedscale_capacity_51496.npz")
    return {
        "source": "FedScale device capacity trace, 51,496 phones, Apache-2.0",
        "compute_ms_per_sample": quantiles(trace["computation_ms"]),
        "bandwidth_kbps": quantiles(trace["communication_kbps"]),
    }


def client_sizes(root: Path) -> dict[str, Any]:
    """Quantiles of samples per client."""
    names = {
        "openimage": "openimg",
        "reddit": "reddit",
        "stackoverflow": "stackoverflow",
        "speech": "speech",
    }
    sizes = {
        name: np.load(root / "client_sizes" / f"{file}_size.npy") for name, file in names.items()
    }
    return {
        "source": "Samples per client in SymbioticLab/Oort's repository, Apache-2.0",
        "sizes": {name: quantiles(values) for name, values in sizes.items()},
    }


def sessions(root: Path) -> dict[str, Intervals]:
    """The FLASH sessions of every user: sorted, merged over short gaps, short ones dropped."""
    path = root / "availability" / "flash_ready_loose.json.gz"
    with gzip.open(path, "rt") as stream:
        raw = json.load(stream)
    usable = {u: sorted((s, e) for s, e in v if e > s and s >= -DAY_S) for u, v in raw.items()}
    return {user: _merged(intervals) for user, intervals in usable.items()}


def availability(root: Path) -> dict[str, Any]:
    """What the daily cycle needs: sessions per day, when they begin, how long they last."""
    users = sessions(root)
    observed = [[(s, e) for s, e in v if 0 <= s - OBSERVED_FROM_S < DAY_S] for v in users.values()]
    return {
        "source": "FLASH availability traces (loose readiness), about 3,450 phones, BSD-2-Clause",
        "users": len(users),
        "sessions_per_day": quantiles([len(v) for v in observed]),
        "groups": [_group(observed, *span) for span in GROUPS],
        "online_per_hour": [round(v, 5) for v in online_per_hour(observed)],
    }


def _group(observed: list[Intervals], fewest: int, most: int) -> dict[str, Any]:
    """When sessions begin and how long they last, of phones with so many a day."""
    some = [pair for v in observed if fewest <= len(v) <= most for pair in v]
    start_s, end_s = np.array(some).T
    hour = (start_s % DAY_S / 3600).astype(int)
    share = np.bincount(hour, minlength=24) / len(hour)
    return {
        "fewest_sessions": fewest,
        "starts_per_hour": [round(float(v), 5) for v in share],
        "length_s": [quantiles((end_s - start_s)[hour == h], 0, LEVELS) for h in range(24)],
    }


def online_per_hour(observed: list[Intervals]) -> list[float]:
    """The share of users online at the middle of each hour, were every day like the observed one.

    Sessions that last beyond the observed day are counted at its beginning: the trace has none
    that began before it, so that what it shows of the first hours is too little.
    """
    share = []
    for hour in range(24):
        times = [(hour + 0.5) * 3600 + day * DAY_S for day in range(LAST_DAY)]
        online = sum(any(s <= t < e for s, e in v for t in times) for v in observed)
        share.append(online / len(observed))
    return share


def _merged(intervals: Intervals) -> Intervals:
    merged: Intervals = []
    for start_s, end_s in intervals:
        if merged and start_s - merged[-1][1] < SHORTEST_GAP_S:
            merged[-1] = (merged[-1][0], max(end_s, merged[-1][1]))
        else:
            merged.append((start_s, end_s))
    return [(s, e) for s, e in merged if e - s >= SHORTEST_SESSION_S]


def derive(root: Path) -> dict[str, dict[str, Any]]:
    """All tables, by file name."""
    return {
        "devices.json": devices(root),
        "client_sizes.json": client_sizes(root),
        "availability.json": availability(root),
    }


def main() -> None:
    """Write the tables into the package."""
    TABLES.mkdir(exist_ok=True)
    for name, table in derive(Path(os.environ["OORT_DATA"])).items():
        (TABLES / name).write_text(json.dumps(table, indent=1) + "\n")
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
