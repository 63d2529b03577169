"""What chance is asked for in a draw: each purpose has random numbers of its own."""

from __future__ import annotations

from typing import Final

QUOTA: Final = 0  #: whether a fraction of a client to explore is rounded up
EXPLOIT: Final = 1  #: who is drawn from the pool
PROPOSE: Final = 2  #: untried clients, by proposal and acceptance
EXPLORE: Final = 3  #: untried clients, by a race
FILL: Final = 4  #: clients that are pending or removed
