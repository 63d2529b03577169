"""The search for a fast plan with few participants.

Without a binding budget the optimum over all clients is the answer, moved onto as few of them as
can do it. With one, the problem is NP-hard, and two bounds close in on the optimum: from above
sets of clients that are found, each with its own exact optimum, and from below prices that prove a
deadline impossible. ``relax`` says at a deadline which clients to take and which prices to ask;
``cover`` gives the first sets and serves where a linear programme would be too large, ``exchange``
makes sets better of which the programme knows little; the paper's own grouping is always among the
sets, so that no plan is slower than the paper's.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from oort.testing.category.assign import Assignment, assign, saturate
from oort.testing.category.certify import Certificate, last_finish, latest_impossible, next_finish
from oort.testing.category.cover import greedy_cover, most_samples_first
from oort.testing.category.exchange import Exchange
from oort.testing.category.prices import Priced, whole_prices
from oort.testing.category.problem import Int64s, Problem
from oort.testing.category.relax import Relaxed, relaxed_cover, whole_cover, whole_flow
from oort.types import Floats, Integers, Mask, Rows

_LOG = logging.getLogger(__name__)
_NOBODY: Rows = np.zeros(0, np.int64)

_COLUMNS = 10_000  # entries up to which the linear programme sees every client
_LARGE = 400_000  # entries from which greedy sets are worth more tries
_ROUNDS = 12  # times that it may ask for clients which it did not see
_CUTS = 8  # rows added at one deadline
_TIDY = 60_000  # entries of all programmes that look for few clients who can do the optimum
_SWIFT = (0.25, 6)  # portion of the shares made whole at once, and programmes for it
_GENTLE = (0.1, 24)  # where much is at stake
_DEADLINES = 24  # deadlines tried by the linear programme
_TRIES = 6  # and before any set is known
_STEP = 0.95  # how far above the lower bound, in tolerances
_FEW = (1.25, 2.0, 10.0, math.inf)  # deadlines for greedy sets, in lower bounds
_MANY = (
    1.01,
    1.02,
    1.05,
    1.1,
    1.2,
    1.5,
    2.0,
    4.0,
    10.0,
    math.inf,
)  # and where programmes are large
_ENTRY_S = 2e-6  # what an entry costs in a linear programme, seconds, roughly
_LEAST_S = 2.0  # spent on programmes in any case, in such seconds
_TINY = 300  # clients left to decide up to which the MILP is a matter of milliseconds
_WIDE = 0.05  # a gap worth a MILP without being asked for it
_SMALL = 3_000  # clients left to decide up to which it is tried then
_NEARLY = 1.0 + 2e-6  # MILP solvers stop as near to the optimum as that
_MILP_S = 5.0  # how long it may take then
_KERNEL = 300  # clients, or twice the budget, among whom the MILP looks first
_FAR = 0.1  # a gap worth exchanging clients
_EXCHANGE_S = (1.0, 4.0)  # spent on that, seconds by its judgement: worth beginning, and at most
_FEWER_S = 2.0  # spent on finding out how few can do it
_MOVES = 5_000  # exchanges at one deadline
_SOONER = (0.03, 0.003)  # how much sooner a set should be done, at first and at least
_FLOWS = 3_000  # entries up to which that is a matter of seconds
_MANY_FLOWS = 20_000  # and where there is a time limit to be spent

Progress = Callable[[float, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Who takes part, and what is proven about it."""

    rows: Rows  #: rows of the problem, ascending
    deadline_s: float
    lower_s: float
    certificate: Certificate


@dataclass(frozen=True, slots=True, kw_only=True)
class TooFew:
    """The budget does not suffice, or nobody knows how to make it."""

    proven: int  #: fewer clients than this cannot do it
    found: int  #: as many as this can


