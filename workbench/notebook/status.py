"""Say how a cluster stands and what runs on it, and attach to what runs."""

from __future__ import annotations

from html import escape

from workbench.core.cluster import ClusterFact, ClusterState, ClusterWish
from workbench.notebook.page import Bundle, table
from workbench.notebook.phrases import count
from workbench.store import Store


def cluster_line(wish: ClusterWish | None, fact: ClusterFact) -> str:
    """Return a cluster's state in one line: asked against actual."""
    if wish is None:
        return (
            f"There is no cluster called {fact.name!r} yet; "
            "%%dist_train or %dist_cluster starts one."
        )
    parts = [str(fact.state)]
    if wish.up or fact.ranks:
        parts.append(f"{count(fact.ranks, 'rank')} of {wish.ranks if wish.up else 0} asked for")
    if fact.generation and fact.state is not ClusterState.DOWN:
        parts.append(f"generation {fact.generation}")
    remark = f": {fact.message}" if fact.message else ""
    return f"Cluster {fact.name}: {', '.join(parts)}{remark}"


def cluster_status(store: Store, cluster: str) -> Bundle:
    """Return the cluster's line and a table of its ranks."""
    fact = store.cluster_fact(cluster)
    line = cluster_line(store.cluster_wish(cluster), fact)
    ranks = store.ranks(cluster, fact.generation) if fact.ranks else []
    if not ranks:
        return {"text/plain": line, "text/html": f"<p>{escape(line)}</p>"}
    rows = [(str(rank.rank), rank.host, str(rank.pid), rank.python) for rank in ranks]
    return table(("rank", "host", "process", "Python"), rows, line)


def last_run_line(store: Store, cluster: str) -> str:
    """Return a line on the newest run, when none is unfinished."""
    runs = store.runs(cluster, limit=1)
    if not runs:
        return "No run yet."
    run = runs[0]
    name = run.wish.name
    shown = f"%dist_runs '{name}'" if " " in name else f"%dist_runs {name}"
    return f"No run is going on; the last one {run.fact.state}, and {shown} shows it."
