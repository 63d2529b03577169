"""Rare situations that once went wrong, one test each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oort
from oort.training import candidates, scoring
from tests.support import heard_of

ONLY_EXPLOIT = {"exploration": {"start": 0.0, "minimum": 0.0}}


@pytest.mark.parametrize("clients", [4_000, 5_000])
@pytest.mark.parametrize("worth", [10.0, 10.002, 10.0039])
def test_equal_utilities_are_all_worth_one_in_large_tables_too(clients: int, worth: float) -> None:
    selector = oort.create_training_selector({**ONLY_EXPLOIT, "pacer": {"preferred_s": 1.0}})
    selector.register_clients(range(clients))
    half = clients // 2
    for _ in range(9):
        selector.select(1)
    slow, fast = np.arange(half, clients), np.arange(half)
    selector.update_clients(slow, utility=worth, duration_s=1.3, round_number=1)
    selector.update_clients(fast, utility=worth, duration_s=1.0, round_number=9)
    selection = selector.select(100)
    assert all(int(client) < half for client in selection)
    assert selection.why[0].utility == 1.0


def test_a_top_up_keeps_the_preferred_duration_of_its_round(tmp_path: Path) -> None:
    selector = oort.create_training_selector({"seed": 1})
    selector.register_clients(range(1000))
    selector.select(100)
    values = np.arange(1000.0) + 1
    selector.update_clients(np.arange(1000), utility=values, duration_s=values)
    first = selector.select(100, among=range(50))
    selector.save(tmp_path / "job.oort")
    more = selector.select(1, round_number=first.round_number)
    assert first.preferred_s == more.preferred_s == 200.0
    again = oort.load_selector(tmp_path / "job.oort")
    assert again.select(1, round_number=first.round_number).participants == more.participants


def test_asking_for_nobody_registers_nobody() -> None:
    selector = oort.create_training_selector()
    assert selector.select(0, ["x", "y"]).participants == []
    assert selector.num_clients == 0


@pytest.mark.parametrize("pacer", [{"step_s": 1.0, "window": 2}, {"window": 2}])
def test_with_infinite_alpha_patience_grows_until_somebody_fits(pacer: dict[str, Any]) -> None:
    selector = oort.create_training_selector({"alpha": float("inf"), "pacer": pacer})
    selector.register_clients(range(10))
    for number in range(1, 31):
        picked = selector.select_participant(2)
        assert picked, f"nobody in round {number}"
        selector.update_clients(picked, utility=1.0, duration_s=5.0 + np.arange(len(picked)))


def test_with_infinite_alpha_a_fixed_deadline_leaves_slow_clients_out() -> None:
    settings = {"alpha": float("inf"), "pacer": {"preferred_s": 3.0}}
    selector = oort.create_training_selector(settings)
    selector.register_clients(range(4), expected_duration_s=[1.0, 2.0, 4.0, 5.0])
    assert sorted(selector.select_participant(4), key=str) == [0, 1]
    selector.mark_offline([0, 1])
    assert selector.select_participant(4) == []


def test_a_hint_does_not_erase_what_a_failed_or_unused_report_told() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(["a", "b"], expected_duration_s=5.0)
    selector.select(2)
    selector.update_clients(["a", "b"], outcome=["failed", "unused"], duration_s=100.0)
    selector.register_clients(["a", "b"], expected_duration_s=5.0)
    assert selector.columns(["a", "b"]).duration_s.tolist() == [100.0, 100.0]


def test_reports_by_row_reject_the_forgotten_one_by_one() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(["a", "b", "c"])
    rows = selector.rows(["a", "b", "c"])
    selector.select(3)
    selector.forget(["b"])
    result = selector.update_clients(rows, utility=[1.0, 2.0, 3.0])
    assert result.applied == 2
    assert [r.index for r in result.rejected] == [1]
    mask = np.ones(3, np.bool_)
    again = selector.update_clients(mask, utility=[1.0, 2.0, 3.0])
    assert (again.repeated, len(again.rejected)) == (2, 1)


def test_one_bad_id_does_not_slow_a_batch_down(monkeypatch: pytest.MonkeyPatch) -> None:
    selector = oort.create_training_selector()
    selector.register_clients(range(100))
    selector.select(1)
    looked_up: list[int] = []
    find = type(selector._table.ids).find

    def counting(ids: Any, values: Any) -> Any:
        looked_up.append(len(values))
        return find(ids, values)

    monkeypatch.setattr(type(selector._table.ids), "find", counting)
    result = selector.update_clients([*range(100), None], utility=1.0)  # type: ignore[list-item]
    assert result.applied == 100
    assert len(looked_up) <= 2


def test_a_read_only_mask_is_as_good_as_another() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(range(20_000))
    selector.update_clients(np.arange(20_000), utility=np.arange(20_000.0), duration_s=1.0)
    mask = np.ones(20_000, np.bool_)
    shown = selector.preview(50, among=mask).participants
    mask.flags.writeable = False
    assert selector.select_participant(50, among=mask) == shown


def test_errors_name_the_client_and_have_our_types() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(["a", "b", "c"])
    with pytest.raises(oort.UnknownClientError, match="zzz"):
        selector.rows(x for x in ["zzz"])
    with pytest.raises(oort.InvalidArgumentError, match="client 'c': expected_duration_s"):
        selector.register_clients(selector.rows(["a", "c"]), expected_duration_s=[1.0, -1.0])
    with pytest.raises(oort.InvalidClientIdError):
        selector.register_clients(np.array(5))
    with pytest.raises(oort.InvalidArgumentError, match="num_samples"):
        selector.register_client("q", num_samples=float("nan"))  # type: ignore[arg-type]
    with pytest.raises(oort.InvalidArgumentError):
        selector.register_client("q", expected_duration_s=np.array([1.0, 2.0]))  # type: ignore[arg-type]
    with pytest.raises(oort.ConfigError, match="65,534"):
        oort.TrainingConfig(max_participations=100_000)


def test_nulls_of_arrow_and_pandas_are_missing_values() -> None:
    pa = pytest.importorskip("pyarrow")
    pd = pytest.importorskip("pandas")
    selector = oort.create_training_selector()
    for column in (pa.array([1.0, None]), pd.Series([1.0, pd.NA], dtype=object)):
        selector.register_clients(["a", "b"], expected_duration_s=column)
        assert np.isnan(selector.columns(["b"]).duration_s[0])
    result = selector.update_clients(
        ["a", "b"], utility=1.0, outcome=pa.array(["completed", "failed"])
    )
    assert result.applied == 2


@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_what_a_masked_array_hides_is_never_read(dtype: Any) -> None:
    hidden: Any = np.ma.array([7, 8], mask=[False, True], dtype=dtype)
    selector = oort.create_training_selector()
    selector.register_clients(["a", "b"], expected_duration_s=hidden, num_samples=hidden)
    known = selector.columns(["a", "b"])
    np.testing.assert_array_equal(known.duration_s, [7, np.nan])
    assert known.num_samples.tolist() == [7, 0]
    result = selector.update_clients(["a", "b"], utility=hidden, duration_s=hidden)
    assert [(r.client, r.field, r.value) for r in result.rejected] == [("b", "utility", None)]
    assert selector.update_clients(["b"], utility=1.0, duration_s=hidden[1:]).applied == 1
    np.testing.assert_array_equal(selector.columns(["a", "b"]).duration_s, [7, np.nan])


def test_one_number_in_an_array_is_no_collection_of_ids() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(range(9))
    for call in (partial(selector.select, 3), selector.mark_online, selector.mark_offline):
        with pytest.raises(oort.InvalidClientIdError, match="collection"):
            call(np.array(5))


def test_a_window_longer_than_any_job_works() -> None:
    selector = oort.create_training_selector({"pacer": {"window": 10**400}})
    selector.register_clients(range(100))
    values = np.arange(1.0, 101.0)
    selector.update_clients(range(100), utility=values, duration_s=values)
    assert selector.select(5).preferred_s == 20.0


def test_the_next_pass_gets_no_hint_from_a_pool_that_was_short() -> None:
    pytest.importorskip("numba", reason="compiled kernels need the extra 'fast'")
    selector = oort.create_training_selector({"exploration": {"start": 0.0, "minimum": 0.0}})
    selector.register_clients(range(5000))
    selector.update_clients(range(3), utility=5.0)
    assert selector.select(50).pool_size == 3
    assert selector._candidates.hint == 0.0
    selector.update_clients(range(100), utility=5.0)
    assert selector.select(50).pool_size >= 50
    assert selector._candidates.hint > 0.0


@pytest.mark.parametrize("alike", [False, True])
def test_what_changed_is_not_kept_for_ever(alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "MANY_ROWS", 1)
    monkeypatch.setattr(candidates, "_FEWEST", 50)
    worth = np.ones(2000) if alike else np.arange(2000.0)
    selector = heard_of(worth, 1.0, clip_quantile=1.0, **ONLY_EXPLOIT)
    selector.select(2)
    kept = selector._candidates
    assert kept.full_passes == (1 if alike else 4), "as often again, as the pool did not fit"
    assert (kept._rows.size > 50) is not alike, "the best, unless too many are"
    selector.mode = "uniform"
    for _ in range(300):
        selector.update_clients(selector.select_participant(2), utility=1.0)
        assert sum(rows.size for rows in kept._changed) <= 512
