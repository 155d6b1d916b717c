"""See that the supervisor of a cluster stays awake while someone looks."""

from __future__ import annotations

from workbench.core.cluster import ClusterState
from workbench.errors import ClusterError
from workbench.store import Store
from workbench.store.wishes import supervisor_is_awake, wake_supervisor

CARE_SECONDS = 1.0
# A supervisor that was just woken needs a moment to take its lock.
WAKING_SECONDS = 5.0
MOST_WAKINGS = 5


def keep_awake(store: Store, cluster: str) -> None:
    """Start a supervisor that died, unless there is nothing for it to do."""
    wish, state = store.cluster_wish(cluster), store.cluster_fact(cluster).state
    if wish is None:
        return
    idle = ClusterState.FAILED if wish.up else ClusterState.DOWN
    if state is not idle and not supervisor_is_awake(cluster):
        wake_supervisor(cluster)


class Care:
    """Wakes the supervisor of ``cluster`` again when it has died.

    Args:
        cluster: The cluster's name.
        now: Epoch seconds.
    """

    def __init__(self, cluster: str, now: float) -> None:
        self._cluster = cluster
        self._next = now + WAKING_SECONDS
        self._wakings = 0

    def look(self, now: float) -> bool:
        """Look, about once a second; return whether the supervisor had to be woken.

        Raises:
            ClusterError: It dies again and again.
        """
        if now < self._next:
            return False
        self._next = now + CARE_SECONDS
        if supervisor_is_awake(self._cluster):
            self._wakings = 0
            return False
        if self._wakings == MOST_WAKINGS:
            raise ClusterError(
                f"The supervisor of cluster {self._cluster!r} ends as soon as it starts; "
                f"`workbench logs --supervisor --cluster {self._cluster}` says why."
            )
        wake_supervisor(self._cluster)
        self._wakings += 1
        self._next = now + WAKING_SECONDS
        return True
