"""A sweep's trials run one after another, or beside each other, under each supervisor."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.supervisor.conftest import NAME, Stage
from workbench.core.fleet.model import Node, NodeState
from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.sweep import Outcome, Space, SweepFact, SweepWish, Trial
from workbench.supervisor.loop import Supervisor

VALUES = (0.1, 0.2, 0.3, 0.4)
SPACES = (("lr", Space(VALUES)),)
LOSS = "report(loss=(lr - 0.2) ** 2)"


def ask(stage: Stage, source: str, *, ranks=(0, 0), trials: int = 4, **more) -> str:
    run = RunWish("260101-000000-zzzz", "fit", RunKind.CELL, source, NAME)
    sweep = SweepWish(
        "s", "fit", run, SPACES, trials, "loss", sampler="grid", ranks=ranks, created=time.time(),
        cluster=NAME,
    )  # fmt: skip
    stage.store.sweeps.wish(replace(sweep, **more), None, None)
    return "s"


def over(stage: Stage) -> tuple[SweepFact, list[Trial]]:
    stage.until(lambda: stage.store.sweeps.find("s")[1].over)
    return stage.store.sweeps.find("s")[1], stage.store.sweeps.trials("s")


def most_at_once(stage: Stage, trials: list[Trial]) -> int:
    runs = [stage.store.run(one.run).fact for one in trials]
    moments = [(one.started, 1) for one in runs] + [(one.ended, -1) for one in runs]
    many = most = 0
    for _, change in sorted(moments):
        many += change
        most = max(most, many)
    return most


@pytest.mark.parametrize(("ranks", "most"), [((0, 0), 1), ((1, 1), 2)])
def test_each_trial_runs_once_with_its_parameters(stage: Stage, ranks, most) -> None:
    stage.up(2)
    ask(stage, f"sleep(0.2)\n{LOSS}", ranks=ranks)

    fact, trials = over(stage)

    assert fact == SweepFact("All 4 trials have ended.")
    assert [dict(one.parameters)["lr"] for one in trials] == [*VALUES]
    assert {one.outcome for one in trials} == {Outcome.FINISHED}
    assert [round(one.value or 0.0, 6) for one in trials] == [0.01, 0.0, 0.01, 0.04]
    assert [stage.store.run(one.run).wish.name for one in trials] == [f"fit-{n}" for n in range(4)]
    assert most_at_once(stage, trials) == most


def test_a_run_that_comes_between_has_its_turn(stage: Stage) -> None:
    stage.up(2)
    ask(stage, f"sleep(0.3)\n{LOSS}", ranks=(1, 1))
    stage.until(lambda: len(stage.store.sweeps.trials("s")) == 2)
    between = stage.ended(stage.ask("print('between')"))

    _, trials = over(stage)

    assert between.fact.state is RunState.FINISHED
    assert between.fact.ranks == 2
    facts = [stage.store.run(one.run).fact for one in trials]
    assert sum(one.ended <= between.fact.started for one in facts) == 2
    assert sum(one.started >= between.fact.ended for one in facts) == 2


def test_a_supervisor_that_follows_another_one_begins_no_trial_twice(stage: Stage) -> None:
    stage.up(2)
    ask(stage, f"sleep(0.3)\n{LOSS}", ranks=(1, 1))
    stage.until(lambda: any(one.outcome.ended for one in stage.store.sweeps.trials("s")))
    stage.supervisor = Supervisor(NAME, stage.own, stage.cluster, stage._clocks)
    stage.supervisor.open()

    _, trials = over(stage)

    assert [one.outcome for one in trials] == [Outcome.FINISHED] * 4
    assert [one.number for one in trials] == [0, 1, 2, 3]
    assert len(stage.store.runs(NAME)) == 4


def test_the_third_trial_that_fails_the_same_way_ends_it(stage: Stage) -> None:
    stage.up(1)
    ask(stage, "undefined")

    fact, trials = over(stage)

    assert fact.has_failed
    assert "NameError" in fact.over
    assert len(trials) == 3


def test_a_trial_without_the_value_has_failed_and_says_what_came(stage: Stage) -> None:
    stage.up(1)
    ask(stage, "report(accuracy=1.0)", trials=1)

    _, [trial] = over(stage)

    assert trial.outcome is Outcome.FAILED
    assert trial.failure == "it has reported no 'loss', but accuracy"


def test_a_sweep_that_is_stopped_continues_where_it_was(stage: Stage) -> None:
    stage.up(1)
    ask(stage, f"sleep(0.2)\n{LOSS}")
    stage.until(lambda: stage.store.sweeps.trials("s"))
    stage.store.sweeps.wish_stop("s")
    fact, trials = over(stage)
    assert "stopped after" in fact.over

    stage.store.sweeps.extend(stage.store.sweeps.find("s")[0], None, None)
    _, after = over(stage)

    assert after[: len(trials)] == trials
    assert [one.number for one in after] == [0, 1, 2, 3]


def test_a_budget_that_is_used_up_stops_the_trials_under_way(stage: Stage) -> None:
    stage.up(1)
    ask(stage, f"sleep(0.2)\n{LOSS}", budget=2.0, base=5.0)
    stage.until(lambda: any(one.outcome.ended for one in stage.store.sweeps.trials("s")))
    stage.store.fleets.put_nodes(NAME, [Node("n", NodeState.JOINED, price=1.0, spent=7.0)])

    fact, trials = over(stage)

    done = sum(one.outcome is Outcome.FINISHED for one in trials)
    assert fact.over.startswith("Its budget of $2.00 leaves no room for another trial after")
    assert fact.spent == 2.0
    assert done < 4
    stopped = [stage.store.run(one.run).fact for one in trials[done:]]
    assert all("The budget of $2.00 of its sweep is used up." in one.message for one in stopped)


def test_a_cluster_that_is_deleted_stops_its_sweep_and_begins_no_other_trial(stage: Stage) -> None:
    stage.up(1)
    ask(stage, f"sleep(0.3)\n{LOSS}")
    stage.until(lambda: stage.store.sweeps.trials("s"))
    stage.store.wish_cluster(NAME, up=False, ranks=0)

    fact, trials = over(stage)

    assert "stopped after 1 of 4" in fact.over
    assert [one.outcome for one in trials] == [Outcome.STOPPED]


def test_a_poor_trial_is_stopped_by_the_pruner(stage: Stage) -> None:
    pytest.importorskip("optuna", reason="Optuna is not installed")
    stage.up(1)
    source = """
for at in range(1, 60):
    report(loss=float(lr > 0.35) * 100 + at, iteration=at)
    sleep(0.1 if lr > 0.35 else 0)
"""
    spaces = (("lr", Space((0.1, 0.11, 0.12, 0.13, 0.14, 0.4))),)
    ask(stage, source, trials=6, spaces=spaces, pruner="MedianPruner")

    _, trials = over(stage)

    assert [one.outcome for one in trials] == [*[Outcome.FINISHED] * 5, Outcome.PRUNED]
    assert "pruner" in stage.store.run(trials[-1].run).fact.message
