"""What the user's classic strategy sees of the clients: the chosen ones, each timed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from flwr.common import (
    Code,
    DisconnectRes,
    EvaluateIns,
    EvaluateRes,
    FitIns,
    FitRes,
    GetParametersIns,
    GetParametersRes,
    GetPropertiesIns,
    GetPropertiesRes,
    ReconnectIns,
)
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy

from oort.errors import WaitTimeoutError
from oort.integrations.flower.cohort import Cohort
from oort.integrations.flower.inner import finite_timeout
from oort.types import ClientId, Feedback


class CutOffError(Exception):
    """A client's result is not needed any more: enough others were faster, or the time is up."""


class ChosenClients(ClientManager):
    """A client manager that has the chosen clients and no others."""

    def __init__(self, everyone: ClientManager, chosen: Mapping[str, ClientProxy]) -> None:
        self._everyone = everyone
        self._chosen = dict(chosen)

    def num_available(self) -> int:
        """As many as were chosen."""
        return len(self._chosen)

    def all(self) -> dict[str, ClientProxy]:
        """The chosen ones."""
        return dict(self._chosen)

    def wait_for(self, num_clients: int, timeout: int = 86400) -> bool:
        """They are there already."""
        return len(self._chosen) >= num_clients

    def sample(
        self, num_clients: int, min_num_clients: int | None = None, criterion: Any = None
    ) -> list[ClientProxy]:
        """All of them: the choosing is done. A criterion may still refuse some."""
        clients = self._chosen.values()
        return [c for c in clients if criterion is None or criterion.select(c)]

    def register(self, client: ClientProxy) -> bool:
        """As the real one."""
        return self._everyone.register(client)

    def unregister(self, client: ClientProxy) -> None:
        """As the real one."""
        self._everyone.unregister(client)


class LimitedClients(ClientManager):
    """Everyone, without the day that Flower's own manager waits for clients who do not come."""

    def __init__(self, everyone: ClientManager, longest_wait_s: float) -> None:
        self._everyone = everyone
        self._longest_wait_s = longest_wait_s

    def num_available(self) -> int:
        """As many as are connected."""
        return self._everyone.num_available()

    def all(self) -> dict[str, ClientProxy]:
        """All that are connected."""
        return dict(self._everyone.all())

    def wait_for(self, num_clients: int, timeout: int = 86400) -> bool:
        """Wait until so many are connected; whether they are."""
        limit_s: Any = min(timeout, self._longest_wait_s)
        return self._everyone.wait_for(num_clients, limit_s)

    def sample(
        self, num_clients: int, min_num_clients: int | None = None, criterion: Any = None
    ) -> list[ClientProxy]:
        """As the real one.

        Raises:
            WaitTimeoutError: There are not as many as the strategy insists on.
        """
        least = num_clients if min_num_clients is None else min_num_clients
        if not self.wait_for(least):
            message = (
                f"at least {least} clients must connect within {self._longest_wait_s:g} s "
                f"(FlowerConfig.node_wait_s); got {self.num_available()}. Start more clients, or "
                "lower the strategy's minimums (min_available_clients, min_evaluate_clients)"
            )
            raise WaitTimeoutError(message)
        return self._everyone.sample(num_clients, min_num_clients, criterion)

    def register(self, client: ClientProxy) -> bool:
        """As the real one."""
        return self._everyone.register(client)

    def unregister(self, client: ClientProxy) -> None:
        """As the real one."""
        self._everyone.unregister(client)


