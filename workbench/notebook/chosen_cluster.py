"""The default cluster of this notebook's cells."""

from __future__ import annotations

from workbench.core.cluster.model import DEFAULT_CLUSTER

_chosen = [DEFAULT_CLUSTER]


def chosen_cluster() -> str:
    """Return the cluster that magics use without ``--cluster``."""
    return _chosen[0]


def choose(cluster: str) -> str:
    """Use ``cluster`` from now on; return a message, empty if nothing changes."""
    if cluster == _chosen[0]:
        return ""
    _chosen[0] = cluster
    return f"The cells of this notebook now use cluster {cluster!r}."


def forget(cluster: str) -> str:
    """Use the default again if ``cluster`` was chosen; return a message."""
    return choose(DEFAULT_CLUSTER) if cluster == _chosen[0] else ""
