"""Begin to import what ranks need while the supervisor itself is still being imported."""

from __future__ import annotations

from workbench.cluster.warm_ranks import WarmRanks, forks_of
from workbench.core.fleet.model import Provider
from workbench.errors import WorkbenchError
from workbench.store import Store
from workbench.store.paths import cluster_directory

HERE = (Provider.THIS_MACHINE, Provider.REHEARSAL)


def begin(cluster: str) -> WarmRanks | None:
    """Start the fork server of a cluster whose ranks are to run on this machine."""
    try:
        with Store() as store:
            wish = store.cluster_wish(cluster)
    except WorkbenchError:
        return None  # the supervisor meets the same error, and reports it
    if wish is None or not (wish.up and wish.ranks) or wish.fleet.provider not in HERE:
        return None
    forks = forks_of(cluster_directory(cluster))
    forks.start()
    return forks
