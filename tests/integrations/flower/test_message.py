"""The message API: any strategy of Flower's, through Flower's own link state and grid."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, Message
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAvg, Strategy
from flwr.serverapp.strategy.result import Result

import oort
from oort.baselines import UniformSelector
from oort.integrations.flower import (
    FlowerConfig,
    OortStrategy,
    RoundSummary,
    inner,
    samples_to_test,
)

from .apps import BrokenError, client_app, usual
from .fleet import Fleet, fleet

START = [np.zeros(3), np.ones((2, 2))]


class Job:
    """A wrapped strategy, run on a fleet; keeps what came of each round."""

    def __init__(self, strategy: Strategy | None = None, selector: Any = None, **options: Any):
        self.rounds: list[RoundSummary] = []
        self.selector = selector or oort.create_training_selector({"seed": 1})
        config = {"node_wait_s": 20.0, "identify_timeout_s": 20.0, **options.pop("config", {})}
        self.strategy = OortStrategy(
            strategy or FedAvg(fraction_train=0.5, fraction_evaluate=0.0),
            self.selector,
            config,
            after_round=self.rounds.append,
            **options,
        )

    def run(self, on: Fleet, num_rounds: int = 1, timeout: float = 30.0) -> Result:
        arrays = ArrayRecord([array.copy() for array in START])
        return self.strategy.start(on.grid, arrays, num_rounds=num_rounds, timeout=timeout)


def model(result: Result) -> list[np.ndarray]:
    assert result.arrays is not None
    return result.arrays.to_numpy_ndarrays()


# Selecting


def test_who_trains_is_who_the_selector_picked() -> None:
    job = Job(config={"over_commit": 1.0})
    with fleet(8) as phones:
        job.run(phones, num_rounds=3)
        asked = [partition for partition, kind in phones.handled if kind == "train"]
    picked = [client for summary in job.rounds for client in summary.selection]
    assert sorted(asked) == sorted(picked)
    assert [len(summary.selection) for summary in job.rounds] == [4, 4, 4]
    assert job.selector.round_number == 3


def test_the_strategys_own_settings_say_how_many_and_stay_what_they_were() -> None:
    inside = FedAvg(fraction_train=0.25, min_train_nodes=3, min_available_nodes=5)
    with fleet(8) as phones:
        job = Job(inside, config={"over_commit": 1.0})
        job.run(phones)
    assert len(job.rounds[0].selection) == 3
    kept = (inside.fraction_train, inside.min_train_nodes, inside.min_available_nodes)
    assert kept == (0.25, 3, 5)


def test_a_number_of_participants_overrides_the_strategys_settings() -> None:
    with fleet(8) as phones:
        job = Job(config={"num_participants": 2, "over_commit": 1.5})
        job.run(phones)
    assert len(job.rounds[0].selection) == 3
    assert len(job.rounds[0].clients("completed")) == 2


def test_what_clients_report_reaches_the_selector() -> None:
    with fleet(4) as phones:
        job = Job(FedAvg(), config={"over_commit": 1.0})
        job.run(phones)
    known = job.selector.columns([0, 1, 2, 3])
    assert known.utility.tolist() == [(10 + p) * (1.0 + p) for p in range(4)]
    assert known.duration_s.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert known.num_samples.tolist() == [10, 11, 12, 13]


def test_our_metrics_do_not_reach_the_strategys_averages() -> None:
    with fleet(4) as phones:
        result = Job(FedAvg()).run(phones)
    assert list(result.train_metrics_clientapp[1]) == ["train_loss"]


def test_clients_with_and_without_the_helper_can_take_part_in_one_job() -> None:
    def mixed(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        arrays, metrics = usual(partition, message)
        if partition % 2:
            metrics = {k: v for k, v in metrics.items() if not k.startswith("oort-")}
        return arrays, metrics

    with fleet(4, client_app(mixed)) as phones:
        job = Job(FedAvg(), config={"over_commit": 1.0})
        assert job.run(phones).arrays is not None
    assert job.selector.columns([1]).utility.tolist() == [11 * 2.0]
    assert len(job.rounds[0].clients("completed")) == 4


@pytest.mark.parametrize(
    "name",
    [
        "FedAvg",
        "FedAvgM",
        "FedProx",
        "FedAdam",
        "FedAdagrad",
        "FedYogi",
        "FedMedian",
        "FedTrimmedAvg",
        "Krum",
        "MultiKrum",
        "Bulyan",
        "QFedAvg",
    ],
)
def test_any_of_flowers_strategies_can_be_wrapped(name: str) -> None:
    needed = {"QFedAvg": {"client_learning_rate": 0.1}, "FedProx": {"proximal_mu": 0.1}}
    extra: dict[str, Any] = needed.get(name, {})
    inside = getattr(flower, name)(fraction_train=0.75, fraction_evaluate=0.5, **extra)
    with fleet(8) as phones:
        job = Job(inside)
        result = job.run(phones, num_rounds=2)
    assert result.arrays is not None
    assert [len(summary.clients("completed")) for summary in job.rounds] == [6, 6]
    assert result.evaluate_metrics_clientapp[2]["accuracy"] == 0.5


def test_a_strategy_that_asks_fewer_than_were_picked_leaves_the_rest_unused() -> None:
    inside = flower.FedXgbCyclic(fraction_evaluate=0.0)
    with fleet(4) as phones:
        job = Job(inside, config={"over_commit": 1.0})
        job.run(phones)
    assert len(job.rounds[0].clients("completed")) == 1
    assert len(job.rounds[0].clients("unused")) == 3


class WithOwnStart(FedAvg):
    """A strategy of a user who has a loop of her own, as Flower's guides show."""

    started = 0

    def start(self, *args: Any, **options: Any) -> Result:
        self.started += 1
        return super().start(*args, **options)


