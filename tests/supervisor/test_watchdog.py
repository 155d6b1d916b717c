"""A supervisor is stopped, hangs or is killed, with real engines and no client."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace

import psutil
import pytest

from tests.clock import SetClock
from tests.waiting import until
from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.model import FleetWish
from workbench.core.run.model import RunKind, RunState
from workbench.core.supervisor.heartbeat import heartbeat_text
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.run import ask_run
from workbench.requests.supervisor import HEARTBEAT_NAME, last_heartbeat, supervisor_is_awake
from workbench.store import Store
from workbench.store.paths import cluster_directory
from workbench.view.cluster_changes import wait_down

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(240)]

NAME = "watched"
STEPS = 50
TRAINING = (
    "import time, workbench\nfrom mpi4py import MPI\n"
    f"for i in range({STEPS}):\n"
    "    MPI.COMM_WORLD.allreduce(i)\n    time.sleep(0.1)\n    workbench.report(loss=i)\n"
)


@pytest.fixture(scope="module")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetClock]:
    """The wall clock of the supervisors of all tests here, which have a data directory to share."""
    folder = tmp_path_factory.mktemp("watched")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(folder / "home"))
        yield SetClock(folder / "clock", patch)
        with Store() as store:
            take_down(store)


@pytest.fixture
def store(clock: SetClock) -> Iterator[Store]:
    """Give the store of a cluster of two ranks: that of the test before, where it is whole."""
    with Store() as store:
        if store.cluster_fact(NAME).state is not ClusterState.READY or not watchdogs():
            # Without the time to live that a test before may have left in the definition.
            ask_cluster(store, 2, cluster=NAME, oversubscribe=True, fleet=FleetWish())
            until(lambda: store.cluster_fact(NAME).state is ClusterState.READY)
        yield store
        clock.set(0.0)
        if not is_whole(store):
            take_down(store)


def is_whole(store: Store) -> bool:
    """Whether the cluster has all that the next test needs, and nothing to do."""
    fact = store.cluster_fact(NAME)
    is_ready = fact.state is ClusterState.READY and fact.ranks == 2
    return is_ready and supervisor_is_awake(NAME) and not store.list_unfinished(NAME)


def take_down(store: Store) -> None:
    ask_down(store, cluster=NAME)
    until(lambda: not supervisor_is_awake(NAME))
    until(lambda: not watchdogs())


def train(store: Store) -> str:
    run = ask_run(store, kind=RunKind.CELL, source=TRAINING, cluster=NAME).id
    until(lambda: store.run(run).fact.iteration > 3)
    return run


def check_whole(store: Store, run: str) -> None:
    """Check that a run continues to its end, and that no point of it is missing."""
    until(lambda: store.run(run).fact.state.ended)
    assert store.run(run).fact.state is RunState.FINISHED
    for rank in range(2):
        found = [
            p.iteration for p in store.reports.points(run) if p.rank == rank and p.name == "loss"
        ]
        assert found == list(range(1, STEPS + 1))


def supervisor() -> int:
    heartbeat = last_heartbeat(cluster_directory(NAME))
    return heartbeat.pid if heartbeat else 0


def watchdogs() -> list[int]:
    folder = str(cluster_directory(NAME))
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if folder in (words := process.info["cmdline"] or []) and "-I" in words
    ]


def stop_long_ago(pid: int) -> None:
    """Stop a supervisor, and have its last heartbeat be older than anybody waits for the next."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    folder = cluster_directory(NAME)
    last = last_heartbeat(folder)
    assert last is not None
    text = heartbeat_text(replace(last, beat=last.beat - last.patience))
    (folder / "heartbeat.new").write_text(text)
    (folder / "heartbeat.new").replace(folder / HEARTBEAT_NAME)


def test_a_stopped_supervisor_continues_and_no_point_is_missing(store: Store) -> None:
    run, pid = train(store), supervisor()

    stop_long_ago(pid)
    until(lambda: psutil.Process(pid).status() != psutil.STATUS_STOPPED, seconds=60.0)

    check_whole(store, run)


def test_a_killed_supervisor_is_replaced_and_no_point_is_missing(store: Store) -> None:
    run, pid = train(store), supervisor()

    os.kill(pid, signal.SIGKILL)
    until(lambda: supervisor() != pid, seconds=30.0)

    check_whole(store, run)


def test_a_watchdog_that_is_killed_is_started_again(store: Store) -> None:
    (pid,) = until(watchdogs)

    os.kill(pid, signal.SIGKILL)

    until(lambda: any(other != pid for other in watchdogs()), seconds=30.0)


@pytest.mark.parametrize("seconds", [-3600.0, 7200.0], ids=["back", "forth"])
def test_a_wall_clock_that_is_set_stops_nothing(
    store: Store, clock: SetClock, seconds: float
) -> None:
    run = train(store)
    clock.set(seconds)
    generation = store.cluster_fact(NAME).generation
    rank = next(rank for rank in store.ranks(NAME, generation) if rank.rank == 1)

    os.kill(rank.pid, signal.SIGKILL)

    until(lambda: store.run(run).fact.state is RunState.FAILED, seconds=20.0)
    until(lambda: store.cluster_fact(NAME).generation == generation + 1)


def test_a_cluster_goes_down_whose_supervisor_is_stopped(store: Store) -> None:
    stop_long_ago(supervisor())

    ask_down(store, cluster=NAME)
    wait_down(store, NAME, lambda _: None)

    assert store.cluster_fact(NAME).state is ClusterState.DOWN


def test_the_time_to_live_holds_though_one_was_killed_and_no_one_looks(store: Store) -> None:
    wish = next(one for one in store.clusters() if one.name == NAME)
    fleet = replace(wish.fleet, expires=time.time() + 5.0)
    ask_cluster(store, 2, cluster=NAME, oversubscribe=True, fleet=fleet)
    until(lambda: (beat := last_heartbeat(cluster_directory(NAME))) and beat.ends)

    os.kill(supervisor(), signal.SIGKILL)

    until(lambda: store.cluster_fact(NAME).state is ClusterState.DOWN)


def test_when_a_cluster_is_deleted_no_watchdog_is_left(store: Store) -> None:
    until(watchdogs)

    ask_down(store, cluster=NAME)
    wait_down(store, NAME, lambda _: None)

    assert watchdogs() == []
