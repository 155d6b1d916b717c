"""Say how a cluster stands and what ran on it last."""

from __future__ import annotations

import time

from workbench.core.fleet import Place
from workbench.notebook.fleet_view import fleet_tables
from workbench.notebook.page import paragraph, stacked, table
from workbench.store import Store
from workbench.view.kept import Bundle
from workbench.view.listing import ranks_table
from workbench.view.nodes import PLACES, fleet_of, money_line, nodes_line
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
    """Return the cluster's line, its money, and tables of its nodes and ranks."""
    fact, line = store.cluster_fact(cluster), status_line(store, cluster)
    ranks = store.ranks(cluster, fact.generation) if fact.ranks else []
    wish, now = store.cluster_wish(cluster), time.time()
    if wish is None or wish.fleet.place is Place.LOCAL:
        return table(ranks_table(ranks), line) if ranks else paragraph(line)
    fleet = fleet_of(store, wish, fact.ranks, now)
    where = f"Where: {PLACES[wish.fleet.place]}. Nodes: {nodes_line(fleet)}."
    parts = [paragraph(line, where, f"Price: {money_line(fleet, now)}."), *fleet_tables(fleet)]
    return stacked([*parts, *([table(ranks_table(ranks), "Ranks")] if ranks else [])])


def last_run_line(store: Store, cluster: str) -> str:
    """Return a line on the newest run, when none is unfinished."""
    runs = store.runs(cluster, limit=1)
    if not runs:
        return "No run yet."
    run = runs[0]
    name = run.wish.name
    shown = f"%dist_runs '{name}'" if " " in name else f"%dist_runs {name}"
    return f"No run is going on; the last one {run.fact.state}, and {shown} shows it."
