"""Do what is typed about a cluster's size, and look at the hosts that carry it."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence

from workbench.core.diagnosis import Finding
from workbench.core.fleet import NodeState, Place
from workbench.errors import InputError, PriceQuestion
from workbench.store import Store
from workbench.store.asking import ask_host_doctor, ask_more
from workbench.store.wishes import ask_cluster
from workbench.view.phrases import count


def resize(chosen: Namespace) -> str:
    """Ask for the size that was typed, and say what is so.

    Raises:
        InputError: No size was typed, or two.
        PriceQuestion: It costs more, and nobody said yes.
    """
    cluster = chosen.cluster
    if (chosen.ranks is None) == (chosen.nodes is None):
        raise InputError("%dist_resize: say how many ranks there are to be, or --nodes N.")
    with Store() as store:
        if chosen.nodes is not None:
            _ask_nodes(store, chosen)
            nodes = store.nodes(cluster)
            has = sum(node.state is NodeState.JOINED for node in nodes)
            return f"Asked for {count(chosen.nodes, 'node')}; {cluster!r} has {has} now."
        has = store.cluster_fact(cluster).ranks
        ask_cluster(store, chosen.ranks, cluster=cluster, oversubscribe=chosen.oversubscribe)
        return f"Asked for {count(chosen.ranks, 'rank')}; {cluster!r} has {has} now."


def _ask_nodes(store: Store, chosen: Namespace) -> None:
    """Ask for as many nodes; what more of them cost is said first, and wants a yes."""
    nodes, cluster, now = chosen.nodes, chosen.cluster, time.time()
    try:
        ask_more(store, nodes, cluster=cluster, now=now)
    except PriceQuestion as question:
        if not chosen.yes:
            raise PriceQuestion(
                f"{question} Nothing was bought; add --yes to have them.", question.price
            ) from None
        print(question)
        ask_more(store, nodes, cluster=cluster, now=now, agreed=question.price)


def hosts_findings(cluster: str) -> Sequence[Finding]:
    """Return what keeps a person's own hosts from being one machine; none for other places."""
    with Store() as store:
        wish = store.cluster_wish(cluster)
    if wish is None or wish.fleet.place is not Place.HOSTS:
        return ()
    return ask_host_doctor(wish.fleet.hosts, cluster)
