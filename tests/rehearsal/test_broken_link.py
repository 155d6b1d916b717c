"""A run outlives a break between this computer and its nodes, which reach each other meanwhile."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import Hosts, RehearsalHost
from tests.rehearsal.listed_hosts import hosts_and_store
from tests.rehearsal.test_ec2_cluster import NAME as RENTED
from tests.rehearsal.test_ec2_cluster import open_shell
from tests.waiting import until
from workbench.core.run.model import RunFact, RunKind, RunState
from workbench.requests.run import ask_run
from workbench.requests.supervisor import last_heartbeat
from workbench.store import Store
from workbench.store.paths import cluster_directory

pytestmark = [pytest.mark.root, pytest.mark.mpi, pytest.mark.timeout(300)]

NAME = "broken"
COUNTING = """
import time
from mpi4py import MPI
import workbench
for step in range(1, {steps} + 1):
    time.sleep({pause})
    found = MPI.COMM_WORLD.allreduce(step)
    workbench.report(iteration=step, found=found)
    print(f"step {{step}}")
"""
PAUSE = 0.1
SURELY_SECONDS = 12.0  # after which a session is lost to which nothing came
BREAKS = (5.0, 9.0, 20.0, 60.0)
CALM = 20.0  # in which what a break has held back arrives


hosts, store = hosts_and_store(NAME, 2, nodes=2)


class Counting:
    """A plain cell that counts on all ranks."""

    def __init__(self, store: Store, seconds: float, cluster: str = NAME) -> None:
        self.store = store
        self.steps = round(seconds / PAUSE)
        source = COUNTING.format(steps=self.steps, pause=PAUSE)
        self.id = ask_run(store, kind=RunKind.CELL, source=source, cluster=cluster).id
        until(
            lambda: self.fact().iteration >= 5 or self.fact().state.ended,
            what="steps",
            said=self.fact,
        )

    def fact(self) -> RunFact:
        return self.store.run(self.id).fact

    def check(self) -> None:
        """Wait for its end, and check that nothing of it is lost and nothing came twice."""
        until(lambda: self.fact().state.ended, what="the end", said=self.fact, seconds=200.0)
        fact = self.fact()
        assert (fact.state, fact.attempt, fact.message) == (RunState.FINISHED, 1, ""), fact
        counted = [*range(1, self.steps + 1)]
        for rank in range(2):
            points = [p for p in self.store.reports.points(self.id) if p.rank == rank]
            assert [p.iteration for p in points if p.name == "found"] == counted
            rows = self.store.reports.output(self.id)
            text = "".join(row.text for row in rows if row.rank == rank)
            assert [line for line in text.splitlines() if line] == [f"step {n}" for n in counted]


@contextlib.contextmanager
def broken(hosts: Hosts, seconds: float, *parted: RehearsalHost) -> Iterator[None]:
    """Part all of the hosts, or some, from this machine for a while."""
    hosts.part(*(parted or hosts))
    time.sleep(seconds)
    yield
    hosts.rejoin(*(parted or hosts))


@pytest.mark.parametrize(
    "seconds", [12.0, *(pytest.param(seconds, marks=pytest.mark.weekly) for seconds in BREAKS)]
)
def test_a_plain_cell_outlives_a_break(hosts: Hosts, store: Store, seconds: float) -> None:
    run = Counting(store, seconds + 4.0)

    with broken(hosts, seconds):
        assert not run.fact().state.ended, run.fact()
        said = store.cluster_fact(NAME).message
        assert ("No node answers." in said) or seconds < SURELY_SECONDS, said

    run.check()
    assert store.cluster_fact(NAME).message == ""


@pytest.mark.weekly
def test_a_plain_cell_outlives_that_one_node_is_out_of_this_machines_reach(
    hosts: Hosts, store: Store
) -> None:
    run = Counting(store, 20.0)

    with broken(hosts, 12.0, hosts[1]):
        assert not run.fact().state.ended, run.fact()

    run.check()


@pytest.mark.weekly
def test_a_plain_cell_outlives_a_break_and_the_supervisor_that_was_killed_in_it(
    hosts: Hosts, store: Store
) -> None:
    run = Counting(store, 60.0)

    with broken(hosts, 10.0):
        heartbeat = last_heartbeat(cluster_directory(NAME))
        assert heartbeat is not None
        os.kill(heartbeat.pid, signal.SIGKILL)
        time.sleep(15.0)
        assert not run.fact().state.ended, run.fact()

    run.check()


@pytest.mark.weekly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same network", "another network"])
def test_a_plain_cell_on_rented_nodes_outlives_each_break_of_a_home_line(
    far_endpoint: Endpoint, tmp_path: Path, elsewhere: bool
) -> None:
    breaks = (BREAKS[2],) if elsewhere else BREAKS
    with open_shell(far_endpoint, tmp_path) as shell:
        shell.up(2)
        run = Counting(shell.store, sum(breaks) + CALM * len(breaks), RENTED)

        for seconds in breaks:
            far_endpoint.part()
            time.sleep(seconds)
            fact, said = run.fact(), shell.store.cluster_fact(RENTED).message
            far_endpoint.rejoin(elsewhere=elsewhere)
            assert not fact.state.ended, fact
            assert ("No node answers." in said) or seconds < SURELY_SECONDS, said
            until(
                lambda: shell.store.cluster_fact(RENTED).message == "",
                what="nodes that answer again",
            )
            until(
                lambda seen=fact.iteration: run.fact().iteration > seen, what="steps", said=run.fact
            )

        run.check()
        shell.do("delete", "--cluster", RENTED)
        shell.nothing_is_left()
