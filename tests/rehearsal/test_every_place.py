"""Each place that ranks run on: they reach each other, outlive a loss, and leave nothing."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from tests.rehearsal.ec2.endpoint import Endpoint
from tests.rehearsal.hosts import Hosts, RehearsalHost
from tests.rehearsal.listed_hosts import cluster_on, listed_hosts, start_training
from tests.rehearsal.slurm import Site
from tests.rehearsal.test_boxes import NAME as BOXES
from tests.rehearsal.test_boxes import Person, give_environment, person
from tests.rehearsal.test_ec2_cluster import NAME as SHELL
from tests.rehearsal.test_ec2_cluster import open_shell
from tests.rehearsal.test_slurm import (
    cluster,
    lost_steps,
    printed,
    wait_moved,
    wait_ready,
)
from tests.rehearsal.test_slurm import nodes as nodes_of
from tests.waiting import until
from workbench.core.fleet.model import FleetWish, Node, NodeState
from workbench.requests.cloud_queries import ask_interruption
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store

__all__ = ["person"]

pytestmark = [
    pytest.mark.root, pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(600),
]  # fmt: skip

NAME = "everywhere"


@dataclass
class Ground:
    """A cluster of two ranks at a place, and what happens to it there.

    Args:
        lose: Lets one of its nodes, or of its ranks where it has no nodes, vanish.
        warn: Has a node taken back after a notice; None where there are no notices.
    """

    store: Store
    name: str
    lose: Callable[[], object]
    warn: Callable[[], object] | None = None


@contextlib.contextmanager
def asked(fleet: FleetWish | None = None) -> Iterator[Store]:
    """Give the store of a cluster, which is deleted at the end."""
    with Store() as store:
        ask_cluster(store, None if fleet else 2, cluster=NAME, fleet=fleet, oversubscribe=not fleet)
        try:
            yield store
        finally:
            ask_down(store, cluster=NAME)
            until(lambda: not supervisor_is_awake(NAME), what="the end of the supervisor")


@contextlib.contextmanager
def on_this_machine(_: pytest.FixtureRequest) -> Iterator[Ground]:
    """Have two ranks of this machine."""
    with asked() as store:

        def lose() -> None:
            ranks = store.ranks(NAME, store.cluster_fact(NAME).generation)
            os.kill(ranks[-1].pid, signal.SIGKILL)

        yield Ground(store, NAME, lose)


@contextlib.contextmanager
def in_a_rehearsal(_: pytest.FixtureRequest) -> Iterator[Ground]:
    """Have two nodes that this machine plays."""
    with asked(FleetWish("rehearsal", nodes=2)) as store:

        def take(seconds: float) -> None:
            ask_interruption(store, "", seconds, cluster=NAME)

        yield Ground(store, NAME, lambda: take(0.0), lambda: take(20.0))


@contextlib.contextmanager
def on_hosts(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Have two of three hosts that a person can log in to."""
    given = (request.getfixturevalue(name) for name in ("tmp_path", "monkeypatch"))
    with listed_hosts(NAME, 3, *given, shared=True) as hosts:
        with cluster_on(hosts, NAME, 2) as store:
            yield Ground(store, NAME, lambda: host_of(hosts, worker(store, NAME)).stop())
        check_empty(hosts)


@contextlib.contextmanager
def on_boxes(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Have two of three boxes that have no login to each other."""
    request.getfixturevalue("possible")
    with Hosts(3) as hosts, Store() as store:
        someone: Person = request.getfixturevalue("person")(hosts)
        for host in hosts:
            give_environment(host, someone.place)
        given = ("--hosts", someone.names, "--nodes", "2", "--min-nodes", "1", "--slots", "1")
        someone.do("up", *given, "--equip", "--yes", *someone.accepted)
        yield Ground(store, BOXES, lambda: host_of(hosts, worker(store, BOXES)).stop())
        assert "purge the cluster again" in someone.do(
            "delete", "--purge", fails=True
        )  # one is off


@contextlib.contextmanager
def on_ec2(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Have two nodes of the rehearsal's EC2."""
    endpoint: Endpoint = request.getfixturevalue("one_endpoint")
    with open_shell(endpoint, request.getfixturevalue("tmp_path")) as shell:
        shell.up(2)

        def take(seconds: float) -> None:
            endpoint.interrupt(worker(shell.store, SHELL).id, seconds)

        yield Ground(shell.store, SHELL, lambda: take(0.0), lambda: take(60.0))
        shell.do("delete", "--cluster", SHELL)
        shell.nothing_is_left()


@contextlib.contextmanager
def on_slurm(request: pytest.FixtureRequest) -> Iterator[Ground]:
    """Have two jobs of a node each."""
    site: Site = request.getfixturevalue("own_site")
    fleet = FleetWish("slurm", nodes=1, slots=1)
    with cluster(site, fleet, NAME) as store:
        wait_ready(store, 1, NAME)
        ask_cluster(store, 0, cluster=NAME, fleet=replace(fleet, nodes=2))

        def warn() -> None:
            name = host_of(site.hosts, worker(store, NAME)).name
            site.ask("sbatch", "-p", "urgent", "-w", name, "--exclusive", "--wrap", "sleep 20")

        yield Ground(store, NAME, lambda: host_of(site.hosts, worker(store, NAME)).stop(), warn)


def check_empty(hosts: Hosts) -> None:
    """Check that no process of a cluster is left on those that have their power."""

    def listed() -> str:
        return "".join(host.run("ps", "-e", "-o", "args=") for host in hosts if host.is_up)

    until(lambda: "-m workbench" not in listed(), what="the end of all processes", said=listed)


def worker(store: Store, name: str) -> Node:
    """Return the newest node with ranks that is not the head."""
    found = [one for one in nodes_of(store, name) if one.state is NodeState.JOINED]
    return next(one for one in reversed(found) if not one.head)


def host_of(hosts: Hosts, node: Node) -> RehearsalHost:
    """Return the host that a node is."""
    return next(host for host in hosts if host.address == node.address)


PLACES = (on_this_machine, in_a_rehearsal, on_hosts, on_boxes, on_ec2, on_slurm)


@pytest.mark.parametrize("place", PLACES)
def test_a_training_outlives_a_notice_and_a_loss_and_leaves_nothing(
    place: Callable[[pytest.FixtureRequest], contextlib.AbstractContextManager[Ground]],
    request: pytest.FixtureRequest,
) -> None:
    with place(request) as ground:
        store, name, attempt = ground.store, ground.name, 1
        wait_ready(store, 2, name)
        assert printed(store, SUM, name) == ["2\n"] * 2
        run = start_training(store, name)
        if ground.warn:
            ground.warn()
            attempt += 1
            wait_moved(store, run, attempt)
            assert lost_steps(store, run) <= 0
            until(
                lambda: store.run(run).fact.ranks == 2,
                what="both ranks",
                said=lambda: store.run(run),
            )
            attempt = store.run(run).fact.attempt
        ground.lose()
        wait_moved(store, run, attempt + 1)


SUM = """
from mpi4py import MPI
print(MPI.COMM_WORLD.allreduce(1))
"""