def test_a_strategy_with_a_start_of_its_own_keeps_it() -> None:
    inside = WithOwnStart(fraction_train=0.5, fraction_evaluate=0.0)
    with fleet(8) as phones:
        job = Job(inside)
        job.run(phones, num_rounds=2)
    assert inside.started == 1
    assert len(job.rounds) == 2
    assert "configure_train" not in vars(inside)


def test_a_classic_strategy_is_refused_with_the_name_of_the_other_wrapper() -> None:
    from flwr.server.strategy import FedAvg as ClassicFedAvg

    wrong: Any = ClassicFedAvg()
    with pytest.raises(oort.InvalidArgumentError, match="OortClassicStrategy"):
        OortStrategy(wrong, oort.create_training_selector())


# The engine's own result


def plain(phones: Fleet, inside: Strategy, num_rounds: int) -> list[np.ndarray]:
    arrays = ArrayRecord([array.copy() for array in START])
    return model(inside.start(phones.grid, arrays, num_rounds=num_rounds, timeout=30.0))


@pytest.mark.parametrize("name", ["FedAvg", "FedAdam", "FedMedian"])
def test_uniform_selection_of_everyone_gives_the_engines_own_result(name: str) -> None:
    kind = getattr(flower, name)
    with fleet(6) as phones:
        expected = plain(phones, kind(fraction_evaluate=0.0), 3)
    with fleet(6) as phones:
        job = Job(kind(fraction_evaluate=0.0), UniformSelector())
        got = model(job.run(phones, num_rounds=3))
    # The engine adds up in the order in which replies come: the last bits may differ.
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_uniform_selection_of_some_gives_the_engines_own_result_for_the_same_some() -> None:
    with fleet(8) as phones:
        job = Job(FedAvg(fraction_train=0.5, fraction_evaluate=0.0), UniformSelector())
        got = model(job.run(phones, num_rounds=3))
    cohorts = [set(summary.clients("completed")) for summary in job.rounds]
    assert all(len(cohort) == 4 for cohort in cohorts)

    def weightless_unless_picked(
        partition: int, message: Message
    ) -> tuple[list[np.ndarray], dict[str, float]]:
        arrays, metrics = usual(partition, message)
        server_round = int(message.content["config"]["server-round"])  # type: ignore[arg-type]
        picked = partition in cohorts[server_round - 1]
        return arrays, {"num-examples": metrics["num-examples"] if picked else 0}

    with fleet(8, client_app(weightless_unless_picked)) as phones:
        expected = plain(phones, FedAvg(fraction_evaluate=0.0), 3)
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


# Bad luck


