"""The machine that figures were taken on."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import numpy as np

import oort
from oort import kernels


def describe() -> dict[str, object]:
    """What a reader needs to know about this machine and its software."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": kernels.backend(),
        "oort": oort.__version__,
        "read_gb_per_s": round(read_bandwidth() / 1e9, 1),
    }


def read_bandwidth(size: int = 1 << 28, repeats: int = 7) -> float:
    """Bytes per second that one core reads from memory, the median of some passes over 256 MiB."""
    array = np.ones(size // 4, np.float32)
    passes = []
    for _ in range(repeats):
        start = time.perf_counter()
        array.max()
        passes.append(time.perf_counter() - start)
    return size / float(np.median(passes))


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
