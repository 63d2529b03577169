"""One process at a time in the folder of a run: two would write the same files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oort.errors import ConfigError, LeaseError


@contextmanager
def alone_in(path: Path) -> Iterator[None]:
    """Hold a folder, made where it is not there, until the end; a kill lets go of it too.

    Where the system or its file system knows no such locks (Windows, some network drives), nothing
    is held.

    Raises:
        ConfigError: The folder cannot be made.
        LeaseError: Another process holds it.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{path} must be a folder that can be written to; got {error}"
        raise ConfigError(message) from error
    held = _locked(path)
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _locked(path: Path) -> int | None:
    """An open folder that nobody else can lock; nothing where there are no locks."""
    try:
        import fcntl
    except ImportError:
        return None
    folder = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(folder)
        message = f"{path} must be written by one process at a time; got another at work in it"
        raise LeaseError(message) from error
    except OSError:  # no locks on this file system
        os.close(folder)
        return None
    return folder
