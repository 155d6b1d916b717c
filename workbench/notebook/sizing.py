"""Do what is typed about a cluster's size, and look at the hosts that carry it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from workbench.core.diagnosis import Finding
from workbench.core.fleet import NodeState, Place
from workbench.errors import InputError
from workbench.store import Store
from workbench.store.asking import ask_host_doctor
from workbench.store.wishes import ask_cluster, ask_nodes
from workbench.view.phrases import count


def resize(chosen: Namespace) -> str:
    """Ask for the size that was typed, and say what is so.

    Raises:
        InputError: No size was typed, or two.
    """
    cluster = chosen.cluster
    if (chosen.ranks is None) == (chosen.nodes is None):
        raise InputError("%dist_resize: say how many ranks there are to be, or --nodes N.")
    with Store() as store:
        if chosen.nodes is not None:
            ask_nodes(store, chosen.nodes, cluster=cluster)
            nodes = store.nodes(cluster)
            has = sum(node.state is NodeState.JOINED for node in nodes)
            return f"Asked for {count(chosen.nodes, 'node')}; {cluster!r} has {has} now."
        has = store.cluster_fact(cluster).ranks
        ask_cluster(store, chosen.ranks, cluster=cluster, oversubscribe=chosen.oversubscribe)
        return f"Asked for {count(chosen.ranks, 'rank')}; {cluster!r} has {has} now."


def hosts_findings(cluster: str) -> Sequence[Finding]:
    """Return what keeps a person's own hosts from being one machine; none for other places."""
    with Store() as store:
        wish = store.cluster_wish(cluster)
    if wish is None or wish.fleet.place is not Place.HOSTS:
        return ()
    return ask_host_doctor(wish.fleet.hosts, cluster)
