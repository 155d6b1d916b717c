"""What else is to be done for a run that pages follow: say how many they are, wake its supervisor.

A kernel that knows of a page leaves the curves, and the keeping of the result, to it.
"""

from __future__ import annotations

from workbench.core.cluster import ClusterState
from workbench.store import Store
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

    def do(self, store: Store, *, pages: int, looking: bool, now: float) -> None:
        """Do what is due.

        Args:
            pages: How many pages follow the run, or have followed it to its end.
            looking: Whether one of them is still there.
            now: Epoch seconds.

        Raises:
            ClusterError: The supervisor dies again and again.
            MachineError: The store cannot be written, or no supervisor started.
        """
        repeat = looking and now - self._written >= ATTENDANCE_SECONDS
        if pages != self._pages or repeat:
            store.put_attendance(self._run, self._server, pages, now)
            self._pages, self._written = pages, now
        if looking:
            self._look(store, now)

    def _look(self, store: Store, now: float) -> None:
        run = store.run(self._run)
        if run.fact.state.ended:
            return
        cluster = run.wish.cluster
        if self._care is None:
            self._care = Care(cluster, now)
        # A cluster that has failed is not tried again until somebody asks for it.
        if store.cluster_fact(cluster).state is not ClusterState.FAILED:
            self._care.look(now)
