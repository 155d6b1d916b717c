"""The state of a cluster and its last run."""

from __future__ import annotations

import time

from workbench.core.cluster.model import as_next_started
from workbench.core.fleet.model import Provider
from workbench.notebook.cell_output import paragraph, stacked, table
from workbench.notebook.fleet_view import fleet_tables
from workbench.store import Store
from workbench.store.disk import full_disk
from workbench.view.listing import ranks_table
from workbench.view.nodes import PLACES, fleet_of, money_line, nodes_line
from workbench.view.run_output import Bundle
from workbench.view.text import cluster_line


def status_line(store: Store, cluster: str) -> str:
    """Return the cluster's state in one line, or how to start one."""
    wish, fact = store.cluster_wish(cluster), store.cluster_fact(cluster)
    if wish is None:
        return f"There is no cluster {cluster!r} yet; start it with %%dist_train or %dist_cluster."
    return " ".join(filter(None, (cluster_line(wish, fact), full_disk(store.path))))


def cluster_status(store: Store, cluster: str) -> Bundle:
    """Return the cluster's state, its costs, and tables of its nodes and ranks."""
    fact, line = store.cluster_fact(cluster), status_line(store, cluster)
    ranks = store.ranks(cluster, fact.generation) if fact.ranks else []
    wish, now = store.cluster_wish(cluster), time.time()
    wish = wish and as_next_started(wish, fact)
    if wish is None or wish.fleet.provider is Provider.THIS_MACHINE:
        return table(ranks_table(ranks), line) if ranks else paragraph(line)
    fleet = fleet_of(store, wish, fact.ranks, now)
    where = f"Provider: {PLACES[wish.fleet.provider]}. Nodes: {nodes_line(fleet)}."
    parts = [paragraph(line, where, f"Price: {money_line(fleet, now)}."), *fleet_tables(fleet)]
    return stacked([*parts, *([table(ranks_table(ranks), "Ranks")] if ranks else [])])


def last_run_line(store: Store, cluster: str) -> str:
    """Return a line on the newest run, if no run is active."""
    runs = store.runs(cluster, limit=1)
    if not runs:
        return "No run yet."
    run = runs[0]
    name = run.wish.name
    shown = f"%dist_runs '{name}'" if " " in name else f"%dist_runs {name}"
    return f"No run is active; the last one {run.fact.state} (show it with {shown})."
