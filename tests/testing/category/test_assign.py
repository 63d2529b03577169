"""The exact assignment on a fixed set."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oort.testing.category.assign import assign, cut_deadline, earliest_deadline, saturate
from oort.testing.category.problem import Problem, samples_within

times = st.floats(0.0, 1e4, allow_nan=False)
speeds = st.floats(1e-6, 1e9, allow_nan=False)


def most_by_trying(deadline_s: float, fixed_s: float, speed: float, limit: int) -> int:
    done = 0
    while done < limit and fixed_s + (done + 1) / speed <= deadline_s:
        done += 1
    return done


def problem_of(
    rows: list[dict[int, int]], quota: list[int], fixed_s: list[float], speed: list[float]
) -> Problem:
    lengths = [len(r) for r in rows]
    category = np.array([c for r in rows for c in sorted(r)], np.int32)
    count = np.array([r[c] for r in rows for c in sorted(r)], np.int64)
    return Problem(
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        category=category,
        count=np.minimum(count, np.array(quota)[category]),
        fixed_s=np.array(fixed_s, np.float64),
        speed=np.array(speed, np.float64),
        limit=np.array([sum(min(k, quota[c]) for c, k in r.items()) for r in rows], np.int64),
        quota=np.array(quota, np.int64),
    )


@given(times, times, speeds, st.integers(0, 200))
def test_samples_within_a_deadline_are_counted_in_the_form_of_the_duration(
    deadline_s: float, fixed_s: float, speed: float, limit: int
) -> None:
    found = samples_within(deadline_s, np.array([fixed_s]), np.array([speed]), np.array([limit]))
    assert found[0] == most_by_trying(deadline_s, fixed_s, speed, limit)


@given(times, speeds, st.integers(1, 300))
def test_a_deadline_at_a_finishing_time_allows_exactly_that_sample(
    fixed_s: float, speed: float, k: int
) -> None:
    deadline_s = fixed_s + k / speed
    found = samples_within(deadline_s, np.array([fixed_s]), np.array([speed]), np.array([300]))[0]
    assert fixed_s + found / speed <= deadline_s
    assert found >= k
    assert found == 300 or fixed_s + (found + 1) / speed > deadline_s


def test_samples_that_vanish_in_rounding_are_still_counted() -> None:
    fixed_s, speed = np.array([1e6]), np.array([1e14])
    assert samples_within(1e6, fixed_s, speed, np.array([10**6]))[0] > 1000


@given(st.lists(st.tuples(times, speeds, st.integers(0, 40)), min_size=1, max_size=12), st.data())
def test_the_earliest_deadline_is_the_nth_finishing_time(
    clients: list[tuple[float, float, int]], data: st.DataObject
) -> None:
    every = sorted(f + k / s for f, s, most in clients for k in range(1, most + 1))
    need = data.draw(st.integers(1, max(1, len(every))))
    arrays = [np.array(column) for column in zip(*clients, strict=True)]
    found = earliest_deadline(need, arrays[0], arrays[1], arrays[2].astype(np.int64))
    assert found == (every[need - 1] if need <= len(every) else math.inf)


def test_a_deadline_among_very_many_finishing_times_is_exact() -> None:
    g = np.random.default_rng(5)
    fixed_s, speed = g.uniform(0, 30, 40), g.uniform(1, 1000, 40)
    limit = np.full(40, 50_000, np.int64)
    found = earliest_deadline(900_000, fixed_s, speed, limit)
    assert samples_within(found, fixed_s, speed, limit).sum() >= 900_000
    before = float(np.nextafter(found, 0.0))
    assert samples_within(before, fixed_s, speed, limit).sum() < 900_000


small = st.lists(
    st.dictionaries(st.integers(0, 3), st.integers(1, 6), min_size=1, max_size=4),
    min_size=1,
    max_size=5,
)


@settings(deadline=None, max_examples=150)
@given(small, st.lists(st.integers(0, 8), min_size=5, max_size=5), st.data())
def test_a_flow_saturates_exactly_where_every_set_of_categories_has_enough(
    rows: list[dict[int, int]], rooms: list[int], data: st.DataObject
) -> None:
    quota = [data.draw(st.integers(1, 8)) for _ in range(4)]
    problem = problem_of(rows, quota, [0.0] * len(rows), [1.0] * len(rows))
    room = np.minimum(np.array(rooms[: len(rows)]), problem.limit)
    samples, short = saturate(problem, room)
    enough = all(
        sum(
            min(int(room[n]), sum(min(r.get(c, 0), quota[c]) for c in chosen))
            for n, r in enumerate(rows)
        )
        >= sum(quota[c] for c in chosen)
        for size in range(1, 5)
        for chosen in itertools.combinations(range(4), size)
    )
    assert enough == (not short.any())
    per_client = np.add.reduceat(samples, problem.indptr[:-1])
    assert (samples >= 0).all()
    assert (samples <= problem.count).all()
    assert (per_client <= room).all()
    if enough:
        assert np.bincount(problem.category, samples, minlength=4).tolist() == quota
    else:
        held = [
            sum(min(r.get(c, 0), quota[c]) for c in np.flatnonzero(short).tolist()) for r in rows
        ]
        assert sum(min(int(u), h) for u, h in zip(room, held, strict=True)) < sum(
            np.array(quota)[short]
        )


@pytest.mark.parametrize("scale", [1, 10**7, 10**11])
def test_counts_beyond_32_bits_are_assigned_to_the_sample(scale: int) -> None:
    g = np.random.default_rng(2)
    rows = [
        {int(c): int(k) * scale + int(k) for c, k in enumerate(g.integers(1, 90, 3))}
        for _ in range(6)
    ]
    quota = [int(0.6 * sum(r[c] for r in rows)) for c in range(3)]
    speed = [float(s) * scale for s in g.uniform(1, 9, 6)]
    problem = problem_of(rows, quota, list(g.uniform(0, 9, 6)), speed)
    result = assign(problem)
    assert result is not None
    part = problem.take(result.rows)
    given = np.zeros(3, np.int64)
    np.add.at(given, part.category, result.samples)
    assert given.tolist() == quota
    totals = np.add.reduceat(result.samples, part.indptr[:-1])
    assert (part.fixed_s + totals / part.speed).max() == result.deadline_s
    just_before = float(np.nextafter(result.deadline_s, 0.0))
    assert cut_deadline(problem, result.cut) > just_before


def test_clients_that_lack_samples_have_no_assignment() -> None:
    assert assign(problem_of([{0: 3}], [5], [0.0], [1.0])) is None
