"""Trials of a sweep run on hosts that are lost, added and stopped, each to its end and once."""

from __future__ import annotations

import collections
from pathlib import Path

import pytest

from tests.rehearsal.hosts import Hosts
from tests.rehearsal.listed_hosts import hosts_and_store
from tests.waiting import until
from workbench.core.cluster.size import Size
from workbench.core.run.model import RunKind
from workbench.core.run.run_options import RunOptions
from workbench.core.run.sweep import Outcome, Trial
from workbench.requests.cluster import ask_size
from workbench.requests.sweep import ask_sweep, ask_sweep_stop, extend_sweep
from workbench.store import Store

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(600),
]  # fmt: skip

NAME = "trials"
RATES = [round(0.1 * number, 1) for number in range(1, 13)]
TRAINING = """
import os, time
import numpy
import workbench

state = {"at": numpy.zeros(1)}
for step in workbench.elastic(state, steps=20):
    state["at"] += 1
    time.sleep(0.02 if os.path.exists(quick) else 1.0)
    workbench.report(loss=(lr - 0.3) ** 2 + 1 / float(state["at"][0]))
"""


hosts, store = hosts_and_store(NAME, 5, nodes=2, shared=True)


def test_each_of_twelve_trials_ends_once_through_a_lost_host_a_resize_and_a_stop(
    hosts: Hosts, store: Store, tmp_path: Path
) -> None:
    quick = tmp_path / "shared" / "quick"
    sweep = ask_sweep(
        store,
        RunOptions(parameters=(("lr", RATES), ("quick", str(quick)))),
        given={"minimize": "loss", "ranks_per_trial": (1, 1)},
        name="fit",
        kind=RunKind.CELL,
        source=TRAINING,
        cluster=NAME,
    ).id

    def trials() -> list[Trial]:
        return store.sweeps.trials(sweep)

    def said() -> str:
        return f"{store.sweeps.find(sweep)[1]} {trials()} {store.cluster_fact(NAME)}"

    def running() -> list[Trial]:
        return [one for one in trials() if not one.outcome.ended]

    def are_seen(many: int) -> bool:
        return sum(store.run(one.run).fact.iteration > 2 for one in running()) == many

    until(lambda: are_seen(2), what="two trials beside each other", said=said)
    hosts[1].cut()
    until(
        lambda: any(store.run(one.run).fact.attempt == 2 for one in trials()),
        what="a trial that continues",
        said=said,
    )

    ask_size(store, Size(None, 5), cluster=NAME)  # one of them is lost
    until(lambda: are_seen(4), what="four trials beside each other", said=said, seconds=120)
    ask_sweep_stop(store, "fit")
    until(lambda: store.sweeps.find(sweep)[1].over, what="the stop", said=said)
    stopped = {one.number for one in trials() if one.outcome is Outcome.STOPPED}
    assert 1 <= len(stopped) <= 4
    assert len(trials()) < len(RATES)

    quick.touch()
    extend_sweep(store, "fit", {})
    until(lambda: store.sweeps.find(sweep)[1].over, what="the end", said=said)

    assert [dict(one.parameters)["lr"] for one in trials()] == RATES
    assert {one.outcome for one in trials() if one.number not in stopped} == {Outcome.FINISHED}
    runs = collections.Counter(one.run for one in trials())
    assert set(runs.values()) == {1}
    assert len(store.runs(NAME, limit=100)) == len(RATES)
