"""A test plan: who tests how many samples of what, how long it takes, and how good that is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from oort.errors import missing_extra
from oort.testing.category.certify import Certificate
from oort.testing.category.information import Category
from oort.testing.category.problem import Int64s
from oort.types import ClientId, Floats, Integers


@dataclass(frozen=True, kw_only=True)
class TestPlan:
    """The answer to a category request; iterates over its participants.

    The assignment is sparse: participant n does ``samples[indptr[n]:indptr[n+1]]`` of the
    categories at ``category[indptr[n]:indptr[n+1]]``, which are places in ``categories``.
    """

    participants: list[ClientId] = field(repr=False)
    categories: list[Category] = field(repr=False)  #: the categories asked for
    request: dict[Category, int] = field(repr=False)  #: samples wanted of each
    duration_s: float  #: until the last participant is done
    lower_bound_s: float  #: no plan within the budget is faster
    budget: int | None  #: the most participants allowed
    solver_s: float  #: what finding the plan took
    method: str
    certificate: Certificate | None = field(repr=False)  #: what proves the lower bound
    client_duration_s: Floats = field(repr=False)  #: one per participant
    client_transfer_s: Floats = field(repr=False)  #: the part of it that is transfer
    indptr: Int64s = field(repr=False)
    category: Integers = field(repr=False)
    samples: Int64s = field(repr=False)

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self.participants)

    def __len__(self) -> int:
        return len(self.participants)

    @property
    def gap(self) -> float:
        """By how much the plan may be slower than the best; 0.01 is 1 % of the lower bound."""
        return self.duration_s / self.lower_bound_s - 1.0 if self.lower_bound_s > 0.0 else math.inf

    @property
    def optimal(self) -> bool:
        """Whether no plan within the budget is faster."""
        return self.duration_s <= self.lower_bound_s

    @property
    def num_participants(self) -> int:
        """How many participants the request takes."""
        return len(self.participants)

    @property
    def budget_used(self) -> int:
        """How many take part."""
        return len(self.participants)

    @property
    def bottleneck(self) -> ClientId:
        """The participant that everyone waits for."""
        return self.participants[int(np.argmax(self.client_duration_s))]

    @cached_property
    def assignment(self) -> dict[ClientId, dict[Category, int]]:
        """Samples by participant and category."""
        category, samples = self.category.tolist(), self.samples.tolist()
        begins = self.indptr.tolist()
        return {
            client: {
                self.categories[category[e]]: samples[e] for e in range(begins[n], begins[n + 1])
            }
            for n, client in enumerate(self.participants)
        }

    @property
    def matrix(self) -> Any:
        """The assignment as a SciPy CSR matrix: a row per participant, a column per category."""
        from scipy.sparse import csr_matrix

        shape = (len(self.participants), len(self.categories))
        return csr_matrix((self.samples, self.category, self.indptr), shape=shape)

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row per participant and category.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        from importlib import import_module

        try:
            pandas = import_module("pandas")
        except ImportError:
            missing_extra("TestPlan.to_frame", "pandas", "tables")
        return pandas.DataFrame(dict(zip(COLUMNS, zip(*self.records(), strict=True), strict=True)))

    def records(self) -> Iterator[tuple[ClientId, Category | None, int, float]]:
        """Client, category, samples and the client's duration, one after the other.

        A required client that has nothing to do stands once, with no category and no samples.
        """
        begins, names = self.indptr.tolist(), self.categories
        category, samples, seconds = (
            self.category.tolist(),
            self.samples.tolist(),
            self.client_duration_s.tolist(),
        )
        for n, client in enumerate(self.participants):
            if begins[n] == begins[n + 1]:
                yield client, None, 0, seconds[n]
            for e in range(begins[n], begins[n + 1]):
                yield client, names[category[e]], samples[e], seconds[n]

    def to_json(self, *, indent: int | None = None) -> str:
        """Everything as JSON; ids and categories are values, never keys: 1 and "1" stay apart."""
        certificate = self.certificate
        proof = certificate and {
            "kind": certificate.kind,
            "deadline_s": certificate.deadline_s,
            "prices": certificate.prices.tolist(),
        }
        clients = [
            {
                "client": client,
                "duration_s": seconds,
                "samples": list(self.assignment[client].items()),
            }
            for client, seconds in zip(
                self.participants, self.client_duration_s.tolist(), strict=True
            )
        ]
        content = {
            "method": self.method,
            "duration_s": self.duration_s,
            "lower_bound_s": self.lower_bound_s,
            "gap": self.gap if math.isfinite(self.gap) else None,
            "bottleneck": self.bottleneck,
            "budget": self.budget,
            "budget_used": self.budget_used,
            "solver_s": self.solver_s,
            "request": list(self.request.items()),
            "certificate": proof,
            "participants": clients,
        }
        return json.dumps(content, indent=indent)

    def explain(self) -> str:
        """The plan in plain words: what it does, what it waits for, how good it is and why."""
        wanted = _enumerated([f"{number:,} of {name}" for name, number in self.request.items()])
        total = sum(self.request.values())
        place = int(np.argmax(self.client_duration_s))
        moving, working = (
            self.client_transfer_s[place],
            self.client_duration_s[place] - self.client_transfer_s[place],
        )
        count = int(self.indptr[place + 1] > self.indptr[place]) and int(
            self.samples[self.indptr[place] : self.indptr[place + 1]].sum()
        )
        allowed = "" if self.budget is None else f" of the {self.budget:,} allowed"
        tests = "participant{} tests" if len(self) == 1 else "participants{} test"
        lines = [
            f"{len(self):,} {tests.format(allowed)} {_counted(total, 'sample')} ({wanted}) in "
            f"{self.duration_s:.4g} seconds.",
            f"Everyone waits for {self.bottleneck}: {moving:.4g} seconds of transfer and "
            f"{working:.4g} seconds for "
            f"{_counted(count, 'sample')}.",
            self._quality(),
            f"Finding the plan took {self.solver_s:.3g} seconds (method {self.method}).",
        ]
        return "\n".join(lines)

    def _quality(self) -> str:
        """The sentence on the lower bound."""
        why = "" if self.certificate is None else self._reason(self.certificate)
        if self.optimal:
            return f"No plan is faster{why}."
        if self.lower_bound_s <= 0.0:
            return "Nothing is proven about how much faster another plan could be."
        return (
            f"No plan takes less than {self.lower_bound_s:.4g} seconds{why}, so this one is at "
            f"most {self.gap:.2%} "
            "slower than the best."
        )

    def _reason(self, certificate: Certificate) -> str:
        """What the certificate says, in words."""
        if certificate.kind == "required":
            return ": a required client needs as long for its transfer alone"
        if certificate.kind == "cut":
            names = [
                n for n, price in zip(self.categories, certificate.prices, strict=True) if price
            ]
            what = (
                "the whole request"
                if len(names) == len(self.categories)
                else _enumerated([str(n) for n in names])
            )
            return f": all clients together cannot provide {what} sooner"
        if certificate.kind == "prices" and self.budget is not None:
            best = "best client" if self.budget == 1 else f"{self.budget:,} best clients"
            return f": priced by scarcity, the {best} cannot provide the request sooner"
        return " (proven by search)"


COLUMNS = ("client", "category", "samples", "client_duration_s")


def _counted(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _enumerated(parts: list[str], most: int = 5) -> str:
    """Parts as a list in words, not too many."""
    if len(parts) > most:
        parts = [*parts[: most - 1], f"{len(parts) - most + 1:,} more"]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
