"""``python -m benchmarks``: everything that ``make bench`` measures."""

from __future__ import annotations

from benchmarks.selection import main

if __name__ == "__main__":
    main()
