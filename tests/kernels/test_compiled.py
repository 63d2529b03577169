"""Compiled kernels equal NumPy's to the last bit."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oort import kernels
from oort.clients.columns import EXPLORED, READY, REMOVED, TRIED
from oort.clients.table import ClientTable
from oort.config import TrainingConfig
from oort.errors import ConfigError
from oort.training import exploit, scoring
from oort.training.candidates import Candidates
from oort.training.eligibility import Roles
from oort.training.scoring import Scoring
from oort.training.utility import Scale, fairness_named

pytest.importorskip("numba", reason="compiled kernels need the extra 'fast'")

compiling = importlib.import_module("oort.kernels.compiling")
compiled_draws = importlib.import_module("oort.kernels.compiled_draws")

STATES = [0, READY, READY | TRIED | EXPLORED, READY | TRIED, READY | TRIED | EXPLORED | REMOVED]


def a_scoring(seed: int, rows: int, *, equal: bool, preferred_s: float, masked: bool) -> Scoring:
    """Random columns with every kind of oddity: unknown and zero durations, ties, all states."""
    random = np.random.default_rng(seed)
    table = ClientTable()
    table.add(range(rows))
    table.flags[:] = random.choice(STATES, rows, p=[0.05, 0.15, 0.6, 0.1, 0.1])
    table.utility[:] = random.choice([0.0, 1.0, 5.0, 1e30], rows) * random.random(rows)
    table.duration_s[:] = random.choice([0.0, 1.0, 20.0, np.nan], rows) * random.random(rows)
    table.last_round[:] = random.integers(0, 50, rows)
    mask = random.random(rows) < 0.7 if masked else None
    return Scoring(
        table=table,
        roles=Roles(table.flags, mask),
        worth=table.utility,
        scale=Scale.between(0.5, 0.5 if equal else 4.0),
        preferred_s=preferred_s,
        round_number=60,
        config=TrainingConfig(),
        fairness=fairness_named("participations"),
    )


def scored(it: Scoring, wanted: int, backend: str, patch: pytest.MonkeyPatch) -> list[Any]:
    """Pool, best rows and scores of some rows, with one backend."""
    fast = kernels.fast_kernels() if backend == "numba" else None
    patch.setattr(kernels, "compiled_for", lambda num_rows: fast)
    pool = it.pool(wanted, Candidates())
    rows = np.arange(0, it.table.num_rows, 3)
    return [pool.rows, pool.scores, pool.cutoff, *it.best(wanted), it.scores_of(rows)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 5000),
    wanted=st.integers(1, 3000),
    equal=st.booleans(),
    masked=st.booleans(),
    preferred_s=st.sampled_from([0.01, 3.0, 1e30, float("inf")]),
)
def test_both_backends_give_the_same_scores_and_pools(
    seed: int, rows: int, wanted: int, equal: bool, masked: bool, preferred_s: float
) -> None:
    it = a_scoring(seed, rows, equal=equal, preferred_s=preferred_s, masked=masked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "MANY_ROWS", 10**9)
        numpy_gives = scored(it, wanted, "numpy", patch)
        numba_gives = scored(it, wanted, "numba", patch)
    for one, two in zip(numpy_gives, numba_gives, strict=True):
        np.testing.assert_array_equal(one, two)


def plain_pool(
    scores: npt.NDArray[np.float32], wanted: int, share: float
) -> npt.NDArray[np.int64]:
    """The definition: everyone at or above a share of the wanted-th best."""
    eligible = np.flatnonzero(scores >= 0)
    ordered = np.sort(scores[eligible])[::-1]
    bar = np.float32(share) * ordered[min(wanted, ordered.size) - 1]
    return np.asarray(eligible[scores[eligible] >= bar])


@pytest.mark.parametrize("backend", ["numpy", "numba"])
@pytest.mark.parametrize("rows", [1, 1023, 1024, 1025, 70_000])
@pytest.mark.parametrize("wanted", [1, 90, 4000])
def test_one_pass_finds_the_same_pool_as_sorting_everyone(
    backend: str, rows: int, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = a_scoring(rows + wanted, rows, equal=False, preferred_s=5.0, masked=True)
    fast = kernels.fast_kernels() if backend == "numba" else None
    monkeypatch.setattr(kernels, "compiled_for", lambda num_rows: fast)
    monkeypatch.setattr(scoring, "MANY_ROWS", 10**9)
    scores = it.scores_of(np.arange(rows))
    if not (scores >= 0).any():
        assert len(it.pool(wanted, Candidates())) == 0
        return
    expected = plain_pool(scores, wanted, 0.95)
    pool = it.pool(wanted, Candidates())
    assert np.array_equal(pool.rows, expected)
    assert np.array_equal(pool.scores, scores[expected])
    assert pool.cutoff == exploit.settled(expected, scores[expected], wanted, 0.95).cutoff


def test_the_backend_can_be_forced_and_nonsense_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for wanted, expected in (("numpy", "numpy"), ("numba", "numba"), ("auto", "numba")):
        monkeypatch.setenv("OORT_KERNELS", wanted)
        kernels.fast_kernels.cache_clear()
        assert kernels.backend() == expected
    monkeypatch.setenv("OORT_KERNELS", "cuda")
    kernels.fast_kernels.cache_clear()
    with pytest.raises(ConfigError, match="OORT_KERNELS must be"):
        kernels.backend()
    monkeypatch.undo()
    kernels.fast_kernels.cache_clear()


def test_machine_code_is_kept_only_as_long_as_every_file_it_is_made_of() -> None:
    package = Path(kernels.__file__).parents[1]
    sources = [name for name in compiling.FILES if "compiled" in name]
    assert {package / name for name in sources} == set(package.rglob("compiled*.py"))
    for name in sources:
        assert (package / name).read_text().count("njit") == 0, "all are compiled in one way"
        for module in re.findall(r"^from (oort\.\S+) import", (package / name).read_text(), re.M):
            needed = module.removeprefix("oort.").replace(".", "/") + ".py"
            assert needed in compiling.FILES, f"{name} takes something from {needed}"
    cached = compiled_draws.race._cache._cache_file
    assert cached._source_stamp == compiling._stamp()


def test_without_a_folder_to_write_to_machine_code_is_made_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refusing(**options: Any) -> Any:
        if options.get("cache"):
            message = "cannot cache function: no locator available"
            raise RuntimeError(message)
        return lambda function: function

    monkeypatch.setattr(compiling, "njit", refusing)
    assert compiling.compiled(abs) is abs


def doubled(number: int) -> int:
    return 2 * number


def test_machine_code_that_is_damaged_or_cannot_be_kept_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    assert compiling.compiled(doubled)(21) == 42
    files = sorted(tmp_path.rglob("*.nb?"))
    assert [path.suffix for path in files] == [".nbc", ".nbi"]
    for path in files:
        for left in (b"", path.read_bytes()[:20]):
            path.write_bytes(left)
            assert compiling.compiled(doubled)(21) == 42
            assert path.stat().st_size > 20, "it was written anew"

    def refusing(*given: Any) -> None:
        message = "no space left on device"
        raise OSError(message)

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", refusing)
    files[1].unlink()
    assert compiling.compiled(doubled)(21) == 42
