"""The classic API: Flower's own server loop, proxies and secure aggregation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from flwr.app import Context
from flwr.client.mod import (
    adaptiveclipping_mod,
    fixedclipping_mod,
    secagg_mod,
    secaggplus_mod,
)
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import History, LegacyContext, ServerConfig
from flwr.server import strategy as flower
from flwr.server.compat.app import start_grid
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow, SecAggWorkflow

import oort
from oort.baselines import UniformSelector
from oort.integrations.flower import (
    OortClassicStrategy,
    RoundSummary,
    describing_mod,
    oort_mod,
)

from .apps import Phone, phones
from .fleet import Fleet, fleet
from .test_message import CategoryPlan

START = ndarrays_to_parameters([np.zeros(3), np.ones((2, 2))])


class Job:
    """A wrapped strategy, run by Flower's classic server."""

    def __init__(self, inside: Any = None, selector: Any = None, **options: Any) -> None:
        self.rounds: list[RoundSummary] = []
        self.selector = selector or oort.create_training_selector({"seed": 1})
        config = {"node_wait_s": 20.0, "identify_timeout_s": 20.0, **options.pop("config", {})}
        self.strategy = OortClassicStrategy(
            inside or FedAvg(fraction_fit=0.5, fraction_evaluate=0.0, initial_parameters=START),
            self.selector,
            config,
            after_round=self.rounds.append,
            **options,
        )

    def run(self, on: Fleet, num_rounds: int = 1) -> History:
        config = ServerConfig(num_rounds=num_rounds, round_timeout=30.0)
        return start_grid(grid=on.grid, config=config, strategy=self.strategy)

    def model(self) -> list[np.ndarray]:
        return parameters_to_ndarrays(self.rounds[-1].arrays)


def everyone(**options: Any) -> FedAvg:
    return FedAvg(fraction_evaluate=0.0, initial_parameters=START, **options)


def test_who_trains_is_who_the_selector_picked_and_their_reports_reach_it() -> None:
    with fleet(6, phones()) as running:
        job = Job(config={"over_commit": 1.0})
        job.run(running, num_rounds=2)
        asked = [partition for partition, kind in running.handled if kind == "train"]
    picked = [client for summary in job.rounds for client in summary.selection]
    assert sorted(asked) == sorted(picked)
    first: list[Any] = list(job.rounds[0].selection)
    known = job.selector.columns(first)
    assert known.utility.tolist() == [(10 + p) * (1.0 + p) for p in first]
    assert known.duration_s.tolist() == [1.0 + p for p in first]


def test_the_mod_measures_what_a_client_does_not_and_a_mean_loss_stands_in() -> None:
    with fleet(3, phones(mute=True)) as running:
        job = Job(everyone(), config={"over_commit": 1.0})
        job.run(running)
    known = job.selector.columns([0, 1, 2])
    assert known.utility.tolist() == [20.0, 22.0, 24.0]
    assert (known.duration_s <= job.rounds[0].elapsed_s).all(), "measured on the client"


def test_the_round_ends_at_the_quorum_and_the_slow_are_cut_off() -> None:
    inside = everyone(accept_failures=False)
    with fleet(4, phones(slow={3})) as running:
        job = Job(inside, config={"num_participants": 3, "over_commit": 4 / 3})
        job.run(running)
    assert (job.rounds[0].ended_by, job.rounds[0].clients("unused")) == ("quorum", [3])
    assert job.rounds[0].arrays is not None


def test_a_failure_that_comes_without_an_id_is_laid_to_who_did_not_answer() -> None:
    with fleet(4, phones(broken={2})) as running:
        job = Job(everyone(), config={"over_commit": 1.0})
        job.run(running)
    assert job.rounds[0].clients("failed") == [2]
    assert sorted(job.rounds[0].clients("completed")) == [0, 1, 3]


def test_the_pacers_deadline_ends_a_round() -> None:
    selector = oort.create_training_selector({"pacer": {"preferred_s": 1.0}})
    with fleet(4, phones(slow={1})) as running:
        job = Job(everyone(), selector, config={"deadline": "pacer", "over_commit": 1.0})
        job.run(running)
    assert job.rounds[0].ended_by == "deadline"
    assert job.rounds[0].clients("failed") == [1]


