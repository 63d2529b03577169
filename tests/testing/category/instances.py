"""Random small requests, and their optimum by a MILP that shares nothing with the solver."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from oort.testing import LocalTestingSelector, create_testing_selector
from oort.types import ClientInfo

Instance = tuple[dict[Any, dict[str, Any]], dict[Any, int]]


def random_instance(seed: int, *, most_clients: int = 25, most_categories: int = 5) -> Instance:
    """A few clients of every kind, and a request that they can meet together."""
    g = np.random.default_rng(seed)
    names = [f"kind {i}" for i in range(int(g.integers(1, most_categories + 1)))]
    density, size = g.uniform(0.3, 1.0), int(g.integers(1, 60))
    clients: dict[Any, dict[str, Any]] = {}
    for n in range(int(g.integers(3, most_clients + 1))):
        held = {c: int(g.integers(1, size + 1)) for c in names if g.random() < density}
        clients[n if g.random() < 0.5 else f"client {n}"] = {
            "samples": held,
            "samples_per_s": float(
                np.round(1.0 / g.uniform(0.01, 0.5), int(g.integers(0, 6))) or 1.0
            ),
            "bandwidth_mbps": float(g.uniform(1, 60)),
            "transfer_mb": float(g.uniform(0, 20)) if g.random() < 0.3 else None,
        }
    share = g.uniform(0.02, 0.9)
    supply = {c: sum(k["samples"].get(c, 0) for k in clients.values()) for c in names}
    request = {c: max(1, int(share * k)) for c, k in supply.items() if k}
    return clients, request or {names[0]: 0}


def selector_for(clients: dict[Any, dict[str, Any]]) -> LocalTestingSelector:
    """A selector that knows these clients."""
    tester = create_testing_selector()
    for name, info in clients.items():
        tester.update_client_info(name, ClientInfo(**info))
    return tester


def milp_optimum(
    clients: dict[Any, dict[str, Any]],
    request: dict[Any, int],
    transfer_mb: float,
    budget: int | None,
) -> float | None:
    """The optimal duration; infinite where there is no plan, none where the solver gave up."""
    names, wanted = list(clients), [c for c, k in request.items() if k]
    n, m = len(names), len(wanted)
    cells = [
        (i, j)
        for i in range(n)
        for j in range(m)
        if clients[names[i]]["samples"].get(wanted[j], 0)
    ]
    k = len(cells)
    rows, low, high = [], [], []

    def add(row: dict[int, float], at_least: float, at_most: float) -> None:
        line = np.zeros(k + n + 1)
        for place, value in row.items():
            line[place] = value
        rows.append(line)
        low.append(at_least)
        high.append(at_most)

    for j, category in enumerate(wanted):
        add(
            {e: 1.0 for e, cell in enumerate(cells) if cell[1] == j},
            request[category],
            request[category],
        )
    for e, (i, j) in enumerate(cells):
        add({e: 1.0, k + i: -float(clients[names[i]]["samples"][wanted[j]])}, -np.inf, 0.0)
    for i, name in enumerate(names):
        client = clients[name]
        moved = transfer_mb if client.get("transfer_mb") is None else client["transfer_mb"]
        own = {e: 1.0 / client["samples_per_s"] for e, cell in enumerate(cells) if cell[0] == i}
        add(own | {k + i: moved * 8.0 / client["bandwidth_mbps"], k + n: -1.0}, -np.inf, 0.0)
    if budget is not None:
        add({k + i: 1.0 for i in range(n)}, -np.inf, float(budget))
    cost = np.zeros(k + n + 1)
    cost[-1] = 1.0
    most = [float(clients[names[i]]["samples"][wanted[j]]) for i, j in cells]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # SciPy 1.9 passes mip_rel_gap unchecked
        result = _solve(cost, rows, low, high, most, k, n)
    if result.status == 2:
        return float("inf")
    return float(result.fun) if result.status == 0 else None


def _solve(cost: Any, rows: Any, low: Any, high: Any, most: list[float], k: int, n: int) -> Any:
    return milp(
        cost,
        constraints=LinearConstraint(np.array(rows), low, high),
        integrality=np.concatenate([np.ones(k + n), [0.0]]),
        bounds=Bounds(0.0, np.concatenate([most, np.ones(n), [np.inf]])),
        options={"time_limit": 20.0, "mip_rel_gap": 1e-9},
    )
