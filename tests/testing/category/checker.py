"""An independent judge of plans: plain Python over plain dicts, nothing of the solver in it.

It takes the same inputs as the selector and a finished plan, and recomputes everything: quotas,
what each client holds, budget, durations, and the proof of the lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Client = dict[str, Any]


def check_plan(
    plan: Any,
    clients: Mapping[Any, Client],
    request: Mapping[Any, int],
    *,
    budget: int | None = None,
    required: tuple[Any, ...] = (),
    excluded: tuple[Any, ...] = (),
    transfer_mb: float = 0.0,
    cap: int | None = None,
) -> None:
    """Raise where a plan is not what it says."""
    wanted = {c: k for c, k in request.items() if k > 0}
    ids = list(plan)
    assert len(set(ids)) == len(ids), "a participant stands twice"
    assert list(plan.assignment) == ids
    assert set(required) <= set(ids), "a required client is missing"
    assert not set(excluded) & set(ids), "an excluded client takes part"
    assert budget is None or len(ids) <= budget, f"{len(ids)} participants, {budget} allowed"
    given = dict.fromkeys(wanted, 0)
    slowest = 0.0
    for place, client in enumerate(ids):
        own, known = plan.assignment[client], clients[client]
        total = 0
        for category, number in own.items():
            assert isinstance(number, int)
            assert 0 < number <= known["samples"].get(category, 0), f"{client} lacks {category}"
            given[category] += number
            total += number
        assert total > 0 or client in required, f"{client} has nothing to do"
        most = min(x for x in (cap, known.get("max_samples"), math.inf) if x is not None)
        assert total <= most, f"{client} is asked for {total}, more than its cap"
        seconds = seconds_for(known, total, transfer_mb)
        assert seconds == plan.client_duration_s[place], f"{client} takes {seconds}"
        slowest = max(slowest, seconds)
    assert given == wanted, f"given {given}, wanted {wanted}"
    assert plan.duration_s == slowest, f"takes {slowest}, not {plan.duration_s}"
    assert (
        seconds_for(
            clients[plan.bottleneck], sum(plan.assignment[plan.bottleneck].values()), transfer_mb
        )
        == slowest
    )
    assert plan.lower_bound_s <= plan.duration_s
    assert plan.budget_used == len(ids)
    assert plan.request == wanted
    dense = plan.matrix.toarray()
    for place, client in enumerate(ids):
        row = {c: int(k) for c, k in zip(plan.categories, dense[place], strict=True) if k}
        assert row == plan.assignment[client]


def seconds_for(client: Client, samples: int, transfer_mb: float) -> float:
    """The duration of a participation, in the order of operations that the documentation gives."""
    own = client.get("transfer_mb")
    moved = transfer_mb if own is None else own
    fixed = moved * 8.0 / client["bandwidth_mbps"] if moved else 0.0
    return float(fixed + samples / client["samples_per_s"])


def most_within(client: Client, deadline_s: float, transfer_mb: float, limit: int) -> int:
    """The largest number of samples a client can do in time, by trying every number."""
    done = 0
    while done < limit and seconds_for(client, done + 1, transfer_mb) <= deadline_s:
        done += 1
    return done


def check_certificate(
    plan: Any,
    clients: Mapping[Any, Client],
    *,
    budget: int | None = None,
    required: tuple[Any, ...] = (),
    transfer_mb: float = 0.0,
    cap: int | None = None,
) -> None:
    """Raise unless the plan's prices prove its lower bound: just before it, nobody can earn
    enough."""
    proof = plan.certificate
    if proof.kind == "search":
        return
    if proof.kind == "required":
        assert plan.lower_bound_s == max(seconds_for(clients[r], 0, transfer_mb) for r in required)
        return
    assert proof.deadline_s == plan.lower_bound_s
    prices = dict(zip(plan.categories, (int(p) for p in proof.prices), strict=True))
    just_before = math.nextafter(plan.lower_bound_s, 0.0)
    earned = {}
    for name, client in clients.items():
        held = {c: min(client["samples"].get(c, 0), k) for c, k in plan.request.items()}
        limit = min(
            x for x in (cap, client.get("max_samples"), sum(held.values())) if x is not None
        )
        room, worth = most_within(client, just_before, transfer_mb, limit), 0
        for category in sorted(prices, key=lambda c: -prices[c]):
            taken = min(held[category], room)
            worth += prices[category] * taken
            room -= taken
        earned[name] = worth
    forced = sum(earned.pop(r) for r in required)
    rest = sorted(earned.values(), reverse=True)
    if budget is not None and proof.kind == "prices":
        rest = rest[: budget - len(required)]
    assert forced + sum(rest) < sum(prices[c] * k for c, k in plan.request.items()), (
        "the prices prove nothing"
    )
