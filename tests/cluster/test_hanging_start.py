"""A process that hangs while ranks start is replaced."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest

from tests.cluster.conftest import PRELUDE, Bench
from workbench.cluster import mpi_cluster
from workbench.cluster.launcher import CurveControllerLauncher
from workbench.cluster.mpi_cluster import MpiCluster
from workbench.errors import ClusterError

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(240)]

BEGIN_SECONDS = 20.0  # in which a controller that does not hang begins on a busy machine


@pytest.fixture
def cluster(tmp_path) -> Iterator[MpiCluster]:
    found = MpiCluster(tmp_path)
    yield found
    found.close()


def stop_controllers(monkeypatch, most: int) -> list[psutil.Process]:
    """Have the next ``most`` controllers hang from their start on; return those that do."""
    stopped: list[psutil.Process] = []
    start = MpiCluster._start_controller

    def started(cluster: MpiCluster, patience: float) -> object:
        found = start(cluster, patience)
        if len(stopped) < most:
            stopped.append(psutil.Process(found.controller.pid))
            stopped[-1].suspend()
        return found

    monkeypatch.setattr(MpiCluster, "_start_controller", started)
    return stopped


def are_gone(processes: list[psutil.Process], number: int) -> bool:
    return len(processes) == number and not psutil.wait_procs(processes, timeout=10)[1]


def test_ranks_start_though_the_first_controller_hangs(cluster, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(CurveControllerLauncher, "connection_info_timeout", BEGIN_SECONDS)
    stopped = stop_controllers(monkeypatch, 1)
    cluster.open({})

    Bench(cluster, tmp_path, PRELUDE).ready(1)

    assert are_gone(stopped, 1)


def test_a_call_that_did_not_come_to_an_engine_is_made_again(
    cluster, tmp_path, monkeypatch
) -> None:
    def idle(*_: object) -> bytes:
        import time

        time.sleep(3)
        return b""

    def apply(self: MpiCluster, engines: list[int], function: object, *arguments: object) -> object:
        name = arguments[0] if arguments else getattr(function, "__name__", "")
        if name in lost:
            lost.remove(name)
            return call(self, engines, idle)
        return call(self, engines, function, *arguments)

    lost, call = ["generation", "join"], MpiCluster._apply
    monkeypatch.setattr(mpi_cluster, "UNHEARD_SECONDS", 0.5)
    monkeypatch.setattr(MpiCluster, "_apply", apply)
    cluster.open({})

    Bench(cluster, tmp_path, PRELUDE).ready(1)

    assert lost == []


def test_if_each_controller_hangs_that_is_said_and_none_is_left(cluster, monkeypatch) -> None:
    monkeypatch.setattr(CurveControllerLauncher, "connection_info_timeout", 0.5)
    stopped = stop_controllers(monkeypatch, 2)
    cluster.open({})

    with pytest.raises(ClusterError, match="The controller does not answer; see its log in"):
        Bench(cluster, cluster._folder, PRELUDE).begin(1)

    assert are_gone(stopped, 2)


def test_after_ranks_that_did_not_start_others_do_without_what_hangs(
    cluster, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(mpi_cluster, "STUCK_SECONDS", 0.0)
    bench = Bench(cluster, tmp_path, PRELUDE)
    cluster._forks.start()
    cluster.open({})
    pids = cluster._cluster.controller.pid, cluster._forks.process
    former = [psutil.Process(pid) for pid in pids]
    former[1].suspend()
    hanging = bench.begin(1)
    cluster.end_world(hanging)
    bench.until(lambda: hanging not in bench._states() or None)

    bench.ready(1)

    assert are_gone(former, 2)


def test_a_successor_replaces_a_controller_that_hangs_and_ends_its_world(
    cluster, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(mpi_cluster, "CONTROLLER_SECONDS", 1)
    before = Bench(cluster, tmp_path, PRELUDE)
    cluster.open({})
    generation = before.ready(1)
    ranks = before.world_until(generation, lambda fact: bool(fact.ranks)).ranks
    hanging = psutil.Process(cluster._cluster.controller.pid)
    former = [hanging, *(psutil.Process(rank.pid) for rank in ranks)]
    cluster._router.close()  # as when its process is gone
    cluster._client.close()
    hanging.suspend()

    successor = MpiCluster(tmp_path)
    try:
        successor.open({generation: ranks})
        after = Bench(successor, tmp_path, PRELUDE)
        after._generation = generation
        after.ready(1)

        assert are_gone(former, 2)
    finally:
        successor.close()
