"""Request another size of a cluster, for the shell, magics, the panel and the page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from workbench.core.cluster.model import DEFAULT_CLUSTER, ClusterWish, check_cluster_name
from workbench.core.cluster.size import Size
from workbench.core.cluster.spending import growth, needs_a_yes, refuse_ending
from workbench.core.fleet.charges import ring_price
from workbench.core.fleet.model import FleetWish, Provider
from workbench.core.fleet.request import check_fleet
from workbench.core.run.metrics import EXCHANGE_PREFIX
from workbench.errors import InputError, PriceQuestion, StateError, Unknown
from workbench.requests.cloud_queries import Market, market_of
from workbench.requests.wishes import ask_cluster
from workbench.store.store import Store

MOST_RUNS = 5  # looked at for one that was measured


def ask_size(
    store: Store,
    size: Size,
    *,
    cluster: str = DEFAULT_CLUSTER,
    oversubscribe: bool = False,
    across_zones: bool = False,
    agreed: float | None = None,
    market: Callable[[FleetWish], Market] = market_of,
) -> ClusterWish:
    """Request another size; a higher price needs a confirmation.

    Args:
        oversubscribe: Whether ranks may share cores.
        across_zones: Whether nodes may be added in other zones from now on.
        agreed: Confirmed $/h of all nodes; None without a question.
        market: Returns the offers for a fleet.

    Raises:
        InputError: The number is not possible, or no offer fits.
        Unknown: There is no such cluster, so it has no nodes.
        PriceQuestion: It costs more than was confirmed.
        StateError: It costs more than the cluster may, its nodes are not up, or its time to live
            is over.
        CloudError: The provider does not answer, or not to us.
    """
    if size.nodes is None:
        return _ask_ranks(store, size.ranks or 0, cluster, oversubscribe)
    fleet = _resized(store, cluster, size.nodes, across_zones)
    wish = store.cluster_wish(cluster)
    if wish is not None and needs_a_yes(wish, size.nodes):
        _check_price(store, replace(wish, fleet=fleet), agreed, market)
    shares = wish is not None and wish.oversubscribe
    return ask_cluster(store, 0, cluster=cluster, oversubscribe=shares, fleet=fleet)


def _ask_ranks(store: Store, ranks: int, cluster: str, oversubscribe: bool) -> ClusterWish:
    if ranks < 1:
        raise InputError(
            f"The number of ranks must be at least 1, not {ranks}",
            "`workbench delete` deletes the cluster, and `workbench resize --nodes 0` keeps one of "
            "nodes without any.",
        )
    return ask_cluster(store, ranks, cluster=cluster, oversubscribe=oversubscribe)


def _resized(store: Store, cluster: str, nodes: int, across_zones: bool) -> FleetWish:
    """Return the nodes of the new size."""
    wish = store.cluster_wish(check_cluster_name(cluster))
    if wish is None:
        raise Unknown(f"There is no cluster {cluster!r}; start it first.")
    if not wish.up:
        raise StateError(f"Cluster {cluster!r} is deleted; start a new one (`workbench up`).")
    if wish.fleet.provider is Provider.THIS_MACHINE:
        raise InputError(
            f"Cluster {cluster!r} runs on this machine alone; change its number of ranks instead."
        )
    refuse_ending(wish, time.time())
    fewest = min(wish.fleet.min_nodes, max(nodes, 1))
    across = across_zones or wish.fleet.across_zones
    return check_fleet(replace(wish.fleet, nodes=nodes, min_nodes=fewest, across_zones=across))


def _check_price(
    store: Store,
    wish: ClusterWish,
    agreed: float | None,
    market: Callable[[FleetWish], Market],
) -> None:
    """Raise PriceQuestion unless the price of ``wish`` was confirmed."""
    offers, there = market(wish.fleet).offers, store.nodes(wish.name)
    spent, training = store.spent(wish.name), _crossing(store, wish.name)
    found = growth(wish, wish.fleet.nodes, offers, there, spent, training)
    if agreed is None or not found.is_within(agreed):
        raise PriceQuestion(f"{found}.", found.price)


def _crossing(store: Store, cluster: str) -> float:
    """Return the $/h of traffic between zones, by the latest measured training; 0 without any."""
    for run in store.runs(cluster, limit=MOST_RUNS):
        told = next(iter(store.measured(run.id, EXCHANGE_PREFIX).values()), {})
        steps = store.steps(run.id)
        if steps and (nbytes := told.get("nbytes", 0.0)):
            seconds = sum(sum(parts.values()) for parts in steps.values()) / len(steps)
            return ring_price(nbytes, seconds, len(steps) + 1)
    return 0.0
