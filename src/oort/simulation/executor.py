"""Where chunks of a cohort are trained.

    InProcess    here, on as many threads as there are cores where the learner allows it
    OnRay        on Ray's workers (extra ``ray``), several chunks at a time

Chunks, their order and the order in which results are added up are the same for both, so on one
kind of CPU the results are the same too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, Protocol

import numpy.typing as npt

from oort.errors import missing_extra
from oort.simulation.config import ExecutorConfig
from oort.simulation.learners.base import Chunk, ChunkResult, Learner, Params


class Executor(Protocol):
    """Trains chunks."""

    def train(
        self, params: Params, pool: npt.NDArray[Any], chunks: Sequence[Chunk]
    ) -> list[ChunkResult]:
        """The results of the chunks, in their order."""

    def close(self) -> None:
        """Give back what it holds."""


class InProcess:
    """Trains chunks here: on threads for NumPy models, one after the other for torch's.

    The calling thread is one of them: it would only have to be woken up when they are through.
    """

    def __init__(self, learner: Learner, *, workers: int | None = None) -> None:
        self._learner = learner
        count = (workers or os.cpu_count() or 1) if learner.takes_threads else 1
        self._others = count - 1
        self._threads = ThreadPoolExecutor(self._others) if self._others else None

    def train(
        self, params: Params, pool: npt.NDArray[Any], chunks: Sequence[Chunk]
    ) -> list[ChunkResult]:
        """The results of the chunks, in their order."""
        results: dict[int, ChunkResult] = {}
        todo = iter(enumerate(chunks))

        def work() -> None:
            for place, chunk in todo:
                results[place] = self._learner.train(params, pool, chunk)

        if self._threads is None:
            work()
        else:
            count = min(self._others, len(chunks) - 1)
            helping = [self._threads.submit(work) for _ in range(count)]
            try:
                work()
            finally:
                wait(helping)
            for helper in helping:
                helper.result()
        return [results[place] for place in range(len(chunks))]

    def close(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.shutdown()


class OnRay:
    """Trains chunks on Ray's workers; the pool of samples is shared with them once."""

    def __init__(self, learner: Learner, *, workers: int | None = None) -> None:
        try:
            import ray
        except ImportError:
            missing_extra("executor.kind 'ray'", "ray", "ray")
        self._ray = ray
        self._started = not ray.is_initialized()
        if self._started:
            ray.init(
                num_cpus=workers or os.cpu_count(), include_dashboard=False, log_to_driver=False
            )
        self._learner = ray.put(learner)
        self._train = ray.remote(_train)
        self._pool: npt.NDArray[Any] | None = None
        self._pool_at: Any = None

    def train(
        self, params: Params, pool: npt.NDArray[Any], chunks: Sequence[Chunk]
    ) -> list[ChunkResult]:
        """The results of the chunks, in their order."""
        if pool is not self._pool:
            self._pool, self._pool_at = pool, self._ray.put(pool)
        model = self._ray.put(params)
        waiting = [
            self._train.remote(self._learner, model, self._pool_at, chunk) for chunk in chunks
        ]
        results: list[ChunkResult] = self._ray.get(waiting)
        return results

    def close(self) -> None:
        """Stop Ray if it was started here."""
        if self._started:
            self._ray.shutdown()


def create(config: ExecutorConfig, learner: Learner) -> Executor:
    """The executor that the settings describe."""
    if config.kind == "ray":
        return OnRay(learner, workers=config.workers)
    return InProcess(learner, workers=config.workers)


def _train(learner: Learner, params: Params, pool: npt.NDArray[Any], chunk: Chunk) -> ChunkResult:
    return learner.train(params, pool, chunk)
