"""A node is lost just when it joins a run that trains: before its ranks train, and right after."""

from __future__ import annotations

import time

import pytest

from tests.rehearsal.hosts import Hosts, RehearsalHost
from tests.rehearsal.listed_hosts import hosts_and_store, start_training
from tests.waiting import until
from workbench.core.cluster.size import Size
from workbench.core.recovery.resumption import NONE
from workbench.core.run.model import RunFact, RunState
from workbench.requests.cluster import ask_size
from workbench.requests.run import ask_stop
from workbench.store import Store

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(300),
]  # fmt: skip

NAME = "joining"
AGENT, FORKS = "workbench.node.agent", "workbench.node.fork_server"
NOTICED_SECONDS = 15.0  # on two busy cores; three seconds on idle ones


hosts, store = hosts_and_store(NAME, 3, nodes=2)


class Joined:
    """A training on two hosts, to which the third is added."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.run = start_training(store, NAME)
        self.before = store.cluster_fact(NAME).generation
        ask_size(store, Size(None, 3), cluster=NAME)

    def fact(self) -> RunFact:
        return self.store.run(self.run).fact

    def step_after(self, moment: float) -> float:
        """Return when the first step on two hosts was done after a moment."""

        def later() -> list[float]:
            if self.fact().ranks != 2:
                return []
            points = [p for p in self.store.reports.points(self.run) if p.name == "main/loss"]
            return [p.time for p in points if p.rank == 0 and p.time > moment + 0.3]

        until(later, what="a step on the two others", said=self.fact)
        return min(later())

    def trains_on(self) -> None:
        """Check that each iteration is drawn once, and end it."""
        ask_stop(self.store, self.run, NAME)
        until(lambda: self.fact().state.ended, what="the end", said=self.fact)
        assert self.fact().state is RunState.STOPPED, self.fact()
        points = [p for p in self.store.reports.points(self.run) if p.name == "main/loss"]
        drawn = [p.iteration for p in points if p.rank == 0]
        assert drawn == [*range(1, self.fact().iteration + 1)]


def watched(host: RehearsalHost) -> set[str]:
    """Return which of our programs run on a host beside its ranks."""
    running = host.run("ps", "-eo", "args")
    return {one for one in (AGENT, FORKS) if one in running}


def test_a_node_is_watched_before_its_ranks_train_and_its_loss_is_noticed_at_once(
    hosts: Hosts, store: Store
) -> None:
    joined = Joined(store)

    until(
        lambda: len(store.ranks(NAME, joined.before + 1)) == 3, what="three ranks", said=joined.fact
    )
    assert joined.fact().attempt == 1
    assert watched(hosts[2]) == {AGENT, FORKS}
    until(lambda: joined.fact().resumed_at != NONE, what="the move", said=joined.fact)
    assert joined.fact().ranks == 3
    hosts[2].cut()
    began = time.time()
    seconds = joined.step_after(began) - began

    print(f"{seconds:.2f} s from the loss of the node that has just joined to the next step")
    moved, lost = store.attempts.past(joined.run)
    assert moved.state is RunState.STOPPED
    assert "out of reach" in lost.message or "its node is gone" in lost.message
    assert lost.state is RunState.LOST
    assert not lost.failed
    assert seconds < NOTICED_SECONDS
    joined.trains_on()


def test_a_node_that_is_lost_before_it_joins_does_not_disturb_the_run(
    hosts: Hosts, store: Store
) -> None:
    joined = Joined(store)

    until(
        lambda: store.fleets.nodes(NAME) and watched(hosts[2]),
        what="ranks that start there",
        said=joined.fact,
    )
    hosts[2].cut()
    began = time.time()
    iteration = joined.fact().iteration
    until(lambda: joined.fact().iteration > iteration + 60, what="steps", said=joined.fact)

    print(f"60 steps in {time.time() - began:.1f} s after the loss; {joined.fact()}")
    assert joined.fact().ranks == 2
    assert not any(one.state is RunState.LOST for one in store.attempts.past(joined.run))
    joined.trains_on()
