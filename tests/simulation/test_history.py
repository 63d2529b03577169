from __future__ import annotations

import math
from pathlib import Path

import pytest

from oort.errors import DamagedFileError
from oort.simulation import Job, StrategyConfig
from oort.simulation.history import (
    Attendance,
    Participation,
    RoundRecord,
    read_csv,
    read_table,
    write_csv,
    write_parquet,
)
from tests.simulation.examples import small_world


@pytest.fixture(scope="module")
def records() -> list[RoundRecord]:
    return [r.record for r in Job(small_world(), StrategyConfig()).rounds()]


def same(a: list[RoundRecord], b: list[RoundRecord]) -> bool:
    return [repr(r) for r in a] == [repr(r) for r in b]


def test_reading_gives_the_same_bits_back(tmp_path: Path, records: list[RoundRecord]) -> None:
    write_csv(tmp_path / "history.csv", RoundRecord, records)
    assert same(read_csv(tmp_path / "history.csv", RoundRecord), records)
    assert math.isnan(records[0].accuracy), "round 1 was not tested"


def test_parquet_gives_the_same_bits_back(tmp_path: Path, records: list[RoundRecord]) -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs the extra 'parquet'")
    write_parquet(tmp_path / "history.parquet", RoundRecord, records)
    assert same(read_table(tmp_path, "history", RoundRecord), records)


def test_a_file_that_is_none_is_refused(tmp_path: Path, records: list[RoundRecord]) -> None:
    path = tmp_path / "history.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DamagedFileError, match="must begin with the columns of RoundRecord"):
        read_csv(path, RoundRecord)
    write_csv(path, RoundRecord, records)
    path.write_text(path.read_text() + "1,2\n")
    with pytest.raises(DamagedFileError, match="must hold whole rows"):
        read_csv(path, RoundRecord)


def test_participations_can_be_empty(tmp_path: Path) -> None:
    write_csv(tmp_path / "participations.csv", Participation, [])
    assert read_table(tmp_path, "participations", Participation) == []


def test_a_round_of_participations_is_written_as_its_rows_are(tmp_path: Path) -> None:
    world = small_world(devices={"dropout_rate": 0.3})
    content = b""
    played = []
    for result in Job(world, StrategyConfig()).rounds():
        parts = result.participations
        write_csv(tmp_path / "participations.csv", Participation, parts)
        read = read_csv(tmp_path / "participations.csv", Participation)
        assert Attendance.of(read).to_bytes() == parts.to_bytes()
        assert repr(parts[-1]) == repr(read[-1])
        assert len(parts[1:3]) == 2
        content += parts.to_bytes()
        played.append(repr(list(parts)))
    assert len(set(played)) > 1
    assert [repr(list(some)) for some in Attendance.from_bytes(content)] == played


def test_a_torn_record_of_a_participation_is_passed_over_and_a_wrong_one_refused() -> None:
    parts = [
        Participation(
            round=1,
            client=c,
            outcome="failed",
            duration_s=2.0,
            num_samples=0,
            mean_squared_loss=math.nan,
        )
        for c in (4, 7)
    ]
    content = Attendance.of(parts).to_bytes()
    assert [p.client for p in Attendance.from_bytes(content[:-1])[0]] == [4]
    assert Attendance.from_bytes(content[:5]) == []
    wrong = bytearray(content)
    wrong[4] = 9
    with pytest.raises(DamagedFileError, match="outcome 9"):
        Attendance.from_bytes(bytes(wrong))
