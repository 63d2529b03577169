"""A selector saved by the first version is read for ever.

``tests/fixtures/selector-v1.oort`` is never written again. What it holds is spelled out here; what
it draws next is in the golden file, since how draws are made may change.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import oort
from oort import savefile

FIXTURE = Path(__file__).parents[1] / "fixtures" / "selector-v1.oort"

PRESENT: list[oort.ClientId] = [
    *("phone-1", "phone-2", 1, "1", -7, 2**64 - 1, "", "Zürich", "客户端", "👩‍👩‍👧", "\ud800"),
    *("x" * 300, 100, 101, 102, 103),
]

UTILITY = [0.0, 0.0, 0.0, 0.0, 6.25, 5.25, 0.0, 0.0, 0.0, 0.0, 8.25, 0.0, 7.25, 0.0, 3.25, 9.25]
DURATION_S = [
    12.0,
    20.0,
    -1.0,
    15.0,
    21.0,
    17.5,
    15.0,
    22.0,
    12.0,
    -1.0,
    28.0,
    12.0,
    24.5,
    24.0,
    10.5,
    31.5,
]
PARTICIPATIONS = [1, 1, 1, 1, 4, 5, 1, 1, 1, 1, 4, 0, 3, 1, 4, 5]
LAST_ROUND = [0, 6, 0, 1, 6, 5, 2, 0, 0, 0, 6, 0, 6, 4, 3, 6]
NUM_SAMPLES = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]
SKETCH_SUM = [0.0, 0.0, 0.0, 0.0, 6.0, 5.0, 0.0, 0.0, 0.0, 0.0, 8.0, 0.0, 7.0, 0.0, 3.0, 9.0]


def test_it_is_a_file_of_format_1() -> None:
    assert FIXTURE.read_bytes()[:12] == b"OORTSAVE\x01\0\0\0"


def test_clients_rows_and_rounds_are_as_they_were() -> None:
    selector = oort.load_selector(FIXTURE)
    assert selector.client_ids() == PRESENT
    assert [type(c) for c in selector.client_ids()] == [type(c) for c in PRESENT]
    assert (selector.num_clients, selector.num_rows, selector.round_number) == (16, 20, 6)
    assert selector.rows(["removed"]).tolist() == [16], "removed, not forgotten"
    with pytest.raises(oort.UnknownClientError):
        selector.rows(["forgotten"])
    assert selector.mode == "guided"


def test_settings_are_as_they_were() -> None:
    assert oort.load_selector(FIXTURE).config == oort.TrainingConfig(
        seed=42,
        alpha=float("inf"),
        fairness_weight=0.25,
        max_participations=4,
        sketch_width=2,
        exploration=oort.ExplorationConfig(start=0.5),
        pacer=oort.PacerConfig(window=2, preferred_s=60.0, largest_step=1.0),
    )


def test_columns_are_as_they_were() -> None:
    columns = oort.load_selector(FIXTURE).columns()
    assert columns.utility.tolist() == UTILITY
    assert np.nan_to_num(columns.duration_s, nan=-1.0).tolist() == DURATION_S
    assert columns.participations.tolist() == PARTICIPATIONS
    assert columns.last_round.tolist() == LAST_ROUND
    assert columns.num_samples.tolist() == NUM_SAMPLES
    assert columns.sketch is not None
    assert columns.sketch.sum(axis=1).tolist() == SKETCH_SUM


def test_reports_that_were_received_are_still_known_and_those_pending_are_taken() -> None:
    selector = oort.load_selector(FIXTURE)
    _, arrays = savefile.read(FIXTURE)
    assert arrays["unfolded_row"].size > 0, "saved between reports and the next round"
    received = dict(
        zip(
            arrays["received_round"],
            np.split(arrays["received_row"], np.cumsum(arrays["received_count"])[:-1]),
            strict=True,
        )
    )
    row = int(received[6][0])
    client = next(c for c in PRESENT if selector.rows([c])[0] == row)
    assert selector.update_clients([client], utility=9.0, round_number=6).repeated == 1
    waiting = next(
        c
        for c in PRESENT
        if selector.rows([c])[0] in set(arrays["selected_row"]) - set(received[6])
    )
    assert selector.update_clients([waiting], utility=9.0, round_number=6).applied == 1


def test_it_goes_on_working() -> None:
    selector = oort.load_selector(FIXTURE)
    for number in range(7, 30):
        selection = selector.select(6)
        assert selection.round_number == number
        assert len(set(selection.participants)) == 6
        assert selection.preferred_s == 60.0
        selector.update_clients(selection, utility=1.0, duration_s=1.0)
