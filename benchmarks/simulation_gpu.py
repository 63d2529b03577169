"""Rounds per second of torch models in the simulator on one accelerator, and what bounds them.

A small convolutional network and MobileNetV2's body (2.2 million parameters, group-normalised) on
28×28 images, 100 clients a round, 10 steps of 32 samples. For each chunk size: rounds per second,
the share of a round in which the device computes (from its own clock), peak memory, and the share
of selection and bookkeeping.

    python -m benchmarks.simulation_gpu                  -> benchmarks/results/simulation_gpu.json
    python -m benchmarks.simulation_gpu --device cpu --rounds 1 --clients 4     to try it without
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results" / "simulation_gpu.json"
MODELS = {"cnn": (10, 25, 50, 100), "mobilenet": (5, 10, 25, 50)}


def images(folder: Path, count: int = 12_000) -> None:
    """Random 28×28 images for a ``folder`` dataset: what they show is no matter to speed."""
    rng = np.random.default_rng(0)
    for prefix, n in (("", count), ("test_", 100)):
        np.save(folder / f"{prefix}x.npy", rng.integers(0, 256, (n, 28, 28), np.uint8))
        np.save(folder / f"{prefix}y.npy", rng.integers(0, 10, n))


def measure(
    model: str, chunk_size: int, folder: Path, *, device: str, rounds: int, clients: int
) -> dict[str, Any]:
    """One model at one chunk size."""
    import torch

    from oort.simulation import Job, SimulationConfig, StrategyConfig, create

    config = SimulationConfig.from_dict(
        {
            "data": {
                "dataset": "folder",
                "path": str(folder),
                "partition": "iid",
                "clients": 1000,
                "mean_size": 320,
            },
            "learner": {"model": model, "device": device, "learning_rate": 0.04},
            "rounds": {"count": 10**6, "participants": clients, "overcommit": 1.0},
            "evaluation": {"every": 10**6},
            "executor": {"chunk_size": chunk_size},
        }
    )
    job = Job(create(config, seed=0), StrategyConfig(kind="oort"))
    job.play()
    on_cuda = device == "cuda"
    if on_cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    activity = torch.profiler.ProfilerActivity.CUDA if on_cuda else None
    began, spent = time.perf_counter(), dict.fromkeys(("select", "bookkeeping", "train"), 0.0)
    for _ in range(rounds):
        timings = job.play().timings_s
        spent = {what: spent[what] + timings[what] for what in spent}
    took_s = time.perf_counter() - began
    found = {
        "rounds_per_s": rounds / took_s,
        "train_share": spent["train"] / took_s,
        "selection_and_bookkeeping_share": (spent["select"] + spent["bookkeeping"]) / took_s,
    }
    if on_cuda:
        found["peak_memory_gib"] = torch.cuda.max_memory_allocated() / 2**30
        began = time.perf_counter()
        with torch.profiler.profile(activities=[activity]) as profile:
            job.play()
            torch.cuda.synchronize()
        busy_s = sum(e.self_device_time_total for e in profile.key_averages()) / 1e6
        found["device_busy_share"] = busy_s / (time.perf_counter() - began)
    return found


def main() -> None:
    """Measure both models at several chunk sizes and write the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=100)
    options = parser.parse_args()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        images(Path(name))
        for model, sizes in MODELS.items():
            for size in sizes:
                if size > options.clients:
                    continue
                found[f"{model}, chunks of {size}"] = measure(
                    model,
                    size,
                    Path(name),
                    device=options.device,
                    rounds=options.rounds,
                    clients=options.clients,
                )
                print(f"{model:10} {size:4} {found[f'{model}, chunks of {size}']}")
    if options.device == "cuda":
        RESULTS.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
