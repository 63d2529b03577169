"""Which clients the testing selector knows, and which of them can be asked now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oort.clients.id_columns import id_list
from oort.errors import UnknownClientError
from oort.types import ClientId


class Roster:
    """Known ids in the order in which they came, each online until it is marked otherwise.

    >>> roster = Roster()
    >>> roster.add(["a", "b", 7]); roster.mark(["b"], online=False)
    >>> roster.online(), len(roster)
    (['a', 7], 3)
    """

    def __init__(self) -> None:
        self._online: dict[ClientId, bool] = {}

    def __len__(self) -> int:
        return len(self._online)

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self._online)

    def __contains__(self, client: object) -> bool:
        return client in self._online

    def add(self, clients: Iterable[ClientId]) -> None:
        """Make clients known; those that are, stay as they are."""
        for client in id_list(clients):
            self._online.setdefault(client, True)

    def remove(self, clients: Iterable[ClientId]) -> int:
        """Forget clients; returns how many were known."""
        return sum(self._online.pop(client, None) is not None for client in id_list(clients))

    def mark(self, clients: Iterable[ClientId] | None, *, online: bool) -> None:
        """Mark these clients (all, if none are named) as reachable or not.

        Raises:
            UnknownClientError: One of them is not known; none is marked.
        """
        marked = list(self._online) if clients is None else id_list(clients)
        self.require(marked)
        self._online.update(dict.fromkeys(marked, online))

    def online(self) -> list[ClientId]:
        """Who can be asked, in the order in which they became known."""
        return [client for client, online in self._online.items() if online]

    def is_online(self, client: ClientId) -> bool:
        """Whether a client is known and can be asked."""
        return self._online.get(client, False)

    def require(self, clients: Iterable[ClientId]) -> None:
        """Refuse clients that are not known."""
        for client in clients:
            if client not in self._online:
                message = f"client must be a registered one; got {client!r}"
                raise UnknownClientError(message)


def reach_notes(reachable: int, total: int) -> tuple[str, ...]:
    """What a draw from some of the clients means for all.

    >>> reach_notes(5, 5)
    ()
    """
    if reachable >= total:
        return ()
    return (
        f"Drawn from the {reachable:,} of {total:,} clients that are registered and online: "
        "the guarantee is for all clients if being online has nothing to do with their data.",
    )
