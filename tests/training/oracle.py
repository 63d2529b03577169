"""A slow, plain-Python reading of Algorithm 1, written from the table in docs/design.md alone.

It imports nothing of ``oort.training``. It knows what clients reported and who was selected, and
says what the next round's preferred duration, exploration rate, scores and pool have to be. What
chance decides (the rounding of the quota, who of the pool is drawn) it leaves open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass
class Known:
    """What is known of one client."""

    utility: float | None = None
    duration_s: float | None = None
    last_round: int = 0
    participations: int = 0
    online: bool = True


@dataclass
class Expected:
    """What the table says of one round."""

    epsilon: float
    preferred_s: float
    scores: dict[int, float]
    untried: set[int]
    pending: set[int]
    removed: set[int]

    def cutoff(self, num_exploited: int, share: float) -> float:
        """The share of the k-th best score, best first."""
        best_first = sorted(self.scores.values(), reverse=True)
        return share * best_first[num_exploited - 1]


@dataclass
class Oracle:
    """The state that Algorithm 1 needs, kept in dicts."""

    alpha: float = 2.0
    fairness: float = 0.0
    staleness: float = 0.1
    clip: float = 0.95
    window: int = 20
    smallest_step: float = 0.05
    largest_step: float = 0.2
    start: float = 0.9
    decay: float = 0.98
    minimum: float = 0.2
    max_participations: int | None = None
    clients: dict[int, Known] = field(default_factory=dict)
    round_number: int = 0
    steps: int = 1
    unread: list[tuple[int, float]] = field(default_factory=list)
    history: list[tuple[int, float]] = field(default_factory=list)

    def report(self, client: int, number: int, utility: float, duration_s: float | None) -> None:
        """A completed report of a client that was selected in that round."""
        known = self.clients[client]
        known.utility, known.last_round = utility, number
        if duration_s is not None:
            known.duration_s = duration_s
        self.unread.append((number, utility))

    def selected(self, clients: list[int]) -> None:
        """Participations count at selection."""
        for client in clients:
            self.clients[client].participations += 1

    def open_round(self, wanted: int) -> Expected:
        """What has to hold of the selection that opens the next round."""
        self.round_number += 1
        number = self.round_number
        explored = {c: k for c, k in self.clients.items() if k.utility is not None}
        utilities = sorted(k.utility for k in explored.values() if k.utility is not None)
        cap = utilities[math.floor(self.clip * (len(utilities) - 1))] if utilities else math.inf
        self.history += [(r, min(u, cap)) for r, u in self.unread]
        self.unread = []
        if number >= 2 * self.window and number % self.window == 0 and self._fell(number):
            self.steps += 1
        preferred_s = self._preferred_s(wanted)
        ready = {c: k for c, k in self.clients.items() if k.online}
        if math.isinf(self.alpha):
            needed = [k.duration_s or 0.0 for k in ready.values()]
            if needed and min(needed) > preferred_s:
                preferred_s = min(needed)  # so that somebody may take part
            ready = {c: k for c, k in ready.items() if not (k.duration_s or 0.0) > preferred_s}
        limit = math.inf if self.max_participations is None else self.max_participations
        removed = {c for c, k in ready.items() if k.participations > limit}
        usable = {c: k for c, k in ready.items() if c not in removed}
        scored = {c: k for c, k in usable.items() if k.utility is not None}
        return Expected(
            epsilon=max(self.minimum, self.start * self.decay ** (number - 1)),
            preferred_s=preferred_s,
            scores=self._scores(scored, utilities, cap, preferred_s),
            untried={c for c, k in usable.items() if k.utility is None and not k.participations},
            pending={c for c, k in usable.items() if k.utility is None and k.participations},
            removed=removed,
        )

    def _fell(self, number: int) -> bool:
        def mean(first: int, end: int) -> float | None:
            seen = [u for r, u in self.history if first <= r < end]
            return sum(seen) / len(seen) if seen else None

        before = mean(number - 2 * self.window, number - self.window)
        after = mean(number - self.window, number)
        return before is not None and after is not None and after < before

    def _preferred_s(self, wanted: int) -> float:
        known = [k.duration_s for k in self.clients.values() if k.utility is not None]
        durations = sorted(d for d in known if d is not None)
        if not durations:
            return math.inf
        share = self.window * wanted / len(self.clients)
        step = min(max(share, self.smallest_step), self.largest_step)
        return durations[math.floor(min(1.0, self.steps * step) * (len(durations) - 1))]

    def _scores(
        self, scored: dict[int, Known], utilities: list[float], cap: float, preferred_s: float
    ) -> dict[int, float]:
        if not scored:
            return {}
        low = utilities[0]
        scores = {}
        for client, known in scored.items():
            assert known.utility is not None
            worth = (min(known.utility, cap) - low) / (cap - low) if cap > low else 1.0
            age = max(known.last_round, 1)
            worth += math.sqrt(self.staleness * math.log(self.round_number) / age)
            slow = known.duration_s is not None and known.duration_s > preferred_s
            if slow and known.duration_s and not math.isinf(self.alpha):
                worth *= (preferred_s / known.duration_s) ** self.alpha
            scores[client] = worth
        if self.fairness == 0:
            return scores
        top = max(scores.values())
        most = max(k.participations for k in scored.values())
        least = min(k.participations for k in scored.values())
        for client, known in scored.items():
            fair = (most - known.participations) / (most - least) if most > least else 1.0
            relative = scores[client] / top if top > 0 else 0.0
            scores[client] = (1 - self.fairness) * relative + self.fairness * fair
        return scores
