from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oort.errors import ConfigError
from oort.simulation.config import DataConfig
from oort.simulation.data.partition import by_owner, deal, draw_sizes, label_counts
from oort.simulation.tables import table

SHARE = np.full(10, 0.1)


def counts_of(**settings: object) -> np.ndarray:
    return label_counts(DataConfig(**settings), SHARE, 500, seed=1)  # type: ignore[arg-type]


def test_clients_hold_as_many_samples_as_their_size_says() -> None:
    for partition in ("iid", "dirichlet", "shards"):
        counts = counts_of(partition=partition, sizes="openimage", mean_size=40)
        config = DataConfig(sizes="openimage", mean_size=40)
        np.testing.assert_array_equal(counts.sum(axis=1), draw_sizes(config, 500, seed=1))


def test_a_smaller_alpha_means_fewer_labels_per_client() -> None:
    def labels(**kw: object) -> float:
        return float((counts_of(**kw) > 0).sum(axis=1).mean())

    assert labels(alpha=0.05) < labels(alpha=0.5) < labels(alpha=50.0)
    assert labels(partition="iid") > 9
    held = (counts_of(partition="shards", shards=3) > 0).sum(axis=1)
    assert (held == 3).all()


def test_real_sizes_have_the_shape_of_the_dataset() -> None:
    sizes = draw_sizes(DataConfig(sizes="reddit"), 20_000, seed=1)
    quantiles = np.array(table("client_sizes")["sizes"]["reddit"])
    np.testing.assert_allclose(np.median(sizes), quantiles[50], rtol=0.05)


def test_sizes_come_from_a_file_and_keep_their_limits(tmp_path: Path) -> None:
    np.save(tmp_path / "sizes.npy", [3, 50, 900])
    config = DataConfig(sizes=str(tmp_path / "sizes.npy"), smallest_size=5, largest_size=100)
    assert set(draw_sizes(config, 300, seed=1)) == {5, 50, 100}


def test_a_counts_matrix_is_taken_as_it_is(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).integers(1, 9, (30, 10))
    np.save(tmp_path / "counts.npy", matrix)
    config = DataConfig(partition="counts", counts=str(tmp_path / "counts.npy"))
    assert label_counts(config, SHARE, None, seed=1).sum() == matrix.sum()
    assert len(label_counts(config, SHARE, 99, seed=1)) == 99


@pytest.mark.parametrize("matrix", [np.ones((5, 3)), -np.ones((5, 10)), np.ones(10)])
def test_a_counts_matrix_that_does_not_fit_is_explained(tmp_path: Path, matrix: object) -> None:
    np.save(tmp_path / "counts.npy", np.asarray(matrix))
    config = DataConfig(partition="counts", counts=str(tmp_path / "counts.npy"))
    with pytest.raises(
        ConfigError,
        match=r"data.counts must be a matrix of counts with (10 columns|whole numbers)",
    ):
        label_counts(config, SHARE, None, seed=1)


def test_a_dataset_without_ids_has_no_natural_partition() -> None:
    with pytest.raises(ConfigError, match=r"data.partition must be one of 'iid', 'dirichlet'"):
        counts_of(partition="natural")


@given(st.integers(1, 40), st.integers(1, 6), st.integers(0, 5))
def test_nobody_holds_a_sample_twice_and_samples_are_shared_only_when_they_run_out(
    clients: int, per_label: int, seed: int
) -> None:
    labels = np.repeat(np.arange(3), 6)
    counts = np.full((clients, 3), per_label)
    index, start = deal(labels, counts, seed=seed)
    used = np.bincount(index, minlength=18)
    assert used.max() - used.min() <= 1, "every sample is used as often as any other"
    for begin, end in pairwise(start):
        mine = index[begin:end]
        assert len(set(mine.tolist())) == len(mine)
        np.testing.assert_array_equal(np.bincount(labels[mine], minlength=3), per_label)


def test_the_natural_partition_keeps_whoever_has_enough() -> None:
    owner = np.array([5, 5, 5, 8, 8, 9])
    index, start = by_owner(owner, smallest_size=2)
    assert index.tolist() == [0, 1, 2, 3, 4]
    assert start.tolist() == [0, 3, 5]
    with pytest.raises(
        ConfigError, match=r"data.clients must be at most 2, the number of natural"
    ):
        by_owner(owner, smallest_size=2, num_clients=3)


@pytest.mark.parametrize("partition", ["iid", "dirichlet", "shards", "counts"])
def test_nobody_holds_a_label_of_which_there_is_no_sample(tmp_path: Path, partition: str) -> None:
    np.save(tmp_path / "m.npy", np.full((20, 4), 9))
    share = np.array([0.5, 0.0, 0.25, 0.25])
    for alpha in (1.0, 1e-4):
        config = DataConfig(
            partition=partition, alpha=alpha, shards=3, counts=str(tmp_path / "m.npy")
        )
        counts = label_counts(config, share, 300, seed=1)
        assert counts.shape == (300, 4)
        assert not counts[:, 1].any()
        assert (counts.sum(axis=1) > 0).all()


@pytest.mark.parametrize("entry", [np.nan, np.inf, 2.5, -1, 2**62, 1j, "3"])
def test_a_matrix_that_does_not_count_is_explained(tmp_path: Path, entry: object) -> None:
    np.save(tmp_path / "m.npy", np.full((20, 10), entry))
    with pytest.raises(ConfigError, match=r"data.counts must be a matrix of counts with whole"):
        counts_of(partition="counts", counts=str(tmp_path / "m.npy"))


@pytest.mark.parametrize("entry", [np.nan, 1e300, 0, 1j, "3"])
def test_sizes_that_are_none_are_explained(tmp_path: Path, entry: object) -> None:
    np.save(tmp_path / "s.npy", np.full(20, entry))
    with pytest.raises(ConfigError, match=r"data.sizes must be a file with positive numbers, up"):
        counts_of(sizes=str(tmp_path / "s.npy"))
