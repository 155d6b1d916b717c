"""Ask for a cluster's links, exchanges, disks and devices to be measured."""

from __future__ import annotations

from workbench.core.cluster import DEFAULT_CLUSTER
from workbench.core.run import RunKind, RunWish
from workbench.errors import InputError
from workbench.store.store import Store
from workbench.store.wishes import ask_run

NAME = "bandwidth"


def ask_measurement(
    store: Store, *, cluster: str = DEFAULT_CLUSTER, rating: float | None = None
) -> RunWish:
    """Queue a measurement on all ranks of ``cluster``, which is started if need be.

    Args:
        rating: Gbit/s that a node's network is rated at; None for what was asked of the nodes.

    Raises:
        InputError: That is no rating.
    """
    if rating is not None and not rating > 0:
        raise InputError(f"The rating must be more than 0 Gbit/s, not {rating:g}; try 10.")
    wish = store.cluster_wish(cluster)
    if rating is None:
        rating = wish.fleet.needs.network if wish else 0.0
    source = wish.fleet.data if wish else ""
    return ask_run(
        store,
        kind=RunKind.MEASUREMENT,
        source="",
        cluster=cluster,
        name=NAME,
        parameters=(("rating", rating), ("source", source)),
    )
