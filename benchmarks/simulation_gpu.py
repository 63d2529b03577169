"""Rounds per second of torch models in the simulator on one accelerator, and what bounds them.

A small convolutional network and MobileNetV2's body (2.2 million parameters, group-normalised) on
28×28 images, 100 clients a round, 10 steps of 32 samples each. Three parts, each written to the
results as it comes:

    device   what the machine can do: a large matrix product in each precision, a large copy
    learner  milliseconds that one client's step takes, by how a chunk of clients is trained
    rounds   the simulator with the fastest of these: rounds per second, where the time of a round
             goes (plan, train, aggregate, select, bookkeeping), how long the device is busy, with
             which kernels, and arithmetic per second beside the large product's

    python -m benchmarks.simulation_gpu                  -> benchmarks/results/simulation_gpu.json
    python -m benchmarks.simulation_gpu --device cpu --clients 4 --seconds 2     to try it without

    python -m benchmarks.simulation_gpu --show           the results as the documentation's table

``--seconds`` bounds every case; cases that would take longer are left out and named.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import oort
from benchmarks.machine import describe

RESULTS = Path(__file__).parent / "results"
STEPS, BATCH, SHAPE = 10, 32, (28, 28)
MODELS = {"cnn": (10, 25, 50, 100), "mobilenet": (5, 10, 25, 50)}

#: what the kernels of a profile do, by words in their names; the first that matches counts
KINDS = {
    "copies to and from the device": ("memcpy", "memset"),
    "depthwise convolutions": ("depthwise",),
    "patches of images": ("im2col", "col2im"),
    "matrix products": ("gemm", "gemv", "cutlass", "cublas", "xmma", "splitk", "::mm"),
    "convolutions": ("conv", "cudnn", "wgrad", "dgrad", "fprop", "implicit"),
    "normalisation": ("computeinternalgradients", "norm", "moments", "welford"),
    "gathering samples": ("index", "gather", "scatter"),
    "pooling": ("pool",),
    "sums": ("reduce", "softmax", "nll"),
    "element by element": ("elementwise", "vectorized", "unrolled", "copy", "cat"),
}


@dataclass(frozen=True)
class Way:
    """How a chunk of clients is trained."""

    chunk_size: int
    convolutions: str = "grouped"
    precision: str = "float32"
    cohort: str = "at-once"
    searched: bool = False  #: cuDNN tries its algorithms for every new shape

    def __str__(self) -> str:
        words = f"{self.chunk_size} {self.cohort}, {self.convolutions}, {self.precision}"
        return f"{words}, searched" if self.searched else words


class Report:
    """The results so far, on disk after every addition and on the screen as they come."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._began = time.perf_counter()
        self._content: dict[str, Any] = {"machine": describe()}

    def say(self, text: str) -> None:
        """Show where it is."""
        print(f"{time.perf_counter() - self._began:6.1f} s  {text}", flush=True)

    def add(self, part: str, name: str, found: Any) -> None:
        """Keep a result."""
        self._content.setdefault(part, {})[name] = found
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(self._content, indent=1) + "\n")
        self.say(f"{part}: {name}: {json.dumps(found)}")


def timed(work: Callable[[], Any], *, device: str, seconds: float) -> float:
    """Seconds that one call takes, over as many as fit."""
    _wait(device)
    began, count = time.perf_counter(), 0
    while count < 1 or time.perf_counter() - began < seconds:
        work()
        count += 1
        _wait(device)
    return (time.perf_counter() - began) / count


def device_speed(report: Report, *, device: str, seconds: float) -> dict[str, float]:
    """What the machine can do at best: arithmetic by precision, and moving memory."""
    import torch

    size = 8192 if device == "cuda" else 1024
    found: dict[str, float] = {}
    for precision, dtype in (
        ("float32", torch.float32),
        ("tf32", torch.float32),
        ("bfloat16", torch.bfloat16),
    ):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
        a = torch.randn(size, size, device=device, dtype=dtype)
        _ = a @ a
        took_s = timed(partial(torch.matmul, a, a), device=device, seconds=min(seconds, 2.0))
        torch.set_float32_matmul_precision(before)
        found[f"product_{precision}_tflops"] = round(2 * size**3 / took_s / 1e12, 2)
    a = torch.zeros(2**30 if device == "cuda" else 2**26, dtype=torch.uint8, device=device)
    b = torch.empty_like(a)
    took_s = timed(lambda: b.copy_(a), device=device, seconds=min(seconds, 1.0))
    found["copy_gb_per_s"] = round(2 * a.numel() / took_s / 1e9, 1)
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    report.add("device", name, found | {"torch": torch.__version__})
    return found


