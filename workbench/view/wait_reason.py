"""The reason for which a run waits."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.run.model import Run, RunKind, RunState
from workbench.core.units import count

# A failure that is older than the wish may be one that the supervisor has yet to handle.
PATIENCE_SECONDS = 15.0


def reason(run: Run, cluster: ClusterFact, before: Sequence[Run]) -> str:
    """Return why a run waits; empty when it does not wait.

    Args:
        before: The unfinished runs ahead of it.
    """
    if run.fact.state.ended:
        return ""
    if run.wish.stop:
        return (
            f"asked to stop; the ranks have {run.wish.options.grace:g} s to finish their iteration"
        )
    if run.fact.state is RunState.SUBMITTED:
        return run.fact.message or "sent to the ranks"
    if run.fact.state is RunState.QUEUED:
        repeats = run.fact.message if run.fact.attempt == 1 and not before else ""
        return repeats or _describe_queue(cluster, before)
    return ""


def start_failure(run: Run, cluster: ClusterFact, now: float) -> str:
    """Return why the run cannot start; empty while it may.

    Args:
        now: Epoch seconds.
    """
    queued = run.fact.state is RunState.QUEUED
    return failure(cluster, run.wish.created, now) if queued else ""


def failure(cluster: ClusterFact, asked: float, now: float) -> str:
    """Return why the cluster failed; empty while it may still start.

    Args:
        asked: Epoch seconds of the latest request.
        now: Epoch seconds.
    """
    tried = cluster.updated > asked or now >= asked + PATIENCE_SECONDS
    if cluster.state is not ClusterState.FAILED or not tried:
        return ""
    logs = f"`workbench logs --supervisor --cluster {cluster.name}`"
    return cluster.message or f"Cluster {cluster.name!r} has failed; see {logs}."


def _describe_queue(cluster: ClusterFact, before: Sequence[Run]) -> str:
    if cluster.state is ClusterState.DOWN:  # its message is about the previous state
        return "the cluster is about to start"
    remark = f" ({cluster.message})" if cluster.message else ""
    sentences = {
        ClusterState.STARTING: "the cluster is starting",
        ClusterState.PAUSED: "the cluster has no nodes"
        if cluster.message
        else "the cluster has no nodes; start some (`workbench resize --nodes N`)",
        ClusterState.RESIZING: f"the cluster is changing size from {count(cluster.ranks, 'rank')}",
        ClusterState.STOPPING: "the cluster is stopping, and will restart",
        ClusterState.FAILED: "the cluster failed and is being restarted",
    }
    if cluster.state in sentences:
        return sentences[cluster.state] + remark
    if before:
        others = f" and {len(before) - 1} more" if len(before) > 1 else ""
        return f"waits for {_name_run(before[0])}{others}"
    return "about to be sent to the ranks" + remark


def _name_run(run: Run) -> str:
    """Return a run's name for the user; a set-up cell has the same name in every world."""
    if run.wish.kind is not RunKind.SETUP:
        return f"run {run.wish.name!r}"
    return f"set-up {run.wish.setup!r}"
