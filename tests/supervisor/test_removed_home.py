"""Where the folder of all data is removed while a cluster runs, nothing of the cluster stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import psutil
import pytest

from tests.supervisor.conftest import Stage
from tests.supervisor.real import NAME
from tests.waiting import until
from workbench.core.cluster.model import ClusterState, ClusterWish
from workbench.core.run.model import RunKind
from workbench.requests.cluster import ask_cluster
from workbench.requests.run import ask_run
from workbench.store import Store
from workbench.supervisor import loop, process
from workbench.supervisor.fleet.fleet_loop import Load
from workbench.supervisor.hosts import ClusterHosts
from workbench.supervisor.process import ProcessLock

SECONDS = 60.0


def processes(home: Path) -> list[psutil.Process]:
    """Return the processes, but for this one, that have the folder in their environment."""
    found = []
    for one in psutil.process_iter():
        try:
            is_one = one.environ().get("WORKBENCH_HOME") == str(home)
            if is_one and one.pid != psutil.Process().pid and one.status() != "zombie":
                found.append(one)
        except psutil.Error:
            continue
    return found


@pytest.mark.mpi
@pytest.mark.slow
def test_all_processes_of_a_cluster_end_whose_home_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "removed"
    monkeypatch.setenv("WORKBENCH_HOME", str(home))
    monkeypatch.setenv("WORKBENCH_WATCHDOG", "on")
    with Store() as store:
        ask_cluster(store, 1, cluster=NAME)
        until(lambda: store.cluster_fact(NAME).state is ClusterState.READY, seconds=SECONDS)
        source = "import time, workbench\nfor i in range(10**6):\n"
        source += "    time.sleep(0.01)\n    workbench.report(loss=i)"
        run = ask_run(store, kind=RunKind.CELL, source=source, cluster=NAME).id
        until(lambda: store.run(run).fact.iteration, seconds=SECONDS)
        begun = processes(home)

        shutil.rmtree(home, ignore_errors=True)

        assert len(begun) > 4
        until(lambda: not processes(home), seconds=SECONDS)


class Fleet(ClusterHosts):
    """Nodes that are gone a while after they are no longer wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted: list[bool] = []

    @property
    def is_cleared(self) -> bool:
        return self.wanted[-2:] == [False, False]

    def keep(self, wish: ClusterWish, load: Load, now: float) -> None:
        self.wanted.append(wish.up)


def test_nodes_are_deleted_and_worlds_end_without_a_store(stage: Stage, monkeypatch) -> None:
    stage.up(2)
    fleet = stage.supervisor._hosts = Fleet()
    monkeypatch.setattr(loop, "READ_SECONDS", 0.0)
    stage.own.close()
    stage.store.path.unlink()

    stage.supervisor.abandon()

    assert fleet.is_cleared
    assert stage.cluster.observe() == ()


def test_a_lock_is_gone_once_its_file_is_missed_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.0)
    path = tmp_path / "folder" / "lock"
    path.parent.mkdir()
    with path.open("a+b") as file:
        lock = ProcessLock(path, file)
        there = [lock.is_gone() for _ in range(5)]
        path.parent.rename(tmp_path / "moved")
        missed = [lock.is_gone() for _ in range(2)]
        (tmp_path / "moved").rename(path.parent)
        back = [lock.is_gone() for _ in range(5)]
        path.rename(tmp_path / "lock")
        path.touch()  # another one's
        gone = [lock.is_gone() for _ in range(4)]

    assert not any(there + missed + back)
    assert gone == [False, False, True, True]
