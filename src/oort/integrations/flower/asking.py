"""Asking nodes who they are, through the message API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from oort.integrations.flower.conductor import LOG
from oort.integrations.flower.config import FlowerConfig
from oort.integrations.flower.gridview import collect
from oort.integrations.flower.roster import Description, Roster
from oort.types import ClientId

ACTION: Final = "oort"
RECORD: Final = "oort"
_A_FEW: Final = 3


def ask_nodes(
    grid: Grid, nodes: Sequence[Any], roster: Roster[int], config: FlowerConfig
) -> Iterator[tuple[ClientId, Description]]:
    """Find out who these nodes are, enter them into the roster, and say what each told."""
    how = config.identify
    if callable(how):
        yield from _enter(roster, {n.node_id: Description(id=how(n)) for n in nodes})
    elif how == "node-id":
        yield from _enter(roster, {n.node_id: Description(id=n.node_id) for n in nodes})
    else:
        yield from _by_name_or_question(grid, nodes, roster, config)


def _by_name_or_question(
    grid: Grid, nodes: Sequence[Any], roster: Roster[int], config: FlowerConfig
) -> Iterator[tuple[ClientId, Description]]:
    named = [] if config.identify == "partition-id" else [n for n in nodes if _name(n)]
    yield from _enter(roster, {n.node_id: Description(id=_name(n)) for n in named})
    taken = {node.node_id for node in named}
    rest = [node.node_id for node in nodes if node.node_id not in taken]
    if not rest:
        return
    if config.identify == "name":
        roster.fall_back([(node, node) for node in rest], f"{len(rest)} nodes have no name")
        return
    # A few first: where they cannot answer, the app cannot, and asking all would fill its log.
    answers, refused = _question(grid, rest[:_A_FEW], config.identify_timeout_s)
    if len(refused) == len(rest[:_A_FEW]):
        refused = rest
    elif len(rest) > _A_FEW:
        more, others = _question(grid, rest[_A_FEW:], config.identify_timeout_s)
        answers, refused = {**answers, **more}, refused + others
    yield from _enter(roster, answers)
    if refused:
        why = f"{len(refused)} clients do not say who they are"
        roster.fall_back([(node, node) for node in refused], why)
    silent = len(rest) - len(answers) - len(refused)
    if silent:
        LOG.warning(
            "oort: %d nodes did not say who they are within %g s "
            "(FlowerConfig.identify_timeout_s): left out, and asked again in the next round",
            silent,
            config.identify_timeout_s,
        )


def _question(
    grid: Grid, nodes: Sequence[int], timeout_s: float
) -> tuple[dict[int, Description], list[int]]:
    """What nodes answer, and which of them cannot."""
    answers: dict[int, Description] = {}
    refused: list[int] = []

    def take(node: int, reply: Message) -> None:
        record = None if reply.has_error() else reply.content.config_records.get(RECORD)
        described = None if record is None else Description.from_values(record)
        if described is None or described.id is None:
            refused.append(node)
        else:
            answers[node] = described

    messages = [
        Message(
            content=RecordDict({RECORD: ConfigRecord({"question": "who"})}),
            message_type=f"query.{ACTION}",
            dst_node_id=node,
            ttl=timeout_s,
        )
        for node in nodes
    ]
    collect(grid, messages, timeout_s=timeout_s, on_reply=take)
    return answers, refused


def _enter(
    roster: Roster[int], found: dict[int, Description]
) -> Iterator[tuple[ClientId, Description]]:
    for node, description in found.items():
        client = node if description.id is None else description.id
        roster.learn(node, client)
        yield client, description


def _name(node: Any) -> str:
    return str(getattr(node, "name", "") or "")
