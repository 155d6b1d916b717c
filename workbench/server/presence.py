"""Periodic tasks for a run that pages follow: store their number, wake its supervisor.

A kernel that knows of a page leaves drawing and saving to it.
"""

from __future__ import annotations

from workbench.core.cluster.model import ClusterState
from workbench.core.moment import is_due
from workbench.requests.keep_awake import Care
from workbench.requests.wishes import supervisor_is_awake
from workbench.store import Store

ATTENDANCE_SECONDS = 5.0


class Chores:
    """The periodic tasks for one run, about once a second.

    Args:
        run: The run's id.
        server: The id of this server, to distinguish its pages from others'.
    """

    def __init__(self, run: str, server: str) -> None:
        self._run = run
        self._server = server
        self._pages = 0
        self._written = 0.0
        self._care: Care | None = None

    def count(self, pages: int, now: float, *, repeat: bool = True) -> None:
        """Store the number of pages, if it has changed or the stored one is old.

        Args:
            now: Epoch seconds.
            repeat: Whether to store an unchanged number.

        Raises:
            StoreError: The store cannot be written.
        """
        if pages != self._pages or (repeat and is_due(self._written, now, ATTENDANCE_SECONDS)):
            with Store() as store:
                store.put_attendance(self._run, self._server, pages, now)
            self._pages, self._written = pages, now

    def look_after(self, cluster: str, now: float) -> None:
        """Restart the cluster's supervisor if it died.

        Args:
            now: Seconds of a monotonic clock.

        Raises:
            ClusterError: It dies repeatedly.
            MachineError: The store cannot be read, or no supervisor started.
        """
        if self._care is None:
            self._care = Care(cluster, now)
        # A failed cluster is only retried on request.
        if supervisor_is_awake(cluster) or not _has_failed(cluster):
            self._care.look(now)


def _has_failed(cluster: str) -> bool:
    with Store() as store:
        return store.cluster_fact(cluster).state is ClusterState.FAILED
