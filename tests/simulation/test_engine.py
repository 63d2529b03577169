from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oort
from oort.baselines import UniformSelector
from oort.errors import ConfigError
from oort.simulation import Job, StrategyConfig, World
from oort.simulation.cohort import CohortTrainer
from oort.simulation.engine import RoundResult
from oort.simulation.executor import InProcess
from oort.simulation.population import Participations, expected_duration_s
from oort.simulation.rounds import close
from tests.simulation.examples import small_world

STEADY = {"compute_variation": 0.0, "bandwidth_variation": 0.0}


def play(strategy: str = "oort", seed: int = 1, **sections: Any) -> list[RoundResult]:
    job = Job(small_world(seed, **sections), StrategyConfig(kind=strategy))
    return list(job.rounds())


class Recorder(UniformSelector):
    """Random selection that remembers what it was told."""

    made: list[Recorder] = []  # noqa: RUF012

    def __init__(self, **settings: Any) -> None:
        super().__init__(settings)
        self.told: list[dict[str, Any]] = []
        self.hints: Any = None
        Recorder.made.append(self)

    def register_clients(self, client_ids: Any, **hints: Any) -> Any:
        self.hints = hints
        return super().register_clients(client_ids, **hints)

    def update_clients(self, client_ids: Any, **report: Any) -> Any:
        self.told.append({"clients": list(client_ids), **report})
        return super().update_clients(client_ids, **report)


RECORDER = f"{__name__}:Recorder"


@pytest.fixture
def recorder_kind(monkeypatch: pytest.MonkeyPatch) -> str:
    import sys

    monkeypatch.setitem(sys.modules, "recorder_for_tests", sys.modules[__name__])
    Recorder.made.clear()
    return "recorder_for_tests:Recorder"


def test_the_clock_advances_by_the_kth_of_those_selected() -> None:
    """Without variation a round can be computed by hand from the devices alone."""
    world = small_world(devices=STEADY)
    job = Job(world, StrategyConfig(kind="random"))
    clock_s = 0.0
    for result in job.rounds():
        picked = np.array([p.client for p in result.participations])
        takes_s = np.sort(
            expected_duration_s(
                world.devices, picked, world.samples[picked], transfer_mb=world.transfer_mb
            )
        )
        assert len(picked) == 11, "8 · 1.3, rounded up"
        assert result.record.duration_s == pytest.approx(takes_s[7])
        clock_s += takes_s[7]
        assert result.record.clock_s == pytest.approx(clock_s)
        assert result.record.completed == 8
        assert result.record.unused == 3
        assert result.record.used_s == pytest.approx(takes_s[:8].sum())
        assert result.record.wasted_s == pytest.approx(3 * takes_s[7])


def test_the_first_to_finish_completes_and_the_rest_is_unused() -> None:
    for result in play("random", devices=STEADY):
        done = [p for p in result.participations if p.outcome == "completed"]
        rest = [p for p in result.participations if p.outcome == "unused"]
        assert max(p.duration_s for p in done) == result.record.duration_s
        assert {p.duration_s for p in rest} == {result.record.duration_s}


def test_selectors_are_told_every_outcome_with_what_a_real_client_would_report(
    recorder_kind: str,
) -> None:
    world = small_world(devices={"dropout_rate": 0.3})
    job = Job(world, StrategyConfig(kind=recorder_kind))
    results = list(job.rounds())
    told = Recorder.made[0].told
    assert Counter(t["outcome"] for t in told) >= Counter(["completed", "failed", "unused"])
    for result in results:
        mine = [t for t in told if t["round_number"] == result.record.round]
        everyone = [c for t in mine for c in t["clients"]]
        assert sorted(everyone) == sorted(p.client for p in result.participations)
        done = next(t for t in mine if t["outcome"] == "completed")
        sizes = world.data.sizes[done["clients"]]
        assert done["num_samples"].tolist() == np.minimum(sizes, 24).tolist()
        assert np.isfinite(done["mean_squared_loss"]).all()
    assert sum(r.record.failed for r in results) > 0


@pytest.mark.parametrize("hints", ["none", "noisy", "exact"])
def test_every_strategy_is_told_the_same_of_clients_speed(recorder_kind: str, hints: str) -> None:
    for _ in range(2):
        Job(small_world(devices={"hints": hints}), StrategyConfig(kind=recorder_kind))
    first, second = (r.hints["expected_duration_s"] for r in Recorder.made)
    if hints == "none":
        assert first is second is None
    else:
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", ["oort", "random", "round-robin"])
def test_histories_are_the_same_bit_for_bit_from_config_and_seed(kind: str) -> None:
    sections: dict[str, Any] = {
        "devices": {"dropout_rate": 0.1},
        "availability": {"kind": "daily"},
    }
    first, second = (play(kind, **sections, data={"clients": 400}) for _ in range(2))
    assert [repr(r.record) for r in first] == [repr(r.record) for r in second]
    assert [r.participations.to_bytes() for r in first] == [
        r.participations.to_bytes() for r in second
    ]
    other = play(kind, seed=2, **sections, data={"clients": 400})
    assert [repr(r.record) for r in other] != [repr(r.record) for r in first]


