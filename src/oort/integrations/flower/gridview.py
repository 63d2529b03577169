"""What the user's strategy sees of the grid: the chosen nodes, and replies up to the quorum."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from oort.errors import WaitTimeoutError
from oort.integrations.flower.conductor import LOG
from oort.integrations.flower.inner import finite_timeout

Exchange: TypeAlias = Callable[[list[Message], float | None], list[Message]]

_FIRST_PAUSE_S: Final = 0.05
_LONGEST_PAUSE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class NamedNode:
    """A connected node, with a name where the engine gives it one."""

    node_id: int
    name: str = ""


class GridView(Grid):
    """A grid that shows some of its nodes and sends through a function of ours.

    Outside of :meth:`showing` it is the grid that it wraps.
    """

    def __init__(self, grid: Grid) -> None:
        self.inner = grid
        self._shown: list[int] | None = None
        self._exchange: Exchange | None = None
        self._give_up_at: float | None = None
        self._waited_s = 0.0
        #: how long to wait for replies where the strategy sets no end
        self.longest_wait_s = math.inf

    def show(self, nodes: Sequence[int] | None, exchange: Exchange | None) -> None:
        """Show these nodes (None: all), and send the next messages through this function."""
        self._shown = None if nodes is None else list(nodes)
        self._exchange = exchange

    def give_up_after(self, seconds: float | None) -> None:
        """Raise from the next calls once so much time has passed: strategies wait in a loop."""
        self._waited_s = seconds or 0.0
        self._give_up_at = None if seconds is None else time.monotonic() + seconds

    def get_node_ids(self) -> Iterable[int]:
        """Node ids: the shown ones."""
        nodes = list(self.inner.get_node_ids()) if self._shown is None else list(self._shown)
        if self._give_up_at is not None and time.monotonic() > self._give_up_at:
            message = (
                f"the strategy must find enough nodes within {self._waited_s:g} s "
                f"(FlowerConfig.node_wait_s); it still waits with {len(nodes)} connected. Start "
                "more clients, or lower the strategy's minimums (min_available_nodes, "
                "min_evaluate_nodes, min_train_nodes)"
            )
            raise WaitTimeoutError(message)
        return nodes

    def get_nodes(self) -> Iterable[Any]:
        """Nodes with what the engine knows of them: the shown ones."""
        shown = None if self._shown is None else set(self._shown)
        return [n for n in nodes_of(self.inner) if shown is None or n.node_id in shown]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """Send, and wait as the round under way asks for."""
        exchange, self._exchange, self._shown = self._exchange, None, None
        if exchange is None:
            limit_s = finite_timeout(timeout, self.longest_wait_s)
            return self.inner.send_and_receive(messages, timeout=limit_s)
        return exchange(list(messages), timeout)

    # The rest is the grid's own.

    def set_run(self, run: Any) -> None:
        """As the grid."""
        self.inner.set_run(run)

    @property
    def run(self) -> Any:
        """As the grid."""
        return self.inner.run

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        """As the grid."""
        return self.inner.create_message(content, message_type, dst_node_id, group_id, ttl)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As the grid."""
        return self.inner.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the grid."""
        return self.inner.pull_messages(message_ids)


def nodes_of(grid: Grid) -> list[Any]:
    """The connected nodes, with names where the grid tells them."""
    get_nodes = getattr(grid, "get_nodes", None)
    if get_nodes is None:
        return [NamedNode(node_id) for node_id in grid.get_node_ids()]
    return list(get_nodes())


def collect(
    grid: Grid,
    messages: list[Message],
    *,
    timeout_s: float,
    on_reply: Callable[[int, Message], None],
    is_over: Callable[[], bool] = lambda: False,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Send messages and hand each node's reply over as it comes, until all are there or it ends.

    A node is whoever the message was for: an error reply may come without its sender. A second
    reply to a message, or a reply to one that was not sent here, is dropped.
    """
    end = time.monotonic() + timeout_s
    waiting = _push(grid, messages)
    pause_s = _FIRST_PAUSE_S
    while waiting and not is_over() and time.monotonic() < end:
        replies = list(grid.pull_messages(set(waiting)))
        for reply in sorted(replies, key=lambda reply: reply.metadata.created_at):
            sent = waiting.pop(reply.metadata.reply_to_message_id, None)
            if sent is None:
                LOG.warning(
                    "oort: node %s answered twice, or something that it was not asked: dropped",
                    reply.metadata.src_node_id,
                )
            else:
                on_reply(sent, reply)
        if waiting and not is_over():
            pause_s = _FIRST_PAUSE_S if replies else min(1.3 * pause_s, _LONGEST_PAUSE_S)
            sleep(max(0.0, min(pause_s, end - time.monotonic())))


def _push(grid: Grid, messages: list[Message]) -> dict[str, int]:
    """Send messages; gives which node each message id went to."""
    ids: list[str | None] = list(grid.push_messages(messages))
    sent = {message.metadata.message_id: message.metadata.dst_node_id for message in messages}
    if all(i in sent for i in ids if i):
        return {i: sent[i] for i in ids if i}
    # A grid that numbers messages in its own way gives the numbers in the order of the messages.
    return {
        i: m.metadata.dst_node_id for i, m in zip(ids, messages, strict=False) if i is not None
    }
