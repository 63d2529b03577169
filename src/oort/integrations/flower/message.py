"""Flower's message API: any ``flwr.serverapp.strategy``, with participants picked by Oort."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.serverapp.strategy.result import Result

from oort.errors import InvalidArgumentError, WaitTimeoutError
from oort.integrations.flower import inner
from oort.integrations.flower.asking import ask_nodes
from oort.integrations.flower.assignment import told
from oort.integrations.flower.cohort import Cohort
from oort.integrations.flower.conductor import (
    LOG,
    AfterRound,
    Conductor,
    RequestTest,
    assignment_of,
)
from oort.integrations.flower.config import FlowerConfig
from oort.integrations.flower.gridview import GridView, collect, nodes_of
from oort.integrations.flower.reports import ReadReport, merged, strip
from oort.integrations.flower.roster import Roster, in_order
from oort.integrations.flower.versions import check_version
from oort.protocols import TestingSelector, TestPlan, TrainingSelector
from oort.types import ClientId

_HOOKS: Final = ("configure_train", "aggregate_train", "configure_evaluate", "aggregate_evaluate")


class OortStrategy(Strategy):
    """Your strategy, with participants picked by a selector.

    Everything else stays with your strategy: what is sent, how results are combined, what is
    logged. It sees only the chosen nodes, and only the replies that make the round.

        strategy = OortStrategy(FedAvg(fraction_train=0.1), oort.create_training_selector())

    Args:
        strategy: Any strategy of the message API, unmodified.
        selector: Any training selector.
        config: How rounds are run; a dict works too.
        tester: Any testing selector, for evaluation rounds.
        test: What to ask of it each time: ``lambda tester: tester.select_by_deviation(...)``.
        after_round: Called with a :class:`RoundSummary` once a round is reported: the place to
            save the model, and a selector that is not durable.
        read_report: How to read a client's metrics, where they are your own.

    Raises:
        ConfigError: A setting is wrong, or does not go with the strategy.
    """

    def __init__(
        self,
        strategy: Strategy,
        selector: TrainingSelector,
        config: FlowerConfig | Mapping[str, Any] | None = None,
        *,
        tester: TestingSelector | None = None,
        test: RequestTest | None = None,
        after_round: AfterRound | None = None,
        read_report: ReadReport | None = None,
    ) -> None:
        check_version()
        if not isinstance(strategy, Strategy):
            message = (
                "strategy must be one of the message API, flwr.serverapp.strategy (for the "
                "classic API, flwr.server.strategy, use OortClassicStrategy); got "
                f"{strategy!r:.80}"
            )
            raise InvalidArgumentError(message)
        if isinstance(strategy, OortStrategy):
            message = f"strategy must be your own, not wrapped already; got {strategy!r:.80}"
            raise InvalidArgumentError(message)
        self.inner = strategy
        self.config = FlowerConfig.of(config)
        inner.check_reachable(strategy, inner.MESSAGE_API, self.config.num_participants)
        inner.check_privacy(strategy, selector, self.config.over_commit)
        self.conductor = Conductor(
            selector,
            self.config,
            tester=tester,
            test=test,
            after_round=after_round,
            read_report=read_report,
        )
        self._roster: Roster[int] = Roster()
        self._own: dict[str, Callable[..., Any]] = {n: getattr(strategy, n) for n in _HOOKS}

    # What Flower calls

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run the job: your strategy's own ``start``, with the rounds going through Oort."""
        view = grid if isinstance(grid, GridView) else GridView(grid)
        view.longest_wait_s = self.config.reply_timeout_s
        rest: Any = (num_rounds, timeout, train_config, evaluate_config, evaluate_fn)
        if type(self.inner).start is Strategy.start:
            return super().start(view, initial_arrays, *rest)
        with _standing_in(self.inner, self):
            return self.inner.start(view, initial_arrays, *rest)

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Pick the participants and let your strategy write the messages to them."""
        view = _view(grid)
        if inner.setting(self.inner, inner.MESSAGE_API.fraction) == 0:
            return self._configure("train", server_round, arrays, config, view)
        online = self._online(view.inner)
        wanted = self.config.num_participants
        if wanted is None:
            wanted = inner.wanted(self.inner, inner.MESSAGE_API, len(online))
        cohort = self.conductor.open_round(server_round, list(online), wanted)
        if not len(cohort.selection):
            LOG.warning("oort: nobody is eligible, round %d trains nobody", server_round)
            view.show([], None)
            return []
        nodes = {online[client]: client for client in cohort.selection}
        view.show(
            list(nodes), lambda sent, timeout: self._train(view, cohort, nodes, sent, timeout)
        )
        with inner.choosing_is_done(self.inner, inner.MESSAGE_API):
            return self._configure("train", server_round, arrays, config, view)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """Let your strategy combine the results, then report to the selector."""
        with self.conductor.closing():
            answer = self._own["aggregate_train"](server_round, replies)
        arrays: ArrayRecord | None = answer[0]
        self.conductor.close_round(arrays)
        return arrays, answer[1]

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """Pick who tests, if a testing selector was given; otherwise as your strategy does."""
        view = _view(grid)
        skipped = inner.setting(self.inner, "fraction_evaluate") == 0
        if skipped or not self.conductor.tests:
            return self._configure("evaluate", server_round, arrays, config, view)
        online = self._online(view.inner)
        plan = self.conductor.plan_test(list(online))
        nodes = {online[client]: client for client in plan if client in online}
        if not nodes:
            LOG.warning("oort: the test plan names no connected client, nobody tests")
            view.show([], None)
            return []
        view.show(list(nodes), lambda sent, timeout: self._test(view, sent, timeout))
        names = inner.Names("fraction_evaluate", "min_evaluate_nodes", "min_available_nodes")
        with inner.choosing_is_done(self.inner, names):
            messages = list(self._configure("evaluate", server_round, arrays, config, view))
        return [_with_assignment(message, nodes, plan) for message in messages]

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """As your strategy does."""
        metrics: MetricRecord | None = self._own["aggregate_evaluate"](server_round, replies)
        return metrics

    def summary(self) -> None:
        """Log what is done, then your strategy's own summary."""
        wanted = self.config.num_participants or "as the strategy asks"
        LOG.info(
            "\t├──> Oort: participants (%s), over-commit (%s)", wanted, self.config.over_commit
        )
        self.inner.summary()

    # How it is done

    def _configure(
        self,
        purpose: str,
        server_round: int,
        arrays: ArrayRecord,
        config: ConfigRecord,
        view: GridView,
    ) -> Iterable[Message]:
        configure = self._own[f"configure_{purpose}"]
        view.give_up_after(self.config.node_wait_s)
        try:
            return list(configure(server_round, arrays, config, view))
        finally:
            view.give_up_after(None)

    def _online(self, grid: Grid) -> dict[ClientId, int]:
        """The connected clients and their nodes; waits for as many as the strategy asks for."""
        nodes = self._wait_for_nodes(grid)
        new = set(self._roster.unknown(node.node_id for node in nodes))
        newcomers = [node for node in nodes if node.node_id in new]
        if newcomers:
            told = dict(ask_nodes(grid, newcomers, self._roster, self.config))
            for client in sorted(told, key=in_order):
                self.conductor.learn(client, told[client])
        return self._roster.online(node.node_id for node in nodes)

    def _wait_for_nodes(self, grid: Grid) -> list[Any]:
        least = inner.at_least(self.inner, inner.MESSAGE_API)
        end = time.monotonic() + self.config.node_wait_s
        while len(nodes := nodes_of(grid)) < least and time.monotonic() < end:
            time.sleep(min(1.0, self.config.node_wait_s / 10))
        if not nodes:
            message = (
                f"at least 1 node must connect within {self.config.node_wait_s:g} s "
                "(FlowerConfig.node_wait_s); got none. Are the clients running, and connected to "
                "this server?"
            )
            raise WaitTimeoutError(message)
        if len(nodes) < least:
            LOG.warning("oort: %d of %d nodes connected, going on", len(nodes), least)
        return nodes

    def _train(
        self,
        view: GridView,
        cohort: Cohort,
        nodes: Mapping[int, ClientId],
        messages: list[Message],
        timeout: float | None,
    ) -> list[Message]:
        """Send the round's messages and wait for its quorum; gives what the strategy may see."""
        sent = {message.metadata.dst_node_id for message in messages}
        for node in set(nodes) - sent:
            cohort.not_sent(nodes[node])
        for message in messages:
            message.metadata.group_id = message.metadata.group_id or str(cohort.server_round)
        results: dict[int, Message] = {}
        errors: list[Message] = []
        cohort.begin()

        def take(node: int, reply: Message) -> None:
            client = nodes.get(node)
            if reply.has_error():
                errors.append(reply)
                if client is not None:
                    cohort.failed(client)
            elif client is None:
                results[node] = reply
            elif reply.metadata.group_id not in ("", messages[0].metadata.group_id):
                LOG.warning("oort: client %r answered for another round: dropped", client)
                cohort.failed(client)
            elif self._counts(cohort, client, reply):
                results[node] = reply

        collect(
            view.inner,
            messages,
            timeout_s=inner.finite_timeout(timeout, self.config.reply_timeout_s),
            on_reply=take,
            is_over=cohort.is_over,
            sleep=cohort.wait,
        )
        cohort.end("timeout")
        kept = cohort.keep_fastest()
        first = [
            reply for node, reply in results.items() if nodes.get(node, None) in {*kept, None}
        ]
        # Errors that others made up for are not the strategy's business: some give up on any.
        return first if cohort.ended_by == "quorum" else first + errors

    def _counts(self, cohort: Cohort, client: ClientId, reply: Message) -> bool:
        """Take in one result; whether the strategy may see it."""
        records = list(reply.content.metric_records.values())
        feedback = self.conductor.feedback(
            merged(records), num_examples=None, reply_s=cohort.elapsed_s
        )
        for record in records:
            strip(record)
        if not self.conductor.is_usable(feedback):
            LOG.warning("oort: client %r reported %s: its result is dropped", client, feedback)
            cohort.failed(client, cohort.elapsed_s)
            return False
        return cohort.completed(client, feedback)

    def _test(
        self, view: GridView, messages: list[Message], timeout: float | None
    ) -> list[Message]:
        """Send an evaluation round's messages and wait for all."""
        replies: list[Message] = []
        limit = inner.finite_timeout(timeout, self.config.reply_timeout_s)
        collect(
            view.inner, messages, timeout_s=limit, on_reply=lambda _, reply: replies.append(reply)
        )
        silent = len(messages) - len(replies)
        if silent:
            LOG.warning("oort: %d of %d clients did not answer the test", silent, len(messages))
        return replies


def _view(grid: Grid) -> GridView:
    if isinstance(grid, GridView):
        return grid
    message = f"grid must be the one that OortStrategy.start passes on; got {type(grid).__name__}"
    raise InvalidArgumentError(message)


def _with_assignment(message: Message, nodes: Mapping[int, ClientId], plan: TestPlan) -> Message:
    """Tell one client how many samples of which category to test on, in the config it gets."""
    samples = assignment_of(plan).get(nodes[message.metadata.dst_node_id])
    if samples is None:
        return message
    records = dict(message.content)
    key = next(iter(message.content.config_records), "config")
    given: Any = message.content.config_records.get(key, {})
    records[key] = ConfigRecord({**given, **told(samples)})
    message.content = RecordDict(records)
    return message


@contextmanager
def _standing_in(strategy: Strategy, hooks: OortStrategy) -> Iterator[None]:
    """While inside, a strategy that has a ``start`` of its own calls our hooks from it."""
    kept: dict[str, Any] = {n: vars(strategy)[n] for n in _HOOKS if n in vars(strategy)}
    for name in _HOOKS:
        setattr(strategy, name, getattr(hooks, name))
    try:
        yield
    finally:
        for name in _HOOKS:
            delattr(strategy, name)
        vars(strategy).update(kept)