def test_the_chunk_size_is_no_matter_but_for_the_last_bits() -> None:
    one, many = (play(executor={"chunk_size": n})[-1].record for n in (1, 64))
    assert one.test_loss == pytest.approx(many.test_loss, rel=1e-4)


def test_strategies_meet_the_same_luck() -> None:
    world = small_world(devices={"dropout_rate": 0.3})
    by_client: list[dict[tuple[int, int], float]] = []
    for kind in ("random", "round-robin"):
        results = Job(world, StrategyConfig(kind=kind)).rounds()
        parts = [p for r in results for p in r.participations if p.outcome == "completed"]
        by_client.append({(p.round, p.client): p.duration_s for p in parts})
    shared = by_client[0].keys() & by_client[1].keys()
    assert shared
    assert all(by_client[0][key] == by_client[1][key] for key in shared)


def test_training_learns() -> None:
    results = play("random", rounds={"count": 40}, data={"feature_spread": 0, "model_spread": 0})
    losses = [r.record.test_loss for r in results if r.record.test_loss == r.record.test_loss]
    assert losses[-1] < losses[0]


def test_a_diverging_client_is_reported_as_failed_and_the_job_goes_on() -> None:
    results = play("oort", learner={"learning_rate": 1e38}, rounds={"count": 3})
    assert len(results) == 3
    for result in results:
        failed = [p for p in result.participations if p.outcome == "failed"]
        assert result.record.diverged == len(failed) > 0
        assert all(p.num_samples == 0 for p in failed)
    job = Job(small_world(learner={"learning_rate": 1e38}), StrategyConfig())
    list(job.rounds())
    assert all(np.isfinite(v).all() for v in job.state.params.values())


def poison(world: World, *bad: int) -> None:
    """Give some clients data on which every loss overflows."""
    original = world.data.cohort

    def poisoned(clients: Any) -> Any:
        cohort = original(clients)
        for place in np.flatnonzero(np.isin(clients, bad)):
            cohort.pool[cohort.start[place] : cohort.start[place + 1]] = 3e38
        return cohort

    world.data.cohort = poisoned  # type: ignore[method-assign]


def test_a_diverged_update_is_turned_down_and_the_next_to_finish_takes_its_place() -> None:
    """By hand: 11 selected for 8 updates, the fastest one's is useless, so the ninth ends it."""
    honest = play("random", devices=STEADY, rounds={"count": 1})[0]
    fastest = honest.participations[0].client
    world = small_world(devices=STEADY, rounds={"count": 1})
    poison(world, fastest)
    result = next(Job(world, StrategyConfig(kind="random")).rounds())
    picked = np.array([p.client for p in honest.participations])
    takes_s = np.sort(
        expected_duration_s(
            world.devices, picked, world.samples[picked], transfer_mb=world.transfer_mb
        )
    )
    record = result.record
    assert (record.completed, record.failed, record.diverged, record.unused) == (8, 1, 1, 2)
    assert record.duration_s == pytest.approx(takes_s[8])
    assert record.used_s == pytest.approx(takes_s[1:9].sum())
    assert record.wasted_s == pytest.approx(takes_s[0] + 2 * takes_s[8])
    lost = [p for p in result.participations if p.outcome == "failed"]
    assert [p.client for p in lost] == [fastest]
    assert lost[0].duration_s == pytest.approx(takes_s[0]), "it is known when it arrives"


def test_the_model_is_the_mean_of_those_whose_updates_count() -> None:
    sections: dict[str, Any] = {"devices": STEADY, "rounds": {"count": 1, "overcommit": 1.5}}
    world = small_world(**sections)
    fastest = [p.client for p in play("random", **sections)[0].participations][:3]
    poison(world, *fastest)
    job = Job(world, StrategyConfig(kind="random"))
    result = next(job.rounds())
    good = np.array([p.client for p in result.participations if p.outcome == "completed"])
    assert len(good) == 8
    trainer = CohortTrainer(world, InProcess(world.learner, workers=1), lambda _: None)
    params = world.learner.initial(world.seed)
    alone = Participations(np.ones(8), np.full(8, np.inf))
    _, trained = trainer(params, good, alone, round_number=1)
    for name, value in job.state.params.items():
        expected = params[name] + trained.mean_update[name]
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-6)


def test_one_diverging_client_does_not_cost_the_others_their_round() -> None:
    world = small_world(rounds={"overcommit": 1.0})
    poison(world, 7)
    results = list(Job(world, StrategyConfig(kind="round-robin")).rounds())
    outcomes = [p for r in results for p in r.participations if p.client == 7]
    assert "failed" in {p.outcome for p in outcomes}
    assert all(r.record.completed >= 7 for r in results)


def test_who_goes_offline_in_mid_round_fails() -> None:
    slow = {"transfer_mb": 2000.0}
    sections: dict[str, Any] = {
        "availability": {"kind": "daily"},
        "devices": slow,
        "data": {"clients": 500},
    }
    results = play("random", **sections)
    assert sum(r.record.failed for r in results) > 0


