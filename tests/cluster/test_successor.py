"""What a supervisor left that was killed while it started something is found by its successor."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.cluster.conftest import PRELUDE, Bench
from workbench.cluster import controller_process, mpi_cluster
from workbench.cluster.controller_process import RecordedCluster
from workbench.cluster.leftovers import LeftoverProcesses
from workbench.cluster.mpi_cluster import MpiCluster
from workbench.core.world.world import Host, World


def test_a_record_that_cannot_be_finished_leaves_the_one_before(tmp_path, monkeypatch) -> None:
    path = tmp_path / "cluster.json"
    cluster = RecordedCluster(profile_dir=str(tmp_path), cluster_file=str(path), cluster_id="")
    cluster.write_cluster_file()
    before = path.read_text()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(controller_process.os, "replace", killed)
    cluster.delay = 7
    with pytest.raises(KeyboardInterrupt):
        cluster.write_cluster_file()

    assert path.read_text() == before
    assert json.loads(before)["cluster"]["class"].endswith("RecordedCluster")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[MpiCluster]:
    found = MpiCluster(tmp_path)
    yield found
    found.close()


@pytest.mark.mpi
@pytest.mark.parametrize("record", [None, '{"cluster": {'], ids=["none", "torn"])
def test_a_controller_without_a_record_ends(tmp_path, cluster, record) -> None:
    cluster._forks.start()
    cluster.open({})
    former = psutil.Process(cluster._cluster.controller.pid)
    others = former.children(recursive=True)
    path = tmp_path / "profile" / "security" / "cluster-.json"
    path.unlink()
    if record is not None:
        path.write_text(record)
    cluster._router.close()  # as when its process is gone

    successor = MpiCluster(tmp_path)
    try:
        successor._forks.start()
        successor.open({})

        assert successor._cluster.controller.pid != former.pid
        assert psutil.wait_procs([former, *others], timeout=10)[1] == []
    finally:
        successor.close()


@pytest.mark.mpi
@pytest.mark.timeout(240)
def test_a_world_without_a_record_ends(tmp_path, cluster) -> None:
    bench = Bench(cluster, tmp_path, PRELUDE)
    cluster.open({})
    bench.ready(1)
    mark = f"{cluster._key()}.2"
    cluster._start_here(2, World((Host("localhost", 1),), 1))
    del cluster._cluster.engines["g2"]
    orphans = LeftoverProcesses(mark)
    assert bench.until(orphans.find)
    bench.until(lambda: len(cluster._client.ids) == 2 or None)
    bench._generation = 2

    bench.ready(1)
    bench.until(lambda: (bench._states() and not orphans.find()) or None)

    assert bench._states().keys() == {1, 3}


@pytest.mark.mpi
def test_a_controller_that_is_gone_is_not_waited_for(tmp_path, cluster, monkeypatch) -> None:
    cluster._forks.start()
    cluster.open({})
    cluster._open_client(0.0)
    controller = cluster._cluster.controller.pid
    profile, record = tmp_path / "profile", tmp_path / "profile" / "security" / "cluster-.json"
    kept = record.read_text()
    found = controller_process.find_controller(profile)
    reused = kept.replace(str(controller), str(os.getpid()))

    assert found is not None
    record.write_text(reused)
    assert controller_process.find_controller(profile) is None  # another process has its number

    record.write_text(kept)
    cluster._router.close()  # as when its process is gone
    controller_process.kill_group(controller)
    successor = MpiCluster(tmp_path)
    monkeypatch.setattr(successor, "_connect", lambda: pytest.fail("it asks who cannot answer"))
    try:
        successor.open({})

        assert successor.is_lost
    finally:
        successor.close()


@pytest.mark.mpi
def test_nodes_are_looked_after_while_a_controller_does_not_answer(
    tmp_path, cluster, monkeypatch
) -> None:
    cluster._forks.start()
    cluster.open({})
    cluster._open_client(0.0)
    monkeypatch.setattr(mpi_cluster, "CONTROLLER_SECONDS", 1.0)
    controller = psutil.Process(cluster._cluster.controller.pid)
    hung = [controller, *controller.children(recursive=True)]
    cluster._router.close()
    for process in hung:
        process.suspend()
    successor, looks = MpiCluster(tmp_path), list[int]()
    successor.meanwhile = lambda: looks.append(1)
    try:
        successor.open({})

        assert len(looks) >= 4
        assert not successor.is_lost
        assert psutil.wait_procs(hung, timeout=10)[1] == []
    finally:
        successor.close()
