"""A sweep and its trials are written and read back, and a trial is queued with its run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from workbench.core.run.model import RunKind, RunState, RunWish
from workbench.core.run.sweep import Outcome, Space, SweepFact, SweepWish, Trial
from workbench.core.world.world import Host, World
from workbench.errors import Unknown
from workbench.store import Store

RUN = RunWish("260101-000000-aaaa", "fit", RunKind.CELL, "pass")
SPACES = (("lr", Space(low=1e-4, high=1.0, is_log=True)), ("units", Space((50, "wide"))))
SWEEP = SweepWish("s", "fit", RUN, SPACES, 3, "loss", created=1.0)
ONE = World((Host("localhost", 1),), 1)


def begin(store: Store, number: int) -> Trial:
    trial = Trial("s", number, (("lr", 0.5), ("units", "wide")), f"260101-00000{number}-bbbb")
    store.sweeps.begin(trial, replace(RUN, id=trial.run, name=f"fit-{number}"))
    return trial


def test_a_sweep_is_read_as_it_was_written(store: Store):
    written = store.sweeps.wish(SWEEP, ONE, None)
    assert written == SWEEP
    assert store.sweeps.find("fit") == (SWEEP, SweepFact())
    assert store.sweeps.unfinished("default") == [SWEEP]
    wish = store.cluster_wish("default")
    assert wish is not None
    assert wish.up


def test_a_name_that_is_taken_gets_a_number(store: Store):
    names = [store.sweeps.wish(replace(SWEEP, id=f"{n}"), None, None).name for n in range(3)]
    assert names == ["fit", "fit 2", "fit 3"]
    with pytest.raises(Unknown, match="No sweep is called 'fat'"):
        store.sweeps.find("fat")


def test_a_trial_is_queued_with_its_run_and_ends(store: Store):
    store.sweeps.wish(SWEEP, None, None)
    trial = begin(store, 0)
    assert [run.id for run in store.list_unfinished("default")] == [trial.run]
    ended = replace(trial, outcome=Outcome.FINISHED, value=0.25, ended=2.0)
    store.sweeps.put(ended)
    assert store.sweeps.trials("s") == [ended]


def test_a_sweep_that_is_stopped_stops_its_trials_and_can_continue(store: Store):
    store.sweeps.wish(SWEEP, None, None)
    first, second = begin(store, 0), begin(store, 1)
    store.sweeps.put(replace(first, outcome=Outcome.FINISHED, value=1.0))
    store.sweeps.wish_stop("s")
    assert not store.run(first.run).wish.stop
    assert store.run(second.run).wish.stop
    store.sweeps.close("s", SweepFact("It was stopped."))
    assert store.sweeps.unfinished("default") == []
    store.sweeps.extend(replace(SWEEP, trials=9), None, None)
    assert store.sweeps.unfinished("default") == [replace(SWEEP, trials=9)]


def test_the_best_trial_has_a_name_as_a_run(store: Store):
    store.sweeps.wish(SWEEP, None, None)
    with pytest.raises(Unknown, match="No trial of sweep 'fit' has finished"):
        store.run("fit/best")
    for number, value in enumerate((0.5, 0.25, 0.75)):
        ended = replace(begin(store, number), outcome=Outcome.FINISHED, value=value)
        store.sweeps.put(ended)
    assert store.run("fit/best").wish.name == "fit-1"
    with pytest.raises(Unknown, match="No run is called 'fat/best'"):
        store.run("fat/best")


def test_trials_bind_nothing_that_later_cells_need(store: Store):
    store.sweeps.wish(SWEEP, None, None)
    trial = begin(store, 0)
    store.put_run_fact(trial.run, state=RunState.FINISHED, started=1.0, ended=2.0, generation=1)
    assert store.cells("default", 0) == []
