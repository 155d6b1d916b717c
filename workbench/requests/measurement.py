"""Request a measurement of a cluster's links, exchanges, disks and devices."""

from __future__ import annotations

from workbench.core.cluster.model import DEFAULT_CLUSTER
from workbench.core.run.model import RunKind, RunWish
from workbench.core.run.run_options import RunOptions
from workbench.errors import InputError
from workbench.requests.run import ask_run
from workbench.store.store import Store

NAME = "bandwidth"


def ask_measurement(
    store: Store, *, cluster: str = DEFAULT_CLUSTER, rating: float | None = None
) -> RunWish:
    """Queue a measurement on all ranks of ``cluster``, which is started if necessary.

    Args:
        rating: Rated Gbit/s of a node's network; None for what its type sustains, or else what was
            requested.

    Raises:
        InputError: The rating is not valid.
    """
    if rating is not None and not rating > 0:
        raise InputError(f"The rating must be more than 0 Gbit/s, not {rating:g}", "try 10.")
    wish = store.cluster_wish(cluster)
    nodes = store.fleets.nodes(cluster)
    if rating is None:
        known = [node.network for node in nodes if node.network]
        rating = min(known, default=wish.fleet.needs.network if wish else 0.0)
    flow = min((node.flow for node in nodes if node.flow), default=0.0)
    source = wish.fleet.data if wish else ""
    return ask_run(
        store,
        RunOptions(parameters=(("rating", rating), ("flow", flow), ("source", source))),
        kind=RunKind.MEASUREMENT,
        source="",
        cluster=cluster,
        name=NAME,
    )
