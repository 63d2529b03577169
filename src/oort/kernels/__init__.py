"""The hot loops: one job each, no state, inputs that were checked at the door.

    arrays            scores and cut-offs in NumPy: always there, and the oracle for the others
    draws             drawing without replacement in NumPy
    compiled          scores and cut-offs fused into one pass, compiled by Numba (extra ``fast``)
    compiled_draws    drawing, compiled
    compiling         how, and how long machine code is kept

Both give the same answers, to the last bit; ``backend()`` says which one serves. Nothing is
compiled or imported before it is first needed, and small tables never need it.
"""

from __future__ import annotations

import functools
import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Final

import numpy as np
import numpy.typing as npt

from oort.errors import ConfigError
from oort.types import Mask

COMPILED_FROM_ROWS: Final = 4_097  # below, NumPy does and Numba's start-up is not earned
_SETTING: Final = "OORT_KERNELS"


@functools.cache
def fast_kernels() -> ModuleType | None:
    """The compiled kernels, unless Numba is missing or ``OORT_KERNELS=numpy`` forbids them.

    Nor where ``NUMBA_DISABLE_JIT`` keeps Numba from compiling: as plain Python they are slow.
    """
    wanted = os.environ.get(_SETTING, "auto")
    if wanted not in ("auto", "numpy", "numba"):
        message = f"{_SETTING} must be 'auto', 'numpy' or 'numba'; got {wanted!r}"
        raise ConfigError(message)
    if wanted == "numpy":
        return None
    try:
        if wanted == "auto" and import_module("numba").config.DISABLE_JIT:
            return None
        return import_module("oort.kernels.compiled")
    except ImportError:
        if wanted == "numba":
            raise
        return None


def backend() -> str:
    """Which kernels serve large tables: "numba" or "numpy"."""
    return "numpy" if fast_kernels() is None else "numba"


def compiled_for(num_rows: int) -> ModuleType | None:
    """The compiled kernels, where a table is large enough to earn them."""
    return fast_kernels() if num_rows >= COMPILED_FROM_ROWS else None


def at_hand() -> bool:
    """Whether this process has loaded the compiled kernels, so that small tables may have them."""
    return "oort.kernels.compiled" in sys.modules and fast_kernels() is not None


def as_bytes(allowed: Mask | None) -> npt.NDArray[np.uint8]:
    """The mask as bytes, empty for everyone: compiled code takes one type only."""
    if allowed is None:
        return np.empty(0, np.uint8)
    plain = np.ascontiguousarray(allowed)
    return (plain if plain.flags.writeable else plain.copy()).view(np.uint8)