def test_a_round_waits_until_enough_clients_are_online() -> None:
    sections: dict[str, Any] = {
        "availability": {"kind": "daily", "start_hour": 12},
        "data": {"clients": 300},
    }
    results = play("random", rounds={"least_online": 45, "count": 2}, **sections)
    assert results[0].record.online >= 45
    assert results[0].record.waited_s > 0
    assert results[0].record.started_s == results[0].record.waited_s


def test_a_job_that_can_never_begin_says_so() -> None:
    with pytest.raises(
        ConfigError, match=r"availability must let at least 60 clients be selected"
    ):
        play(availability={"kind": "daily"}, rounds={"least_online": 60})


def test_a_job_ends_at_its_target_or_at_its_time() -> None:
    target = {"target_accuracy": 0.01, "stop_at_target": True}
    assert len(play(evaluation=target)) == 2, "the first test is in round 2"
    assert len(play(rounds={"max_clock_s": 0.001})) == 1


def test_a_deadline_counts_what_has_arrived() -> None:
    results = play("random", rounds={"deadline_s": 2.0})
    assert {r.record.duration_s for r in results} <= {2.0} | {
        r.record.duration_s for r in results if r.record.completed == 8
    }
    assert all(r.record.duration_s <= 2.0 for r in results)


def test_a_capped_round_trains_on_part_of_the_data() -> None:
    capped = small_world(learner={"work": "epochs", "cap_s": 2.0, "batch_size": 4})
    whole = small_world(learner={"work": "epochs", "batch_size": 4})
    assert (capped.samples <= whole.samples).all()
    assert (capped.samples < whole.samples).any()
    result = Job(capped, StrategyConfig(kind="random")).play()
    for part in result.participations:
        if part.outcome == "completed":
            assert part.num_samples == capped.samples[part.client]


def test_epochs_take_every_sample() -> None:
    world = small_world(learner={"work": "epochs", "epochs": 2})
    result = Job(world, StrategyConfig(kind="random")).play()
    for part in result.participations:
        if part.outcome == "completed":
            assert part.num_samples == world.data.sizes[part.client]


@pytest.mark.parametrize("aggregation", ["fedavg", "fedprox", "fedyogi", "fedadam"])
@pytest.mark.parametrize("weighting", ["samples", "equal"])
def test_every_kind_of_aggregation_runs(aggregation: str, weighting: str) -> None:
    server = {"aggregation": aggregation, "weighting": weighting}
    results = play(server=server, rounds={"count": 2})
    assert np.isfinite(results[-1].record.test_loss)


def test_bytes_count_the_model_down_to_all_and_up_from_those_used() -> None:
    record = play("random", devices={"transfer_mb": 2.0})[0].record
    assert record.down_bytes == 11 * 2_000_000
    assert record.up_bytes == 8 * 2_000_000


def test_a_strategys_settings_are_checked() -> None:
    strategy = StrategyConfig(kind="oort", settings={"alfa": 1})
    with pytest.raises(ConfigError, match=r"strategies.settings of 'oort'.*did you mean 'alpha'"):
        Job(small_world(), strategy)
    with pytest.raises(ConfigError, match=r"strategies.kind must name a factory.*no.such"):
        Job(small_world(), StrategyConfig(kind="no.such:thing"))
    with pytest.raises(ConfigError, match=r"strategies.kind must be one of 'oort', 'random'"):
        Job(small_world(), StrategyConfig(kind="best"))


def test_the_selector_sees_preferred_duration_and_exploration() -> None:
    records = [r.record for r in play("oort")]
    assert records[0].preferred_s == np.inf
    assert np.isfinite(records[-1].preferred_s)
    assert records[0].epsilon > records[-1].epsilon
    assert records[0].explored == records[0].selected


def test_rounds_close_as_the_engine_says() -> None:
    """The engine's ending is the one that ``close`` gives for the durations it recorded."""
    result = play("random", devices=STEADY)[0]
    done = [p.duration_s for p in result.participations if p.outcome == "completed"]
    ending = close(np.array(done), np.full(len(done), np.inf), wanted=8)
    assert ending.duration_s == result.record.duration_s


def test_a_selector_in_a_job_is_an_oort_selector() -> None:
    job = Job(small_world(), StrategyConfig())
    assert isinstance(job.selector, oort.TrainingSelector)
    job.close()


RAY_JOB = """
import sys
from oort.simulation import Job, StrategyConfig
from tests.simulation.examples import small_world

world = small_world(executor={"kind": "ray", "workers": 2}, rounds={"count": 3})
job = Job(world, StrategyConfig())
try:
    records = [repr(result.record) for result in job.rounds()]
finally:
    job.close()
sys.stdout.write("\\n".join(["records:", *records]))
"""


@pytest.mark.slow
def test_ray_gives_the_same_history() -> None:
    """In a process of its own: Ray leaves files and processes open that ours would warn of."""
    pytest.importorskip("ray", reason="needs the extra 'ray'")
    here = play("oort", rounds={"count": 3})
    done = subprocess.run(
        [sys.executable, "-c", RAY_JOB],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    there = done.stdout.split("records:\n")[1].splitlines()
    assert there == [repr(result.record) for result in here]
