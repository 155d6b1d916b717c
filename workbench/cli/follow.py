"""Show a run in the terminal while it is followed, and wait for a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from workbench.cli.output import Output
from workbench.cli.screen import Screen
from workbench.core.cluster import ClusterFact, ClusterState
from workbench.core.run import Run, RunState
from workbench.errors import ClusterError, StateError
from workbench.store import Store
from workbench.store.wishes import supervisor_is_awake
from workbench.view.care import Care
from workbench.view.following import POLL_SECONDS, check_success
from workbench.view.record import Record
from workbench.view.waiting import failure


class TerminalView:
    """One run on one screen.

    Args:
        run: The run to show.
        screen: Where to show it.
        only: The one rank whose output is wanted; None for all.
    """

    def __init__(self, run: Run, screen: Screen, only: int | None = None) -> None:
        self.record = Record(run)
        self._screen = screen
        self._output = Output(only)

    def __repr__(self) -> str:
        return f"<TerminalView of {self.record.run!r}>"

    def read(self, store: Store, now: float) -> None:
        """Take in what the store has.

        Args:
            now: Epoch seconds.
        """
        for rows in self.record.read(store, now):
            for row in rows:
                self._output.feed(row.rank, row.text, now)

    def note(self, text: str) -> None:
        """Say something that happened while the run was followed."""
        self._screen.note(text)

    def draw(self, now: float) -> None:
        """Write the lines that are due, and how it goes.

        Args:
            now: Epoch seconds.
        """
        self._screen.write(self._output.take(now))
        self._screen.draw(self.record, now)

    def finish(self, store: Store, now: float) -> None:
        """Write what is left.

        Args:
            now: Epoch seconds.
        """
        self._screen.write(self._output.take(now, final=True))
        self._screen.draw(self.record, now, final=True)


def exit_code(run: Run) -> int:
    """Return the exit code that says how a run ended.

    Raises:
        RunFailed: A rank failed, or the run was lost.
    """
    check_success(run)
    return 130 if run.fact.state is RunState.STOPPED else 0


def wait_ready(store: Store, cluster: str, say: Callable[[str], None]) -> ClusterFact:
    """Wait until ``cluster`` has the ranks that were asked for.

    Args:
        store: Where its facts are.
        cluster: Its name.
        say: Shows where it stands.

    Raises:
        ClusterError: It failed.
        StateError: Somebody took it down meanwhile.
    """
    asked = time.time()
    care = Care(cluster, asked)
    while True:
        now, wish, fact = time.time(), store.cluster_wish(cluster), store.cluster_fact(cluster)
        if wish is None or not wish.up:
            raise StateError(f"Somebody took cluster {cluster!r} down while it was starting.")
        if fact.state is ClusterState.READY and fact.ranks == wish.ranks:
            return fact
        if verdict := failure(fact, asked, now):
            raise ClusterError(verdict)
        say(_standing(fact))
        care.look(now)
        time.sleep(POLL_SECONDS)


def wait_down(store: Store, cluster: str, say: Callable[[str], None]) -> None:
    """Wait until nothing of ``cluster`` is left, its supervisor included.

    Args:
        store: Where its facts are.
        cluster: Its name.
        say: Shows where it stands.

    Raises:
        StateError: Somebody started it again meanwhile.
    """
    care = Care(cluster, time.time())
    while True:
        wish, fact = store.cluster_wish(cluster), store.cluster_fact(cluster)
        if wish is not None and wish.up:
            raise StateError(f"Somebody started cluster {cluster!r} again while it was stopping.")
        if fact.state is not ClusterState.DOWN:
            care.look(time.time())
        elif not supervisor_is_awake(cluster):
            return
        say(_standing(fact))
        time.sleep(POLL_SECONDS)


def _standing(fact: ClusterFact) -> str:
    return f"{fact.state}: {fact.message}" if fact.message else str(fact.state)
