"""Say what a run waits for; a person never looks at a wait without a reason."""

from __future__ import annotations

from workbench.core.cluster import ClusterFact, ClusterState
from workbench.core.run import Run, RunState
from workbench.notebook.phrases import count
from workbench.notebook.record import Record

# A failure that is older than the run may be one that its supervisor has not yet tried to mend.
PATIENCE = 15.0  # seconds


def reason(record: Record) -> str:
    """Return what the run waits for, or nothing when it does not wait."""
    run = record.run
    if run.fact.state.ended:
        return ""
    if run.wish.stop:
        return f"asked to stop, the ranks have {run.wish.grace:g} s to reach an iteration boundary"
    if run.fact.state is RunState.SUBMITTED:
        return run.fact.message or "sent to the ranks"
    if run.fact.state is RunState.QUEUED:
        return _queued(record.cluster, record.before)
    return ""


def hopeless(record: Record, now: float) -> str:
    """Return why the run will never begin, or nothing while it may.

    Args:
        now: Epoch seconds.
    """
    run, cluster = record.run, record.cluster
    if run.fact.state is not RunState.QUEUED or cluster.state is not ClusterState.FAILED:
        return ""
    if cluster.updated <= run.wish.created and now < run.wish.created + PATIENCE:
        return ""
    return cluster.message or f"Cluster {cluster.name!r} has failed; `workbench logs` says why."


def _queued(cluster: ClusterFact, before: tuple[Run, ...]) -> str:
    remark = f" ({cluster.message})" if cluster.message else ""
    sentences = {
        ClusterState.DOWN: "the cluster is about to start",
        ClusterState.STARTING: "the cluster is starting",
        ClusterState.RESIZING: f"the cluster is changing size from {count(cluster.ranks, 'rank')}",
        ClusterState.STOPPING: "the cluster is stopping, and will start again",
        ClusterState.FAILED: "the cluster failed and is tried again",
    }
    if cluster.state in sentences:
        return sentences[cluster.state] + remark
    if before:
        others = f" and {len(before) - 1} more" if len(before) > 1 else ""
        return f"behind run {before[0].wish.name!r} ({before[0].fact.state}){others}"
    return "about to be sent to the ranks" + remark
