"""Resize a cluster from a magic, and check its hosts."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from functools import partial

from workbench.core.cluster.size import Size
from workbench.core.fleet.model import NodeState, Provider
from workbench.core.node.findings import Finding
from workbench.errors import PriceQuestion
from workbench.notebook.cell_output import say
from workbench.requests.cloud_queries import ask_host_doctor
from workbench.requests.resize import ask_size
from workbench.store import Store


def resize(chosen: Namespace) -> str:
    """Request the given size, and show the present one.

    Raises:
        InputError: No size was typed, or two.
        PriceQuestion: It costs more, and is not confirmed.
    """
    size, cluster = Size(chosen.ranks, chosen.nodes), chosen.cluster
    with Store() as store:
        has = store.cluster_fact(cluster).ranks
        _agree_to_size(store, size, chosen)
        if size.nodes is not None:
            has = sum(node.state is NodeState.JOINED for node in store.nodes(cluster))
    return f"Resizing cluster {cluster!r} to {size}; it has {has} now."


def _agree_to_size(store: Store, size: Size, chosen: Namespace) -> None:
    """Ask for the size; what more nodes cost is said first, and wants a yes."""
    ask = partial(
        ask_size,
        store,
        size,
        cluster=chosen.cluster,
        oversubscribe=chosen.oversubscribe,
        across_zones=chosen.across_zones,
    )
    try:
        ask()
    except PriceQuestion as question:
        if not chosen.yes:
            raise PriceQuestion(
                f"{question} Nothing was bought; add --yes to buy them.", question.price
            ) from None
        say(str(question))
        ask(agreed=question.price)


def hosts_findings(cluster: str) -> Sequence[Finding]:
    """Return the problems of the user's own hosts as one cluster; none for other providers."""
    with Store() as store:
        wish = store.cluster_wish(cluster)
    if wish is None or wish.fleet.provider is not Provider.HOSTS:
        return ()
    return ask_host_doctor(wish.fleet.hosts, cluster)
