from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from oort.simulation.data.base import Cohort
from oort.simulation.learners.plan import chunk_for, passes


@given(st.integers(1, 20), st.integers(1, 60))
def test_every_pass_takes_every_sample_once(size: int, samples: int) -> None:
    taken = passes(size, samples, np.random.default_rng(1))
    assert len(taken) == samples
    for begin in range(0, samples - size + 1, size):
        assert sorted(taken[begin : begin + size]) == list(range(size))


def cohort() -> Cohort:
    return Cohort(
        pool=np.arange(10).reshape(10, 1),
        index=np.array([0, 1, 2, 7, 8, 9]),
        labels=np.array([0, 1, 2, 3, 4, 5]),
        start=np.array([0, 2, 6]),
    )


def test_clients_take_their_own_samples_with_their_own_labels() -> None:
    chunk, members = chunk_for(
        cohort(),
        np.array([40, 50]),
        np.array([0, 1]),
        np.array([2, 5]),
        batch_size=2,
        weights=np.array([2.0, 4.0]),
        seed=1,
        round_number=3,
    )
    assert members.tolist() == [1, 0], "the one with more steps comes first"
    assert chunk.weights.tolist() == [4.0, 2.0]
    assert chunk.num_steps.tolist() == [3, 1]
    assert set(chunk.rows[0].ravel()) == {-1, 2, 7, 8, 9}
    assert set(chunk.rows[1, 0]) == {0, 1}
    label_of = dict(zip([0, 1, 2, 7, 8, 9], range(6), strict=True)) | {-1: -1}
    assert [label_of[r] for r in chunk.rows.ravel().tolist()] == chunk.labels.ravel().tolist()


def test_what_a_client_takes_does_not_depend_on_who_else_takes_part() -> None:
    settings = {"batch_size": 2, "weights": np.ones(2), "seed": 1, "round_number": 3}
    clients, samples = np.array([40, 50]), np.array([4, 4])
    both, _ = chunk_for(cohort(), clients, np.array([0, 1]), samples, **settings)  # type: ignore[arg-type]
    alone, _ = chunk_for(cohort(), clients, np.array([1]), samples, **settings)  # type: ignore[arg-type]
    np.testing.assert_array_equal(both.rows[1], alone.rows[0])
