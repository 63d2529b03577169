"""Histories of a testing job: step i of seed s does the same to every testing selector.

The counterpart of ``histories``. A twin in memory (:class:`Twin`) also remembers the plans that it
gave out, as a store has to.
"""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np

import oort
from oort.clients.id_columns import id_list
from oort.errors import OortError, StoreError
from oort.store import records
from oort.store.database import Database
from oort.store.schema import Job
from oort.testing.selector import LocalTestingSelector

SEED = 3
_CATEGORIES = ["cat", "dog", "cow", "hen", 5]
_NUMBERS = ("samples_per_s", "bandwidth_mbps", "transfer_mb", "max_samples")


class Twin(LocalTestingSelector):
    """A testing selector in memory that remembers who is in its plans."""

    def __init__(self) -> None:
        super().__init__(seed=SEED)
        self.plans: list[list[Any]] = []

    def select_by_deviation(self, *given: Any, **options: Any) -> Any:
        """Remember whom it names."""
        plan = super().select_by_deviation(*given, **options)
        self.plans.append(list(plan.participants))
        return plan

    def select_adaptively(self, *given: Any, **options: Any) -> Any:
        """Remember that it was begun; it names nobody yet."""
        plan = super().select_adaptively(*given, **options)
        self.plans.append([])
        return plan

    def select_by_category(self, *given: Any, **options: Any) -> Any:
        """Remember whom it names."""
        plan = super().select_by_category(*given, **options)
        self.plans.append([p["client"] for p in json.loads(plan.to_json())["participants"]])
        return plan

    def forget(self, client_ids: Any) -> int:
        """Plans forget them too."""
        gone = set(id_list(client_ids))
        self.plans = [[c for c in plan if c not in gone] for plan in self.plans]
        return super().forget(client_ids)


def stored_plans(database: Database, job: Job) -> list[list[Any]]:
    """Who is in each stored plan."""
    contents = [
        json.loads(records.get(database, job, kind, name) or b"")
        for kind, name in records.names(database, job, "plan")
    ]
    return [
        [p["client"] if isinstance(p, dict) else p for p in content.get("participants", ())]
        for content in contents
    ]


def state_of(selector: Any) -> Any:
    """Everything that a testing selector knows, as plain values."""
    known = selector.information
    everyone = list(selector._roster)
    rows = np.asarray(known.rows([c for c in everyone if known.knows(c)]))
    return (
        [(client, selector._roster.is_online(client)) for client in everyone],
        known.categories,
        {c: known.samples_of(c) for c in everyone if known.knows(c)},
        {name: known.numbers(name)[rows].astype(str).tolist() for name in _NUMBERS},
        known.available().tolist(),
        selector._num_draws,
    )


def next_answer(selector: Any) -> Any:
    """What the next calls would answer; leaves the selector as it was."""
    draws = selector._num_draws
    ask = LocalTestingSelector
    answers: list[Any] = [
        _quietly(
            lambda: (
                ask.select_by_deviation(
                    selector, dev_target=20, range_of_capacity=100
                ).participants
            )
        ),
        _quietly(lambda: ask.select_adaptively(selector, 0.1, 50, batch_size=4).next_batch()),
        _quietly(lambda: _timeless(ask.select_by_category(selector, {"cat": 20, "dog": 5}))),
    ]
    selector._num_draws = draws
    return answers


def _timeless(plan: Any) -> dict[str, Any]:
    """A plan without the time that it took to find."""
    return {**json.loads(plan.to_json()), "solver_s": None}


def play(selector: Any, seed: int, step: int) -> Any:
    """One call; gives its answer, or the name of the error by which it was refused.

    Raises:
        StoreError: The store failed, which is no answer.
    """
    generator = np.random.default_rng([seed, step])
    ids: list[Any] = [
        n if n % 2 else f"cam-{n}" for n in sorted(set(generator.integers(0, 40, 6).tolist()))
    ]
    choice = int(generator.integers(0, 10)) if step else 0
    return _quietly(lambda: _call(selector, generator, ids, choice))


def _quietly(call: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except StoreError:
            raise
        except OortError as error:
            return type(error).__name__


def _call(selector: Any, generator: np.random.Generator, ids: list[Any], choice: int) -> Any:
    match choice:
        case 0 | 1:
            counts = generator.integers(0, 4, (len(ids), 3)) * 50
            names = [_CATEGORIES[i] for i in generator.permutation(5)[:3]]
            return selector.update_clients_info(
                ids, counts, categories=names, samples_per_s=generator.uniform(1, 30)
            )
        case 2:
            samples = {"cat": int(generator.integers(0, 90)), "dog": 7}
            info = {"samples": samples, "bandwidth_mbps": 8.0}
            return selector.update_client_info(ids[0], info)
        case 3:
            return selector.update_client_info(ids[0], oort.ClientInfo(transfer_mb=3.0))
        case 4:
            return selector.register_clients(ids)
        case 5:
            return selector.forget(ids[:2])
        case 6:
            mark = selector.mark_online if generator.random() < 0.6 else selector.mark_offline
            return mark(None if generator.random() < 0.3 else ids[:3])
        case 7:
            plan = selector.select_by_deviation(dev_target=20, range_of_capacity=100)
            return plan.participants
        case 8:
            return selector.select_adaptively(0.1, 50, batch_size=5).next_batch()
        case _:
            return selector.select_by_category({"cat": 20, "dog": 5}).duration_s
