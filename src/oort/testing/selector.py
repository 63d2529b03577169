"""Who tests: the selector that keeps what is known of clients and draws plans from it.

``create_testing_selector()`` gives one. Each kind of request has its own modules; this one only
knows the clients, the seed and the order of steps: request → sizes → the best of them → draw →
plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from fractions import Fraction
from threading import RLock
from typing import Any

from oort.clients.id_columns import id_list
from oort.config import TestingConfig
from oort.randomness import generator_for
from oort.testing.adaptive import AdaptivePlan
from oort.testing.arguments import number, refuse, whole
from oort.testing.category.budget import Progress
from oort.testing.category.information import Category, ClientInformation
from oort.testing.category.plan import TestPlan
from oort.testing.category.planner import plan_categories
from oort.testing.category.request import Request
from oort.testing.category.tables import load
from oort.testing.deviation import DeviationPlan
from oort.testing.estimate import Design
from oort.testing.request import DeviationRequest, TakeAll, deviation_request
from oort.testing.results import checked_metric_range
from oort.testing.roster import Roster, reach_notes
from oort.testing.sizing import Sized, all_sizes, best_size
from oort.types import Among, ClientId, ClientInfo


def create_testing_selector(
    *, seed: int = 0, categories: Iterable[Category] | None = None
) -> LocalTestingSelector:
    """A testing selector, in memory: the paper's call.

    Args:
        seed: Of the draws: same seed and same calls, same draws.
        categories: The categories that there are, in order. None: they are taken in as clients
            name them.

    >>> plan = create_testing_selector().select_by_deviation(
    ...     dev_target=15, range_of_capacity=300, total_num_clients=14_477)
    >>> plan.num_participants, plan.bound
    (703, 'serfling')
    """
    return LocalTestingSelector(seed=seed, categories=categories)


class LocalTestingSelector:
    """Draws test sets; may be shared among threads. Same seed and same calls, same draws."""

    def __init__(self, *, seed: int = 0, categories: Iterable[Category] | None = None) -> None:
        self._seed = whole("seed", seed, 0)
        self._roster = Roster()
        self._information = ClientInformation(categories)
        self._num_draws = 0
        self._lock: AbstractContextManager[Any] = RLock()

    @property
    def num_clients(self) -> int:
        """Clients that are registered."""
        return len(self._roster)

    def register_client(self, client_id: ClientId) -> None:
        """Make a client known."""
        self.register_clients([client_id])

    def register_clients(self, client_ids: Among) -> None:
        """Make clients known: plans then name their participants."""
        with self._lock:
            self._roster.add(client_ids)

    def forget(self, client_ids: Among) -> int:
        """Erase clients; returns how many were known."""
        ids = id_list(client_ids)
        with self._lock:
            self._information.remove([i for i in ids if self._information.knows(i)])
            return self._roster.remove(ids)

    def mark_online(self, client_ids: Among | None = None) -> None:
        """These clients (default: all) may be drawn."""
        self._mark(client_ids, online=True)

    def mark_offline(self, client_ids: Among | None = None) -> None:
        """These clients (default: all) may not be drawn until they are marked online."""
        self._mark(client_ids, online=False)

    def select_by_deviation(
        self,
        dev_target: object,
        range_of_capacity: object = None,
        total_num_clients: int | None = None,
        *,
        unit: str = "samples",
        confidence: float = 0.95,
        bound: str = "auto",
        categories: int | Sequence[str] | None = None,
        mean: object = None,
        std: object = None,
        min_capacity: object = None,
        expected_std: object = None,
        mean_total: float | None = None,
        max_total: float | None = None,
        take_all: TakeAll | Sequence[TakeAll] = (),
        over_commit: float = 0.0,
        seed: int | None = None,
    ) -> DeviationPlan:
        """A subset whose data is within a target of the whole population's: the paper's call.

        Everything from ``dev_target`` to ``max_total`` may be one number, or one per category
        where that makes sense. The more is known, the fewer participants it takes; the bound is
        chosen by what is given, before any data.

        Args:
            dev_target: ε, in ``unit``.
            range_of_capacity: Largest − smallest number of samples (of a category) that one client
                can hold.
            total_num_clients: N; the registered clients where not given.
            unit: "samples" (per client), "share_of_range", "share_of_mean" or "l1".
            confidence: δ, the least probability that the target holds.
            bound: "auto" for the smallest valid one, or one by name ("paper" for the lemma as
                printed).
            categories: How many (or which) categories must hold at once, where single numbers
                stand for all.
            mean: The population's mean per client.
            std: The population's standard deviation.
            min_capacity: The smallest number of samples that a client can hold; with the mean it
                allows KL.
            expected_std: A guess at ``std`` for planning; ``plan.confirm`` then uses the
                participants' own.
            mean_total: Mean samples per client over all categories, for "l1".
            max_total: Most samples of one client over all categories, for "l1".
            take_all: One or several ways to take the largest clients for certain.
            over_commit: 0.3 invites 30 % more than needed.
            seed: Of the draw; by default the selector's, moving on with every plan.

        Raises:
            InvalidArgumentError: A value is wrong; the message says which, what is allowed, and
                what was given.
        """
        extra = number("over_commit", over_commit, 0, math.inf)
        with self._lock:
            request = deviation_request(
                dev_target=dev_target,
                range_of_capacity=range_of_capacity,
                total_num_clients=self._population(total_num_clients),
                unit=unit,
                confidence=confidence,
                bound=bound,
                categories=categories,
                mean=mean,
                std=std,
                min_capacity=min_capacity,
                expected_std=expected_std,
                mean_total=mean_total,
                max_total=max_total,
                take_all=take_all,
            )
            sizes = all_sizes(request)
            sized = best_size(request, sizes)
            return self._draw(request, sized, tuple(sizes), extra, seed)

    def select_adaptively(
        self,
        half_width: float,
        max_samples: float,
        total_num_clients: int | None = None,
        *,
        confidence: float = 0.95,
        batch_size: int = 100,
        max_participants: int | None = None,
        metric_range: tuple[float, float] = (0.0, 1.0),
        seed: int | None = None,
    ) -> AdaptivePlan:
        """A test that recruits in batches and stops when the metric's interval is short enough.

        Args:
            half_width: Stop when the value is known to within this, in the metric's own scale.
            max_samples: The most samples that one client reports about.
            total_num_clients: N; the registered clients where not given.
            confidence: The least probability that the interval holds, whenever the test stops.
            batch_size: Participants asked at a time.
            max_participants: Stop after as many; all clients where not given.
            metric_range: The smallest and largest value that the metric can have for one sample.
            seed: Of the draw; by default the selector's, moving on with every plan.
        """
        width = number("half_width", half_width, 0, math.inf, low_open=True)
        level = number("confidence", confidence, 0, 1, low_open=True, high_open=True)
        with self._lock:
            population = whole("total_num_clients", self._population(total_num_clients), 1)
            chosen = self._next_seed(seed)
            return AdaptivePlan(
                Design(
                    num_clients=population,
                    num_invited=0,
                    most=number("max_samples", max_samples, 0, math.inf, low_open=True),
                    seed=chosen[0],
                ),
                half_width=width,
                confidence=level,
                batch_size=whole("batch_size", batch_size, 1),
                max_participants=population
                if max_participants is None
                else whole("max_participants", max_participants, 1),
                metric_range=checked_metric_range(metric_range),
                candidates=self._shuffler(chosen) if len(self._roster) else None,
            )

    @property
    def information(self) -> ClientInformation:
        """What is known of the clients' data and speed."""
        return self._information

    def update_client_info(
        self, client_id: ClientId, client_info: ClientInfo | Mapping[str, Any]
    ) -> None:
        """Take in what one client holds and how fast it is: the paper's call.

        What is left out stays as it was; the client is registered too.

        Raises:
            InvalidClientInfoError: A value cannot be used; the message names client and field, and
                nothing was changed.
        """
        with self._lock:
            self._information.update(client_id, client_info)
            self._roster.add([client_id])

    def update_clients_info(self, client_ids: Among, counts: Any = None, **columns: Any) -> None:
        """The same for many at once: see :meth:`ClientInformation.update_many`."""
        ids = id_list(client_ids)
        with self._lock:
            self._information.update_many(ids, counts, **columns)
            self._roster.add(ids)

    def load_client_info(self, counts: Any = None, devices: Any = None) -> int:
        """The same from tables; returns how many clients they tell of.

        Args:
            counts: An Arrow table, a DataFrame, or the path of a Parquet or CSV file: columns
                ``client``, ``category`` and ``samples``, or ``client`` and one per category.
            devices: The same with ``client`` and any of ``samples_per_s``, ``bandwidth_mbps``,
                ``transfer_mb`` and ``max_samples``.

        Raises:
            InvalidClientInfoError: A value cannot be used; nothing was changed.
        """
        with self._lock:
            return len(self._load(counts, devices))

    def _load(self, counts: Any, devices: Any) -> list[ClientId]:
        ids = load(self._information, counts, devices)
        self._roster.add(ids)
        return ids

    def select_by_category(
        self,
        request_list: Request,
        testing_config: TestingConfig | Mapping[str, Any] | None = None,
        *,
        among: Among | None = None,
        progress: Progress | None = None,
    ) -> TestPlan:
        """The fastest way to so many samples of each category, with a proof: the paper's call.

        Args:
            request_list: Samples of each category: a mapping, a list in the order of the
                categories, ``Representative(…)`` or ``Balanced(…)``.
            testing_config: Budget, transfer size, time limit and the rest; a dict works too.
            among: Ids, or a mask over rows: only these clients may be asked, and of them only
                those online.
            progress: Called with the lower bound and the best duration so far, in seconds.

        Raises:
            InvalidRequestError: The request is empty or names unknown categories.
            NotEnoughSamplesError: The clients lack samples; says of which categories, how many.
            BudgetTooSmallError: No plan keeps to the budget; says which budget works and which
                is proven to be the least.
            OutOfTimeError: The time limit passed before a plan was found.
        """
        return plan_categories(
            self._information, request_list, testing_config, among=among, progress=progress
        )

    def _mark(self, client_ids: Among | None, *, online: bool) -> None:
        """Mark clients here and where their data is known."""
        ids = None if client_ids is None else id_list(client_ids)
        with self._lock:
            self._roster.mark(ids, online=online)
            known = None if ids is None else [i for i in ids if self._information.knows(i)]
            self._information.mark(known, online=online)

    def _population(self, total_num_clients: int | None) -> object:
        """N: as told, or as registered."""
        if total_num_clients is None:
            if not len(self._roster):
                refuse("total_num_clients", "given where no clients are registered", None)
            return len(self._roster)
        checked = whole("total_num_clients", total_num_clients, 1)
        if checked < len(self._roster):
            refuse(
                "total_num_clients",
                f"at least the {len(self._roster):,} clients registered",
                total_num_clients,
            )
        return checked

    def _next_seed(self, seed: int | None) -> tuple[int, int]:
        """The seed and the number of the draw; an explicit seed always gives the same draw."""
        if seed is not None:
            return whole("seed", seed, 0), 0
        self._num_draws += 1
        return self._seed, self._num_draws

    def _shuffler(self, chosen: tuple[int, int]) -> Callable[[], Iterator[ClientId]]:
        """The clients known now, in a random order; each time, those that are online then."""
        everybody = list(self._roster)
        order = generator_for(*chosen, "adaptive").permutation(len(everybody))

        def candidates() -> Iterator[ClientId]:
            return (everybody[i] for i in order if self._roster.is_online(everybody[i]))

        return candidates

    def _draw(
        self,
        request: DeviationRequest,
        sized: Sized,
        sizes: tuple[Sized, ...],
        extra: float,
        seed: int | None,
    ) -> DeviationPlan:
        """Draw the participants of a plan, where ids are known."""
        chosen = self._next_seed(seed)
        stratum = () if sized.take_all is None else sized.take_all.clients
        taken = 0 if sized.take_all is None else sized.take_all.size
        needed = int(sized.num_participants or 0) - taken
        wanted = math.ceil(needed * (1 + Fraction(str(extra))))  # 110 and 0.1 are 121, not 122
        invited = min(wanted, request.total_num_clients - taken)
        participants: tuple[ClientId, ...] = ()
        notes: tuple[str, ...] = ()
        num_invited = taken + invited
        if len(self._roster):
            if taken and not stratum:
                refuse(
                    "TakeAll.clients", "the ids of the stratum where participants are drawn", ()
                )
            self._roster.require(stratum)
            named = set(stratum)
            present = [c for c in stratum if self._roster.is_online(c)]
            frame = [c for c in self._roster.online() if c not in named]
            rng = generator_for(*chosen, "deviation")
            rows = rng.choice(len(frame), size=min(invited, len(frame)), replace=False)
            participants = (*present, *(frame[i] for i in rows))
            num_invited = len(participants) + taken - len(present)
            notes = _notes(
                request, needed, len(frame) + len(present), len(frame), taken - len(present)
            )
        return DeviationPlan(
            request=request,
            sized=sized,
            sizes=sizes,
            participants=participants,
            num_invited=num_invited,
            seed=chosen[0],
            notes=notes,
        )


def _notes(
    request: DeviationRequest, needed: int, reachable: int, frame: int, absent: int
) -> tuple[str, ...]:
    """What the draw could not do."""
    notes = [*reach_notes(reachable, request.total_num_clients)]
    if frame < needed:
        notes.append(
            f"Only {frame:,} of the {needed:,} to be drawn are online; the guarantee needs all."
        )
    if absent:
        notes.append(
            f"{absent:,} of the take-all stratum are offline: the guarantee needs them all."
        )
    return tuple(notes)
