"""Category requests, from what is asked to a plan: the order of the steps.

request      what is asked             -> samples of each category
information  who holds what, how fast  -> a problem
budget       who takes part            -> rows, deadline, lower bound
assign       who does how much         -> samples
plan         what the caller gets
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oort.config import TestingConfig
from oort.errors import (
    BudgetTooSmallError,
    ConfigError,
    IncompleteClientWarning,
    InvalidRequestError,
    NotEnoughSamplesError,
    OutOfTimeError,
)
from oort.testing.category.assign import assign, saturate
from oort.testing.category.budget import Progress, Search, Solution, count_samples, solve
from oort.testing.category.certify import Certificate
from oort.testing.category.cover import greedy_cover, most_samples_first
from oort.testing.category.information import Category, ClientInformation
from oort.testing.category.milp import MilpResult, simplified, straw_man
from oort.testing.category.plan import TestPlan
from oort.testing.category.prices import Priced
from oort.testing.category.problem import Int64s, Problem, sums_by_row
from oort.testing.category.request import Request, quotas
from oort.types import Among, Floats, Integers, Mask, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One request, ready to be solved."""

    problem: Problem
    held: Integers  #: samples behind each entry, beyond the quota too
    rows: Rows  #: the row of each client of the problem
    required: Rows  #: places in ``rows`` that take part in any case
    idle: Rows  #: rows that take part in any case and have nothing that is wanted
    idle_s: Floats  #: what each of them needs for its transfer
    columns: Int64s  #: the place of each category of the problem among all
    config: TestingConfig

    @property
    def budget(self) -> int | None:
        """Participants that the problem may have."""
        return None if self.config.budget is None else self.config.budget - len(self.idle)

    @property
    def at_least_s(self) -> float:
        """What the required clients need for their transfers alone."""
        own = float(self.problem.fixed_s[self.required].max(initial=0.0))
        return max(own, float(self.idle_s.max(initial=0.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Who does what, by one method."""

    rows: Rows  #: participants: places in the task's rows, ascending
    samples: Int64s  #: one per entry of theirs
    lower_s: float
    certificate: Certificate | None


def plan_categories(
    known: ClientInformation,
    request: Request,
    config: TestingConfig | Mapping[str, Any] | None = None,
    *,
    among: Among | None = None,
    progress: Progress | None = None,
) -> TestPlan:
    """The fastest plan that meets a request, with a proven bound on every other.

    Args:
        known: What the clients hold and how fast they are.
        request: Samples of each category: a mapping, a list in the order of the categories,
            ``Representative(…)`` or ``Balanced(…)``.
        config: Budget, transfer size, time limit and the rest; a dict works too.
        among: Ids, or a mask over rows: only these clients may be asked, and of them only those
            online.
        progress: Called with the lower bound and the best duration, in seconds, whenever one of
            them moves.

    Raises:
        InvalidRequestError: The request is empty or names unknown categories.
        NotEnoughSamplesError: The clients lack samples; says of which categories and how many.
        BudgetTooSmallError: No plan keeps to the budget; says which budget works and which is
            proven to be the least.
        OutOfTimeError: The time limit passed before a plan was found.
    """
    settings = _settings(config)
    started = time.monotonic()
    task = make_task(known, request, settings, among)
    method = {"oort": _oort, "paper": _paper, "milp": _milp}[settings.method]
    answer, spent_s = method(task, progress, started)
    return _plan(known, task, answer, spent_s)


def _settings(config: TestingConfig | Mapping[str, Any] | None) -> TestingConfig:
    """Settings from whatever was given."""
    if isinstance(config, TestingConfig):
        return config
    if config is not None and not isinstance(config, Mapping):
        message = f"config must be a TestingConfig or a dict; got {config!r:.80}"
        raise ConfigError(message)
    return TestingConfig.from_dict(config or {})


def make_task(
    known: ClientInformation, request: Request, config: TestingConfig, among: Among | None = None
) -> Task:
    """The clients that may be asked, and what is wanted of them, as arrays."""
    with known.lock:
        task = _task(known, request, config, among)
    _refuse_caps(known, task)
    _refuse_required(task)
    return task


def _task(
    known: ClientInformation, request: Request, config: TestingConfig, among: Among | None
) -> Task:
    """The same, while nothing changes."""
    allowed, fixed_s, left_out = _allowed(known, config, among)
    indptr, category, count = known.matrix()
    lengths = np.diff(indptr)
    usable = np.repeat(allowed, lengths)
    names = known.categories
    supply = np.bincount(category[usable], count[usable], minlength=len(names)).astype(np.int64)
    wanted = quotas(request, known, supply)
    _refuse_lack(known, wanted, supply, left_out)
    columns = np.flatnonzero(wanted)
    local = np.full(len(wanted), -1, np.int32)
    local[columns] = np.arange(len(columns), dtype=np.int32)
    entries = np.flatnonzero(usable & (local[category] >= 0))
    clients = np.repeat(np.arange(known.num_rows, dtype=np.int32), lengths)[entries]
    held, kept = count[entries], local[category[entries]]
    quota = wanted[columns]
    clipped = np.minimum(held, quota[kept]).astype(held.dtype)
    lengths = np.bincount(clients, minlength=known.num_rows)
    rows = np.flatnonzero(lengths)
    starts = np.concatenate([[0], np.cumsum(lengths[rows])]).astype(np.int64)
    most = np.fmin(known.numbers("max_samples")[rows], config.max_samples_per_client or math.inf)
    problem = Problem(
        indptr=starts,
        category=kept,
        count=clipped,
        fixed_s=fixed_s[rows],
        speed=known.numbers("samples_per_s")[rows],
        limit=np.fmin(sums_by_row(clipped, starts), most).astype(np.int64),
        quota=quota,
    )
    if float(problem.limit.astype(np.float64).sum()) > 2.0**61:
        message = (
            "a request must be such that clients hold less than 2**61 samples of it; got more"
        )
        raise InvalidRequestError(message)
    open_ = known.available(among) & ~np.isnan(fixed_s)
    return _with_required(known, config, problem, held, rows, fixed_s, columns, open_)


def _allowed(
    known: ClientInformation, config: TestingConfig, among: Among | None
) -> tuple[Mask, Floats, str]:
    """Who may be asked, what a participation costs before the first sample, and who is left out.

    The last is a sentence, empty where nobody is.
    """
    mask = known.available(among)
    excluded = [i for i in config.excluded if known.knows(i)]
    mask[np.asarray(known.rows(excluded))] = False
    transfer_mb = known.numbers("transfer_mb")
    transfer_mb = np.where(np.isnan(transfer_mb), config.transfer_mb, transfer_mb)
    mbps = known.numbers("bandwidth_mbps")
    with np.errstate(invalid="ignore"):
        fixed_s = np.where(transfer_mb == 0.0, 0.0, transfer_mb * 8.0 / mbps)
    incomplete = mask & (np.isnan(fixed_s) | np.isnan(known.numbers("samples_per_s")))
    left_out = _left_out(known, incomplete)
    if left_out:
        warnings.warn(left_out, IncompleteClientWarning, stacklevel=6)  # where a selector is asked
    return mask & ~incomplete, fixed_s, left_out


def _left_out(known: ClientInformation, incomplete: Mask) -> str:
    """Who is left out because something is not known, in words."""
    if not incomplete.any():
        return ""
    first, number = int(np.argmax(incomplete)), int(incomplete.sum())
    unknown = np.isnan(known.numbers("samples_per_s")[first])
    lacks = "samples_per_s" if unknown else "bandwidth_mbps"
    return (
        f"{number:,} client{' is' if number == 1 else 's are'} left out because their speed is "
        f"not known; the first is {known.ids_of(np.array([first]))[0]!r:.80}, which has no {lacks}"
    )


def _with_required(
    known: ClientInformation,
    config: TestingConfig,
    problem: Problem,
    held: Integers,
    rows: Rows,
    fixed_s: Floats,
    columns: Int64s,
    open_: Mask,
) -> Task:
    """The task with the clients that take part in any case, which must be open to requests."""
    forced = np.asarray(known.rows(config.required))
    if not open_[forced].all():
        closed = config.required[int(np.argmin(open_[forced]))]
        message = (
            "a required client must be online, among those asked, and its speed known; got "
            f"{closed!r:.80}"
        )
        raise InvalidRequestError(message)
    inside = np.isin(forced, rows)
    idle = forced[~inside]
    return Task(
        problem=problem,
        held=held,
        rows=rows,
        required=np.sort(np.searchsorted(rows, forced[inside])),
        idle=idle,
        idle_s=fixed_s[idle],
        columns=columns,
        config=config,
    )


def _refuse_lack(known: ClientInformation, wanted: Int64s, supply: Int64s, left_out: str) -> None:
    """Say which categories lack samples, and how many."""
    short = np.flatnonzero(wanted > supply)
    if not len(short):
        return
    names = known.categories
    lacking = {names[i]: int(wanted[i] - supply[i]) for i in short}
    parts = [
        f"{names[i]!r} has {supply[i]:,} of {wanted[i]:,}, {wanted[i] - supply[i]:,} too few"
        for i in short[:8]
    ]
    more = f"; and {len(short) - 8} more categories" if len(short) > 8 else ""
    also = f" ({left_out})" if left_out else ""
    message = f"the clients that may be asked lack samples: {'; '.join(parts)}{more}{also}"
    raise NotEnoughSamplesError(message, lacking)


def _refuse_caps(known: ClientInformation, task: Task) -> None:
    """Say which categories cannot be had together because of the caps on clients."""
    problem = task.problem
    if np.array_equal(problem.limit, sums_by_row(problem.count, problem.indptr)):
        return
    samples, short = saturate(problem, problem.limit)
    if not short.any():
        return
    given = np.bincount(problem.category, samples, minlength=problem.num_categories).astype(
        np.int64
    )
    names = known.categories
    lacking = {
        names[task.columns[i]]: int(problem.quota[i] - given[i])
        for i in np.flatnonzero(given < problem.quota)
    }
    listed = ", ".join(repr(names[task.columns[i]]) for i in np.flatnonzero(short)[:8])
    message = (
        f"the most that clients may be asked for does not suffice: of {listed} together "
        f"{sum(lacking.values()):,} samples are missing"
    )
    raise NotEnoughSamplesError(message, lacking, together=True)


def _refuse_required(task: Task) -> None:
    """Say which budget would do where this one does not even cover the required clients."""
    config, forced = task.config, len(task.required) + len(task.idle)
    if config.budget is None or config.budget >= forced:
        return
    result = solve(
        task.problem,
        task.held,
        budget=max(1, len(task.required)),
        required=task.required,
        at_least_s=task.at_least_s,
        tolerance=math.inf,
        time_limit_s=config.time_limit_s,
    )
    found, proven = (
        (len(result.rows), max(1, len(task.required)))
        if isinstance(result, Solution)
        else (result.found, result.proven)
    )
    raise _too_small(task, found, proven)


def _oort(task: Task, progress: Progress | None, started: float) -> tuple[Answer, float]:
    """The certified search."""
    config = task.config
    left_s = (
        None if config.time_limit_s is None else config.time_limit_s - (time.monotonic() - started)
    )
    result = solve(
        task.problem,
        task.held,
        budget=task.budget,
        required=task.required,
        at_least_s=task.at_least_s,
        tolerance=config.tolerance,
        time_limit_s=left_s,
        progress=progress,
    )
    if not isinstance(result, Solution):
        raise _too_small(task, result.found, result.proven)
    part = task.problem.take(result.rows)
    samples, _ = saturate(part, part.room(result.deadline_s))
    answer = Answer(
        rows=result.rows, samples=samples, lower_s=result.lower_s, certificate=result.certificate
    )
    return answer, time.monotonic() - started


def _paper(task: Task, progress: Progress | None, started: float) -> tuple[Answer, float]:
    """The paper's greedy grouping, then its simplified MILP.

    The lower bound is ours, and the time that it takes is not counted.
    """
    problem, config = task.problem, task.config
    grouped, left = most_samples_first(
        problem, task.held, problem.num_clients, first=task.required
    )
    if left.any():  # caps, which the paper does not have: what they leave is for the MILP to see
        grouped = np.arange(problem.num_clients)
    if task.budget is not None and len(grouped) > task.budget:
        ones = Priced(problem, np.ones(problem.num_categories, np.int64))
        raise _too_small(task, len(grouped), ones.fewest(task.required))
    rows = np.sort(grouped)
    left_s = (
        None if config.time_limit_s is None else config.time_limit_s - (time.monotonic() - started)
    )
    result = simplified(
        problem.take(rows),
        required=np.searchsorted(rows, task.required),
        at_least_s=task.at_least_s,
        time_limit_s=left_s,
        solver=config.solver,
    )
    answer = _from_milp(task, rows, result)
    spent_s = time.monotonic() - started
    search = Search(
        problem=problem,
        budget=problem.num_clients if task.budget is None else task.budget,
        required=task.required,
        at_least_s=task.at_least_s,
        best_s=_duration(task, answer),
    )
    everyone = assign(problem, from_s=task.at_least_s)
    if everyone is not None:
        search.prove_everyone(everyone)
        count_samples(search)
    return Answer(
        rows=answer.rows,
        samples=answer.samples,
        lower_s=search.lower_s,
        certificate=search.certificate,
    ), spent_s


def _milp(task: Task, progress: Progress | None, started: float) -> tuple[Answer, float]:
    """The paper's straw man: one MILP over all clients."""
    config = task.config
    left_s = (
        None if config.time_limit_s is None else config.time_limit_s - (time.monotonic() - started)
    )
    result = straw_man(
        task.problem,
        budget=task.budget,
        required=task.required,
        at_least_s=task.at_least_s,
        time_limit_s=left_s,
        solver=config.solver,
    )
    if result.infeasible and task.budget is not None and not _surely_possible(task, task.budget):
        ones = Priced(task.problem, np.ones(task.problem.num_categories, np.int64))
        raise _too_small(task, None, max(ones.fewest(task.required), task.budget + 1))
    answer = _from_milp(task, np.arange(task.problem.num_clients), result)
    return answer, time.monotonic() - started


def _surely_possible(task: Task, budget: int) -> bool:
    """Whether a greedy set keeps to the budget, whatever a solver says.

    Solvers take a request for impossible where its numbers span more than their tolerances allow.
    """
    problem = task.problem
    priced = Priced(problem, np.ones(problem.num_categories, np.int64))
    _, left = greedy_cover(priced, problem.limit, budget, first=task.required)
    return not left.any()


def _from_milp(task: Task, rows: Rows, result: MilpResult) -> Answer:
    """What a MILP came to, among some rows."""
    if result.samples is None:
        message = (
            "the MILP solver found no plan, though there is one: the request's numbers of samples "
            "and seconds are too far apart for its tolerances"
            if result.infeasible
            else f"the time limit of {task.config.time_limit_s} seconds passed before the MILP "
            "solver found a plan"
        )
        raise OutOfTimeError(message)
    part = task.problem.take(rows)
    busy = sums_by_row(result.samples, part.indptr) > 0
    busy[np.searchsorted(rows, task.required)] = True
    if task.budget is not None and int(busy.sum()) > task.budget:
        message = "the MILP solver's plan exceeds the budget once its tolerances are taken away"
        raise OutOfTimeError(message)
    samples = result.samples[np.repeat(busy, np.diff(part.indptr))]
    answer = Answer(rows=rows[busy], samples=samples, lower_s=result.lower_s, certificate=None)
    lower_s = min(result.lower_s, _duration(task, answer))
    return Answer(rows=answer.rows, samples=samples, lower_s=lower_s, certificate=None)


def _seconds(task: Task, answer: Answer) -> Floats:
    """How long each participant with something that is wanted takes."""
    part = task.problem.take(answer.rows)
    seconds: Floats = part.fixed_s + sums_by_row(answer.samples, part.indptr) / part.speed
    return seconds


def _duration(task: Task, answer: Answer) -> float:
    """How long everybody takes."""
    return max(float(_seconds(task, answer).max()), task.at_least_s)


def _too_small(task: Task, found: int | None, proven: int) -> BudgetTooSmallError:
    """The error for a budget that does not suffice."""
    budget, idle = task.config.budget or 0, len(task.idle)
    least, minimum = (None if found is None else found + idle), proven + idle
    known = "" if least is None else f"; {least:,} participants are known to suffice"
    proof = (
        f"at least {minimum:,} participants are needed"
        if minimum > budget
        else "none was found, though not ruled out"
    )
    participants = f"{budget:,} participant{'' if budget == 1 else 's'}"
    forced = len(task.required) + idle
    if forced > budget:
        participants += f", which does not cover the {forced:,} required clients"
    message = f"no plan keeps to the budget of {participants}: {proof}{known}"
    return BudgetTooSmallError(message, budget=budget, least_found=least, proven_minimum=minimum)


def _plan(known: ClientInformation, task: Task, answer: Answer, spent_s: float) -> TestPlan:
    """The plan, idle required clients included, in the order of the rows."""
    part = task.problem.take(answer.rows)
    positive = answer.samples > 0
    lengths = sums_by_row(positive, part.indptr)
    rows = np.concatenate([task.rows[answer.rows], task.idle])
    order = np.argsort(rows, kind="stable")
    lengths = np.concatenate([lengths, np.zeros(len(task.idle), np.int64)])[order]
    seconds = np.concatenate([_seconds(task, answer), task.idle_s])[order]
    transfers = np.concatenate([part.fixed_s, task.idle_s])[order]
    names = known.categories
    categories: list[Category] = [names[i] for i in task.columns]
    duration_s = _duration(task, answer)
    return TestPlan(
        participants=known.ids_of(rows[order]),
        categories=categories,
        request=dict(zip(categories, task.problem.quota.tolist(), strict=True)),
        duration_s=duration_s,
        lower_bound_s=min(answer.lower_s, duration_s),
        budget=task.config.budget,
        solver_s=spent_s,
        method=task.config.method,
        certificate=answer.certificate,
        client_duration_s=seconds,
        client_transfer_s=transfers,
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        category=part.category[positive],
        samples=answer.samples[positive],
    )
