"""Keep the supervisor of a cluster awake while a person watches."""

from __future__ import annotations

from workbench.errors import ClusterError
from workbench.requests.supervisor_lock import has_work, rouse
from workbench.requests.wishes import supervisor_is_awake, wake_supervisor
from workbench.store import Store

CARE_SECONDS = 1.0
# A supervisor that was just started needs a moment to take its lock.
WAKING_SECONDS = 5.0
MOST_WAKINGS = 5
WOKEN = "The supervisor had ended and was restarted."


def keep_awake(store: Store, cluster: str) -> None:
    """Restart a supervisor that died or hangs, if it has work to do."""
    if not has_work(store, cluster):
        return
    if not (supervisor_is_awake(cluster) and not rouse(cluster)):
        wake_supervisor(cluster)


class Care:
    """Restarts the supervisor of ``cluster`` when it has died or hangs.

    Args:
        cluster: The cluster's name.
        now: Seconds of a monotonic clock.
    """

    def __init__(self, cluster: str, now: float) -> None:
        self._cluster = cluster
        self._next = now + WAKING_SECONDS
        self._wakings = 0

    def look(self, now: float) -> str:
        """Check about once a second; return one sentence on what was done, usually empty.

        Raises:
            ClusterError: It dies repeatedly.
            MachineError: It hangs and cannot be ended, or none could be started.
        """
        if now < self._next:
            return ""
        self._next = now + CARE_SECONDS
        if supervisor_is_awake(self._cluster):
            self._wakings = 0
            done = rouse(self._cluster)
            if done and not supervisor_is_awake(self._cluster):
                wake_supervisor(self._cluster)
            return done
        if self._wakings == MOST_WAKINGS:
            raise ClusterError(
                f"The supervisor of cluster {self._cluster!r} ends as soon as it starts; see why "
                f"with `workbench logs --supervisor --cluster {self._cluster}`."
            )
        wake_supervisor(self._cluster)
        self._wakings += 1
        self._next = now + WAKING_SECONDS
        return WOKEN
