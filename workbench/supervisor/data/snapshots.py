"""Where the ranks of a cluster save their snapshots."""

from __future__ import annotations

from workbench.core.fleet.model import ELSEWHERE, Provider
from workbench.core.node.staging import snapshot_folder
from workbench.core.run.model import Run
from workbench.core.run.resumption import is_resumable
from workbench.store.paths import snapshot_directory


def snapshot_place(run: Run, provider: Provider) -> str:
    """Return the folder for a run's snapshots on each rank's host; empty for none.

    It depends on the provider alone: the run may continue on other hosts of the cluster.
    """
    if not is_resumable(run.wish.kind):
        return ""
    if provider in ELSEWHERE:
        return snapshot_folder(run.wish.cluster, run.id)
    return str(snapshot_directory(run.id))