def slow(partitions: set[int], seconds: float) -> Any:
    def train(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        if partition in partitions:
            time.sleep(seconds)
        return usual(partition, message)

    return client_app(train)


def test_the_round_ends_at_the_quorum_and_the_slow_are_cut_off() -> None:
    with fleet(4, slow({3}, 60.0)) as phones:
        job = Job(config={"num_participants": 3, "over_commit": 4 / 3})
        job.run(phones)
    assert job.rounds[0].ended_by == "quorum"
    assert job.rounds[0].clients("unused") == [3]
    bound = job.selector.columns([3]).duration_s[0]
    assert bound == pytest.approx(job.rounds[0].elapsed_s, rel=1e-3)
    assert job.selector.columns([3]).participations.tolist() == [0]


def test_those_who_did_not_answer_by_the_timeout_failed() -> None:
    with fleet(4, dead={2}) as phones:
        job = Job(FedAvg(fraction_evaluate=0.0), config={"identify": "node-id"})
        result = job.run(phones, timeout=8.0)
        silent = next(node for node, p in phones.partition_of.items() if p == 2)
    assert job.rounds[0].ended_by == "timeout"
    assert job.rounds[0].clients("failed") == [silent]
    assert result.arrays is not None


def test_a_client_that_raises_is_made_up_for_by_another() -> None:
    def broken(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        if partition == 0:
            raise BrokenError
        return usual(partition, message)

    with fleet(4, client_app(broken)) as phones:
        job = Job(config={"num_participants": 3, "over_commit": 4 / 3})
        result = job.run(phones)
    assert job.rounds[0].clients("failed") == [0]
    assert len(job.rounds[0].clients("completed")) == 3
    assert result.arrays is not None


def test_the_pacers_deadline_ends_a_round_without_its_quorum() -> None:
    with fleet(6, slow({5}, 60.0)) as phones:
        settings = {"pacer": {"preferred_s": 6.0}}
        job = Job(
            FedAvg(fraction_evaluate=0.0),
            oort.create_training_selector(settings),
            config={"deadline": "pacer"},
        )
        job.run(phones)
    assert job.rounds[0].ended_by == "deadline"
    assert job.rounds[0].selection.preferred_s == 6.0
    assert job.rounds[0].clients("failed") == [5]
    assert len(job.rounds[0].clients("completed")) == 5


def with_report(**report: float) -> Any:
    """Partition 1 reports something else than the rest."""

    def train(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        arrays, metrics = usual(partition, message)
        return arrays, {**metrics, **report} if partition == 1 else metrics

    return client_app(train)


def test_a_loss_that_is_not_a_number_is_refused_and_the_round_goes_on() -> None:
    with fleet(3, with_report(**{"oort-mean-squared-loss": float("nan")})) as phones:
        job = Job(FedAvg(fraction_evaluate=0.0), config={"over_commit": 1.0})
        result = job.run(phones)
    assert result.arrays is not None
    assert job.selector.update_clients([0, 1, 2], utility=[1.0] * 3).repeated == 3
    assert job.selector.columns([1]).utility[0] == 0 or np.isnan(
        job.selector.columns([1]).utility[0]
    )


def test_a_bad_report_can_cost_the_client_its_place_in_the_average() -> None:
    with fleet(3, with_report(**{"oort-mean-squared-loss": float("nan")})) as phones:
        job = Job(
            FedAvg(fraction_evaluate=0.0), config={"over_commit": 1.0, "drop_bad_replies": True}
        )
        got = model(job.run(phones))
    assert job.rounds[0].clients("failed") == [1]
    np.testing.assert_allclose(got[0], (0 * 10 + 2 * 12) / 22)


def test_clients_that_report_no_loss_are_told_of_once() -> None:
    def mute(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        return usual(partition, message)[0], {"num-examples": 10}

    with fleet(3, client_app(mute)) as phones:
        job = Job(FedAvg(fraction_evaluate=0.0))
        with pytest.warns(oort.EngineWarning, match="ClientReport") as caught:
            result = job.run(phones, num_rounds=2)
    assert len([w for w in caught if w.category is oort.EngineWarning]) == 1
    assert result.arrays is not None
    assert len(job.rounds[1].clients("failed")) == 3


def test_a_reply_for_another_round_is_dropped() -> None:
    app = client_app()
    handle = app.__call__

    class Confused:
        def __call__(self, message: Message, context: Any) -> Message:
            reply = handle(message, context)
            if context.node_config["partition-id"] == 0:
                reply.metadata.group_id = "99"
            return reply

    confused: Any = Confused()
    with fleet(3, confused) as phones:
        job = Job(FedAvg(fraction_evaluate=0.0), config={"over_commit": 1.0})
        job.run(phones, timeout=20.0)
    assert job.rounds[0].clients("failed") == [0]


def test_a_reply_that_comes_twice_or_late_changes_nothing() -> None:
    with fleet(4, slow({3}, 1.0)) as phones:
        pull = phones.grid.pull_messages

        def twice(message_ids: Any) -> list[Message]:
            replies = list(pull(message_ids))
            return replies + replies

        phones.grid.pull_messages = twice  # type: ignore[method-assign]
        job = Job(config={"num_participants": 3, "over_commit": 4 / 3})
        job.run(phones, num_rounds=3)
    assert [len(s.clients("completed")) for s in job.rounds] == [3, 3, 3]


def test_with_fewer_clients_than_asked_for_the_round_goes_on() -> None:
    with fleet(3) as phones:
        job = Job(config={"num_participants": 100})
        job.run(phones)
    assert sorted(job.rounds[0].clients("completed")) == [0, 1, 2]


def test_with_fewer_nodes_than_the_strategy_waits_for_it_goes_on_after_a_while() -> None:
    inside = FedAvg(fraction_train=0.5, fraction_evaluate=0.0, min_available_nodes=50)
    with fleet(4) as phones:
        job = Job(inside, config={"node_wait_s": 0.5})
        job.run(phones)
    assert len(job.rounds[0].clients("completed")) == 2


def test_with_nobody_online_the_job_ends_with_an_error_that_says_what_to_do() -> None:
    with fleet(0) as nobody, pytest.raises(oort.WaitTimeoutError, match="node_wait_s"):
        Job(config={"node_wait_s": 0.3}).run(nobody)


def test_an_evaluation_that_would_wait_for_ever_ends_with_an_error() -> None:
    inside = FedAvg(fraction_train=0.5, min_evaluate_nodes=50)
    with fleet(4) as phones, pytest.raises(oort.WaitTimeoutError, match="min_evaluate_nodes"):
        Job(inside, config={"node_wait_s": 0.5}).run(phones)


def test_nobody_eligible_trains_nobody_and_changes_nothing() -> None:
    selector = oort.create_training_selector()
    selector.register_clients(range(3))
    selector.mark_offline()
    with fleet(3) as phones:
        job = Job(selector=selector)
        result = job.run(phones)
    assert not result.arrays
    assert job.rounds == []
    assert selector.round_number == 0


# Ids that survive


def test_a_job_that_starts_again_continues_with_what_was_known(tmp_path: Path) -> None:
    file = tmp_path / "job.oort"
    with fleet(6) as phones:
        job = Job()
        job.run(phones, num_rounds=2)
        job.selector.save(file)
    with fleet(6) as phones:  # new node ids, the same partitions
        again = Job(selector=oort.load_selector(file))
        again.run(phones, num_rounds=1)
    assert again.selector.num_clients == 6
    assert again.selector.round_number == 3
    assert again.rounds[0].server_round == 1
    expected = oort.load_selector(file).select(4, among=list(range(6)))
    assert sorted(again.rounds[0].selection) == sorted(expected)


def test_the_names_of_nodes_are_used_before_their_partitions() -> None:
    with fleet(3, names=["ann", "bob", "cy"]) as phones:
        job = Job(FedAvg(fraction_evaluate=0.0))
        job.run(phones)
        assert ("query.oort") not in {kind for _, kind in phones.handled}
    assert sorted(job.rounds[0].selection) == ["ann", "bob", "cy"]


def test_clients_that_do_not_say_who_they_are_go_by_node_id_with_one_warning() -> None:
    with fleet(6, client_app(says_who=False)) as phones:
        job = Job()
        with pytest.warns(oort.EngineWarning, match="introduce") as caught:
            job.run(phones, num_rounds=2)
        assert set(job.rounds[0].selection) <= set(phones.partition_of)
    assert len(caught) == 1


def test_ids_can_be_the_users_own() -> None:
    with fleet(4) as phones:
        number = phones.partition_of
        job = Job(config={"identify": lambda node: f"site-{number[node.node_id]}"})
        job.run(phones)
    assert set(job.rounds[0].selection) <= {"site-0", "site-1", "site-2", "site-3"}


def test_a_node_that_joins_in_mid_job_takes_part() -> None:
    with fleet(2) as phones:
        job = Job(FedAvg(fraction_evaluate=0.0), config={"over_commit": 1.0})

        def connect_another(summary: RoundSummary) -> None:
            job.rounds.append(summary)
            phones.connect(len(job.rounds) + 1)

        job.strategy.conductor._after_round = connect_another
        job.run(phones, num_rounds=3)
    assert [len(s.selection) for s in job.rounds] == [2, 3, 4]


def test_hints_that_clients_give_reach_the_selector_before_the_first_round() -> None:
    def describe(context: Any) -> dict[str, object]:
        partition = context.node_config["partition-id"]
        return {"num_samples": 100 + partition, "expected_duration_s": 5.0 + partition}

    with fleet(3, client_app(describe=describe)) as phones:
        job = Job(config={"num_participants": 1, "over_commit": 1.0})
        job.run(phones)
    others = [c for c in range(3) if c not in job.rounds[0].selection.participants]
    assert job.selector.columns(others).num_samples.tolist() == [100 + c for c in others]


# Evaluation cohorts


def test_who_tests_is_who_the_testing_selector_drew() -> None:
    tester = oort.create_testing_selector(seed=3)
    with fleet(12) as phones:
        job = Job(
            FedAvg(fraction_train=0.25, min_available_nodes=2),
            tester=tester,
            test=lambda t: t.select_by_deviation(dev_target=20, range_of_capacity=40),
        )
        result = job.run(phones, num_rounds=2)
        tested = [partition for partition, kind in phones.handled if kind == "evaluate"]
    plan = job.strategy.conductor.last_plan
    assert plan is not None
    assert 0 < len(plan) < 12
    assert set(tested[-len(plan) :]) == set(plan)
    assert result.evaluate_metrics_clientapp[2]["accuracy"] == 0.5


class CategoryPlan:
    """What a plan by category offers to an adapter."""

    def __init__(self, assignment: dict[int, dict[str, int]]) -> None:
        self.assignment = assignment
        self.participants = list(assignment)
        self.num_participants = len(assignment)

    def __iter__(self) -> Any:
        return iter(self.participants)

    def __len__(self) -> int:
        return len(self.participants)


def test_clients_are_told_how_many_samples_of_which_category_to_test_on() -> None:
    told: dict[int, Any] = {}

    def evaluate(partition: int, message: Message) -> dict[str, float]:
        told[partition] = samples_to_test(message.content.config_records["config"])
        return {"accuracy": 1.0}

    assignment = {2: {"cat": 5}, 4: {"cat": 1, "dog": 7}}
    with fleet(6, client_app(evaluate=evaluate)) as phones:
        job = Job(
            FedAvg(fraction_train=0.5),
            tester=oort.create_testing_selector(),
            test=lambda tester: CategoryPlan(assignment),
        )
        job.run(phones)
    assert told == assignment


@pytest.mark.skipif(
    not hasattr(oort.create_testing_selector(), "select_by_category"),
    reason="needs requests by category",
)
def test_a_test_by_category_is_planned_from_what_clients_told_of_themselves() -> None:
    told: dict[int, Any] = {}

    def describe(context: Any) -> dict[str, object]:
        partition = int(context.node_config["partition-id"])
        samples = {"cat": 10, "dog": 1} if partition % 2 else {"dog": 10}
        return {"samples": samples, "samples_per_s": 1.0 + partition, "bandwidth_mbps": 10.0}

    def evaluate(partition: int, message: Message) -> dict[str, float]:
        told[partition] = samples_to_test(message.content.config_records["config"])
        return {"accuracy": 1.0}

    tester: Any = oort.create_testing_selector()
    with fleet(6, client_app(evaluate=evaluate, describe=describe)) as phones:
        job = Job(
            FedAvg(fraction_train=0.5),
            tester=tester,
            test=lambda tester: tester.select_by_category({"cat": 12, "dog": 7}),  # type: ignore[attr-defined, unused-ignore]
        )
        job.run(phones)
    for category, wanted in {"cat": 12, "dog": 7}.items():
        assert sum(samples.get(category, 0) for samples in told.values()) == wanted
    assert all(s.get("cat", 0) == 0 for p, s in told.items() if p % 2 == 0)


# Privacy


def private(**options: Any) -> Strategy:
    inside = FedAvg(fraction_train=0.5, fraction_evaluate=0.0)
    return flower.DifferentialPrivacyServerSideFixedClipping(
        inside, noise_multiplier=0.01, clipping_norm=10.0, num_sampled_clients=4, **options
    )


@pytest.fixture
def _not_warned_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inner, "_warned_of_privacy", set())


@pytest.mark.usefixtures("_not_warned_yet")
def test_a_private_strategy_is_warned_of_lost_amplification_once() -> None:
    with pytest.warns(oort.PrivacyWarning, match="amplification"):
        OortStrategy(private(), oort.create_training_selector())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OortStrategy(private(), oort.create_training_selector())


@pytest.mark.usefixtures("_not_warned_yet")
def test_uniform_selection_keeps_amplification_and_is_not_warned_of() -> None:
    guided = oort.create_training_selector()
    guided.mode = "uniform"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        OortStrategy(private(), UniformSelector())
        OortStrategy(private(), guided)
    assert not [warning for warning in told if warning.category is oort.PrivacyWarning]


@pytest.mark.usefixtures("_not_warned_yet")
def test_an_accountant_without_amplification_is_not_warned_of_but_forbids_over_commit() -> None:
    from types import SimpleNamespace as Some

    strategy = private()
    accountant = Some(config=Some(sampling_method=Some(value="no-amplification")))
    strategy.accountant = accountant  # type: ignore[attr-defined]
    with pytest.raises(oort.ConfigError, match="over_commit must be 1"):
        OortStrategy(strategy, oort.create_training_selector())
    OortStrategy(strategy, oort.create_training_selector(), FlowerConfig(over_commit=1.0))


def test_flowers_own_accountant_counts_what_was_picked() -> None:
    pytest.importorskip("dp_accounting", reason="needs flwr[dp]")
    from flwr.serverapp import (
        NeighboringRelation,
        PrivacyConfig,
        RdpAccountant,
        SamplingMethod,
    )

    accountant = RdpAccountant(
        PrivacyConfig(
            target_delta=1e-5,
            population_size=8,
            neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE,
            sampling_method=SamplingMethod.NO_AMPLIFICATION,
        )
    )

    def equal(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        arrays, metrics = usual(partition, message)
        # Flower divides by an update's norm.
        return [array + 1.0 for array in arrays], {**metrics, "num-examples": 10}

    with fleet(8, client_app(equal)) as phones:
        job = Job(private(accountant=accountant), config={"over_commit": 1.0})
        result = job.run(phones, num_rounds=2)
    assert result.arrays
    assert accountant.get_privacy_spent().num_releases == 2


@pytest.mark.filterwarnings("ignore::oort.PrivacyWarning")
def test_a_private_strategy_gets_exactly_as_many_results_as_it_was_set_up_for() -> None:
    def broken(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        if partition == 0:
            raise BrokenError
        return usual(partition, message)

    with fleet(8, client_app(broken)) as phones:
        job = Job(private(), config={"over_commit": 2.0})
        result = job.run(phones)
    assert result.arrays is not None
    assert len(job.rounds[0].clients("completed")) == 4


@pytest.mark.filterwarnings("ignore::oort.PrivacyWarning")
@pytest.mark.parametrize("clipping", ["fixed", "adaptive", "local"])
def test_flowers_privacy_mods_on_clients_work_beside_the_report(clipping: str) -> None:
    from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod, fixedclipping_mod

    inside = FedAvg(fraction_train=0.5, fraction_evaluate=0.0)
    kinds: dict[str, tuple[Any, Strategy]] = {
        "fixed": (
            fixedclipping_mod,
            flower.DifferentialPrivacyClientSideFixedClipping(inside, 0.01, 10.0, 4),
        ),
        "adaptive": (
            adaptiveclipping_mod,
            flower.DifferentialPrivacyClientSideAdaptiveClipping(inside, 0.01, 4),
        ),
        "local": (LocalDpMod(10.0, 1.0, 100.0, 0.01), inside),
    }
    mod, strategy = kinds[clipping]

    def moving(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        arrays, metrics = usual(partition, message)
        return [array + 1.0 for array in arrays], metrics  # the mods divide by an update's norm

    with fleet(8, client_app(moving, train_mods=[mod])) as phones:
        job = Job(strategy, config={"over_commit": 1.0})
        result = job.run(phones)
    assert result.arrays
    assert len(job.rounds[0].clients("completed")) == 4
    first: list[Any] = list(job.rounds[0].selection)
    expected = [(10 + p) * (1.0 + p) for p in first]
    assert job.selector.columns(first).utility.tolist() == expected
