"""The rehearsal with real ranks: a real supervisor keeps nodes that start, are lost and end."""

from __future__ import annotations

import ipaddress
import os
import shlex
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from tests.waiting import until
from workbench.core.cluster.model import ClusterState, WhenDone, time_over_message
from workbench.core.cluster.size import Size
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.run.run_options import RunOptions
from workbench.core.world.world import NODE_VARIABLE
from workbench.requests.cloud_queries import ask_interruption, ask_leftovers
from workbench.requests.cluster import ask_cluster, ask_down, ask_size
from workbench.requests.run import ask_run
from workbench.requests.supervisor import supervisor_is_awake, wake_supervisor
from workbench.store import Store

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(240)]

T = TypeVar("T")
NAME = "rehearsed"
TRAINING = (Path(__file__).parent / "programs" / "slow_training.py").read_text()
STEPS = (Path(__file__).parent / "programs" / "cells" / "steps.py").read_text()


class Rehearsal:
    """A cluster of simulated nodes."""

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def nodes(self) -> list[Node]:
        return self.store.fleets.nodes(NAME)

    def ready(self, nodes: int) -> set[str]:
        """Wait until as many nodes carry ranks and there are no others; return their names."""

        def joined() -> set[str]:
            fact, there = self.store.cluster_fact(NAME), self.nodes
            ids = {node.id for node in there if node.state is NodeState.JOINED}
            is_ready = fact.state is ClusterState.READY and fact.ranks == len(there) == nodes
            return ids if is_ready and len(ids) == nodes else set()

        return until(joined)

    def hosts(self) -> list[str]:
        """Where the ranks say that they are, in rank order."""
        ranks = self.store.ranks(NAME, self.store.cluster_fact(NAME).generation)
        return [rank.host for rank in ranks]

    def start(self, steps: int) -> str:
        return ask_run(
            self.store,
            kind=RunKind.CELL,
            source=STEPS,
            cluster=NAME,
            options=RunOptions(environment=(("STEPS", str(steps)),)),
        ).id

    def train(self) -> str:
        """Start a training that saves snapshots."""
        return ask_run(self.store, kind=RunKind.CELL, source=TRAINING, cluster=NAME).id

    def running(self, run: str) -> None:
        until(lambda: self.store.run(run).fact.iteration > 2)

    def ended(self, run: str) -> Run:
        until(lambda: self.store.run(run).fact.state.ended)
        return self.store.run(run)


def simulated() -> list[psutil.Process]:
    """Return the processes that belong to simulated nodes of this session."""
    found = []
    for process in psutil.process_iter():
        try:
            environment = process.environ()
        except psutil.Error:
            continue  # it has ended, or it is another person's
        if environment.get("WORKBENCH_HOME") == os.environ["WORKBENCH_HOME"]:
            found += [process] * (NODE_VARIABLE in environment)
    return found


@pytest.fixture(scope="module")
def rehearsal() -> Iterator[Rehearsal]:
    with Store() as store:
        ask_cluster(store, cluster=NAME, fleet=FleetWish("rehearsal", nodes=3))
        yield Rehearsal(store)
        ask_down(store, cluster=NAME)
        until(lambda: not supervisor_is_awake(NAME))


def test_the_ranks_are_on_the_nodes_and_are_called_as_they_are(rehearsal: Rehearsal) -> None:
    nodes = rehearsal.ready(3)

    assert sorted(rehearsal.hosts()) == sorted(nodes)
    assert rehearsal.ended(rehearsal.start(5)).fact.ranks == 3


def test_a_rehearsal_talks_to_no_other_machine(rehearsal: Rehearsal) -> None:
    supervisor = psutil.Process(rehearsal.store.cluster_fact(NAME).supervisor)

    found = [c for one in (supervisor, *simulated()) for c in one.net_connections() if c.raddr]
    assert found
    here = {str(address.address) for of in psutil.net_if_addrs().values() for address in of}
    for connection in found:
        other = connection.raddr.ip
        assert ipaddress.ip_address(other).is_loopback or other in here


def test_a_killed_supervisor_finds_its_nodes_and_buys_none_again(rehearsal: Rehearsal) -> None:
    nodes, run = rehearsal.ready(3), rehearsal.start(100)
    rehearsal.running(run)

    os.kill(rehearsal.store.cluster_fact(NAME).supervisor, signal.SIGKILL)
    until(lambda: not supervisor_is_awake(NAME))
    wake_supervisor(NAME)

    assert rehearsal.ended(run).fact.state is RunState.FINISHED
    assert rehearsal.ready(3) == nodes
    assert len(rehearsal.store.fleets.purchases(NAME)) == 1


def test_a_training_continues_without_its_node_and_then_with_another(rehearsal: Rehearsal) -> None:
    rehearsal.ready(3)
    run = rehearsal.train()
    until(lambda: rehearsal.store.attempts.newest_snapshot(run) >= 0)

    taken = ask_interruption(rehearsal.store, "", 0.0, cluster=NAME)

    ended = rehearsal.ended(run)
    assert ended.fact.state is RunState.FINISHED, ended.fact.message
    lost = rehearsal.store.attempts.past(run)[0]
    assert f"on {taken} was lost (its node is gone, or unreachable)" in lost.message
    points = rehearsal.store.reports.points(run)
    curve = [p.iteration for p in points if p.name == "main/loss" and p.rank == 0]
    assert curve == [*range(1, ended.fact.iteration + 1)]
    rehearsal.ready(3)


