"""Quantiles of columns that change a few rows at a time.

Up to 4,096 rows, quantiles are exact and taken from the columns when they are asked for. Beyond,
they come from histograms that only the rows that changed are moved in, so that asking costs the
same for ten thousand clients as for a hundred million. A histogram groups values by the upper 20
bits of their 4-byte float: what it answers is the exact order statistic rounded up (quantiles) or
down (the minimum) by less than 0.05 %.
"""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Final

import numpy as np
import numpy.typing as npt

from oort.kernels.arrays import quantile_place

EXACT_ROWS: Final = 4_096
SHIFT: Final = 12
COARSE: Final = 512  # fine buckets in a coarse one
_FINE_BUCKETS: Final = 1 << (31 - SHIFT)
_CHUNK: Final = 1 << 20
Buckets = tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]  #: fine and coarse
#: in the place of a histogram, where a table is too small to keep any
NO_BUCKETS: Final = (np.empty(0, np.int32), np.empty(0, np.int64))

Single = npt.NDArray[np.float32]


def rounded_up(value: float) -> float:
    """The upper edge of the histogram bucket that holds a value.

    >>> rounded_up(10.0)
    10.00390...
    """
    return _edge(int(_buckets(np.array([value], np.float32))[0]), upper=True)


def rounded_down(value: float) -> float:
    """The lower edge of the histogram bucket that holds a value.

    >>> rounded_down(10.0)
    10.0
    """
    return _edge(int(_buckets(np.array([value], np.float32))[0]), upper=False)


class Histogram:
    """Counts of non-negative 4-byte floats by their upper bits.

    >>> histogram = Histogram()
    >>> histogram.change(np.array([1.0, 2.0, 3.0], np.float32), +1)
    >>> histogram.lowest(), round(histogram.quantile(0.5), 2)
    (1.0, 2.0)
    """

    def __init__(self) -> None:
        self.count = 0
        self.fine = np.zeros(_FINE_BUCKETS, np.int32)
        self.coarse = np.zeros(_FINE_BUCKETS // COARSE, np.int64)
        self.pair = (self.fine, self.coarse)  #: as compiled code takes them

    def change(self, values: Single, by: int) -> None:
        """Count values in (+1) or out (−1)."""
        if not values.size:
            return
        self.count += by * values.size
        if values.size < 4096:
            fine = _buckets(values)
            np.add.at(self.fine, fine, by)
            np.add.at(self.coarse, fine // COARSE, by)
            return
        for start in range(0, values.size, _CHUNK):
            fine = _buckets(values[start : start + _CHUNK])
            self.fine += np.int32(by) * np.bincount(fine, minlength=_FINE_BUCKETS).astype(np.int32)
            coarse = np.bincount(fine // COARSE, minlength=self.coarse.size)
            self.coarse += by * coarse

    def quantile(self, level: float, fast: ModuleType | None = None) -> float:
        """The order statistic at or below a quantile, rounded up to its bucket's edge."""
        return _edge(self._bucket_at(quantile_place(self.count, level), fast), upper=True)

    def lowest(self, fast: ModuleType | None = None) -> float:
        """The minimum, rounded down to its bucket's edge."""
        return _edge(self._bucket_at(0, fast), upper=False)

    def span(self, level: float, fast: ModuleType | None = None) -> tuple[float, float]:
        """The minimum and a quantile; the same number twice, where one bucket holds both."""
        first = self._bucket_at(0, fast)
        last = self._bucket_at(quantile_place(self.count, level), fast)
        cap = _edge(last, upper=True)
        return (cap if first == last else _edge(first, upper=False)), cap

    def _bucket_at(self, rank: int, fast: ModuleType | None) -> int:
        if fast is not None:
            return int(fast.bucket_at(self.fine, self.coarse, rank))
        below = self.coarse.cumsum()
        group = int(below.searchsorted(rank, side="right"))
        inside = rank - (int(below[group - 1]) if group else 0)
        fine = self.fine[group * COARSE : (group + 1) * COARSE]
        place = int(fine.cumsum().searchsorted(inside, side="right"))
        return group * COARSE + place


def _buckets(values: Single) -> npt.NDArray[np.int64]:
    return (values.view(np.uint32) >> np.uint32(SHIFT)).astype(np.int64)


def _edge(bucket: int, *, upper: bool) -> float:
    if bucket == 0:
        return 0.0  # columns hold nothing between 0 and 1e-30
    bits = (bucket << SHIFT) | ((1 << SHIFT) - 1 if upper else 0)
    value: float = struct.unpack("<f", struct.pack("<I", bits))[0]
    return value
