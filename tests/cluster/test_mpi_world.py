"""How the ranks of a world are ended: at their leisure, or at once if one of them is lost."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from workbench.cluster import mpi_world
from workbench.cluster.mpi_cluster import MpiCluster
from workbench.cluster.mpi_world import MpiWorld, WorldHandles
from workbench.core.cluster.generation import WorldState
from workbench.core.world.world import Host as HostOf
from workbench.core.world.world import RankFact, World


class Host:
    """Stands for a ``ProcessMonitor``: notes signals."""

    def __init__(self) -> None:
        self.lost, self.host, self.is_away = "", "node", False
        self.gone: set[int] = set()
        self.statuses: dict[int, int] = {}
        self.sent: list[tuple[int, signal.Signals]] = []

    def watch(self, pids: Sequence[int]) -> None:
        """Do nothing."""

    def is_alive(self, pid: int) -> bool:
        return pid not in self.gone and not self.lost

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        self.sent += [(pid, number) for pid in pids]

    def tail(self, path: str) -> str:
        return ""

    def remove(self, path: str) -> None:
        """Do nothing."""

    def end_rest(self, mark: str, groups: Sequence[int]) -> bool:
        return True


class Mpiexec:
    """Stands for an mpiexec that waits for a lost host."""

    def __init__(self) -> None:
        self.sent: list[signal.Signals] = []

    def is_alive(self) -> bool:
        return True

    def signal(self, number: signal.Signals) -> None:
        self.sent.append(number)

    def log(self) -> str:
        return ""


@pytest.fixture
def host() -> Host:
    return Host()


def world_on(host: Host, generation: int = 1) -> MpiWorld:
    footing: Future[WorldHandles] = Future()
    monitor: Any = host
    footing.set_result(WorldHandles(Mpiexec(), (monitor,), "crashes"))
    ranks = [RankFact(generation, rank, "node", 100 + rank, rank) for rank in range(2)]
    made = MpiWorld(generation, 2, footing)
    made.adopt(ranks)
    return made


@pytest.fixture
def world(host: Host) -> MpiWorld:
    return world_on(host)


def test_ranks_of_a_whole_world_may_end_by_themselves(world: MpiWorld, host: Host) -> None:
    """What they have left to do at their end is done."""
    world.look()

    world.end()

    assert host.sent == [(100, signal.SIGTERM), (101, signal.SIGTERM)]


def test_ranks_that_a_loss_has_left_are_killed_at_once(world: MpiWorld, host: Host) -> None:
    """They wait in MPI for the lost one, and take the cores on which the next world starts."""
    world.look()
    host.gone.add(101)
    host.statuses[101] = signal.SIGKILL
    state = world.look()

    world.end()

    assert state is WorldState.BROKEN
    assert (100, signal.SIGKILL) in host.sent


def test_a_world_waits_for_a_host_that_does_not_answer(world: MpiWorld, host: Host) -> None:
    world.look()
    host.is_away = True

    assert world.look() is None
    host.is_away = False
    assert world.look() is None


def test_what_breaks_a_world_is_the_loss_of_a_host_that_does_not_answer() -> None:
    near, far = Host(), Host()
    footing: Future[WorldHandles] = Future()
    hosts = World((HostOf("near", 1), HostOf("far", 1)), 2)
    monitors: Any = near, far
    footing.set_result(WorldHandles(Mpiexec(), monitors, "crashes", hosts))
    world = MpiWorld(1, 2, footing)
    world.adopt([RankFact(1, rank, one, 100, rank) for rank, one in enumerate(("near", "far"))])
    far.is_away = True
    assert world.look() is None

    near.gone.add(100)

    assert world.look() is WorldState.BROKEN
    assert world.is_lost
    assert world.deaths[0].cause == "node is out of reach"


def test_a_world_that_ends_waits_for_no_host(world: MpiWorld, host: Host) -> None:
    world.look()
    host.is_away = True

    world.end()

    assert world.look() is WorldState.ENDED


class Liar(Host):
    """A host whose words raise an error wherever they are read."""

    def tail(self, path: str) -> str:
        raise OverflowError("signal number out of range")

    def signal(self, pids: Sequence[int], number: signal.Signals) -> None:
        raise OverflowError("signal number out of range")


def test_a_host_whose_words_raise_an_error_ends_its_own_world_alone(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar, cluster = Liar(), MpiCluster(tmp_path)
    cluster._worlds = {1: world_on(liar, 1), 2: world_on(host, 2)}
    liar.gone.add(100)
    try:
        bad, good = cluster.observe()
        monkeypatch.setattr(mpi_world, "KILL_SECONDS", 0.0)
        ended, still = cluster.observe()
    finally:
        cluster._router.close()

    assert bad.state is WorldState.BROKEN
    assert bad.reason == (
        "the supervisor could not follow it: OverflowError('signal number out of range')"
    )
    assert ended.state is WorldState.ENDED
    assert good.state is still.state is WorldState.READY
    assert host.sent == []
