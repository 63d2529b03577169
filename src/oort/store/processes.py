"""Whether a process that left its name still lives.

Only the machine that it runs on can tell, and only from the same table of processes (containers
have their own): elsewhere the answer is that we do not know.
"""

from __future__ import annotations

import json
import os
import socket
import uuid
from pathlib import Path
from typing import Any


def signature() -> str:
    """Who we are, for others to look for: one per lease, since a process may want several."""
    return json.dumps({**_place(), **_process(os.getpid()), "token": uuid.uuid4().hex})


def is_alive(signed: str) -> bool | None:
    """Whether the process lives; nothing where it cannot be told from here."""
    holder = _read(signed)
    place = _place()
    if not place["boot"] or any(holder.get(key) != value for key, value in place.items()):
        return None
    pid = holder.get("pid")
    if not isinstance(pid, int):
        return None
    return _process(pid) == {"pid": pid, "started": holder.get("started")}


def is_ours(signed: str) -> bool:
    """Whether this very process signed."""
    return bool(is_alive(signed)) and _read(signed).get("pid") == os.getpid()


def described(signed: str) -> str:
    """The process, for a message.

    >>> described('{"host": "phobos", "pid": 17}')
    'process 17 on phobos'
    """
    holder = _read(signed)
    return f"process {holder.get('pid', '?')} on {holder.get('host', '?')}"


def _read(signed: str) -> dict[str, Any]:
    try:
        holder = json.loads(signed)
    except ValueError:
        return {}
    return holder if isinstance(holder, dict) else {}


def _place() -> dict[str, str]:
    """The machine since it started, and its table of processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        table = os.readlink("/proc/self/ns/pid")
    except OSError:
        boot = table = ""
    return {"host": socket.gethostname(), "boot": boot, "table": table}


def _process(pid: int) -> dict[str, Any]:
    """A process by number and start, since numbers are given out again; dead ones have neither."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return {}
    state, *fields = status.rpartition(")")[2].split()
    return {} if state in "ZX" else {"pid": pid, "started": fields[18]}
