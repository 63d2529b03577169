"""The contracts that implementations share.

    TrainingSelector    picks who trains: in memory or durable; the same behaviour everywhere
    TestingSelector     picks who tests
    TestPlan            what it answers with: participants, and how many are needed

What types cannot say: every method may be called from several threads at once; a call either
happens as a whole or raises and changes nothing; picks are distinct, at most as many as asked for,
and depend on nothing but the seed and the calls made before. ``oort.checks`` holds the contract as
runnable checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy.typing as npt

from oort.config import TestingConfig
from oort.types import (
    Among,
    ClientId,
    ClientInfo,
    Feedback,
    Outcome,
    Rows,
    Selection,
    UpdateResult,
)


@runtime_checkable
class TrainingSelector(Protocol):
    """Picks the participants of a training job, round after round."""

    @property
    def num_clients(self) -> int:
        """Clients registered and not removed."""

    @property
    def num_rows(self) -> int:
        """Rows ever given out: the length of a mask for ``among``."""

    @property
    def round_number(self) -> int:
        """The newest round opened; 0 before the first."""

    @property
    def mode(self) -> str:
        """Either "guided" or, while the kill switch is on, "uniform"."""

    @mode.setter
    def mode(self, mode: str) -> None: ...

    def register_client(
        self,
        client_id: ClientId,
        *,
        num_samples: int | None = None,
        expected_duration_s: float | None = None,
    ) -> None:
        """Make a client known, or bring a removed one back; hints are optional."""

    def register_clients(
        self,
        client_ids: Among,
        *,
        num_samples: npt.ArrayLike | None = None,
        expected_duration_s: npt.ArrayLike | None = None,
    ) -> Rows:
        """The same for many at once; returns their rows."""

    def remove_clients(self, client_ids: Among) -> int:
        """Take clients out but keep what is known of them; returns how many were in."""

    def forget(self, client_ids: Among) -> int:
        """Erase clients and all that is known of them; returns how many were known."""

    def mark_online(self, client_ids: Among | None = None) -> None:
        """These clients (default: all) may be picked."""

    def mark_offline(self, client_ids: Among | None = None) -> None:
        """These clients (default: all) may not be picked until they are marked online."""

    def rows(self, client_ids: Among) -> Rows:
        """The rows of known clients, for ``among``."""

    def select_participant(
        self, num_participants: int, among: Among | None = None
    ) -> list[ClientId]:
        """Open a round and pick its participants: the paper's call."""

    def select(
        self, num_participants: int, among: Among | None = None, *, round_number: int | None = None
    ) -> Selection:
        """Open a round and pick, or top up the current one by naming it; says why."""

    def preview(self, num_participants: int, among: Among | None = None) -> Selection:
        """What ``select`` would answer now; changes nothing."""

    def update_client_util(
        self,
        client_id: ClientId,
        feedback: Feedback | Mapping[str, Any],
        *,
        round_number: int | None = None,
    ) -> None:
        """Take in what one client reports: the paper's call."""

    def update_clients(
        self,
        client_ids: Among,
        *,
        utility: npt.ArrayLike | None = None,
        num_samples: npt.ArrayLike | None = None,
        mean_squared_loss: npt.ArrayLike | None = None,
        mean_squared_gradient_norm: npt.ArrayLike | None = None,
        duration_s: npt.ArrayLike | None = None,
        outcome: Outcome | str | Sequence[Outcome | str] | npt.NDArray[Any] = Outcome.COMPLETED,
        sketch: npt.ArrayLike | None = None,
        round_number: int | None = None,
        strict: bool = False,
    ) -> UpdateResult:
        """Take in many reports at once; bad ones are rejected one by one."""


@runtime_checkable
class TestPlan(Protocol):
    """Who tests: iterates over its participants (none where the selector knows no ids)."""

    @property
    def num_participants(self) -> int:
        """How many participants the request takes."""

    @property
    def participants(self) -> Sequence[ClientId]:
        """Who they are."""

    def __iter__(self) -> Iterator[ClientId]: ...

    def __len__(self) -> int: ...


@runtime_checkable
class TestingSelector(Protocol):
    """Picks the participants of federated tests."""

    @property
    def num_clients(self) -> int:
        """Clients registered."""

    def register_clients(self, client_ids: Among) -> None:
        """Make clients known: plans then name their participants."""

    def forget(self, client_ids: Among) -> int:
        """Erase clients; returns how many were known."""

    def mark_online(self, client_ids: Among | None = None) -> None:
        """These clients (default: all) may be drawn."""

    def mark_offline(self, client_ids: Among | None = None) -> None:
        """These clients (default: all) may not be drawn until they are marked online."""

    def select_by_deviation(
        self,
        dev_target: Any,
        range_of_capacity: Any = None,
        total_num_clients: int | None = None,
        *,
        unit: str = "samples",
        confidence: float = 0.95,
    ) -> TestPlan:
        """A subset whose data is within a target of the population's: the paper's call."""

    def update_client_info(
        self, client_id: ClientId, client_info: ClientInfo | Mapping[str, Any]
    ) -> None:
        """Take in what one client holds and how fast it is: the paper's call."""

    def select_by_category(
        self, request_list: Any, testing_config: TestingConfig | Mapping[str, Any] | None = None
    ) -> TestPlan:
        """The fastest way to so many samples of each category: the paper's call."""
