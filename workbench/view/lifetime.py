"""Let a cluster live longer, and tell when its time is over."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.cluster import ClusterWish, check_cluster_name
from workbench.errors import InputError, StateError, Unknown
from workbench.store import Store
from workbench.store.wishes import wake_supervisor
from workbench.view.phrases import moment

LONGEST_SECONDS = 366 * 86400.0


def ask_extend(store: Store, seconds: float, cluster: str, now: float) -> ClusterWish:
    """Wish for ``cluster`` to live longer by ``seconds``; from now where its time is over.

    Raises:
        InputError: It is no time that one could wish for.
        StateError: It has no end.
        Unknown: Nobody ever asked for this cluster.
    """
    if not 0 < seconds <= LONGEST_SECONDS:
        raise InputError(f"A cluster lives longer by 1 second to 366 days, not by {seconds:g} s.")
    wish = store.cluster_wish(check_cluster_name(cluster))
    if wish is None:
        raise Unknown(f"There is no cluster called {cluster!r}; start it first.")
    if not wish.fleet.expires:
        raise StateError(f"Cluster {cluster!r} has no time limit; there is nothing to extend.")
    wish = store.wish_cluster(
        cluster,
        up=wish.up,
        ranks=wish.ranks,
        oversubscribe=wish.oversubscribe,
        fleet=replace(wish.fleet, expires=max(now, wish.fleet.expires) + seconds),
    )
    if wish.up:
        wake_supervisor(cluster)
    return wish


def check_lifetime(wish: ClusterWish | None, now: float) -> None:
    """Refuse to start what would be deleted at once.

    Raises:
        StateError: Its time to live is over.
    """
    if wish is not None and 0 < wish.fleet.expires <= now:
        raise StateError(
            f"The time to live of cluster {wish.name!r} was over at {moment(wish.fleet.expires)}; "
            "extend it first."
        )