@dataclass(slots=True, kw_only=True)
class Search:
    """What is known so far about one request within a budget."""

    problem: Problem
    budget: int
    required: Rows
    at_least_s: float = 0.0  #: what required clients need for their transfers alone
    tolerance: float = 0.0
    until: float = math.inf  #: clock reading at which to stop improving
    patient: bool = False  #: whether to spend all the time there is
    progress: Progress | None = None
    lower_s: float = 0.0
    certificate: Certificate | None = None
    best_s: float = math.inf
    best: Rows = field(default_factory=lambda: np.zeros(0, np.int64))
    suffice: int = 0  #: clients that do it without a budget
    spent_s: float = 0.0  #: on linear programmes, judged by their sizes
    cuts: list[Mask] = field(default_factory=list)  #: sets of categories that were short together
    prices: Int64s = field(
        default_factory=lambda: np.ones(0, np.int64)
    )  #: the newest, to guess who matters

    def __post_init__(self) -> None:
        everything = np.ones(self.problem.num_categories, np.bool_)
        self.cuts = self.cuts or [everything]
        self.prices = self.prices if len(self.prices) else everything.astype(np.int64)

    @property
    def gap(self) -> float:
        """By how much the best set may be slower than the optimum, over the lower bound."""
        return self.best_s / self.lower_s - 1.0 if self.lower_s > 0.0 else math.inf

    def time_left_s(self) -> float:
        """Seconds that may still be spent."""
        return self.until - time.monotonic()

    def done(self) -> bool:
        """Whether nothing more is to be done: good enough, or out of time."""
        return self.gap <= self.tolerance or self.time_left_s() <= 0.0

    def offer(self, rows: Rows, *, before_s: float = math.inf) -> bool:
        """Take note of a set of clients; true where it meets the request within the budget.

        With ``before_s`` also false, and sooner said, where it takes as long as that.
        """
        rows = np.union1d(rows, self.required)
        result = assign(self.problem.take(rows), from_s=self.at_least_s, before_s=before_s)
        if result is None:
            return False
        used = np.union1d(rows[result.rows], self.required)
        if len(used) > self.budget:
            return False
        if (result.deadline_s, len(used)) < (self.best_s, len(self.best)):
            self.best_s, self.best = result.deadline_s, used
            self.report()
        return True

    def raise_lower(self, priced: Priced, from_s: float) -> None:
        """Push the lower bound as far as these prices prove, from a deadline proven impossible."""

        @cache
        def excess(deadline_s: float) -> int:
            return priced.excess(deadline_s, self.budget, self.required)

        low, latest = from_s, min(self.best_s, 2.0 * horizon_s(self.problem))
        latest = last_finish(float(np.nextafter(latest, 0.0)), self.problem)
        high = min(latest, 1.25 * low)
        while low < high and excess(high) < 0:
            low, high = high, min(latest, 2.0 * high)
        if low < high:
            accuracy = max(1e-5, self.tolerance / 50.0)
            low = latest_impossible(excess, low, high, accuracy=accuracy)
        self.prove(next_finish(low, self.problem), "prices", priced.prices)

    def prove(self, lower_s: float, kind: str, prices: Int64s) -> None:
        """Take note of a lower bound."""
        lower_s = min(lower_s, self.best_s)
        if lower_s > self.lower_s:
            self.lower_s = lower_s
            self.certificate = Certificate(kind, self.lower_s, prices)
            self.report()

    def prove_everyone(self, result: Assignment) -> None:
        """Take note of the optimum over all clients, which bounds every other."""
        kind = "required" if result.deadline_s == self.at_least_s else "cut"
        self.prove(result.deadline_s, kind, result.cut.astype(np.int64))

    def report(self) -> None:
        """Tell whoever waits."""
        _LOG.debug("between %.6g and %.6g seconds", self.lower_s, self.best_s)
        if self.progress is not None:
            self.progress(self.lower_s, self.best_s)


def horizon_s(problem: Problem) -> float:
    """When everybody would be done with everything: no later deadline helps."""
    return float((problem.fixed_s + problem.limit / problem.speed).max())


