"""Flower's own link state and grid in this process, clients in threads: the engine without Ray.

A message goes through the code that a SuperLink runs (``InMemoryLinkState``, ``InMemoryGrid``),
and a client app handles it as on a SuperNode. What a test adds is bad luck: a client that is slow,
dead, or answers twice.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from uuid import uuid4

from flwr.app import (
    Context,
    Error,
    Message,
    RecordDict,
)
from flwr.clientapp import ClientApp
from flwr.common.constant import SUPERLINK_NODE_ID
from flwr.proto.task_pb2 import Task
from flwr.server.superlink.linkstate import InMemoryLinkState, LinkStateFactory
from flwr.server.superlink.linkstate.in_memory_linkstate import RunRecord
from flwr.supercore.constant import FLWR_IN_MEMORY_DB_NAME, NOOP_FEDERATION_ID
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.superlink.federation import NoOpFederationManager
from flwr.superlink.grid import InMemoryGrid

from .apps import client_app


@dataclass
class Fleet:
    """Nodes, each with an app; start it, hand ``grid`` to a strategy."""

    app: ClientApp
    num_nodes: int
    names: list[str] = field(default_factory=list)
    #: partitions that never answer
    dead: set[int] = field(default_factory=set)
    handled: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        factory = LinkStateFactory(
            FLWR_IN_MEMORY_DB_NAME, NoOpFederationManager(), ObjectStoreFactory()
        )
        state = factory.state()
        assert isinstance(state, InMemoryLinkState)
        self.state = state
        run = Run.create_empty(run_id=secrets.randbits(40))
        run.primary_task_id, run.federation_id = secrets.randbits(40), NOOP_FEDERATION_ID
        state.run_ids[run.run_id] = RunRecord(run=run)
        state.task_store[run.primary_task_id] = Task(
            task_id=run.primary_task_id, run_id=run.run_id
        )
        TaskIdentity.task_id, TaskIdentity.run_id = 1, run.run_id
        TaskIdentity.node_id = SUPERLINK_NODE_ID
        self.grid = InMemoryGrid(state_factory=factory)
        self.grid.set_run(run)
        self.partition_of: dict[int, int] = {}
        self.contexts: dict[int, Context] = {}
        for partition in range(self.num_nodes):
            self.connect(partition)
        self._stop = threading.Event()

    def connect(self, partition: int) -> int:
        """A node with this partition connects; gives its node id."""
        name = self.names[partition] if self.names else None
        node = self.state.create_node(
            "none", "none", secrets.token_bytes(32), heartbeat_interval=1e9, name=name
        )
        self.state.acknowledge_node_heartbeat(node_id=node, heartbeat_interval=1e9)
        self.partition_of[node] = partition
        self.contexts[node] = Context(
            run_id=self.grid.run.run_id,
            node_id=node,
            node_config={"partition-id": partition, "num-partitions": self.num_nodes},
            state=RecordDict(),
            run_config={},
        )
        return node

    def __enter__(self) -> Fleet:
        self._pump = threading.Thread(target=self._deliver, daemon=True)
        self._pump.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pump.join(10)

    def _deliver(self) -> None:
        while not self._stop.is_set():
            for node, partition in list(self.partition_of.items()):
                for message in self.state.get_message_ins(node_id=node, limit=1):
                    if partition not in self.dead:
                        threading.Thread(
                            target=self._handle, args=(node, message), daemon=True
                        ).start()
            time.sleep(0.005)

    def _handle(self, node: int, message: Message) -> None:
        self.handled.append((self.partition_of[node], message.metadata.message_type))
        try:
            # A real transport serialises: what a client does to its message is its own business.
            reply = self.app(deepcopy(message), self.contexts[node])
        except Exception as error:
            reply = Message(Error(code=2, reason=str(error)), reply_to=message)
        reply.metadata.__dict__["_message_id"] = str(uuid4())
        self.state.store_message_res(reply)


@contextmanager
def fleet(num_nodes: int, app: ClientApp | None = None, **options: object) -> Iterator[Fleet]:
    """A running fleet."""
    with Fleet(app or client_app(), num_nodes, **options) as running:  # type: ignore[arg-type]
        yield running
