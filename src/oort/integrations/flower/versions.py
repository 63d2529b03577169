"""Which versions of Flower this adapter was tested with."""

from __future__ import annotations

import re
import warnings
from importlib.metadata import version
from typing import Final

from oort.errors import EngineWarning

OLDEST: Final = (1, 23)
NEWEST: Final = (1, 41)


def check_version(installed: str | None = None) -> None:
    """Warn where the installed Flower is outside the tested range; say what to do.

    >>> check_version("1.41.0")
    """
    found = version("flwr") if installed is None else installed
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if OLDEST <= numbers <= NEWEST:
        return
    oldest, newest = (".".join(map(str, end)) for end in (OLDEST, NEWEST))
    message = (
        f"flwr must be from {oldest} to {newest}, the versions that this adapter was tested "
        f"with; got {found}. It may work: try it on a short job. If it does not, "
        f"pip install 'flwr[simulation]~={newest}.0'"
    )
    warnings.warn(message, EngineWarning, stacklevel=3)
