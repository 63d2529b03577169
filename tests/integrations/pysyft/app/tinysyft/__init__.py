"""A job for syft-flwr, over its local network, which is a folder that all datasites see.

One repair to that network: syft-rpc 0.4.1 writes a file in place, while syft-event 0.4.3 reads it
as soon as it is created, and loses the message if it is half written. Here files are moved into
place. (Between real datasites, SyftBox carries the files.)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from syft_rpc import protocol


def _dump(self: Any, path: Any) -> None:
    whole = Path(path)
    part = whole.with_suffix(whole.suffix + ".part")
    part.write_text(self.dumps(), encoding="utf-8")
    os.replace(part, whole)


protocol.Base.dump = _dump
