"""Wait for a cluster or a run, and see that the supervisor stays awake meanwhile."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from workbench.cli.record import Record
from workbench.cli.screen import Screen
from workbench.core.cluster import ClusterFact, ClusterState
from workbench.core.run import Run, RunState
from workbench.errors import ClusterError, RunFailed, StateError
from workbench.store import Store
from workbench.store.wishes import supervisor_is_awake, wake_supervisor

POLL_SECONDS = 0.05
CARE_SECONDS = 1.0
# A supervisor that was just woken needs a moment to take its lock.
WAKING_SECONDS = 5.0
# A failure that is older than the wish may be one that the supervisor has yet to mend.
PATIENCE_SECONDS = 15.0
MOST_WAKINGS = 5


class Interrupts:
    """While entered, the first SIGINT is noted and the second raises KeyboardInterrupt."""

    def __init__(self) -> None:
        self.count = 0
        self._former: Any = None

    def __enter__(self) -> Interrupts:
        self._former = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._former)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1:
            raise KeyboardInterrupt


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


def follow_run(store: Store, record: Record, screen: Screen, interrupts: Interrupts) -> Run:
    """Show a run until it has ended, and return it.

    Args:
        store: Where it is.
        record: The run to follow.
        screen: Where to show it.
        interrupts: The first of them writes the wish to stop.

    Raises:
        ClusterError: The run cannot begin, because the cluster failed.
        KeyboardInterrupt: At the second interrupt.
    """
    care = Care(record.run.wish.cluster, time.time())
    seen, asked = -1, False
    while True:
        now = time.time()
        if interrupts.count and not asked:
            asked = True
            store.wish_stop(record.run.id)
            screen.note("Asked the ranks to stop; Ctrl-C again leaves them to it.")
        version = store.data_version()
        if version != seen or asked:
            seen = version
            record.read(store, now)
        ended = record.run.fact.state.ended
        screen.write(record.output.take(now, final=ended))
        screen.draw(record, now, final=ended)
        if ended:
            return record.run
        if _hopeless(record, now):
            # Else it would begin, to everyone's surprise, when the cluster is mended some day.
            store.wish_stop(record.run.id)
            raise _failure(record.cluster)
        if care.look(now):
            screen.note("The supervisor had ended and was started again.")
        time.sleep(POLL_SECONDS)


def conclude(run: Run) -> int:
    """Return the exit code that says how a run ended.

    Raises:
        RunFailed: A rank failed, or the run was lost.
    """
    fact = run.fact
    if fact.state is RunState.FAILED:
        host = f" on {fact.failed_host}" if fact.failed_host else ""
        where = f"Run {run.wish.name!r} failed on rank {fact.failed_rank}{host}."
        raise RunFailed(fact.message or where, fact.error)
    if fact.state is RunState.LOST:
        raise RunFailed(fact.message or f"Run {run.wish.name!r} was lost.", fact.error)
    return 130 if fact.state is RunState.STOPPED else 0


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
        if fact.state is ClusterState.FAILED and (
            fact.updated > asked or now > asked + PATIENCE_SECONDS
        ):
            raise _failure(fact)
        say(f"{fact.state}{f': {fact.message}' if fact.message else ''}")
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
        say(f"{fact.state}{f': {fact.message}' if fact.message else ''}")
        time.sleep(POLL_SECONDS)


def _hopeless(record: Record, now: float) -> bool:
    run, cluster = record.run, record.cluster
    return (
        run.fact.state is RunState.QUEUED
        and cluster.state is ClusterState.FAILED
        and (cluster.updated > run.wish.created or now > run.wish.created + PATIENCE_SECONDS)
    )


def _failure(fact: ClusterFact) -> ClusterError:
    return ClusterError(
        fact.message
        or f"Cluster {fact.name!r} has failed; "
        f"`workbench logs --supervisor --cluster {fact.name}` says why."
    )