def test_by_duration_only_the_fastest_are_averaged() -> None:
    with fleet(4, phones()) as running:
        job = Job(
            everyone(),
            config={"num_participants": 2, "over_commit": 2.0, "first_by": "duration"},
        )
        job.run(running)
    assert sorted(job.rounds[0].clients("completed")) == [0, 1]
    np.testing.assert_allclose(job.model()[0], 11 / 21)


def test_uniform_selection_of_everyone_gives_the_engines_own_result() -> None:
    got: list[list[np.ndarray]] = []

    def keep(server_round: int, arrays: Any, config: Any) -> None:
        got.append(arrays)

    with fleet(5, phones()) as running:
        config = ServerConfig(num_rounds=3, round_timeout=30.0)
        start_grid(grid=running.grid, config=config, strategy=everyone(evaluate_fn=keep))
    with fleet(5, phones()) as running:
        job = Job(everyone(), UniformSelector())
        job.run(running, num_rounds=3)
    for one, other in zip(got[-1], job.model(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["FedAvgM", "FedAdam", "FedYogi", "FedMedian", "Krum"])
def test_any_of_flowers_strategies_can_be_wrapped(name: str) -> None:
    inside = getattr(flower, name)(
        fraction_fit=0.5, fraction_evaluate=0.5, initial_parameters=START
    )
    with fleet(8, phones()) as running:
        job = Job(inside)
        history = job.run(running, num_rounds=2)
    assert [len(s.clients("completed")) for s in job.rounds] == [4, 4]
    assert [loss for _, loss in history.losses_distributed] == [0.5, 0.5]


def test_clients_without_the_mod_go_by_node_id_with_a_warning() -> None:
    with fleet(4, phones(mods=[])) as running:
        job = Job()
        with pytest.warns(oort.EngineWarning, match="oort_mod"):
            job.run(running)
        nodes = {str(node) for node in running.partition_of}
    assert set(job.rounds[0].selection) <= nodes


def test_initial_parameters_may_come_from_a_client() -> None:
    class Asked(Phone):
        def get_parameters(self, config: Any) -> Any:
            return [np.zeros(3)]

    def client_fn(context: Context) -> Any:
        return Asked(int(context.node_config["partition-id"])).to_client()

    with fleet(3, ClientApp(client_fn, mods=[oort_mod])) as running:
        job = Job(FedAvg(fraction_evaluate=0.0))
        job.run(running)
    assert job.model()[0].shape == (3,)


def test_with_nobody_online_the_job_ends_with_an_error() -> None:
    job = Job(FedAvg(fraction_evaluate=0.0), config={"node_wait_s": 0.3})
    with fleet(0, phones()) as nobody, pytest.raises(oort.WaitTimeoutError, match="node_wait_s"):
        job.run(nobody)


def test_who_tests_is_told_how_many_samples_of_which_category() -> None:
    told: dict[int, Any] = {}
    assignment = {1: {"cat": 5}, 3: {"cat": 1, "dog": 7}}
    inside = FedAvg(fraction_fit=0.5, initial_parameters=START)
    with fleet(5, phones(told=told)) as running:
        job = Job(
            inside,
            tester=oort.create_testing_selector(),
            test=lambda tester: CategoryPlan(assignment),
        )
        job.run(running)
    assert told == assignment


def test_a_test_by_deviation_asks_whom_the_plan_names() -> None:
    inside = FedAvg(fraction_fit=0.5, initial_parameters=START)
    with fleet(10, phones()) as running:
        job = Job(
            inside,
            tester=oort.create_testing_selector(),
            test=lambda t: t.select_by_deviation(dev_target=20, range_of_capacity=40),
        )
        job.run(running)
        tested = {partition for partition, kind in running.handled if kind == "evaluate"}
    plan = job.strategy.conductor.last_plan
    assert plan is not None
    assert tested == set(plan)
    assert len(tested) < 10


def test_what_a_client_tells_of_itself_reaches_the_selector() -> None:
    mod = describing_mod(lambda context: {"num_samples": 77, "expected_duration_s": 9.0})
    with fleet(4, phones(mods=[mod])) as running:
        job = Job(config={"num_participants": 1, "over_commit": 1.0})
        job.run(running)
    others = [c for c in range(4) if c not in job.rounds[0].selection.participants]
    assert job.selector.columns(others).num_samples.tolist() == [77, 77, 77]


def test_a_message_strategy_is_refused_with_the_name_of_the_other_wrapper() -> None:
    from flwr.serverapp.strategy import FedAvg as MessageFedAvg

    wrong: Any = MessageFedAvg()
    with pytest.raises(oort.InvalidArgumentError, match="OortStrategy"):
        OortClassicStrategy(wrong, oort.create_training_selector())


@pytest.mark.filterwarnings("ignore::oort.PrivacyWarning")
@pytest.mark.parametrize("side", ["ServerSide", "ClientSide"])
@pytest.mark.parametrize("clipping", ["Fixed", "Adaptive"])
def test_a_private_strategy_gets_as_many_results_as_it_was_set_up_for(
    side: str, clipping: str
) -> None:
    mods: dict[str, Any] = {"Fixed": fixedclipping_mod, "Adaptive": adaptiveclipping_mod}
    norm = {"clipping_norm": 10.0} if clipping == "Fixed" else {}
    inside = getattr(flower, f"DifferentialPrivacy{side}{clipping}Clipping")(
        everyone(), noise_multiplier=0.01, num_sampled_clients=4, **norm
    )
    added = [mods[clipping]] if side == "ClientSide" else []
    with fleet(6, phones(mods=[*added, oort_mod], broken={5}, nudge=1.0)) as running:
        job = Job(inside, config={"num_participants": 4, "over_commit": 1.5})
        job.run(running, num_rounds=2)
    assert [len(s.clients("completed")) for s in job.rounds] == [4, 4]
    assert all(s.arrays is not None for s in job.rounds), "a failure was made up for"
    first: list[Any] = list(job.rounds[0].clients("completed"))
    assert job.selector.columns(first).utility.tolist() == [(10 + p) * (1.0 + p) for p in first]


def secure(running: Fleet, strategy: Any, fit: Any, num_rounds: int) -> None:
    context = LegacyContext(
        context=running.contexts[next(iter(running.contexts))],
        config=ServerConfig(num_rounds=num_rounds),
        strategy=strategy,
    )
    DefaultWorkflow(fit_workflow=fit)(running.grid, context)


@pytest.mark.parametrize("kind", ["SecAgg", "SecAgg+"])
def test_under_secure_aggregation_selection_works_and_the_sum_is_the_engines(kind: str) -> None:
    mods = [secagg_mod if kind == "SecAgg" else secaggplus_mod, oort_mod]
    with fleet(4, phones(mods=mods)) as running:
        job = Job(everyone(), config={"over_commit": 1.0})
        if kind == "SecAgg":
            workflow: Any = SecAggWorkflow(0.5, clipping_range=64.0, timeout=30.0)
        else:
            workflow = SecAggPlusWorkflow(3, 2, clipping_range=64.0, timeout=30.0)
        secure(running, job.strategy, workflow, num_rounds=2)
    assert [sorted(s.clients("completed")) for s in job.rounds] == [[0, 1, 2, 3]] * 2
    weights = np.array([10, 11, 12, 13])
    expected = 2 * float(np.average(np.arange(4), weights=weights))
    np.testing.assert_allclose(job.model()[0], expected, atol=0.05)
    assert job.selector.columns([3]).utility.tolist() == [13 * 4.0]


def test_under_secure_aggregation_nobody_is_cut_off_and_a_drop_out_is_reported_failed() -> None:
    with fleet(6, phones(mods=[secaggplus_mod, oort_mod], broken={1})) as running:
        job = Job(everyone(), config={"num_participants": 4, "over_commit": 1.5})
        workflow = SecAggPlusWorkflow(5, 3, clipping_range=64.0, timeout=30.0)
        secure(running, job.strategy, workflow, num_rounds=1)
    assert job.rounds[0].clients("failed") == [1]
    assert sorted(job.rounds[0].clients("completed")) == [0, 2, 3, 4, 5]
    assert job.rounds[0].clients("unused") == []
