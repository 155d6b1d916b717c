"""A training whose nodes lost its snapshots continues from the durable place, on real ranks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.supervisor.test_rehearsal_place import NAME, TRAINING
from tests.waiting import until
from workbench.core.cluster.model import ClusterState
from workbench.core.fleet.model import FleetWish
from workbench.core.run.model import RunKind, RunState
from workbench.node.snapshot_folder import manifests
from workbench.requests.cluster import ask_cluster, ask_down
from workbench.requests.resume import ask_resume
from workbench.requests.run import ask_run, ask_stop
from workbench.requests.supervisor import supervisor_is_awake
from workbench.store import Store
from workbench.store.paths import snapshot_directory

pytestmark = [pytest.mark.mpi, pytest.mark.weekly, pytest.mark.timeout(240)]


def test_a_training_continues_after_its_nodes_folders_were_wiped(tmp_path: Path) -> None:
    fleet = FleetWish("rehearsal", nodes=2, snapshots=str(tmp_path / "shared"))
    with Store() as store:
        ask_cluster(store, cluster=NAME, fleet=fleet)
        until(lambda: store.cluster_fact(NAME).state is ClusterState.READY)
        run = ask_run(store, kind=RunKind.CELL, source=TRAINING, cluster=NAME).id
        until(lambda: store.attempts.newest_snapshot(run) >= 0)
        ask_stop(store, run, NAME)
        until(lambda: store.run(run).fact.state.ended)
        stopped = store.run(run).fact
        there = tmp_path / "shared" / NAME / run / "snapshots"
        until(lambda: stopped.stopped_at in [one.iteration for one in manifests(there, run)])
        shutil.rmtree(snapshot_directory(run))

        ask_resume(store, run)
        until(lambda: store.run(run).fact.state.ended)

        ended = store.run(run).fact
        ask_down(store, cluster=NAME)
        until(lambda: not supervisor_is_awake(NAME))
    assert stopped.state is RunState.STOPPED
    assert ended.state is RunState.FINISHED, ended.message
    assert (ended.attempt, ended.resumed_at) == (2, stopped.stopped_at)
