"""Flower's classic API: any ``flwr.server.strategy``, with participants picked by Oort."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, TypeAlias

from flwr.common import EvaluateIns, EvaluateRes, FitIns, FitRes, GetPropertiesIns, Parameters
from flwr.common.typing import Scalar
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from oort.errors import InvalidArgumentError, WaitTimeoutError
from oort.integrations.flower import inner
from oort.integrations.flower.assignment import told
from oort.integrations.flower.clients import (
    ChosenClients,
    CutOffError,
    LimitedClients,
    LimitedProxy,
    WatchedProxy,
    unwrapped,
)
from oort.integrations.flower.conductor import (
    LOG,
    AfterRound,
    Conductor,
    RequestTest,
    assignment_of,
)
from oort.integrations.flower.config import FlowerConfig
from oort.integrations.flower.reports import ReadReport, strip
from oort.integrations.flower.roster import Description, Roster, in_order
from oort.integrations.flower.versions import check_version
from oort.protocols import TestingSelector, TrainingSelector
from oort.types import ClientId

Results: TypeAlias = list[tuple[ClientProxy, FitRes]]
Failures: TypeAlias = list[tuple[ClientProxy, FitRes] | BaseException]
_MOST_QUESTIONS_AT_ONCE: Final = 32


class OortClassicStrategy(Strategy):
    """Your classic strategy, with participants picked by a selector.

        strategy = OortClassicStrategy(FedAvg(fraction_fit=0.1), oort.create_training_selector())

    The arguments are those of :class:`~oort.integrations.flower.OortStrategy`.

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
                "strategy must be one of the classic API, flwr.server.strategy (for the message "
                f"API, flwr.serverapp.strategy, use OortStrategy); got {strategy!r:.80}"
            )
            raise InvalidArgumentError(message)
        if isinstance(strategy, OortClassicStrategy):
            message = f"strategy must be your own, not wrapped already; got {strategy!r:.80}"
            raise InvalidArgumentError(message)
        self.inner = strategy
        self.config = FlowerConfig.of(config)
        inner.check_reachable(strategy, inner.CLASSIC_API, self.config.num_participants)
        inner.check_privacy(strategy, selector, self.config.over_commit)
        self.conductor = Conductor(
            selector,
            self.config,
            tester=tester,
            test=test,
            after_round=after_round,
            read_report=read_report,
        )
        self._roster: Roster[str] = Roster()

    # What Flower calls

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters | None:
        """As your strategy does; where a client will be asked, wait until there is one."""
        parameters = self.inner.initialize_parameters(client_manager)
        if parameters is None:
            self._wait_for_clients(client_manager, 1)
        return parameters

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        """Pick the participants and let your strategy write the instructions to them."""
        online = self._online(client_manager)
        wanted = self.config.num_participants
        if wanted is None:
            wanted = inner.wanted(self.inner, inner.CLASSIC_API, len(online))
        cohort = self.conductor.open_round(server_round, list(online), wanted)
        if not len(cohort.selection):
            LOG.warning("oort: nobody is eligible, round %d trains nobody", server_round)
            return []
        limit_s = self.config.reply_timeout_s
        watched = {c: WatchedProxy(online[c], c, cohort, limit_s) for c in cohort.selection}
        chosen = ChosenClients(client_manager, {w.cid: w for w in watched.values()})
        instructions = self.inner.configure_fit(server_round, parameters, chosen)
        asked = {proxy.cid for proxy, _ in instructions}
        for client, proxy in watched.items():
            if proxy.cid not in asked:
                cohort.not_sent(client)
        cohort.begin()
        return instructions

    def aggregate_fit(
        self, server_round: int, results: Results, failures: Failures
    ) -> tuple[Parameters | None, dict[str, Scalar]]:
        """Let your strategy combine the results, then report to the selector."""
        usable = [
            (proxy, result)
            for proxy, result in results
            if not isinstance(proxy, WatchedProxy) or self._take(proxy, result)
        ]
        kept = self._fastest(usable)
        cohort = self.conductor.cohort
        # Failures that others made up for are not the strategy's business: some give up on any.
        made_up_for = cohort is not None and cohort.ended_by == "quorum"
        real = [] if made_up_for else _real(failures)
        with self.conductor.closing():
            answer = self.inner.aggregate_fit(server_round, kept, real)
        self.conductor.close_round(answer[0])
        return answer

    def configure_evaluate(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        """Pick who tests, if a testing selector was given; otherwise as your strategy does."""
        skipped = inner.setting(self.inner, "fraction_evaluate") == 0
        if skipped or not self.conductor.tests:
            everyone = LimitedClients(client_manager, self.config.node_wait_s)
            return self._limited(self.inner.configure_evaluate(server_round, parameters, everyone))
        online = self._online(client_manager)
        plan = self.conductor.plan_test(list(online))
        client_of = {online[c].cid: c for c in plan if c in online}
        chosen = {online[c].cid: online[c] for c in plan if c in online}
        if not chosen:
            LOG.warning("oort: the test plan names no connected client, nobody tests")
            return []
        instructions = self.inner.configure_evaluate(
            server_round, parameters, ChosenClients(client_manager, chosen)
        )
        tasks = assignment_of(plan)
        return self._limited(
            (proxy, _with_assignment(ins, tasks.get(client_of[proxy.cid])))
            for proxy, ins in instructions
        )

    def aggregate_evaluate(
        self, server_round: int, results: list[tuple[ClientProxy, EvaluateRes]], failures: Any
    ) -> tuple[float | None, dict[str, Scalar]]:
        """As your strategy does."""
        known = [(unwrapped(proxy), result) for proxy, result in results]
        return self.inner.aggregate_evaluate(server_round, known, _real(failures))

    def evaluate(
        self, server_round: int, parameters: Parameters
    ) -> tuple[float, dict[str, Scalar]] | None:
        """As your strategy does."""
        return self.inner.evaluate(server_round, parameters)

    # How it is done

    def _limited(
        self, instructions: Iterable[tuple[ClientProxy, EvaluateIns]]
    ) -> list[tuple[ClientProxy, EvaluateIns]]:
        limit_s = self.config.reply_timeout_s
        return [(LimitedProxy(proxy, limit_s), ins) for proxy, ins in instructions]

    def _take(self, proxy: WatchedProxy, result: FitRes) -> bool:
        """Read one result's report; whether the strategy may see the result."""
        cohort = self.conductor.cohort
        if cohort is None:
            return True
        feedback = self.conductor.feedback(
            result.metrics, num_examples=result.num_examples, reply_s=cohort.reply_s(proxy.client)
        )
        strip(result.metrics)
        usable = self.conductor.is_usable(feedback)
        if not usable:
            LOG.warning("oort: client %r reported %s: dropped", proxy.client, feedback)
        cohort.amend(proxy.client, feedback)
        return usable

    def _fastest(self, results: Results) -> Results:
        """The results that make the round, under the names that the strategy knows."""
        cohort = self.conductor.cohort
        watched = [proxy for proxy, _ in results if isinstance(proxy, WatchedProxy)]
        if cohort is None:
            return results
        cohort.end("everyone" if len(watched) >= len(cohort.selection) else "timeout")
        first = {proxy.client for proxy in watched}
        # Under secure aggregation clients are not asked one by one: what came is a sum already.
        if all(proxy.was_asked for proxy in watched):
            first &= cohort.keep_fastest()
        return [
            (proxy.inner if isinstance(proxy, WatchedProxy) else proxy, result)
            for proxy, result in results
            if not isinstance(proxy, WatchedProxy) or proxy.client in first
        ]

    def _online(self, client_manager: ClientManager) -> dict[ClientId, ClientProxy]:
        """The connected clients; waits for as many as the strategy asks for."""
        proxies = self._wait_for_clients(
            client_manager, inner.at_least(self.inner, inner.CLASSIC_API)
        )
        new = self._roster.unknown(proxies)
        if new:
            self._find_out({cid: proxies[cid] for cid in new})
        found = self._roster.online(proxies)
        return {client: proxies[cid] for client, cid in found.items()}

    def _wait_for_clients(
        self, client_manager: ClientManager, least: int
    ) -> dict[str, ClientProxy]:
        end = time.monotonic() + self.config.node_wait_s
        while len(proxies := dict(client_manager.all())) < least and time.monotonic() < end:
            time.sleep(min(1.0, self.config.node_wait_s / 10))
        if not proxies:
            message = (
                f"at least 1 client must connect within {self.config.node_wait_s:g} s "
                "(FlowerConfig.node_wait_s); got none. Are the clients running, and connected to "
                "this server?"
            )
            raise WaitTimeoutError(message)
        if len(proxies) < least:
            LOG.warning("oort: %d of %d clients connected, going on", len(proxies), least)
        return proxies

    def _find_out(self, proxies: Mapping[str, ClientProxy]) -> None:
        """Enter who these clients are into the roster."""
        how = self.config.identify
        if callable(how):
            for cid, proxy in proxies.items():
                named = how(proxy)
                self._roster.learn(cid, cid if named is None else named)
        elif how == "node-id":
            for cid in proxies:
                self._roster.learn(cid, cid)
        else:
            self._ask(proxies)

    def _ask(self, proxies: Mapping[str, ClientProxy]) -> None:
        with ThreadPoolExecutor(min(_MOST_QUESTIONS_AT_ONCE, len(proxies))) as pool:
            answers = dict(zip(proxies, pool.map(self._describe, proxies.values()), strict=True))
        silent = [cid for cid, described in answers.items() if described.id is None]
        told = [(d.id, cid, d) for cid, d in answers.items() if d.id is not None]
        for client, cid, described in sorted(told, key=lambda entry: in_order(entry[0])):
            self._roster.learn(cid, client)
            self.conductor.learn(client, described)
        if silent:
            why = f"{len(silent)} clients do not say who they are"
            self._roster.fall_back([(cid, cid) for cid in silent], why)

    def _describe(self, proxy: ClientProxy) -> Description:
        """What a client answers when asked for its properties; nothing if it does not."""
        try:
            answer = proxy.get_properties(
                GetPropertiesIns(config={"oort": "who"}), self.config.identify_timeout_s, None
            )
        except Exception as error:
            LOG.debug("oort: client %s does not say who it is: %s", proxy.cid, error)
            return Description()
        return Description.from_values(answer.properties or {})


def _real(failures: Any) -> Any:
    """The failures that are the strategy's business: cut off is not failed."""
    return [
        (unwrapped(f[0]), f[1]) if isinstance(f, tuple) else f
        for f in failures
        if not isinstance(f, CutOffError)
    ]


def _with_assignment(ins: EvaluateIns, samples: Mapping[Any, int] | None) -> EvaluateIns:
    """Tell one client how many samples of which category to test on, in the config it gets."""
    if samples is None:
        return ins
    config: dict[str, Scalar] = {**ins.config, **told(samples)}
    return replace(ins, config=config)
