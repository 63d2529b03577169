"""Compiled kernels equal NumPy's to the last bit."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import SimpleNamespace
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
    return [
        pool.rows,
        pool.scores,
        pool.cutoff,
        *it.best(wanted, 1.0),
        *it.best(wanted, 0.8),
        it.scores_of(rows),
    ]


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


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    rows=st.integers(1, 10_000),
    wanted=st.sampled_from([1, 30, 900]),
    equal=st.booleans(),
    masked=st.booleans(),
    preferred_s=st.sampled_from([1e-30, 1e-20, 0.01, 3.0, 1e30]),
    expected=st.sampled_from([1e-9, 0.01, 0.5, 0.99, 0.99999, 1.0, 1.00001, 1.2, 30.0]),
)
def test_wherever_the_cut_off_is_expected_the_pool_is_the_same(
    seed: int,
    rows: int,
    wanted: int,
    equal: bool,
    masked: bool,
    preferred_s: float,
    expected: float,
) -> None:
    it = a_scoring(seed, rows, equal=equal, preferred_s=preferred_s, masked=masked)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "compiled_for", lambda num_rows: kernels.fast_kernels())
        patch.setattr(scoring, "MANY_ROWS", 10**9)
        plain = it.pool(wanted, Candidates())
        hinted = Candidates()
        hinted.hint = float(expected * plain.cutoff) if len(plain) else expected
        pool = it.pool(wanted, hinted)
    np.testing.assert_array_equal(pool.rows, plain.rows)
    np.testing.assert_array_equal(pool.scores, plain.scores)
    np.testing.assert_array_equal(pool.cutoff, plain.cutoff)


@pytest.mark.parametrize(("expected", "passes"), [(0.9, 1), (1.1, 2), (30.0, 2)])
def test_a_cut_off_expected_much_too_high_costs_one_pass_more(
    expected: float, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = a_scoring(7, 20_000, equal=False, preferred_s=3.0, masked=False)
    it.table.utility[:] = np.random.default_rng(1).random(20_000) * 4
    fast = importlib.import_module("oort.kernels.compiled")
    ask = (*it._arguments(it.roles), 300, np.float32(0.95))
    plain = fast.pool_of_all(*ask, np.float32(0))
    made: list[int] = []

    def counted(*given: Any, top: Any = fast._top) -> Any:
        made.append(1)
        return top(*given)

    monkeypatch.setattr(fast, "_top", counted)
    hinted = fast.pool_of_all.py_func(*ask, np.float32(expected * plain[2]))
    np.testing.assert_array_equal(hinted[0], plain[0])
    assert len(made) == passes


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99, 1.0])
def test_screening_keeps_every_row_that_reaches_the_bar_however_close_they_are(
    level: float,
) -> None:
    it = a_scoring(7, 60_000, equal=False, preferred_s=3.0, masked=False)
    it.table.utility[:] = np.random.default_rng(1).random(60_000) * 4
    every = it.scores_of(np.arange(60_000))
    bar = np.float32(np.quantile(every[every >= 0], level))
    fast = importlib.import_module("oort.kernels.compiled")
    _, found, count = fast._top(*it._arguments(it.roles), 10**6, np.float32(0.95), bar)
    np.testing.assert_array_equal(found[:count], every[every >= bar])


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


def test_where_numba_may_not_compile_numpy_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OORT_KERNELS", "auto")
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    kernels.fast_kernels.cache_clear()
    assert kernels.backend() == "numpy"
    monkeypatch.setenv("OORT_KERNELS", "numba")
    kernels.fast_kernels.cache_clear()
    assert kernels.backend() == "numba", "if asked for"
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


def test_machine_code_with_a_changed_byte_anywhere_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    assert compiling.compiled(doubled)(21) == 42
    (path,) = tmp_path.rglob("*.nbc")
    for place in range(0, path.stat().st_size, path.stat().st_size // 12):
        content = bytearray(path.read_bytes())
        content[min(place, len(content) - 1)] ^= 1
        path.write_bytes(content)
        assert compiling.compiled(doubled)(21) == 42
        assert path.read_bytes() != content, "it was written anew"
    fast = compiling.compiled(doubled)
    assert fast(21) == 42
    assert sum(fast.stats.cache_hits.values()) == 1, "what is whole is used"


def test_machine_code_of_other_types_or_another_version_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("numba.config.CACHE_DIR", str(tmp_path))
    fast = compiling.compiled(doubled)
    assert (fast(21), fast(1.5)) == (42, 3.0)
    one, two = sorted(tmp_path.rglob("*.nbc"))
    before = one.read_bytes()
    one.write_bytes(two.read_bytes())
    assert repr(compiling.compiled(doubled)(21)) == "42", "not 42.0"

    monkeypatch.setattr(compiling, "_stamp", lambda: ("oort", 1))
    assert compiling.compiled(doubled)(21) == 42
    one.write_bytes(before)
    fast = compiling.compiled(doubled)
    assert fast(21) == 42
    assert not fast.stats.cache_hits, "that was of the version before"


def test_a_numba_that_keeps_its_files_in_another_way_is_left_alone() -> None:
    file = SimpleNamespace(_dump=repr)
    compiling._seal(file)
    assert vars(file) == {"_dump": repr}
