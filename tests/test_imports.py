"""What ``import oort`` brings in, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys


def test_importing_oort_pulls_in_nothing_that_the_core_does_not_need_at_once() -> None:
    code = "import sys, oort; print('\\n'.join(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in result.stdout.split()}
    assert not loaded & {"scipy", "numba", "matplotlib", "rich", "pandas", "pyarrow", "torch"}
