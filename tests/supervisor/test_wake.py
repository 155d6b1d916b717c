"""The process that keeps all supervisors of a machine awake ends when none has work."""

from __future__ import annotations

from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.errors import MachineError
from workbench.requests.supervisor import wake_supervisor
from workbench.store import Store
from workbench.store.paths import KEPT_VARIABLE, cluster_directory
from workbench.supervisor import wake


def test_it_wakes_what_has_work_and_ends_when_nothing_has(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    awake = []
    monkeypatch.setattr(wake, "QUIET_SECONDS", 0.05)
    monkeypatch.setattr(wake, "LOOK_SECONDS", 0.01)

    def work(store: Store, cluster: str) -> None:
        awake.append(cluster)
        if len(awake) == 3:
            raise MachineError("The disk does not answer")  # it may again
        if len(awake) == 20:  # longer than the quiet time
            store.wish_cluster("lab", up=False, ranks=2, oversubscribe=False)
            store.put_cluster_fact(ClusterFact("lab", ClusterState.DOWN))

    monkeypatch.setattr(wake, "keep_awake", work)
    with Store() as store:
        store.wish_cluster("lab", up=True, ranks=2, oversubscribe=False)

    wake.keep_all_awake()

    assert len(awake) >= 20


def test_a_command_that_runs_beside_it_starts_no_supervisor(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    monkeypatch.setenv(KEPT_VARIABLE, "1")

    wake_supervisor("lab")

    assert not (cluster_directory("lab") / "supervisor.log").exists()
