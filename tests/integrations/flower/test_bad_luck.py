"""What clients, strategies and users get wrong, and what it must not cost the rest."""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.server import ServerConfig
from flwr.server.compat.app import start_grid
from flwr.server.strategy import FedAvg as ClassicFedAvg
from flwr.serverapp.strategy import FedAvg

import oort
from oort.integrations.flower import OortClassicStrategy, OortStrategy, describing_mod
from oort.integrations.flower.roster import Description

from . import test_classic as classic
from .apps import BrokenError, Phone, client_app, phones, usual
from .fleet import fleet
from .test_message import Job, model

# Clients that say nonsense


@pytest.mark.parametrize(
    "values",
    [
        {"oort-id": 3.5},
        {"oort-id": True},
        {"oort-id": ["a"]},
        {"oort-id": b"a"},
        {"oort-info": "{not json"},
        {"oort-info": "[1]"},
        {"oort-info": '{"samples": 5}'},
        {"oort-info": 7},
        {"oort-info": "[" * 100_000},
    ],
)
def test_what_cannot_be_an_id_or_cannot_be_read_is_left_out(values: dict[str, Any]) -> None:
    described = Description.from_values(values)
    assert described.id is None
    assert described.info == {}


@pytest.mark.parametrize(
    "told",
    [
        {"num_samples": -5},
        {"expected_duration_s": math.nan},
        {"expected_duration_s": "soon"},
        {"samples": {"cat": -1}, "samples_per_s": 1.0, "bandwidth_mbps": 1.0},
        {"colour": "red"},
    ],
)
def test_a_client_that_says_nonsense_of_itself_costs_nobody_the_job(
    told: dict[str, Any], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)

    def describe(context: Any) -> dict[str, object]:
        return told if context.node_config["partition-id"] == 1 else {"num_samples": 10}

    with fleet(3, client_app(describe=describe)) as phones:
        job = Job(FedAvg(fraction_evaluate=0.0), tester=oort.create_testing_selector())
        job.run(phones)
    assert sorted(job.rounds[0].selection) == [0, 1, 2]
    assert "what client 1 says of itself is left out" in caplog.text


def test_nonsense_in_the_classic_api_costs_nobody_the_job_either() -> None:
    mod = describing_mod(lambda context: {"num_samples": -5})
    with fleet(3, phones(mods=[mod])) as running:
        job = classic.Job(classic.everyone())
        job.run(running)
    assert len(job.rounds[0].clients("completed")) == 3


def test_a_client_that_answers_the_question_in_its_own_way_goes_by_node_id() -> None:
    app = client_app(says_who=False)

    @app.query("oort")
    def who(message: Message, context: Any) -> Message:
        return Message(RecordDict({"oort": ConfigRecord({"oort-id": 1.5})}), reply_to=message)

    with fleet(3, app) as phones:
        job = Job(FedAvg(fraction_evaluate=0.0))
        with pytest.warns(oort.EngineWarning, match="node ids"):
            job.run(phones)
        assert set(job.rounds[0].selection) == set(phones.partition_of)


