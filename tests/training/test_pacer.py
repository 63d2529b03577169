"""Row "pacer" of the table in docs/design.md, the arithmetic of it."""

from __future__ import annotations

import pytest

from oort.training.pacer import is_due, quantile_step, utility_fell


@pytest.mark.parametrize(
    ("window", "wanted", "num_clients", "step"),
    [(20, 100, 14_477, 2000 / 14_477), (20, 1, 10_000, 0.05), (20, 100, 50, 0.2), (1, 1, 0, 0.2)],
)
def test_a_step_covers_the_next_w_k_clients_within_bounds(
    window: int, wanted: int, num_clients: int, step: float
) -> None:
    job = {"window": window, "wanted": wanted, "num_clients": num_clients}
    assert quantile_step(**job, smallest=0.05, largest=0.2) == pytest.approx(step)
    unlimited = min(1.0, max(0.05, window * wanted / max(num_clients, 1)))
    assert quantile_step(**job, smallest=0.05, largest=1.0) == pytest.approx(unlimited)


def test_a_least_step_above_the_largest_wins() -> None:
    given = quantile_step(window=20, wanted=1, num_clients=10, smallest=0.6, largest=0.2)
    assert given == 0.6


def test_the_pacer_looks_back_every_window_from_the_second_on() -> None:
    assert [r for r in range(1, 100) if is_due(r, 20)] == [40, 60, 80]
    assert [r for r in range(1, 6) if is_due(r, 1)] == [2, 3, 4, 5]


def test_the_mean_is_per_report_and_not_per_round() -> None:
    many_cheap, one_dear = {0: (100.0, 10), 1: (100.0, 10)}, {2: (11.0, 1)}
    assert not utility_fell({**many_cheap, **one_dear}, round_number=4, window=2)
    assert utility_fell({**many_cheap, 2: (9.9, 1)}, round_number=4, window=2)


def test_only_the_last_two_windows_count() -> None:
    history = dict.fromkeys(range(6), (1000.0, 1)) | {6: (5.0, 1), 7: (5.0, 1)}
    history |= {8: (6.0, 1), 9: (6.0, 1), 10: (0.0, 1)}
    assert not utility_fell(history, round_number=10, window=2)
    assert utility_fell(history, round_number=8, window=2)


@pytest.mark.parametrize("missing", [range(2), range(2, 4), range(4)])
def test_a_window_without_reports_says_nothing(missing: range) -> None:
    history = {r: (10.0 - r, 1) for r in range(4) if r not in missing}
    assert not utility_fell(history, round_number=4, window=2)