def next_turn(turn: int, best: Way, sizes: tuple[int, ...]) -> list[Way]:
    """What to try next, given the best so far: kinds of passes, chunk sizes, precisions."""
    if turn == 0:
        in_turn = replace(best, cohort="in-turn", chunk_size=sizes[0])
        searched = replace(best, searched=True)
        return [in_turn, best, searched, replace(best, convolutions="products")]
    if turn == 1:
        return [replace(best, chunk_size=s) for s in sizes if s != best.chunk_size]
    other = "products" if best.convolutions == "grouped" else "grouped"
    lower = [replace(best, precision=p) for p in ("tf32", "bfloat16")]
    return [*lower, *(replace(way, convolutions=other) for way in lower)]


def per_client_step(model: str, way: Way, *, device: str, seconds: float) -> dict[str, Any]:
    """Milliseconds that a step of one client takes in a chunk trained in this way."""
    import torch

    from oort.simulation.data.base import Encoding
    from oort.simulation.learners import models
    from oort.simulation.learners.base import Chunk
    from oort.simulation.learners.modules import ModuleLearner

    torch.backends.cudnn.benchmark = way.searched
    learner = ModuleLearner(
        lambda: getattr(models, model.capitalize())(SHAPE, 10),
        encoding=Encoding(scale=1 / 255),
        learning_rate=0.04,
        device=device,
        convolutions=way.convolutions,
        precision=way.precision,
        cohort=way.cohort,
    )
    rng = np.random.default_rng(0)
    pool = rng.integers(0, 256, (1000, *SHAPE), np.uint8)
    params = learner.initial(0)

    def chunk(steps: int) -> Chunk:
        rows = rng.integers(0, len(pool), (way.chunk_size, steps, BATCH))
        return Chunk(rows, rows % 10, np.ones(way.chunk_size))

    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    first_s = timed(lambda: learner.train(params, pool, chunk(1)), device=device, seconds=0)
    found: dict[str, Any] = {"first_s": round(first_s, 2)}
    if first_s < 4 * seconds:  # it holds also what is set up once
        one_s = timed(lambda: learner.train(params, pool, chunk(1)), device=device, seconds=0)
        if one_s < seconds:
            steps = max(1, min(STEPS, int(seconds / one_s / 2)))
            work = chunk(steps)
            one_s = (
                timed(
                    lambda: learner.train(params, pool, work), device=device, seconds=seconds / 2
                )
                / steps
            )
        found["ms_per_client_step"] = round(1000 * one_s / way.chunk_size, 4)
    if device == "cuda":
        found["peak_memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    return found


def tried(
    report: Report, model: str, *, device: str, clients: int, seconds: float
) -> dict[Way, float]:
    """The fastest ways to train a model, in 32 bits and in any precision: seconds a round."""
    sizes = tuple(sorted({min(size, clients) for size in MODELS[model]}))
    took: dict[Way, float] = {}
    best = Way(sizes[len(sizes) // 2])
    for turn in range(3):
        for way in next_turn(turn, best, sizes):
            try:
                found = per_client_step(model, way, device=device, seconds=seconds)
            except (RuntimeError, oort.OortError) as error:
                found = {"error": str(error).splitlines()[0]}
            _forget(device)
            report.add("learner", f"{model}: {way}", found)
            if "ms_per_client_step" in found:
                took[way] = found["ms_per_client_step"]
        at_once = {way: ms for way, ms in took.items() if way.cohort == "at-once"} or {best: 0.0}
        best = min(at_once, key=at_once.__getitem__)
    plain = {way: ms for way, ms in took.items() if way.precision == "float32"}
    fastest = [min(some, key=some.__getitem__) for some in (plain, took) if some]
    return {way: took[way] / 1000 * STEPS * clients for way in fastest}


def gflop_per_client_step(model: str) -> float:
    """Arithmetic of one client's step, forward and backward, as torch counts it."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from oort.simulation.learners import models

    module = getattr(models, model.capitalize())(SHAPE, 10)
    with FlopCounterMode(display=False) as counter:
        module(torch.zeros(BATCH, 1, *SHAPE)).sum().backward()
    return float(counter.get_total_flops()) / 1e9


def images(folder: Path, count: int = 12_000) -> None:
    """Random 28×28 images for a ``folder`` dataset: what they show is no matter to speed."""
    rng = np.random.default_rng(0)
    for prefix, n in (("", count), ("test_", 100)):
        np.save(folder / f"{prefix}x.npy", rng.integers(0, 256, (n, *SHAPE), np.uint8))
        np.save(folder / f"{prefix}y.npy", rng.integers(0, 10, n))


def played(
    model: str, way: Way, folder: Path, *, device: str, clients: int, seconds: float
) -> dict[str, Any]:
    """Rounds of the simulator."""
    import torch

    from oort.simulation import Job, SimulationConfig, StrategyConfig, create

    torch.backends.cudnn.benchmark = way.searched
    config = SimulationConfig.from_dict(
        {
            "data": {
                "dataset": "folder",
                "path": str(folder),
                "partition": "iid",
                "clients": 1000,
                "mean_size": STEPS * BATCH,
            },
            "learner": {
                "model": model,
                "device": device,
                "learning_rate": 0.04,
                "steps": STEPS,
                "batch_size": BATCH,
                "convolutions": way.convolutions,
                "precision": way.precision,
                "cohort": way.cohort,
            },
            "rounds": {"count": 10**6, "participants": clients, "overcommit": 1.0},
            "evaluation": {"every": 10**6},
            "executor": {"chunk_size": way.chunk_size},
        }
    )
    job = Job(create(config, seed=0), StrategyConfig(kind="oort"))
    job.play()
    _wait(device)
    spent: dict[str, float] = {}
    began, rounds = time.perf_counter(), 0
    while rounds < 1 or time.perf_counter() - began < seconds:
        for what, lap_s in job.play().timings_s.items():
            spent[what] = spent.get(what, 0.0) + lap_s
        rounds += 1
    took_s = time.perf_counter() - began
    gflop = gflop_per_client_step(model) * STEPS * clients
    found = {
        "way": asdict(way),
        "rounds": rounds,
        "rounds_per_s": round(rounds / took_s, 4),
        "shares": {what: round(lap_s / took_s, 5) for what, lap_s in spent.items()},
        "selection_and_bookkeeping_share": round(
            (spent["select"] + spent["bookkeeping"]) / took_s, 5
        ),
        "tflops": round(gflop / 1000 * rounds / took_s, 3),
    }
    if device == "cuda":
        found["device"] = profiled(job)
    job.close()
    return found


def profiled(job: Any) -> dict[str, Any]:
    """How long the device works in one round, and on what."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as kernels:
        began = time.perf_counter()
        job.play()
        torch.cuda.synchronize()
        took_s = time.perf_counter() - began
    entries = [(e.key, e.self_device_time_total / 1e6, e.count) for e in kernels.key_averages()]
    busy_s = sum(s for _, s, _ in entries)
    by_kind: dict[str, float] = {}
    for name, s, _ in entries:
        by_kind[kind_of(name)] = by_kind.get(kind_of(name), 0.0) + s
    longest = sorted(entries, key=lambda e: -e[1])[:8]
    return {
        "busy_share_while_profiled": round(busy_s / took_s, 4),
        "busy_s": round(busy_s, 4),
        "kernels": sum(count for _, _, count in entries),
        "share_of_busy_time": {
            k: round(s / busy_s, 4) for k, s in sorted(by_kind.items(), key=lambda e: -e[1])
        },
        "longest": [{"kernel": n[:120], "s": round(s, 4), "calls": c} for n, s, c in longest],
    }


def shown(content: dict[str, Any]) -> str:
    """The results of whole rounds as a table in Markdown."""
    lines = [
        "| model | clients at once, convolutions, precision | rounds per second | device busy | "
        "TFLOP/s | of a large product's | most of the device's time |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in content["rounds"].items():
        model, way = name.split(": ", 1)
        if "rounds_per_s" not in found:
            continue
        device = found["device"]
        busy = device["busy_s"] * found["rounds_per_s"]
        most = ", ".join(f"{k} {v:.0%}" for k, v in [*device["share_of_busy_time"].items()][:3])
        lines.append(
            f"| {model} | {way} | {found['rounds_per_s']:.3g} | {min(busy, 1.0):.0%} | "
            f"{found['tflops']:.3g} | {found['share_of_a_large_product']:.0%} | {most} |"
        )
    return "\n".join(lines)


def kind_of(kernel: str) -> str:
    """What a kernel does, by its name."""
    lower = kernel.lower()
    return next((k for k, words in KINDS.items() if any(w in lower for w in words)), "other")


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def _forget(device: str) -> None:
    import gc

    import torch

    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def main() -> None:
    """Measure, and write the results as they come."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=6.0, help="bound of every case")
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--into", type=Path, help="where to write the results")
    parser.add_argument("--show", action="store_true", help="only show the results there are")
    options = parser.parse_args()
    if options.show:
        results = options.into or RESULTS / "simulation_gpu.json"
        print(shown(json.loads(results.read_text())))
        return
    usual = RESULTS / "simulation_gpu.json" if options.device == "cuda" else Path("gpu-cpu.json")
    report = Report(options.into or usual)
    report.say("importing torch")
    limits = {"device": options.device, "seconds": options.seconds}
    best = device_speed(report, **limits)
    with tempfile.TemporaryDirectory() as name:
        images(Path(name))
        for model in options.models:
            fastest = tried(report, model, clients=options.clients, **limits)
            for way, round_s in fastest.items():
                if round_s > 10 * options.seconds:
                    report.add("rounds", f"{model}: {way}", {"left_out_as_s": round(round_s, 1)})
                    continue
                report.say(f"{model}: {way}: rounds of about {round_s:.2f} s")
                found = played(model, way, Path(name), clients=options.clients, **limits)
                limit = best[f"product_{way.precision}_tflops"]
                found["share_of_a_large_product"] = round(found["tflops"] / limit, 4)
                report.add("rounds", f"{model}: {way}", found)
                _forget(options.device)
    report.say("done")


if __name__ == "__main__":
    main()