def test_a_reply_with_very_many_metrics_is_read_and_not_repeated_to_the_user() -> None:
    names = {f"layer-{i}-{'x' * 200}": float(i) for i in range(3000)}

    def chatty(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        arrays, metrics = usual(partition, message)
        helper = {k: v for k, v in metrics.items() if k.startswith("oort-") and partition != 1}
        return arrays, {**helper, **names, "num-examples": 10}

    with fleet(3, client_app(chatty)) as phones:
        job = Job(FedAvg(fraction_evaluate=0.0), config={"over_commit": 1.0})
        with pytest.warns(oort.EngineWarning, match="no loss") as caught:
            result = job.run(phones)
    assert len(str(caught[0].message)) < 1500
    assert len(job.rounds[0].clients("completed")) == 2
    assert set(names) <= set(result.train_metrics_clientapp[1])


@pytest.mark.parametrize("loss", [1e308, -3.0, float("inf")])
def test_a_loss_beyond_reason_costs_the_client_its_report_and_nobody_else(loss: float) -> None:
    def wild(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        arrays, _ = usual(partition, message)
        return arrays, {"num-examples": 10, "train_loss": loss if partition == 1 else 2.0}

    with fleet(3, client_app(wild)) as phones:
        job = Job(FedAvg(fraction_evaluate=0.0), config={"over_commit": 1.0})
        result = job.run(phones, num_rounds=2)
    assert result.arrays is not None
    assert job.selector.columns([0, 2]).utility.tolist() == [20.0, 20.0]


@pytest.mark.parametrize("metrics", [{"loss": math.nan}, {}])
def test_classic_clients_with_nan_or_without_a_loss_keep_the_round_going(
    metrics: dict[str, float],
) -> None:
    class Odd(Phone):
        def fit(self, parameters: Any, config: Any) -> Any:
            arrays, count, usual_metrics = super().fit(parameters, config)
            return arrays, count, metrics if self.partition == 1 else usual_metrics

    def client_fn(context: Any) -> Any:
        return Odd(int(context.node_config["partition-id"])).to_client()

    from flwr.clientapp import ClientApp

    from oort.integrations.flower import oort_mod

    with fleet(3, ClientApp(client_fn, mods=[oort_mod])) as running:
        job = classic.Job(classic.everyone(), config={"over_commit": 1.0})
        if metrics:
            job.run(running)
        else:
            with pytest.warns(oort.EngineWarning, match="ClientReport"):
                job.run(running)
    assert job.rounds[0].arrays is not None
    assert not job.selector.columns([1]).utility[0] > 0
    assert job.selector.columns([0]).utility.tolist() == [10.0]


def test_with_fewer_classic_clients_than_asked_for_the_round_goes_on() -> None:
    with fleet(3, phones()) as running:
        job = classic.Job(config={"num_participants": 100})
        job.run(running)
    assert sorted(job.rounds[0].clients("completed")) == [0, 1, 2]


# Strategies of users


class Picky(FedAvg):
    """A user's own: asks every second node that it sees, and says something to each."""

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        nodes = sorted(grid.get_node_ids())[::2]
        config["greeting"] = "hello"
        record = RecordDict({self.arrayrecord_key: arrays, self.configrecord_key: config})
        return self._construct_messages(record, nodes, "train")


def test_a_strategy_with_its_own_configure_train_keeps_it() -> None:
    heard: list[Any] = []

    def listening(partition: int, message: Message) -> tuple[list[np.ndarray], dict[str, float]]:
        heard.append(message.content.config_records["config"]["greeting"])
        return usual(partition, message)

    inside = Picky(fraction_train=1.0, fraction_evaluate=0.0)
    with fleet(6, client_app(listening)) as phones:
        job = Job(inside, config={"over_commit": 1.0})
        job.run(phones, num_rounds=2)
    assert heard == ["hello"] * 6
    for summary in job.rounds:
        assert len(summary.clients("completed")) == len(summary.clients("unused")) == 3


class Fragile(FedAvg):
    """Fails where results are combined."""

    def aggregate_train(self, server_round: int, replies: Any) -> Any:
        raise BrokenError


def test_a_strategy_that_fails_does_not_cost_the_selector_what_clients_reported() -> None:
    with fleet(3) as phones:
        job = Job(Fragile(fraction_evaluate=0.0), config={"over_commit": 1.0})
        with pytest.raises(BrokenError):
            job.run(phones)
    assert len(job.rounds) == 1
    assert job.selector.columns([0, 1, 2]).utility.tolist() == [10.0, 22.0, 36.0]


def test_a_wrapped_strategy_is_not_wrapped_again() -> None:
    once = OortStrategy(FedAvg(), oort.create_training_selector())
    with pytest.raises(oort.InvalidArgumentError, match="already"):
        OortStrategy(once, oort.create_training_selector())
    classic_once = OortClassicStrategy(ClassicFedAvg(), oort.create_training_selector())
    with pytest.raises(oort.InvalidArgumentError, match="already"):
        OortClassicStrategy(classic_once, oort.create_training_selector())


def test_a_wrapped_strategy_can_run_again_on_other_nodes() -> None:
    job = Job(FedAvg(fraction_evaluate=0.0), config={"over_commit": 1.0})
    for _ in range(2):
        with fleet(4) as phones:  # new node ids, the same partitions
            result = job.run(phones, num_rounds=2)
    assert [s.server_round for s in job.rounds] == [1, 2, 1, 2]
    assert [s.round_number for s in job.rounds] == [1, 2, 3, 4]
    assert job.selector.num_clients == 4
    np.testing.assert_allclose(model(result)[0], 2 * (0 * 10 + 11 + 2 * 12 + 3 * 13) / 46)


def test_two_jobs_in_one_process_do_not_meet() -> None:
    with fleet(6) as phones:
        jobs = [Job(config={"over_commit": 1.0}) for _ in range(2)]
        for _ in range(2):
            for job in jobs:
                job.run(phones)
    first, second = ([sorted(s.selection) for s in job.rounds] for job in jobs)
    assert first == second  # the same seed, and nothing of the other's


def test_the_same_seed_picks_the_same_clients_whatever_numbers_flower_gives_them() -> None:
    def describe(context: Any) -> dict[str, object]:
        return {"num_samples": 10 + int(context.node_config["partition-id"])}

    picked = []
    for _ in range(3):
        job = Job(config={"num_participants": 4, "over_commit": 1.0})
        with fleet(20, client_app(describe=describe)) as phones:
            job.run(phones, num_rounds=3)
        picked.append([list(s.selection) for s in job.rounds])
    assert picked[0] == picked[1] == picked[2]


def test_a_classic_strategy_runs_twice_too() -> None:
    job = classic.Job(classic.everyone(), config={"over_commit": 1.0})
    for _ in range(2):
        with fleet(3, phones()) as running:
            job.run(running)
    assert [s.round_number for s in job.rounds] == [1, 2]
    assert job.selector.num_clients == 3


# Waiting


def test_an_evaluation_without_a_timeout_ends_where_a_client_is_silent() -> None:
    with fleet(4, dead={2}) as phones:
        job = Job(
            FedAvg(fraction_train=0.0, fraction_evaluate=1.0),
            config={"identify": "node-id", "reply_timeout_s": 6.0},
        )
        arrays = ArrayRecord([np.zeros(2)])
        result = job.strategy.start(phones.grid, arrays, num_rounds=1, timeout=math.inf)
    assert result.evaluate_metrics_clientapp[1]["accuracy"] == 0.5


def test_a_classic_evaluation_that_would_wait_for_a_day_ends_with_an_error() -> None:
    inside = ClassicFedAvg(
        fraction_fit=0.5, initial_parameters=classic.START, min_available_clients=50
    )
    job = classic.Job(inside, config={"node_wait_s": 0.5})
    with (
        fleet(4, phones()) as running,
        pytest.raises(oort.WaitTimeoutError, match="min_available_clients"),
    ):
        job.run(running)


def test_a_classic_evaluation_without_a_timeout_ends_where_a_client_is_silent() -> None:
    inside = ClassicFedAvg(fraction_evaluate=1.0, initial_parameters=classic.START)
    with fleet(4, phones(), dead={2}) as running:
        job = classic.Job(inside, config={"identify": "node-id", "reply_timeout_s": 6.0})
        config = ServerConfig(num_rounds=1, round_timeout=None)
        history = start_grid(grid=running.grid, config=config, strategy=job.strategy)
    assert history.losses_distributed == [(1, 0.5)]


# The log


def test_an_ordinary_round_is_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)
    with fleet(6) as phones, caplog.at_level(logging.INFO, logger="flwr"):
        Job().run(phones, num_rounds=3)
    ours = [r for r in caplog.records if str(r.msg).startswith("oort")]
    assert [r.levelname for r in ours] == ["INFO"] * 3