def test_a_node_that_is_taken_back_takes_its_rank_along_and_is_replaced(
    rehearsal: Rehearsal,
) -> None:
    nodes, run = rehearsal.ready(3), rehearsal.start(600)
    rehearsal.running(run)

    taken = ask_interruption(rehearsal.store, "", 0.0, cluster=NAME)

    failed = rehearsal.ended(run).fact
    assert failed.failed_host == taken
    assert "its node is gone, or unreachable" in failed.message
    assert failed.message.endswith("Loops of `workbench.elastic` save them.")
    until(lambda: taken not in {node.id for node in rehearsal.nodes})
    replaced = rehearsal.ready(3)
    assert len(replaced & nodes) == 2
    assert taken not in replaced


def test_a_node_that_will_be_taken_back_lets_its_run_end_first(rehearsal: Rehearsal) -> None:
    rehearsal.ready(3)
    run = rehearsal.start(80)
    rehearsal.running(run)

    taken = ask_interruption(rehearsal.store, "", 20.0, cluster=NAME)

    assert rehearsal.ended(run).fact.state is RunState.FINISHED
    until(lambda: len(rehearsal.hosts()) == 3 and taken not in rehearsal.hosts())


def test_no_nodes_cost_nothing_and_come_back(rehearsal: Rehearsal) -> None:
    ask_size(rehearsal.store, Size(nodes=0), cluster=NAME)
    until(lambda: rehearsal.store.cluster_fact(NAME).state is ClusterState.PAUSED)
    until(lambda: not rehearsal.nodes)
    left = simulated()
    ask_size(rehearsal.store, Size(nodes=1), cluster=NAME)

    assert left == []
    assert sorted(rehearsal.ready(1)) == rehearsal.hosts()


def test_idle_nodes_are_given_back_and_the_next_run_has_them_until_it_says_otherwise(
    rehearsal: Rehearsal,
) -> None:
    rehearsal.ready(1)
    fleet = replace(rehearsal.store.cluster_wish(NAME).fleet, idle=3.0, asked=time.time())
    ask_cluster(rehearsal.store, 0, cluster=NAME, fleet=fleet)
    soon = until(lambda: rehearsal.store.cluster_fact(NAME).releases)
    until(lambda: rehearsal.store.cluster_fact(NAME).released)
    # It comes while the nodes go, or when they are gone.
    options = RunOptions(environment=(("STEPS", "5"),), when_done=WhenDone.RELEASE)
    run = ask_run(rehearsal.store, options, kind=RunKind.CELL, source=STEPS, cluster=NAME).id

    assert soon >= fleet.asked + fleet.idle
    assert rehearsal.ended(run).fact.state is RunState.FINISHED
    os.kill(rehearsal.store.cluster_fact(NAME).supervisor, signal.SIGKILL)
    until(lambda: not supervisor_is_awake(NAME))
    wake_supervisor(NAME)
    until(lambda: rehearsal.store.cluster_fact(NAME).state is ClusterState.PAUSED)
    until(lambda: not rehearsal.nodes)
    assert simulated() == []
    ask_size(rehearsal.store, Size(nodes=1), cluster=NAME)
    ask_cluster(rehearsal.store, 0, cluster=NAME, fleet=replace(fleet, idle=0.0, asked=time.time()))
    rehearsal.ready(1)


def test_a_training_leaves_when_no_nodes_are_wanted_and_continues_when_some_are(
    rehearsal: Rehearsal,
) -> None:
    rehearsal.ready(1)
    run = rehearsal.train()
    until(lambda: rehearsal.store.attempts.newest_snapshot(run) >= 0)

    ask_size(rehearsal.store, Size(nodes=0), cluster=NAME)
    until(lambda: rehearsal.store.cluster_fact(NAME).state is ClusterState.PAUSED)
    until(lambda: not rehearsal.nodes)
    waiting = rehearsal.store.run(run).fact
    ask_size(rehearsal.store, Size(nodes=1), cluster=NAME)

    assert waiting.state is RunState.QUEUED
    (left,) = rehearsal.store.attempts.past(run)
    assert left.message == "It left its 1 rank, because its cluster has no nodes now."
    assert left.iteration == left.snapshot
    assert rehearsal.ended(run).fact.state is RunState.FINISHED


def test_a_training_is_stopped_and_saved_before_its_time_is_over_and_nothing_is_left(
    rehearsal: Rehearsal,
) -> None:
    # As large as the tests before left it; alone, or after a failure, it is started here.
    ask_cluster(rehearsal.store, cluster=NAME, fleet=FleetWish("rehearsal", nodes=1))
    rehearsal.ready(1)
    run = rehearsal.train()
    until(lambda: rehearsal.store.attempts.newest_snapshot(run) >= 0)
    end = time.time() + 8.0
    ask_cluster(rehearsal.store, 0, cluster=NAME, fleet=FleetWish("rehearsal", expires=end))

    until(lambda: not supervisor_is_awake(NAME))

    ended, name = rehearsal.ended(run).fact, rehearsal.ended(run).wish.name
    assert ended.ended < end
    assert ended.iteration == rehearsal.store.attempts.newest_snapshot(run)
    assert ended.message == (
        f"Stopped at iteration {ended.iteration:,}, because the cluster's time to live is over; "
        f"0 steps lost. Resume it with `workbench run --resume {shlex.quote(name)}`."
    )

    fact = rehearsal.store.cluster_fact(NAME)
    assert fact.state is ClusterState.DOWN
    assert fact.message == time_over_message(rehearsal.store.cluster_wish(NAME))
    assert ask_leftovers(FleetWish("rehearsal"), NAME) == ()
    assert simulated() == []
