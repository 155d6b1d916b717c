"""Say what a run waits for; a person never looks at a wait without a reason."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core.cluster import ClusterFact, ClusterState
from workbench.core.run import Run, RunState
from workbench.view.phrases import count

# A failure that is older than the wish may be one that the supervisor has yet to mend.
PATIENCE_SECONDS = 15.0


def reason(run: Run, cluster: ClusterFact, before: Sequence[Run]) -> str:
    """Return what a run waits for, or nothing when it does not wait.

    Args:
        before: The unfinished runs that go first.
    """
    if run.fact.state.ended:
        return ""
    if run.wish.stop:
        return f"asked to stop; the ranks have {run.wish.grace:g} s to reach an iteration boundary"
    if run.fact.state is RunState.SUBMITTED:
        return run.fact.message or "sent to the ranks"
    if run.fact.state is RunState.QUEUED:
        return _queued(cluster, before)
    return ""


def hopeless(run: Run, cluster: ClusterFact, now: float) -> str:
    """Return why the run will never begin, or nothing while it may.

    Args:
        now: Epoch seconds.
    """
    queued = run.fact.state is RunState.QUEUED
    return failure(cluster, run.wish.created, now) if queued else ""


def failure(cluster: ClusterFact, asked: float, now: float) -> str:
    """Return why the cluster failed, or nothing while it may still come up.

    Args:
        asked: Epoch seconds at which somebody last wanted something of it.
        now: Epoch seconds.
    """
    tried = cluster.updated > asked or now >= asked + PATIENCE_SECONDS
    if cluster.state is not ClusterState.FAILED or not tried:
        return ""
    logs = f"`workbench logs --supervisor --cluster {cluster.name}`"
    return cluster.message or f"Cluster {cluster.name!r} has failed; {logs} says why."


def _queued(cluster: ClusterFact, before: Sequence[Run]) -> str:
    remark = f" ({cluster.message})" if cluster.message else ""
    sentences = {
        ClusterState.DOWN: "the cluster is about to start",
        ClusterState.STARTING: "the cluster is starting",
        ClusterState.PAUSED: "the cluster is kept without nodes; resize it to have some",
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
