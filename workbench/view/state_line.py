"""The state of a run in one line, the same everywhere, and why it waits or cannot start."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from workbench.core.cluster.model import ClusterFact, ClusterState
from workbench.core.fleet.model import Node, NodeState
from workbench.core.run.metrics import iterations_to_do, seconds_left, seconds_taken
from workbench.core.run.model import Run, RunFact, RunKind, RunState
from workbench.core.units import count, duration, number

# A failure that is older than the wish may be one that the supervisor has yet to handle.
PATIENCE_SECONDS = 15.0

SEPARATOR = " · "
_WORDS = {
    RunState.QUEUED: "queued",
    RunState.SUBMITTED: "submitted",
    RunState.RUNNING: "running",
    RunState.STOPPING: "stopping…",
    RunState.FINISHED: "finished",
    RunState.FAILED: "failed",
    RunState.STOPPED: "stopped",
    RunState.LOST: "lost",
}


def state_word(run: Run) -> str:
    """Return a run's state in a word."""
    return _WORDS[RunState.STOPPING if is_stopping(run) else run.fact.state]


def is_stopping(run: Run) -> bool:
    """Whether an active run was asked to stop."""
    return run.wish.stop and not run.fact.state.ended


def line_parts(
    run: Run, now: float, remark: str = "", rate: float = 0.0, reclaimed: Iterable[Node] = ()
) -> tuple[str, ...]:
    """Return the parts of a run's line, which is shown beside its state.

    Args:
        now: Epoch seconds.
        remark: Why it waits, if it does; otherwise what is stored of it is shown.
        rate: Recent iterations per second; 0 when unknown.
        reclaimed: The nodes of its cluster that have an interruption notice.
    """
    fact = run.fact
    ending, said = _ending(fact)
    parts = [ending] if ending else _progress(run)
    has_changed = 0 < fact.ranks != fact.ranks_before > 0
    if fact.ranks and not has_changed:
        parts.append(count(fact.ranks, "rank"))
    if fact.attempt > 1:
        parts.append(_attempt(fact, has_changed=has_changed))
    if fact.state is RunState.RUNNING and not is_stopping(run):
        if rate > 0:
            parts.append(f"{number(rate, 3)} it/s")
        if (left := seconds_left(fact, now)) is not None:
            parts.append(f"{duration(left)} left")
    if fact.state.ended and fact.started:
        parts.append(f"took {duration(seconds_taken(fact, now))}")
    if not fact.state.ended:
        parts += notices(reclaimed, now)
    last = (remark or said).removesuffix(".")
    return (*parts, last) if last else tuple(parts)


def state_line(
    run: Run, now: float, remark: str = "", rate: float = 0.0, reclaimed: Iterable[Node] = ()
) -> str:
    """Return a run's state and its line, with the arguments of ``line_parts``."""
    parts = line_parts(run, now, remark, rate, reclaimed)
    ending, _ = _ending(run.fact)
    whole = parts if ending else (state_word(run), *parts)
    return SEPARATOR.join(whole)


def _ending(fact: RunFact) -> tuple[str, str]:
    """Return how it ended, if that says more than its state, and the other stored sentences."""
    if fact.state is RunState.STOPPED:
        return _describe_stop(fact)
    if fact.state is RunState.FAILED and fact.failed_rank >= 0:
        said = ". ".join(filter(None, [fact.failure, fact.remark]))
        host = f" ({fact.failed_host})" if fact.failed_host else ""
        where = f"failed on rank {fact.failed_rank}{host}"
        return where, said if fact.failure else fact.message
    return "", fact.message


def _describe_stop(fact: RunFact) -> tuple[str, str]:
    if fact.stopped_at < 0:
        if not fact.started and not fact.iteration:
            return "stopped before it started", fact.remark
        if fact.message:  # written before the iteration was a field
            return "", fact.message
    iteration = fact.iteration if fact.stopped_at < 0 else fact.stopped_at
    return f"stopped at iteration {iteration:,}", fact.remark


def _attempt(fact: RunFact, *, has_changed: bool) -> str:
    """Return which attempt it is, and from where.

    Args:
        has_changed: Whether it has another number of ranks than the attempt before.
    """
    ranks = f", {fact.ranks_before:,} → {count(fact.ranks, 'rank')}" if has_changed else ""
    where = f", resumed at iteration {fact.resumed_at:,}" if fact.resumed_at >= 0 else ""
    return f"attempt {fact.attempt:,}{ranks}{where}"


def _progress(run: Run) -> list[str]:
    fact, parts = run.fact, list[str]()
    done, total = fact.iteration, iterations_to_do(fact)
    if total and run.wish.kind is RunKind.MEASUREMENT:
        parts.append(f"step {done:,} of {total:,.0f}")
    elif total:
        parts.append(f"iteration {done:,} of {total:,.0f}")
    elif done:
        parts.append(f"iteration {done:,}")
    epoch = fact.epoch if math.isfinite(fact.epoch) else 0.0
    if fact.epochs_total and math.isfinite(fact.epochs_total):
        parts.append(f"epoch {number(epoch, 3)} of {number(fact.epochs_total)}")
    elif epoch:
        parts.append(f"epoch {number(epoch, 3)}")
    return parts


def notice(node: Node, now: float) -> str:
    """Return when a node with an interruption notice is reclaimed; empty for others.

    Args:
        now: Epoch seconds.
    """
    if not node.reclaimed or node.state is NodeState.GONE:
        return ""
    if (left := node.reclaimed - now) < 1:
        return f"node {node.id} is being reclaimed"
    return f"node {node.id} will be reclaimed in {duration(round(left))}"


def notices(nodes: Iterable[Node], now: float) -> tuple[str, ...]:
    """Return the notices of nodes, in their order."""
    return tuple(said for node in nodes if (said := notice(node, now)))


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
