"""What else is to be done for a run that pages follow: say how many they are, wake its supervisor.

A kernel that knows of a page leaves the curves, and the keeping of the result, to it.
"""

from __future__ import annotations

from workbench.core.cluster import ClusterState
from workbench.store import Store
from workbench.store.wishes import supervisor_is_awake
from workbench.view.care import Care

ATTENDANCE_SECONDS = 5.0


class Chores:
    """The chores for one run, done about once a second.

    Args:
        run: The run's id.
        server: Tells this server's pages from those of others.
    """

    def __init__(self, run: str, server: str) -> None:
        self._run = run
        self._server = server
        self._pages = 0
        self._written = 0.0
        self._care: Care | None = None

    def count(self, pages: int, now: float, *, repeat: bool = True) -> None:
        """Write how many pages there are, if that is news or a while ago.

        Args:
            now: Epoch seconds.
            repeat: Whether it is to be written again if it is no news.

        Raises:
            StoreError: The store cannot be written.
        """
        if pages != self._pages or (repeat and now - self._written >= ATTENDANCE_SECONDS):
            with Store() as store:
                store.put_attendance(self._run, self._server, pages, now)
            self._pages, self._written = pages, now

    def look_after(self, cluster: str, now: float) -> None:
        """See that the cluster's supervisor is awake.

        Args:
            now: Epoch seconds.

        Raises:
            ClusterError: It dies again and again.
            MachineError: The store cannot be read, or no supervisor started.
        """
        if self._care is None:
            self._care = Care(cluster, now)
        # A cluster that has failed is not tried again until somebody asks for it.
        if supervisor_is_awake(cluster) or not _has_failed(cluster):
            self._care.look(now)


def _has_failed(cluster: str) -> bool:
    with Store() as store:
        return store.cluster_fact(cluster).state is ClusterState.FAILED