def solve(
    problem: Problem,
    held: Integers,
    *,
    budget: int | None = None,
    required: Rows = _NOBODY,
    at_least_s: float = 0.0,
    tolerance: float = 0.01,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> Solution | TooFew:
    """The fastest set of clients that is found, with a lower bound on every other.

    Args:
        problem: The clients and a request that all of them together can meet.
        held: Samples behind each entry, those beyond the quota too.
        budget: The most participants; none: as many as it takes.
        required: Rows that take part in any case.
        at_least_s: A duration that no plan can undercut, because required clients elsewhere need
            it.
        tolerance: The gap at which the search may stop.
        time_limit_s: Seconds after which it stops improving; none: a fixed effort.
        progress: Called with the lower bound and the best duration whenever one of them moves.
    """
    search = Search(
        problem=problem,
        budget=problem.num_clients if budget is None else budget,
        required=required,
        at_least_s=max(at_least_s, float(problem.fixed_s[required].max(initial=0.0))),
        tolerance=tolerance,
        until=math.inf if time_limit_s is None else time.monotonic() + time_limit_s,
        patient=time_limit_s is not None or tolerance == 0.0,
        progress=progress,
    )
    everyone_first(search)
    origin = np.arange(problem.num_clients)
    if not len(search.best) or search.best_s > search.lower_s:
        large = _entries(search, search.lower_s) > _LARGE
        if not large:
            close_in(search, _TRIES)
        first_sets(search, held, large=large)
        if not len(search.best) and (least := fewest(search)) is not None:
            return least
        search, origin = without_the_slow(search)
        close_in(search)
        exchange_clients(search)
        polish(search)
    assert search.certificate is not None
    return Solution(
        rows=origin[search.best],
        deadline_s=search.best_s,
        lower_s=search.lower_s,
        certificate=search.certificate,
    )


def everyone_first(search: Search) -> None:
    """The optimum over all clients: a lower bound, and the answer where few enough can do it."""
    result = assign(search.problem, from_s=search.at_least_s)
    if result is None:
        message = "the request must be within what all clients together can do"
        raise ValueError(message)
    search.prove_everyone(result)
    used = np.union1d(result.rows, search.required)
    search.suffice = len(used)
    if len(used) <= search.budget:
        search.best_s, search.best = result.deadline_s, used
        search.report()
    else:
        count_samples(search)
    if search.lower_s > result.deadline_s:
        return  # too few clients, by their number of samples alone
    entries = _entries(search, result.deadline_s)
    if entries <= _TIDY or not len(search.best):
        at_deadline(search, result.deadline_s, min(_CUTS, 2 + _TIDY // entries))
    else:
        greedy_at(search, result.deadline_s)


def first_sets(search: Search, held: Integers, *, large: bool) -> None:
    """Sets that are found at once: the paper's, and greedy ones at ever later deadlines."""
    papers_set(search, held)
    for factor in _MANY if large else _FEW:
        deadline_s = min(search.lower_s * factor, horizon_s(search.problem))
        if search.best_s <= deadline_s or greedy_at(search, deadline_s):
            return


def papers_set(search: Search, held: Integers) -> None:
    """The paper's own grouping, on fewer of its clients where all of them are too many.

    The paper's MILP may leave some of them without work, so its plan may keep to a budget that the
    grouping exceeds.
    """
    problem = search.problem
    grouped, left = most_samples_first(problem, held, problem.num_clients, first=search.required)
    if left.any() or search.offer(grouped, before_s=search.best_s):
        return
    rows = np.sort(grouped)
    own = assign(problem.take(rows), from_s=search.at_least_s, before_s=search.best_s)
    if own is None or len(rows) > _SMALL:
        return
    room = problem.room(own.deadline_s * _NEARLY)
    relaxed = _relaxed(search, room, rows)
    if relaxed is not None and relaxed.total <= search.budget + 1e-6:
        limit_s = min(_MILP_S, own.deadline_s, search.time_left_s())
        _whole_among(search, rows, room, time.monotonic() + limit_s)


def greedy_at(search: Search, deadline_s: float) -> bool:
    """One greedy set at a deadline; scarce categories are served first."""
    room = search.problem.room(deadline_s)
    rows = np.union1d(np.flatnonzero(room), search.required)
    part = search.problem.take(rows)
    most = np.minimum(part.count, room[rows][part.rows()])
    supply = np.bincount(part.category, most, minlength=part.num_categories)
    if (supply < part.quota).any():
        return False
    priced = Priced(part, np.ones(part.num_categories, np.int64), ties=supply / part.quota)
    first = np.searchsorted(rows, search.required)
    chosen, _ = greedy_cover(priced, room[rows], search.budget, first=first)
    return search.offer(rows[chosen])


def without_the_slow(search: Search) -> tuple[Search, Rows]:
    """The same search without clients too slow for one sample before the best plan is done."""
    problem = search.problem
    fast = problem.fixed_s + 1.0 / problem.speed < search.best_s
    fast[search.required] = True
    fast[search.best] = True
    rows = np.flatnonzero(fast)
    required, best = np.searchsorted(rows, search.required), np.searchsorted(rows, search.best)
    return replace(search, problem=problem.take(rows), required=required, best=best), rows


def count_samples(search: Search) -> None:
    """The lower bound of counting samples alone: every price 1."""
    priced = Priced(search.problem, np.ones(search.problem.num_categories, np.int64))
    if priced.impossible(search.lower_s, search.budget, search.required):
        search.raise_lower(priced, search.lower_s)


def close_in(search: Search, deadlines: int = _DEADLINES) -> None:
    """Try deadlines just above the lower bound, and further up while the answer is not known."""
    smallest = max(_STEP * search.tolerance, 1e-4)
    step, unknown_s = smallest, search.lower_s
    latest_s = horizon_s(search.problem)
    for _ in range(deadlines):
        base_s, before = max(search.lower_s, unknown_s), search.lower_s
        if search.done() or base_s > latest_s or not worth_while(search):
            return
        wanted_s = base_s + min(step * base_s, (min(search.best_s, latest_s) - base_s) / 2.0)
        deadline_s = max(last_finish(wanted_s, search.problem), search.lower_s)
        if at_deadline(search, deadline_s):
            step = math.inf
        elif search.lower_s > before:
            step = smallest
        else:
            unknown_s, step = max(unknown_s, deadline_s), max(smallest, 2.0 * step)
        open_s = search.best_s - max(unknown_s, search.lower_s)
        if open_s <= max(
            search.tolerance * search.lower_s, 0.05 * (search.best_s - search.lower_s)
        ):
            return


def worth_while(search: Search, programmes: int = 1) -> bool:
    """Whether more linear programmes may save more seconds than they take.

    At millions of clients the last per cent may not, and a hard request could take for ever.
    Judged by size rather than by the clock, so that the same request gets the same plan on every
    machine.
    """
    if search.patient:
        return True
    cost_s = programmes * _programme(search) * _ENTRY_S
    if not len(search.best):
        return search.spent_s + cost_s < _LEAST_S
    saving_s = search.best_s - search.lower_s
    if search.gap > _WIDE:
        return search.spent_s + cost_s < max(saving_s, _LEAST_S)
    return cost_s < saving_s and search.spent_s < _LEAST_S


def _programme(search: Search) -> float:
    """Entries that a linear programme would see."""
    number = int(np.count_nonzero(search.problem.room(search.lower_s)))
    entries = _entries(search, search.lower_s)
    return min(entries, max(_COLUMNS, 3 * search.budget * entries / max(1, number)))


def _entries(search: Search, deadline_s: float) -> int:
    """Entries of clients that could do anything within a deadline: the programme's size."""
    return int(np.diff(search.problem.indptr)[search.problem.room(deadline_s) > 0].sum())


def at_deadline(search: Search, deadline_s: float, programmes: int = _CUTS + _ROUNDS) -> bool:
    """Look for a set at one deadline; prices that say there is none raise the lower bound."""
    room = search.problem.room(deadline_s)
    columns, everyone = _columns(search, room)
    for _ in range(programmes):
        relaxed = _relaxed(search, room, columns)
        if relaxed is None:
            return False
        search.prices = whole_prices(relaxed.prices, search.problem)
        if relaxed.total > search.budget + 1e-6:
            priced = Priced(search.problem, search.prices)
            if priced.impossible(deadline_s, search.budget, search.required):
                search.raise_lower(priced, deadline_s)
                return False
            more = columns[:0] if everyone else _dearer(search, priced, room, columns, relaxed)
            if not len(more):
                return False
            columns = np.union1d(columns, more)
            continue
        support = columns[relaxed.shares > 1e-9]
        if len(support) > search.budget:
            return _dived(search, room, columns, relaxed)
        chosen, violated = _filled(search, room, columns, support)
        if not violated.any():
            return search.offer(chosen)
        if _known_cut(search, violated):
            return False
        search.cuts.append(violated)
    return False


def _columns(search: Search, room: Int64s, entries: int = _COLUMNS) -> tuple[Rows, bool]:
    """The clients that the linear programme sees, and whether these are all that have room."""
    problem = search.problem
    active = np.union1d(np.flatnonzero(room), search.required)
    lengths = np.diff(problem.indptr)[active]
    if int(lengths.sum()) <= entries:
        return active, True
    values = Priced(problem, search.prices).values(room)[active]
    number = max(3 * search.budget, int(entries / lengths.mean()))
    dearest = active[np.argsort(-values, kind="stable")[:number]]
    return np.unique(np.concatenate([dearest, search.required, search.best])), False


def _relaxed(search: Search, room: Int64s, columns: Rows, taken: Rows = _NOBODY) -> Relaxed | None:
    """The linear programme over some clients, with some of them and the required ones taken."""
    left_s = search.time_left_s()
    if left_s <= 0.0:
        return None
    part = search.problem.take(columns)
    search.spent_s += len(part.category) * _ENTRY_S
    return relaxed_cover(
        part,
        room[columns],
        search.cuts,
        required=np.searchsorted(columns, np.union1d(taken, search.required)),
        penalty=10.0 * search.budget + 100.0,
        time_limit_s=left_s,
    )


def _dearer(search: Search, priced: Priced, room: Int64s, columns: Rows, relaxed: Relaxed) -> Rows:
    """The dearest clients that the programme did not see and would take at its prices."""
    values = priced.values(room)
    values[columns] = 0
    one_client = _one_client(priced, relaxed)
    dearest = np.argsort(-values, kind="stable")[: max(search.budget, 1000)]
    return dearest[values[dearest] > one_client * (1.0 + 1e-6)]


def _one_client(priced: Priced, relaxed: Relaxed) -> int:
    """What taking one client costs, in the unit of the whole prices."""
    top = float(relaxed.prices.max(initial=0.0))
    return max(1, round(int(priced.prices.max()) / top)) if top > 0.0 else 1


def _dived(search: Search, room: Int64s, columns: Rows, relaxed: Relaxed) -> bool:
    """Make shares whole, a few at a time, and let the programme find the rest again.

    Fewer at a time, and so more often, where the best set so far may be far from the optimum and
    the effort allows it.
    """
    taken = search.required
    portion, dives = _GENTLE if _WIDE < search.gap < math.inf else _SWIFT
    if not worth_while(search, dives):
        portion, dives = _SWIFT
    for _ in range(dives):
        shares = relaxed.shares
        support = columns[shares > 1e-9]
        fits = len(support) <= search.budget
        trial = support if fits else columns[shares > 0.5][: search.budget]
        chosen, violated = _filled(search, room, columns, trial)
        if not violated.any():
            return search.offer(chosen)
        if fits and _known_cut(search, violated):
            return False
        if fits:
            search.cuts.append(violated)
        else:
            nearest = _nearest_whole(shares, search.budget - relaxed.total, portion)
            taken = np.union1d(columns[shares >= 1.0 - 1e-6], columns[nearest])
        deeper = _relaxed(search, room, columns, taken) if worth_while(search) else None
        if deeper is None or deeper.total > search.budget + 1e-6:
            return False
        relaxed = deeper
    return False


def _nearest_whole(shares: Floats, spare: float, portion: float) -> Rows:
    """Places of the largest open shares: a portion of them, or of what the budget has to spare.

    >>> _nearest_whole(np.array([1.0, 0.9, 0.8, 0.1, 0.0]), spare=1.3, portion=0.25)
    array([1, 2])
    """
    open_ = np.flatnonzero((shares > 1e-9) & (shares < 1.0 - 1e-6))
    open_ = open_[np.argsort(-shares[open_], kind="stable")]
    missing = np.cumsum(1.0 - shares[open_])
    affordable = int(np.searchsorted(missing, 0.25 * spare, side="right"))
    return open_[: max(1, int(portion * len(open_)), affordable)]


def _filled(search: Search, room: Int64s, columns: Rows, rows: Rows) -> tuple[Rows, Mask]:
    """A set with others added that cover what it lacks, and the categories that it first lacked.

    What it lacks is what a maximum flow leaves; others are added greedily, at the prices of the
    programme. The categories are none for a complete set. Where the best duration is known, only
    the number of clients is at stake, and adding to them would not help.
    """
    problem, first_short = search.problem, np.zeros(0, np.bool_)
    rows = np.union1d(rows, search.required)
    for _ in range(_CUTS):
        part = problem.take(rows)
        samples, short = saturate(part, room[rows])
        if not short.any():
            return rows, short
        first_short = first_short if len(first_short) else short
        others = np.setdiff1d(columns, rows, assume_unique=True)
        if (
            len(rows) >= search.budget
            or not len(others)
            or (len(search.best) and search.best_s <= search.lower_s)
        ):
            break
        done = np.bincount(part.category, samples, minlength=problem.num_categories).astype(
            np.int64
        )
        rest = replace(problem.take(others), quota=problem.quota - done)
        priced = Priced(rest, np.maximum(search.prices, 1))
        more, _ = greedy_cover(priced, room[others], search.budget - len(rows))
        rows = np.union1d(rows, others[more])
    return rows, first_short


def fewest(search: Search) -> TooFew | None:
    """How many clients it takes where no set kept to the budget; none where one is found now."""
    latest_s = horizon_s(search.problem)
    if at_deadline(search, latest_s):
        return None
    wide = replace(search, budget=search.problem.num_clients)
    found = search.suffice
    if greedy_at(wide, latest_s):
        fewer = _fewer(search, wide.best, latest_s)
        if len(fewer) <= search.budget and search.offer(fewer):
            return None
        found = min(found, len(fewer))
    wide.best_s = math.inf
    if at_deadline(wide, latest_s):
        found = min(found, len(wide.best))
    proven = max(
        Priced(search.problem, prices).fewest(search.required)
        for prices in (wide.prices, search.prices)
    )
    if proven <= search.budget:
        outcome = _whole(search, latest_s, min(_MILP_S, search.time_left_s()))
        if outcome == "found":
            return None
        proven = search.budget + 1 if outcome == "impossible" else proven
    return TooFew(proven=proven, found=found)


def _fewer(search: Search, rows: Rows, deadline_s: float) -> Rows:
    """A set that can do the same with fewer clients, as few as the budget allows at best.

    What it comes to does not depend on the budget before that is reached: whoever is told that so
    many suffice may ask for as many.
    """
    seconds = min(_FEWER_S, search.time_left_s() / 2.0)
    if seconds <= 0.0 or len(search.problem.category) <= _FLOWS:
        return rows  # small problems are for a MILP to decide
    ones = np.ones_like(search.prices)
    apart = replace(search, budget=len(rows), best=rows, prices=ones)
    columns, exchange = _exchange(apart, deadline_s)
    exchange.begin(np.searchsorted(columns, rows), search.problem.room(deadline_s)[columns])
    while len(rows) > search.budget and exchange.spent_s < seconds:
        left_s = seconds - exchange.spent_s
        found = exchange.improved(budget=len(rows) - 1, steps=_MOVES, seconds=left_s)
        if found is None:
            break
        rows = columns[found]
    return rows


def exchange_clients(search: Search) -> None:
    """Exchange clients of the best set while that makes it faster, where the gap is wide.

    Unless there is a time limit to be spent, no longer than what it could save at best.
    """
    (worth_it_s, most_s), half_s = _EXCHANGE_S, search.time_left_s() / 2.0
    seconds = min(most_s if search.patient else search.best_s - search.lower_s, most_s)
    if search.patient and half_s < math.inf:
        seconds = half_s
    if search.done() or search.gap <= _FAR or seconds < worth_it_s:
        return
    columns, exchange = _exchange(search, search.best_s)
    part, (sooner, least) = search.problem.take(columns), _SOONER
    moves = max(_MOVES, int(seconds / exchange.step_s(search.budget)) // 10)
    while exchange.spent_s < seconds and sooner > least and not search.done():
        wanted_s = max(search.lower_s, search.best_s * (1.0 - sooner))
        exchange.begin(np.searchsorted(columns, search.best), part.room(wanted_s))
        left_s = seconds - exchange.spent_s
        found = exchange.improved(budget=search.budget, steps=moves, seconds=left_s)
        if found is not None and search.offer(columns[found], before_s=search.best_s):
            sooner *= 1.5
        else:
            sooner /= 2.0


def _exchange(search: Search, deadline_s: float) -> tuple[Rows, Exchange]:
    """Clients among whom to exchange, and the means to do so."""
    columns, _ = _columns(search, search.problem.room(deadline_s), _LARGE)
    columns = np.union1d(columns, search.best)
    required = np.searchsorted(columns, search.required)
    return columns, Exchange(search.problem.take(columns), required)


def polish(search: Search) -> None:
    """Close the rest of the gap with small MILPs.

    Deadlines are bisected over the moments at which a plan could end. Where the answer at one of
    them stays open, later ones are tried, with half of the time that is left for each; what is
    left in the end goes to the middle again.

    Unless there is a time limit to be spent, no longer than what they could save at best.
    """
    ends = time.monotonic() + min(_MILP_S, search.best_s - search.lower_s)
    unknown_s, share = search.lower_s, 0.5
    while not search.done() and (search.patient or time.monotonic() < ends):
        if search.best_s <= unknown_s:
            unknown_s = search.lower_s
        deadline_s = _next_to_try(search, unknown_s)
        if deadline_s < search.lower_s:
            search.prove(search.best_s, "search", search.prices)
            return
        left_s = search.time_left_s() if search.patient else ends - time.monotonic()
        outcome = _whole(search, deadline_s, share * left_s)
        if outcome == "impossible":
            search.prove(next_finish(deadline_s, search.problem), "search", search.prices)
        elif outcome == "unknown":
            if share == 1.0 or not (search.patient or search.gap > _WIDE):
                return
            open_s = search.best_s - deadline_s
            higher = (
                deadline_s > unknown_s and open_s > max(search.tolerance, 0.01) * search.best_s
            )
            unknown_s, share = (deadline_s, 0.5) if higher else (search.lower_s, 1.0)


def _next_to_try(search: Search, unknown_s: float) -> float:
    """The moment in the middle between what is open and the best, or the last before the best."""
    low_s = max(search.lower_s, unknown_s)
    deadline_s = last_finish(low_s + (search.best_s - low_s) / 2.0, search.problem)
    if deadline_s < low_s or (deadline_s == low_s and low_s > search.lower_s):
        deadline_s = last_finish(float(np.nextafter(search.best_s, 0.0)), search.problem)
    return deadline_s


def _whole(search: Search, deadline_s: float, time_limit_s: float) -> str:
    """Look for a set at one deadline with a MILP over clients that prices do not rule out."""
    if not worth_while(search):
        return "unknown"
    room = search.problem.room(deadline_s)
    columns, _ = _columns(search, room)
    relaxed = _relaxed(search, room, columns)
    if relaxed is None:
        return "unknown"
    search.prices = whole_prices(relaxed.prices, search.problem)
    possible = _possible(search, relaxed, room)
    if possible is None:
        return "impossible"
    ends = time.monotonic() + time_limit_s
    first = columns[relaxed.shares > 1e-9]
    if search.gap > _WIDE and _whole_in_kernel(search, possible, first, room, ends):
        return "found"
    if not search.patient and len(possible) > (_SMALL if search.gap > _WIDE else _TINY):
        return "unknown"
    return _whole_among(search, possible, room, ends)


def _whole_in_kernel(
    search: Search, possible: Rows, first: Rows, room: Int64s, ends: float
) -> bool:
    """Look for a set among a few clients, some first and others by what they earn, with a MILP.

    It decides on samples too, so that it needs no cuts.
    """
    values = Priced(search.problem, search.prices).values(room)[possible]
    values[np.isin(possible, first)] = 2**62
    values[np.isin(possible, search.required)] = 2**62 + 1
    number = max(_KERNEL, 2 * search.budget)
    columns = np.sort(possible[np.argsort(-values, kind="stable")[:number]])
    part, left_s = search.problem.take(columns), ends - time.monotonic()
    if len(part.category) > (_MANY_FLOWS if search.patient else _FLOWS) or left_s <= 0.0:
        return False
    rows, _ = whole_flow(
        part,
        room[columns],
        search.cuts,
        budget=search.budget,
        required=np.searchsorted(columns, search.required),
        time_limit_s=left_s,
    )
    return rows is not None and search.offer(columns[rows], before_s=search.best_s)


def _whole_among(search: Search, columns: Rows, room: Int64s, ends: float) -> str:
    """Look for a set among some clients with a MILP, until a reading of the clock."""
    while (left_s := ends - time.monotonic()) > 0.0:
        rows, proven = whole_cover(
            search.problem.take(columns),
            room[columns],
            search.cuts,
            budget=search.budget,
            required=np.searchsorted(columns, search.required),
            time_limit_s=left_s,
        )
        if rows is None:
            return "impossible" if proven else "unknown"
        chosen = columns[rows]
        _, violated = saturate(search.problem.take(chosen), room[chosen])
        if not violated.any():
            return "found" if search.offer(chosen) else "unknown"
        if _known_cut(search, violated):
            return "unknown"  # the solver's tolerance is wider than the samples that are missing
        search.cuts.append(violated)
    return "unknown"


def _known_cut(search: Search, violated: Mask) -> bool:
    """Whether the programmes have a row for these categories already."""
    single = int(violated.sum()) == 1
    return single or any(np.array_equal(violated, cut) for cut in search.cuts)


def _possible(search: Search, relaxed: Relaxed, room: Int64s) -> Rows | None:
    """The clients that could be in a set within the budget; none where there can be no such set.

    If a client costs one unit and earns v_n, any set costs at least λ·p + Σ min(0, 1 − v_n), and 1
    − v_n more with a client in it that earns less than it costs.
    """
    priced = Priced(search.problem, search.prices)
    one = _one_client(priced, relaxed)
    loss = one - priced.values(room)
    forced = np.zeros(len(loss), np.bool_)
    forced[search.required] = True
    least = priced.need + int(np.where(forced, loss, np.minimum(loss, 0)).sum())
    if least > search.budget * one:
        return None
    return np.flatnonzero(
        forced | ((room > 0) & (least + np.maximum(loss, 0) <= search.budget * one))
    )
