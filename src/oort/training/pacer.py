"""How patient a round is: the preferred duration T (paper §4.3, Algorithm 1 lines 7–8).

T is a quantile of the durations of explored clients. It starts low and grows by one step whenever
clients have come to give less utility, so that slow clients with much to teach get their turn.
"""

from __future__ import annotations

from collections.abc import Mapping


def quantile_step(
    *, window: int, wanted: int, num_clients: int, smallest: float, largest: float
) -> float:
    """The share of clients that the next ``window`` rounds can use: how far T moves in one step.

    Where the job is small, those rounds can use everyone, and T would start at the slowest client:
    nobody would ever be too slow. ``largest`` keeps it below that.

    >>> quantile_step(window=20, wanted=100, num_clients=14_477, smallest=0.05, largest=0.2)
    0.13...
    >>> quantile_step(window=20, wanted=10, num_clients=100, smallest=0.05, largest=0.2)
    0.2
    """
    everyone = max(num_clients, 1)
    share = min(window * wanted, everyone) / everyone
    return max(smallest, min(share, largest))


def is_due(round_number: int, window: int) -> bool:
    """Whether the pacer looks back in this round: every ``window`` rounds, from two on.

    >>> [r for r in range(1, 90) if is_due(r, 20)]
    [40, 60, 80]
    """
    return round_number >= 2 * window and round_number % window == 0


def utility_fell(history: Mapping[int, tuple[float, int]], round_number: int, window: int) -> bool:
    """Whether reports of the last window were worth less, on average, than those before.

    ``history`` holds, per round, the sum of clipped utilities and the number of reports. A window
    without reports says nothing.

    >>> history = {1: (30.0, 3), 2: (8.0, 1), 3: (10.0, 2), 4: (4.0, 1)}
    >>> utility_fell(history, round_number=5, window=2)
    True
    """
    before = _mean(history, round_number - 2 * window, round_number - window)
    after = _mean(history, round_number - window, round_number)
    return before is not None and after is not None and after < before


def _mean(history: Mapping[int, tuple[float, int]], first: int, end: int) -> float | None:
    entries = [history[r] for r in range(first, end) if r in history]
    count = sum(n for _, n in entries)
    return sum(total for total, _ in entries) / count if count else None
