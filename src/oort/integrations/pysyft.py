"""PySyft, which does federated learning through Flower: ``syft-flwr`` runs its apps on SyftBox.

The same two wrappers as for Flower, for a ``SyftGrid``. Clients are known by their datasite (an
email address), which survives restarts, so nothing has to be asked.

    strategy = OortStrategy(FedAvg(...), selector)          # the message API
    strategy = OortClassicStrategy(FedAvg(...), selector)   # the classic API

``SyftGrid.pull_messages`` (0.4.3) gives a pair where Flower's contract has a list;
:class:`FlowerGrid` puts that right, so that quorum and deadline work as on a SuperLink.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy.result import Result

from oort.integrations import flower
from oort.integrations.flower.config import FlowerConfig
from oort.integrations.flower.gridview import GridView, NamedNode
from oort.protocols import TrainingSelector
from oort.types import ClientId

_UNREADABLE = Error(code=0, reason="the reply of this datasite cannot be read")


class FlowerGrid(GridView):
    """A ``SyftGrid`` as Flower describes a grid, whose nodes have their datasites for names."""

    def __init__(self, grid: Any) -> None:
        super().__init__(_Kept(grid))


class OortStrategy(flower.OortStrategy):
    """As :class:`oort.integrations.flower.OortStrategy`, on a ``SyftGrid``."""

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run the job on the datasites that the grid knows."""
        kept = FlowerGrid(grid) if hasattr(grid, "client_map") else grid
        rest: Any = (num_rounds, timeout, train_config, evaluate_config, evaluate_fn)
        return super().start(kept, initial_arrays, *rest)


class OortClassicStrategy(flower.OortClassicStrategy):
    """As :class:`oort.integrations.flower.OortClassicStrategy`, on a ``SyftGrid``."""

    def __init__(
        self,
        strategy: Any,
        selector: TrainingSelector,
        config: FlowerConfig | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        settings = FlowerConfig.of(config)
        if settings.identify == "auto":
            settings = replace(settings, identify=datasite_of)
        super().__init__(strategy, selector, settings, **options)


def datasite_of(proxy: Any) -> ClientId | None:
    """The datasite behind a client proxy; None where its grid is not a ``SyftGrid``."""
    sites: Mapping[int, str] = getattr(getattr(proxy, "grid", None), "client_map", {})
    return sites.get(getattr(proxy, "node_id", -1))


class _Kept(Grid):
    """Flower's contract kept on top of a ``SyftGrid``."""

    def __init__(self, grid: Any) -> None:
        self.inner = grid
        self._sent: dict[str, Message] = {}

    def get_node_ids(self) -> Iterable[int]:
        return list(self.inner.get_node_ids())

    def get_nodes(self) -> Iterable[Any]:
        return [NamedNode(node, self.inner.client_map[node]) for node in self.get_node_ids()]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Send one by one: of several, the grid leaves out those that it could not send."""
        ids: list[Any] = []
        for message in messages:
            pushed = list(self.inner.push_messages([message]))
            ids.append(pushed[0] if pushed else None)
            if pushed:
                self._sent[pushed[0]] = message
        return ids

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """The replies that are there, each naming the message that it answers."""
        replies, finished = self.inner.pull_messages(list(message_ids))
        found = []
        for message_id in finished:
            sent = self._sent.pop(message_id, None)
            reply = replies.get(message_id)
            if reply is None and sent is not None:
                reply = Message(_UNREADABLE, reply_to=sent)
            if reply is not None:
                reply.metadata.__dict__["_reply_to_message_id"] = message_id
                found.append(reply)
        return found

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        replies: Iterable[Message] = self.inner.send_and_receive(messages, timeout=timeout)
        return list(replies)

    def set_run(self, run: Any) -> None:
        self.inner.set_run(run)

    @property
    def run(self) -> Any:
        return self.inner.run

    def create_message(self, *args: Any, **options: Any) -> Message:
        message: Message = self.inner.create_message(*args, **options)
        return message


__all__ = ["FlowerGrid", "OortClassicStrategy", "OortStrategy", "datasite_of"]
