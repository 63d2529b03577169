"""The rounds of a job, whichever API they run through: pick, wait, report.

This is the only module of the adapter that talks to selectors.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeAlias

from oort.errors import EngineWarning
from oort.integrations.flower.cohort import Cohort, RoundSummary
from oort.integrations.flower.config import DURATION, FlowerConfig
from oort.integrations.flower.reports import ReadReport, names_of, read_feedback
from oort.integrations.flower.roster import Description
from oort.protocols import TestingSelector, TestPlan, TrainingSelector
from oort.types import ClientId, Feedback, Outcome

AfterRound: TypeAlias = Callable[[RoundSummary], None]
RequestTest: TypeAlias = Callable[[TestingSelector], TestPlan]

#: Flower's own logger, so that a job's log stays one story.
LOG: Final = logging.getLogger("flwr")


class Conductor:
    """Opens rounds with a selector and closes them with what clients reported."""

    def __init__(
        self,
        selector: TrainingSelector,
        config: FlowerConfig,
        *,
        tester: TestingSelector | None = None,
        test: RequestTest | None = None,
        after_round: AfterRound | None = None,
        read_report: ReadReport | None = None,
    ) -> None:
        self.selector = selector
        self.config = config
        self.tester = tester
        self.cohort: Cohort | None = None
        self.last_plan: TestPlan | None = None
        self._test = test
        self._after_round = after_round
        self._read_report = read_report
        self._warned: set[str] = set()

    # Who trains

    def open_round(self, server_round: int, online: Sequence[ClientId], wanted: int) -> Cohort:
        """Pick the participants of a round out of those online; a round left open is closed."""
        if self.cohort is not None:
            self.cohort.end("timeout")
            self.close_round(None)
        asked = math.ceil(wanted * self.config.over_commit - 1e-9)
        selection = self.selector.select(asked, among=list(online))
        if len(selection) < wanted:
            LOG.warning(
                "oort: %d participants wanted, %d of %d connected clients are eligible: the round "
                "goes on with these",
                wanted,
                len(selection),
                len(online),
            )
        cohort = Cohort(
            selection,
            server_round=server_round,
            quorum=wanted,
            deadline_s=self.config.deadline_s(selection.preferred_s),
            min_replies=self.config.min_replies,
            by_duration=self.config.first_by == DURATION,
        )
        self.cohort = cohort if len(selection) else None
        return cohort

    def feedback(
        self, metrics: Mapping[str, Any], *, num_examples: int | None, reply_s: float | None
    ) -> Feedback:
        """What one client's metrics say."""
        if self._read_report is not None:
            read = self._read_report(metrics)
            if read is None:
                return Feedback(outcome=Outcome.FAILED, duration_s=reply_s)
            return read if read.duration_s is not None else replace(read, duration_s=reply_s)
        read = read_feedback(
            metrics, num_examples=num_examples, reply_s=reply_s, loss_key=self.config.loss_key
        )
        if read.outcome == Outcome.FAILED:
            self._warn_once(
                "no loss",
                "a client reported no loss, or none that goes with a number of samples: its data "
                "cannot be valued, and it will be picked only when nobody better is left. Let "
                "clients use oort.integrations.flower.ClientReport, or report 'train_loss' and "
                "'num-examples', or name the metric in FlowerConfig(loss_key=...); "
                f"got {names_of(sorted(metrics))}",
            )
        return read

    def is_usable(self, feedback: Feedback) -> bool:
        """Whether a result may go to the strategy: always, unless bad ones are to be dropped."""
        if not self.config.drop_bad_replies:
            return True
        values = (feedback.utility, feedback.mean_squared_loss)
        return all(value is None or math.isfinite(value) for value in values)

    def close_round(self, arrays: Any) -> None:
        """Report how the open round ended for everyone who was picked."""
        cohort, self.cohort = self.cohort, None
        if cohort is None:
            return
        outcomes = cohort.outcomes()
        report(self.selector, cohort.selection.round_number, outcomes)
        summary = RoundSummary(
            server_round=cohort.server_round,
            round_number=cohort.selection.round_number,
            selection=cohort.selection,
            ended_by=cohort.ended_by or "timeout",
            elapsed_s=cohort.elapsed_s,
            outcomes=outcomes,
            arrays=arrays,
        )
        LOG.info("oort: %s", _in_words(summary))
        if self._after_round is not None:
            self._after_round(summary)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """While inside, what the strategy raises does not cost the selector its reports."""
        try:
            yield
        except BaseException:
            self.close_round(None)
            raise

    # Who tests

    @property
    def tests(self) -> bool:
        """Whether evaluation rounds go through a testing selector."""
        return self.tester is not None and self._test is not None

    def plan_test(self, online: Sequence[ClientId]) -> TestPlan:
        """The participants of an evaluation round, out of those online."""
        assert self.tester is not None
        assert self._test is not None
        self.tester.register_clients(online)
        self.tester.mark_offline()
        self.tester.mark_online(online)
        plan = self.last_plan = self._test(self.tester)
        absent = set(plan) - set(online)
        if absent:
            LOG.warning(
                "oort: %d of %d that are to test are not connected, and are left out",
                len(absent),
                len(set(plan)),
            )
        LOG.info("oort: %d clients test", len(set(plan)) - len(absent))
        return plan

    def learn(self, client: ClientId, description: Description) -> None:
        """Take in what a client says of itself before any round; what is refused is left out."""
        hints: dict[str, Any] = {
            "num_samples": description.num_samples,
            "expected_duration_s": description.expected_duration_s,
        }
        try:
            if any(hint is not None for hint in hints.values()):
                self.selector.register_client(client, **hints)
            update: Any = getattr(self.tester, "update_client_info", None)
            if update is not None and description.info:
                update(client, description.info)
        except (ValueError, TypeError, KeyError) as error:
            LOG.warning("oort: what client %r says of itself is left out: %.200s", client, error)

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(message, EngineWarning, stacklevel=4)


def report(
    selector: TrainingSelector, round_number: int, outcomes: Mapping[ClientId, Feedback]
) -> None:
    """One batch with the outcome of everyone; whom the selector refuses is reported failed."""
    if not outcomes:
        return
    clients, reports = list(outcomes), list(outcomes.values())
    columns: dict[str, Any] = {
        name: [getattr(feedback, name) for feedback in reports]
        for name in ("utility", "num_samples", "mean_squared_loss", "duration_s", "outcome")
    }
    for name in ("mean_squared_gradient_norm", "sketch"):
        values = [getattr(feedback, name) for feedback in reports]
        if any(value is not None for value in values):
            columns[name] = values
    result = selector.update_clients(clients, **columns, round_number=round_number)
    for rejection in result.rejected:
        LOG.warning("oort: report refused, counted as failed: %s", rejection)
    refused = [clients[rejection.index] for rejection in result.rejected]
    if refused:
        selector.update_clients(refused, outcome=Outcome.FAILED, round_number=round_number)


def assignment_of(plan: TestPlan) -> Mapping[ClientId, Mapping[Any, int]]:
    """How many samples of which category each participant tests on; empty: all that it has."""
    assignment: Any = getattr(plan, "assignment", None)
    return assignment or {}


def _in_words(summary: RoundSummary) -> str:
    counts = {o: len(summary.clients(o)) for o in Outcome}
    return (
        f"round {summary.round_number} ended by {summary.ended_by} after "
        f"{summary.elapsed_s:.3g} s: {counts[Outcome.COMPLETED]} completed, "
        f"{counts[Outcome.FAILED]} failed, {counts[Outcome.UNUSED]} cut off "
        f"(preferred duration {summary.selection.preferred_s:.3g} s)"
    )