class LimitedProxy(ClientProxy):
    """A client, no call of which waits for ever: the classic server may set no timeout."""

    def __init__(self, proxy: ClientProxy, longest_wait_s: float) -> None:
        super().__init__(proxy.cid)
        self.inner = proxy
        self._longest_wait_s = longest_wait_s

    def __getattr__(self, name: str) -> Any:
        """What engines add to a proxy (``node_id``, ``grid``, …)."""
        if name == "inner":  # a copy that is being made has none yet
            raise AttributeError(name)
        return getattr(self.inner, name)

    def _limit_s(self, timeout: float | None) -> float:
        return finite_timeout(timeout, self._longest_wait_s)

    def get_properties(
        self, ins: GetPropertiesIns, timeout: float | None, group_id: int | None
    ) -> GetPropertiesRes:
        """As the client."""
        return self.inner.get_properties(ins, self._limit_s(timeout), group_id)

    def get_parameters(
        self, ins: GetParametersIns, timeout: float | None, group_id: int | None
    ) -> GetParametersRes:
        """As the client."""
        return self.inner.get_parameters(ins, self._limit_s(timeout), group_id)

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        """As the client."""
        return self.inner.fit(ins, self._limit_s(timeout), group_id)

    def evaluate(
        self, ins: EvaluateIns, timeout: float | None, group_id: int | None
    ) -> EvaluateRes:
        """As the client."""
        return self.inner.evaluate(ins, self._limit_s(timeout), group_id)

    def reconnect(
        self, ins: ReconnectIns, timeout: float | None, group_id: int | None
    ) -> DisconnectRes:
        """As the client."""
        return self.inner.reconnect(ins, self._limit_s(timeout), group_id)


def unwrapped(proxy: ClientProxy) -> ClientProxy:
    """The client that the strategy knows."""
    return proxy.inner if isinstance(proxy, LimitedProxy) else proxy


class WatchedProxy(LimitedProxy):
    """A client of the round under way: its ``fit`` returns when it is done or not needed any more.

    Flower's classic server waits for every client that it asked. So the work is done in a thread
    of its own, and this call ends with :class:`CutOffError` as soon as the round is over.
    """

    def __init__(
        self, proxy: ClientProxy, client: ClientId, cohort: Cohort, longest_wait_s: float
    ) -> None:
        super().__init__(proxy, longest_wait_s)
        self.client = client
        self._cohort = cohort
        #: set when this client's fit was asked for: under secure aggregation it never is
        self.was_asked = False

    def fit(self, ins: FitIns, timeout: float | None, group_id: int | None) -> FitRes:
        """Train, unless the round is over before."""
        self.was_asked = True
        if self._cohort.is_over():
            self._cohort.not_sent(self.client)
            raise self._cut_off()
        limit_s = self._limit_s(timeout)
        work = _Work(lambda: self.inner.fit(ins, limit_s, group_id), self._cohort.wake)
        end = time.monotonic() + limit_s
        while not work.is_done and not self._cohort.is_over() and time.monotonic() < end:
            self._cohort.wait(end - time.monotonic(), until=lambda: work.is_done)
        if work.is_done:
            return self._finished(work)
        if self._cohort.is_over():
            raise self._cut_off()
        self._cohort.failed(self.client, limit_s)
        message = f"client {self.client!r} must answer within {limit_s:g} s; it did not"
        raise WaitTimeoutError(message)

    def _finished(self, work: _Work) -> FitRes:
        if work.error is not None or work.result is None:
            self._cohort.failed(self.client)
            raise work.error or ValueError("no result")
        result: FitRes = work.result
        if result.status.code != Code.OK:
            self._cohort.failed(self.client, work.elapsed_s)
        elif not self._cohort.completed(self.client, Feedback(duration_s=work.elapsed_s)):
            raise self._cut_off()
        return result

    def _cut_off(self) -> CutOffError:
        return CutOffError(f"client {self.client!r}: the round ended by {self._cohort.ended_by}")


class _Work:
    """A call in a thread of its own, which nobody has to wait for."""

    def __init__(self, call: Callable[[], FitRes], when_done: Callable[[], None]) -> None:
        self.result: FitRes | None = None
        self.error: BaseException | None = None
        self.elapsed_s = 0.0
        self.is_done = False
        self._started = time.monotonic()
        threading.Thread(target=self._run, args=(call, when_done), daemon=True).start()

    def _run(self, call: Callable[[], FitRes], when_done: Callable[[], None]) -> None:
        try:
            self.result = call()
        except Exception as error:
            self.error = error
        self.elapsed_s = time.monotonic() - self._started
        self.is_done = True
        when_done()
