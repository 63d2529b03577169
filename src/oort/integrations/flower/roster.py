"""Who a node is: the id that Oort knows a client by, which must survive a restart.

Flower numbers nodes anew whenever a simulation or an unauthenticated SuperNode starts. What stays
is a SuperNode's name, or the partition that a client holds, which only the client knows: it is
asked once, when it is first seen.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from oort.errors import EngineWarning
from oort.types import ClientId

Node = TypeVar("Node", bound=Hashable)

ID: Final = "oort-id"
PARTITION: Final = "partition-id"
_NUM_SAMPLES: Final = "oort-num-samples"
_EXPECTED_S: Final = "oort-expected-duration-s"
_INFO: Final = "oort-info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a client says of itself when asked, as numbers and text that both APIs can carry.

    >>> told = Description(id=3, num_samples=120, info={"samples": {"cat": 5}}).to_values()
    >>> Description.from_values(told).info
    {'samples': {'cat': 5}}
    """

    id: ClientId | None = None
    num_samples: int | None = None
    expected_duration_s: float | None = None
    info: Mapping[str, Any] = field(default_factory=dict)  #: fields of ``oort.ClientInfo``

    def to_values(self) -> dict[str, int | float | str]:
        """Plain values to send."""
        values: dict[str, Any] = {
            ID: self.id,
            _NUM_SAMPLES: self.num_samples,
            _EXPECTED_S: self.expected_duration_s,
        }
        if self.info:
            values[_INFO] = json.dumps(_with_pairs(self.info))
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Description:
        """What was sent; a client that answers with its ``partition-id`` alone is fine too.

        A client may send anything: what cannot be an id is none, and what cannot be read is left
        out.
        """
        named = values.get(ID, values.get(PARTITION))
        is_id = isinstance(named, int | str) and not isinstance(named, bool)
        return cls(
            id=named if is_id else None,
            num_samples=values.get(_NUM_SAMPLES),
            expected_duration_s=values.get(_EXPECTED_S),
            info=_read_info(values.get(_INFO, "{}")),
        )


def in_order(client: ClientId) -> tuple[bool, Any]:
    """To sort ids by, numbers before text.

    >>> sorted(["b", 10, "a", 9], key=in_order)
    [9, 10, 'a', 'b']
    """
    return isinstance(client, str), client


class Roster(Generic[Node]):
    """Which client each node is. A node that comes back under a new number keeps its client.

    >>> roster = Roster[int]()
    >>> roster.learn(8812, 0)
    >>> roster.learn(4471, 0)  # the same client, started again
    >>> roster.online([4471])
    {0: 4471}
    """

    def __init__(self) -> None:
        self._client_of: dict[Node, ClientId] = {}
        self._node_of: dict[ClientId, Node] = {}
        self._warned: set[str] = set()

    def learn(self, node: Node, client: ClientId) -> None:
        """This node is this client; the newest node wins."""
        self._client_of[node] = client
        self._node_of[client] = node

    def unknown(self, nodes: Iterable[Node]) -> list[Node]:
        """The nodes that nobody has named yet."""
        return [node for node in nodes if node not in self._client_of]

    def client(self, node: Node) -> ClientId | None:
        """Who a node is, if that is known."""
        return self._client_of.get(node)

    def online(self, nodes: Iterable[Node]) -> dict[ClientId, Node]:
        """The clients behind these nodes, each with its newest node, in the order of their ids.

        Nodes come in an order that changes from run to run; a selector's picks depend on the order
        in which it first sees clients.
        """
        found: dict[ClientId, Node] = {}
        for node in nodes:
            client = self._client_of.get(node)
            if client is None:
                continue
            if client in found:
                self._warn_twice(client)
            if client not in found or self._node_of[client] == node:
                found[client] = node
        return {client: found[client] for client in sorted(found, key=in_order)}

    def fall_back(self, nodes: Iterable[tuple[Node, ClientId]], why: str) -> None:
        """Use node ids, which a restart changes, and say so once."""
        for node, client in nodes:
            self.learn(node, client)
        self._warn(
            "node ids",
            f"{why}: clients are known by Flower's node ids, and what Oort learns of them is lost "
            "when a simulation or a SuperNode starts again. Let clients say who they are "
            "(oort.integrations.flower.introduce(app), or mods=[oort_mod] in the classic API), "
            "name the SuperNodes, or accept it with FlowerConfig(identify='node-id')",
        )

    def _warn_twice(self, client: ClientId) -> None:
        self._warn(
            f"twice {client!r}",
            f"two connected nodes say that they are client {client!r}: the newer one is used. "
            "Give each its own partition-id (--node-config 'partition-id=...') or its own name",
        )

    def _warn(self, what: str, message: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(message, EngineWarning, stacklevel=3)


def _read_info(text: Any) -> dict[str, Any]:
    try:
        info = dict(json.loads(text))
        if "samples" in info:
            info["samples"] = dict(info["samples"])
    except (TypeError, ValueError, RecursionError):
        return {}
    return info


def _with_pairs(info: Mapping[str, Any]) -> dict[str, Any]:
    """JSON knows text keys only; a category may be a number."""
    pairs = {"samples": list(info["samples"].items())} if info.get("samples") else {}
    return {**info, **pairs}
