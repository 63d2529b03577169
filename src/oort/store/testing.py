"""A testing selector whose calls, and plans, are committed when they return."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from oort.clients.id_columns import id_column, id_list
from oort.errors import OortError, StoreError
from oort.store import records
from oort.store.acknowledged import Acknowledged
from oort.store.capture import Copy
from oort.store.database import Database
from oort.store.driver import Driver
from oort.store.journal import Entry
from oort.store.lease import Lease
from oort.store.schema import Job
from oort.store.settings import StoreConfig
from oort.store.snapshots import State
from oort.store.testing_changes import (
    Dropped,
    Enrolled,
    Informed,
    Planned,
    Reachable,
    plain_ids,
)
from oort.testing.adaptive import AdaptivePlan
from oort.testing.category.information import ClientInformation
from oort.testing.category.plan import TestPlan
from oort.testing.deviation import DeviationPlan
from oort.testing.roster import Roster
from oort.testing.selector import LocalTestingSelector
from oort.types import Among, ClientId, ClientInfo

WHAT: Final = "testing selector"
PLAN: Final = "plan"
_NAMING: Final = {"participants", "clients"}  # what names clients in a plan


def testing_settings(seed: int, categories: Any) -> dict[str, Any]:
    """The settings of a testing job, as its row holds them.

    Raises:
        InvalidArgumentError: A testing selector cannot have these.
    """
    given = None if categories is None else list(categories)
    fresh = LocalTestingSelector(seed=seed, categories=given)
    named = None if given is None else fresh.information.categories
    return {"what": WHAT, "seed": fresh._seed, "categories": named}


class ReplayedTesting(LocalTestingSelector):
    """A testing selector that is brought to a state instead of getting there."""

    strategy = WHAT

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(seed=settings["seed"], categories=settings["categories"])
        self._job_settings = dict(settings)
        self._num_plans = 0

    @classmethod
    def of(cls, job: Job) -> ReplayedTesting:
        """The selector of a job before anything happened."""
        return cls(json.loads(job.settings))

    @property
    def round_number(self) -> int:
        """How many plans were drawn up."""
        return self._num_plans

    def take_state(self, state: State) -> None:
        """Begin at a snapshot."""
        arrays, meta = state.arrays, state.meta
        fixed = self._job_settings["categories"] is not None
        known = ClientInformation.from_arrays(arrays, meta["categories"], fixed=fixed)
        roster = Roster()
        roster.add(json.loads(arrays["roster"].tobytes()))
        away = np.flatnonzero(~arrays["roster_online"].astype(np.bool_)).tolist()
        everyone = list(roster)
        roster.mark([everyone[place] for place in away], online=False)
        self._information, self._roster = known, roster
        self._num_draws, self._num_plans = int(meta["num_draws"]), int(meta["num_plans"])

    def state(self, sequence: int) -> State:
        """Everything, as a snapshot holds it."""
        return State(sequence, *self._described())

    def _described(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        everyone = list(self._roster)
        meta = {
            **self._job_settings,
            "settings": self._job_settings,
            "categories": self._information.categories,
            "num_draws": self._num_draws,
            "num_plans": self._num_plans,
        }
        online = np.fromiter(
            (self._roster.is_online(c) for c in everyone), np.bool_, len(everyone)
        )
        roster = np.frombuffer(json.dumps(everyone).encode(), np.uint8)
        return meta, {
            **self._information.to_arrays(),
            "roster": roster,
            "roster_online": online,
        }

    def start_over(self) -> None:
        """Know nothing again."""
        fresh = ReplayedTesting(self._job_settings)
        self._information, self._roster = fresh._information, fresh._roster
        self._num_draws = self._num_plans = 0

    def take_entry(self, entry: Entry) -> None:
        """Make one entry so again."""
        change = entry.change()
        match change:
            case Enrolled():
                self._roster.add(plain_ids(change.ids))
            case Dropped():
                LocalTestingSelector.forget(self, plain_ids(change.ids))
            case Reachable():
                ids = None if change.ids is None else plain_ids(change.ids)
                LocalTestingSelector._mark(self, ids, online=change.online)
            case Informed():
                ids = plain_ids(change.ids)
                self._information.take_known(ids, change.known, change.categories)
                self._roster.add(ids)
            case Planned():
                self._num_draws, self._num_plans = change.num_draws, change.num_plans
            case None:
                pass
            case _:
                message = f"a testing job has no entries of kind {entry.kind!r}"
                raise ValueError(message)


class DurableTestingSelector(ReplayedTesting, Driver):
    """Oort's testing selector over a store; ``oort.open_testing_selector`` makes one.

    When a call returns, what it did is committed: what is known of clients, and every plan. A call
    that raises has changed nothing.
    """

    def __init__(
        self,
        database: Database,
        lease: Lease,
        acknowledged: Acknowledged | None,
        settings: StoreConfig,
    ) -> None:
        ReplayedTesting.__init__(self, json.loads(lease.job.settings))
        self._drive(database, lease, acknowledged, settings)

    # What is known of clients

    def register_clients(self, client_ids: Among) -> None:
        """Make clients known: plans then name their participants."""
        ids = id_list(client_ids)
        with self._lock, self._whole():
            super().register_clients(ids)
            self._commit([Enrolled(id_column(ids))])

    def forget(self, client_ids: Among) -> int:
        """Erase clients, also from the plans that were stored; returns how many were known."""
        ids = id_list(client_ids)
        with self._lock, self._whole():
            number = super().forget(ids)
            self._commit([Dropped(id_column(ids))], self._without(set(ids)))
            if self._capture is not None:
                self._capture.spoiled = True
            return number

    def update_client_info(
        self, client_id: ClientId, client_info: ClientInfo | Mapping[str, Any]
    ) -> None:
        """Take in what one client holds and how fast it is: the paper's call."""
        with self._lock, self._whole():
            before = self._information.categories
            super().update_client_info(client_id, client_info)
            self._commit([self._informed([client_id], before)])

    def update_clients_info(self, client_ids: Among, counts: Any = None, **columns: Any) -> None:
        """The same for many at once."""
        ids = id_list(client_ids)
        with self._lock, self._whole():
            before = self._information.categories
            super().update_clients_info(ids, counts, **columns)
            self._commit([self._informed(ids, before)])

    def load_client_info(self, counts: Any = None, devices: Any = None) -> int:
        """The same from tables; returns how many clients they tell of."""
        with self._lock, self._whole():
            before = self._information.categories
            ids = self._load(counts, devices)
            self._commit([self._informed(ids, before)])
            return len(ids)

    def _mark(self, client_ids: Among | None, *, online: bool) -> None:
        ids = None if client_ids is None else id_list(client_ids)
        with self._lock, self._whole():
            super()._mark(ids, online=online)
            self._commit([Reachable(None if ids is None else id_column(ids), online)])

    # Plans

    def select_by_deviation(self, *given: Any, **options: Any) -> DeviationPlan:
        """A subset whose data is within a target of the whole population's; it is stored."""
        with self._lock, self._whole():
            plan = super().select_by_deviation(*given, **options)
            self._keep(_deviation(plan))
            return plan

    def select_adaptively(self, *given: Any, **options: Any) -> AdaptivePlan:
        """A test that recruits in batches.

        That it was begun, and with what, is stored; its batches and results are the caller's.
        """
        with self._lock, self._whole():
            plan = super().select_adaptively(*given, **options)
            self._keep(_adaptive(plan))
            return plan

    def select_by_category(self, *given: Any, **options: Any) -> TestPlan:
        """The fastest way to so many samples of each category, with a proof; it is stored."""
        with self._lock:
            pass  # refused before the work where it would be refused after it
        plan = super().select_by_category(*given, **options)
        with self._lock, self._whole():
            self._keep({"kind": "category", **json.loads(plan.to_json())})
        return plan

    @property
    def num_plans(self) -> int:
        """How many plans were stored; they are numbered from 1."""
        return self._num_plans

    def plan(self, number: int) -> dict[str, Any]:
        """A stored plan, as plain values.

        Raises:
            StoreError: There is none of this number.
        """
        with self._lock:
            blob = records.get(self._database, self._lease.job, PLAN, _name(number))
        if blob is None:
            message = f"number must be of a stored plan, 1 to {self._num_plans}; got {number!r}"
            raise StoreError(message)
        return dict(json.loads(blob))

    def _keep(self, content: dict[str, Any]) -> None:
        self._num_plans += 1
        name, blob = _name(self._num_plans), json.dumps(content, default=_plain).encode()

        def along(database: Database) -> None:
            records.insert(database, self._lease.job, PLAN, name, blob)

        self._commit([Planned(self._num_draws, self._num_plans)], along)

    def _without(self, forgotten: set[ClientId]) -> Callable[[Database], None]:
        """What takes clients out of stored plans."""

        def along(database: Database) -> None:
            job, changed = self._lease.job, dict[str, Any]()
            for name, blob in records.of_kind(database, job, PLAN):
                content = json.loads(blob)
                kept = _scrubbed(content, forgotten)
                if kept != content:
                    changed[name] = kept
            for name, content in changed.items():
                records.insert(database, job, PLAN, name, json.dumps(content).encode())

        return along

    # How it is done

    def _informed(self, ids: list[ClientId], before: list[Any]) -> Informed:
        plain = id_list(ids)
        new = self._information.categories[len(before) :]
        return Informed(id_column(plain), new, self._information.known_of(plain))

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Memory goes first here, and is read anew where the commit fails.

        What is refused for its arguments has changed nothing.
        """
        if self._unsettled:
            self._settle()
        counts = self._num_draws, self._num_plans
        self._ahead = True
        try:
            yield
        except OortError as error:
            self._num_draws, self._num_plans = counts
            self._ahead = isinstance(error, StoreError)
            self._try_to_settle()
            raise
        except BaseException:
            self._try_to_settle()
            raise
        self._is_so()

    def _begin_copy(self, sequence: int) -> Copy:
        meta, arrays = self._described()
        return Copy(meta, arrays, sequence)


def _deviation(plan: DeviationPlan) -> dict[str, Any]:
    return {
        "kind": "deviation",
        "request": asdict(plan.request),
        "num_participants": plan.num_participants,
        "num_invited": plan.num_invited,
        "bound": plan.bound,
        "guarantee": plan.guarantee,
        "seed": plan.seed,
        "notes": list(plan.notes),
        "participants": list(plan.participants),
    }


def _adaptive(plan: AdaptivePlan) -> dict[str, Any]:
    return {
        "kind": "adaptive",
        "half_width": plan.half_width,
        "confidence": plan.confidence,
        "batch_size": plan.batch_size,
        "max_participants": plan.max_participants,
        "num_clients": plan._design.num_clients,
        "max_samples": plan._design.most,
        "seed": plan._design.seed,
    }


def _plain(value: Any) -> Any:
    """What JSON has no word for: arrays and numbers of NumPy's."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def _scrubbed(content: Any, forgotten: set[ClientId]) -> Any:
    """A plan without some clients, wherever it names them.

    >>> _scrubbed({"participants": ["a", {"client": "b"}], "bottleneck": "b"}, {"b"})
    {'participants': ['a'], 'bottleneck': None}
    """
    if isinstance(content, list):
        return [_scrubbed(part, forgotten) for part in content]
    if not isinstance(content, dict):
        return content
    scrubbed = {name: _scrubbed(part, forgotten) for name, part in content.items()}
    for name in _NAMING & scrubbed.keys():
        scrubbed[name] = [p for p in scrubbed[name] if _who(p) not in forgotten]
    if scrubbed.get("bottleneck") in forgotten:
        scrubbed["bottleneck"] = None
    return scrubbed


def _who(participant: Any) -> Any:
    return participant["client"] if isinstance(participant, dict) else participant


def _name(number: int) -> str:
    return f"{number:08d}"
