"""Say how a cluster stands and what ran on it last."""

from __future__ import annotations

from workbench.notebook.page import paragraph, table
from workbench.store import Store
from workbench.view.kept import Bundle
from workbench.view.listing import ranks_table
from workbench.view.phrases import cluster_line


def status_line(store: Store, cluster: str) -> str:
    """Return the cluster's state in one line, or how to have one."""
    wish, fact = store.cluster_wish(cluster), store.cluster_fact(cluster)
    if wish is None:
        return (
            f"There is no cluster called {cluster!r} yet; %%dist_train or %dist_cluster starts one."
        )
    return cluster_line(wish, fact)


def cluster_status(store: Store, cluster: str) -> Bundle:
    """Return the cluster's line and a table of its ranks."""
    fact, line = store.cluster_fact(cluster), status_line(store, cluster)
    ranks = store.ranks(cluster, fact.generation) if fact.ranks else []
    return table(ranks_table(ranks), line) if ranks else paragraph(line)


def last_run_line(store: Store, cluster: str) -> str:
    """Return a line on the newest run, when none is unfinished."""
    runs = store.runs(cluster, limit=1)
    if not runs:
        return "No run yet."
    run = runs[0]
    name = run.wish.name
    shown = f"%dist_runs '{name}'" if " " in name else f"%dist_runs {name}"
    return f"No run is going on; the last one {run.fact.state}, and {shown} shows it."
