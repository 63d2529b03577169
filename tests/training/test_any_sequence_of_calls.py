"""Any sequence of calls: hypothesis plays register, remove, forget, mark, select, top up, preview,
report, kill switch, save and load against a model in plain Python.

What must hold whatever was called before: picks are distinct, eligible, min(k, eligible) many and
nobody's twice in a round; participations, rounds and numbers of clients are as counted; a loaded
selector draws what the saved one would have; nothing is raised that is not documented.
"""

from __future__ import annotations

import tempfile
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import oort
from oort.training.selector import GuidedSelector
from tests.support import as_if_large

__all__ = ["as_if_large"]

IDS: list[oort.ClientId] = [0, 1, "1", "ü", 2**64 - 1, -1, "a", "b", "c", "d", "e", "客"]
WINDOW = 2
MEMORY = 2 * WINDOW

ids = st.lists(st.sampled_from(IDS), max_size=5)
utilities = st.sampled_from([0.0, 1.0, 5.0, 1e9, -2.0, 1e-44]) | st.floats(0, 100)
wrong_utilities = st.sampled_from([float("nan"), float("inf"), None, "x", [1.0]])
durations = st.none() | st.sampled_from([0.0, 1.0, 1e30]) | st.floats(0, 100)


class Calls(RuleBasedStateMachine):
    """A selector, and what a bookkeeper with a pencil would know of it."""

    selector: GuidedSelector

    @initialize(
        seed=st.integers(0, 1000),
        limit=st.none() | st.integers(1, 3),
        fairness=st.sampled_from([0.0, 0.5, 1.0]),
        exploration=st.sampled_from([0.0, 0.5, 1.0]),
        strict=st.booleans(),
    )
    def start(
        self, seed: int, limit: int | None, fairness: float, exploration: float, strict: bool
    ) -> None:
        self.strict = strict
        self.selector = oort.create_training_selector(
            {
                "seed": seed,
                "max_participations": limit,
                "fairness_weight": fairness,
                "strict_rounds": strict,
                "exploration": {"start": exploration, "minimum": exploration},
                "pacer": {"window": WINDOW},
            }
        )
        self.present: set[oort.ClientId] = set()
        self.known: list[oort.ClientId] = []
        self.rows = 0
        self.offline: set[oort.ClientId] = set()
        self.counts: dict[oort.ClientId, int] = defaultdict(int)
        self.newest: dict[oort.ClientId, int] = defaultdict(int)
        self.cohorts: dict[int, set[oort.ClientId]] = defaultdict(set)
        self.received: set[tuple[oort.ClientId, int]] = set()
        self.round_number = 0

    def join(self, clients: list[oort.ClientId]) -> None:
        for client in dict.fromkeys(clients):
            if client not in self.known:
                self.known.append(client)
                self.rows += 1
                self.present.add(client)

    @property
    def eligible(self) -> set[oort.ClientId]:
        return self.present - self.offline

    @rule(clients=ids, duration_s=durations)
    def register(self, clients: list[oort.ClientId], duration_s: float | None) -> None:
        self.selector.register_clients(clients, expected_duration_s=duration_s)
        self.join(clients)
        self.present |= set(clients)

    @rule(clients=ids)
    def remove(self, clients: list[oort.ClientId]) -> None:
        there = self.present & set(clients)
        assert self.selector.remove_clients(clients) == len(there)
        self.present -= there

    @rule(clients=ids)
    def forget(self, clients: list[oort.ClientId]) -> None:
        gone = set(self.known) & set(clients)
        assert self.selector.forget(clients) == len(gone)
        self.known = [client for client in self.known if client not in gone]
        self.present -= gone
        self.offline -= gone
        for client in gone:
            self.counts.pop(client, None)
            self.newest.pop(client, None)
            for cohort in self.cohorts.values():
                cohort.discard(client)
        self.received = {(c, r) for c, r in self.received if c not in gone}

    @rule(clients=st.none() | ids, online=st.booleans())
    def mark(self, clients: list[oort.ClientId] | None, online: bool) -> None:
        if online:
            self.selector.mark_online(clients)
        else:
            self.selector.mark_offline(clients)
        if clients is not None:
            self.join(clients)
            if online:
                self.present |= set(clients)
        meant = set(self.known if clients is None else clients)
        self.offline = self.offline - meant if online else self.offline | meant

    @rule(mode=st.sampled_from(["guided", "uniform"]))
    def switch(self, mode: str) -> None:
        self.selector.mode = mode

    @rule(wanted=st.integers(0, 15), among=st.none() | ids, previewed=st.booleans())
    def select(self, wanted: int, among: list[oort.ClientId] | None, previewed: bool) -> None:
        if among is not None:
            self.join(among)
            self.present |= set(among)
            self.selector.register_clients(among)
        preview = self.selector.preview(wanted, among) if previewed else None
        selection = self.selector.select(wanted, among)
        allowed = self.eligible if among is None else self.eligible & set(among)
        self.check(selection, wanted, allowed)
        if preview is not None:
            assert preview == selection
        if selection.participants:
            self.round_number += 1
            self.cohorts[self.round_number] = set(selection)
            for old in [r for r in self.cohorts if r < self.round_number - MEMORY]:
                del self.cohorts[old]
        assert selection.round_number == self.round_number

    @rule(wanted=st.integers(0, 15), by_mask=st.booleans(), data=st.data())
    def select_by_rows(self, wanted: int, by_mask: bool, data: st.DataObject) -> None:
        size = self.selector.num_rows
        mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), bool)
        named = {c for c in self.known if mask[int(self.selector.rows([c])[0])]}
        among = mask if by_mask else self.selector.rows(sorted(named & self.present, key=str))
        selection = self.selector.select(wanted, among)
        self.check(selection, wanted, self.eligible & named)
        if selection.participants:
            self.round_number += 1
            self.cohorts[self.round_number] = set(selection)

    @precondition(lambda self: self.round_number > 0)
    @rule(wanted=st.integers(0, 15))
    def top_up(self, wanted: int) -> None:
        before = self.cohorts[self.round_number]
        selection = self.selector.select(wanted, round_number=self.round_number)
        self.check(selection, wanted, self.eligible - before)
        self.cohorts[self.round_number] |= set(selection)

    def check(self, selection: oort.Selection, wanted: int, allowed: set[oort.ClientId]) -> None:
        picks = selection.participants
        assert len(picks) == len(set(picks)) == min(wanted, len(allowed))
        assert set(picks) <= allowed
        assert [pick.client for pick in selection.why] == picks
        for pick in selection.why:
            assert pick.score >= 0
            assert np.isfinite(pick.score)
            assert pick.participations == self.counts[pick.client], "before this round"
        for client in picks:
            self.counts[client] += 1

    @rule(data=st.data(), age=st.integers(-1, MEMORY + 2))
    def report(self, data: st.DataObject, age: int) -> None:
        number = self.round_number - age
        rows = data.draw(
            st.lists(
                st.tuples(
                    st.sampled_from(IDS),
                    utilities | wrong_utilities,
                    durations,
                    st.sampled_from(list(oort.Outcome)),
                ),
                min_size=1,
                max_size=5,
            )
        )
        clients, utility, duration_s, outcome = (
            list(column) for column in zip(*rows, strict=True)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", oort.StaleFeedbackWarning)
            try:
                result = self.selector.update_clients(
                    clients,
                    utility=utility,
                    duration_s=duration_s,
                    outcome=outcome,
                    round_number=number,
                )
            except oort.RoundError:
                assert number > self.round_number
                return
            except oort.InvalidArgumentError:
                assert number < 0
                return
        assert 0 <= number <= self.round_number
        parts = [result.applied, result.repeated, result.outdated, len(result.rejected)]
        assert sum(parts) == len(rows)
        assert [result.applied, result.repeated, result.outdated] == self.note(rows, number)

    def note(self, rows: list[tuple[Any, ...]], number: int) -> list[int]:
        applied = repeated = outdated = 0
        cohort = self.cohorts.get(number, set())
        for client, utility, _, outcome in rows:
            usable = isinstance(utility, float) and np.isfinite(utility)
            stale = number < self.round_number - MEMORY
            if stale or (outcome == "completed" and not usable):
                continue
            if self.strict and client not in cohort:
                continue
            self.join([client])
            if (client, number) in self.received:
                repeated += 1
                continue
            self.received.add((client, number))
            if self.newest[client] > number:
                outdated += 1
                continue
            applied += 1
            if outcome != "unused":
                self.newest[client] = number
                self.counts[client] += client not in cohort
            elif client in cohort:
                self.counts[client] -= 1
        return [applied, repeated, outdated]

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "selector.oort"
            self.selector.save(path)
            again = oort.load_selector(path)
            again.save(Path(folder) / "again.oort")
            assert path.read_bytes() == (Path(folder) / "again.oort").read_bytes()
        first, second = self.selector.preview(4), again.preview(4)
        assert first == second
        assert repr(first.why) == repr(second.why)
        self.selector = again

    @invariant()
    def numbers_are_as_counted(self) -> None:
        selector = self.selector
        assert selector.num_clients == len(self.present)
        assert selector.num_rows == self.rows
        assert selector.round_number == self.round_number
        assert set(selector.client_ids()) == self.present
        counts = selector.columns(self.known).participations.tolist()
        assert counts == [self.counts[client] for client in self.known]

    @invariant()
    def rows_never_change(self) -> None:
        rows = self.selector.rows(self.known).tolist()
        assert rows == sorted(rows), "in the order of joining"
        assert len(set(rows)) == len(rows)


@pytest.mark.hypothesis
def test_any_sequence_of_calls_keeps_its_promises() -> None:
    run_state_machine_as_test(
        Calls, settings=settings(max_examples=50, stateful_step_count=30, deadline=None)
    )


@pytest.mark.hypothesis
def test_any_sequence_of_calls_keeps_its_promises_by_the_ways_of_large_tables(
    as_if_large: None,
) -> None:
    run_state_machine_as_test(
        Calls, settings=settings(max_examples=30, stateful_step_count=30, deadline=None)
    )
