"""Follow a run until it has ended, and restart its supervisor if it dies meanwhile.

Interrupts are counted: the first requests a stop, a second leaves the run.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Protocol

from workbench.core.run.model import Run, RunState
from workbench.errors import ClusterError, RunFailed
from workbench.requests.supervisor import WAKING_SECONDS, SupervisorMonitor
from workbench.store import Store
from workbench.store.disk import full_disk
from workbench.view.run_record import RunRecord
from workbench.view.state_line import start_failure
from workbench.view.text import all_frames

LOOK_SECONDS = 1.0

POLL_SECONDS = 0.05
# The end of a kernel also interrupts it; after this time that is known, and no stop is shown.
NOTE_SECONDS = 0.2
STOPPING = "Stopping…"
CONTINUES = "The kernel is shutting down; the run continues."
ASKED = "Stopping after this iteration; interrupt again to stop watching."


class Interrupts:
    """A context in which the first SIGINT is recorded, and one after the stop request leaves.

    To leave is to raise KeyboardInterrupt. It has no effect outside the main thread, which alone
    gets signals.

    Args:
        reprieve: Seconds for which a single interrupt may turn out not to be the user's. A second
            interrupt ends this wait.
        is_settled: Returns, after that time, whether the interrupt is the user's.
    """

    def __init__(
        self, reprieve: float = 0.0, is_settled: Callable[[], bool] = lambda: True
    ) -> None:
        self.count = 0
        self.first = 0.0  # by time.monotonic()
        self.asked = False
        """Whether the stop was requested."""
        self._reprieve = reprieve
        self._is_settled = is_settled
        self._former: Any = None
        # Held, and released by an interrupt: a signal handler may do that, but not set an Event.
        self._none_came = threading.Lock()
        self._none_came.acquire()

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():
            self._former = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._former is not None:
            signal.signal(signal.SIGINT, self._former)

    def wait(self, seconds: float) -> None:
        """Wait, until an interrupt comes if that is sooner."""
        self._none_came.acquire(timeout=seconds)

    def is_pending(self, now: float, seconds: float) -> bool:
        """Return whether an interrupt is ``seconds`` old, and no stop was requested."""
        return bool(self.count) and not self.asked and now - self.first >= seconds

    def is_meant(self, now: float) -> bool:
        """Return whether the user interrupted, and no stop was requested yet.

        Args:
            now: By ``time.monotonic()``.
        """
        if self.asked or not self.count:
            return False
        return self.count > 1 or (now - self.first >= self._reprieve and self._is_settled())

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.first = self.first or time.monotonic()
        if self._none_came.locked():
            self._none_came.release()
        noted = 2 if self._reprieve and not self.asked else 1
        if self.count > noted:
            raise KeyboardInterrupt


class FollowPace(NamedTuple):
    """How often a long run is looked at: its ranks may need the same processors.

    Args:
        look: The longest pause between two looks, in seconds.
        read: The longest pause between two readings of what is new.
    """

    look: float
    read: float


LIVE = FollowPace(look=0.2, read=0.5)
# Where nothing is redrawn between two looks: output and the run's end come a little later.
RARE = FollowPace(look=0.5, read=1.0)


class View(Protocol):
    """The interface of a view of the followed run."""

    record: RunRecord

    @property
    def pace(self) -> FollowPace:
        """How often it is to be updated during a long run."""

    def read(self, store: Store, now: float) -> None:
        """Read what is new in the store."""

    def note(self, text: str) -> None:
        """Show a message about something that happened meanwhile."""

    def draw(self, now: float) -> None:
        """Show what has changed, if an update is due."""

    def finish(self, store: Store, now: float) -> None:
        """Show the final state, after the run's end."""


def follow(
    store: Store,
    view: View,
    *,
    interrupts: Interrupts | None = None,
    left: Callable[[], bool] = lambda: False,
    pause: Callable[[float], object] = time.sleep,
    waking: float = WAKING_SECONDS,
) -> Run:
    """Keep ``view`` up to date until its run has ended, and return the run.

    Args:
        interrupts: The first one requests that the run stops.
        left: Returns True to stop following while the run continues.
        pause: Waits, at most for some seconds; interrupts wait by themselves.
        waking: Seconds in which a supervisor that was just started takes its lock.

    Raises:
        ClusterError: The run cannot begin, because the cluster failed.
        KeyboardInterrupt: At a second interrupt.
    """
    record, begun = view.record, time.monotonic()
    care, room = SupervisorMonitor(record.run.wish.cluster, begun, waking), DiskRoom(store.path)
    seen, due, is_said = -1, 0.0, False
    record.look(store)
    view.draw(time.time())  # first, so that state and curves are above the output
    while not left():
        now, steady = time.time(), time.monotonic()
        if interrupts and interrupts.is_meant(steady) and not left():
            seen = -1  # a connection does not notice its own writes
            store.wish_stop(record.run.id)
            interrupts.asked = True
            view.note(ASKED)
        elif interrupts and interrupts.is_pending(steady, NOTE_SECONDS) and not is_said:
            is_said = True
            view.note(STOPPING)
        version = store.data_version()
        if version != seen and steady >= due:
            seen, due = version, steady + min(view.pace.read, (steady - begun) / 20)
            view.read(store, now)
        if record.run.fact.state.ended:
            view.finish(store, now)
            break
        if verdict := start_failure(record.run, record.cluster, now):
            # Otherwise it would start unexpectedly when the cluster is repaired later.
            store.wish_stop(record.run.id)
            raise ClusterError(verdict)
        view.draw(now)
        if done := care.look(steady):
            view.note(done)
        if said := room.look(steady):
            view.note(said)
        is_asked = interrupts is not None and interrupts.count > 0
        longest = POLL_SECONDS if is_asked else view.pace.look
        wait = interrupts.wait if interrupts else pause
        wait(min(longest, max(POLL_SECONDS, (steady - begun) / 100)))
    if is_said and interrupts and not interrupts.asked:
        view.note(CONTINUES)
        view.draw(time.time())
    return record.run


def check_success(run: Run, *, shown: bool = False, advice: str = "") -> None:
    """Raise an error for a run that failed or was lost.

    Args:
        shown: Whether the rank's traceback is already displayed.
        advice: What to do about it, shown last.

    Raises:
        RunFailed: A rank failed, or the run was lost.
    """
    fact = run.fact
    trace = () if shown else (fact.error, all_frames(run))
    error = "\n".join(filter(None, [*trace, advice]))
    if fact.state is RunState.FAILED:
        raise RunFailed(_failure(run, shown=shown), error)
    if fact.state is RunState.LOST:
        raise RunFailed(fact.message or f"Run {run.wish.name!r} was lost.", error)


def _failure(run: Run, *, shown: bool) -> str:
    """Return one line with the run, the failed rank and the error."""
    fact = run.fact
    if fact.message and not (shown and fact.failure):
        return fact.message
    host = f" ({fact.failed_host})" if fact.failed_host else ""
    where = f"Run {run.wish.name!r} failed on rank {fact.failed_rank}{host}"
    return f"{where}: {fact.failure}" if fact.failure else f"{where}."


class DiskRoom:
    """Checks the disk of a store periodically.

    Args:
        store: The store's file.
    """

    def __init__(self, store: Path) -> None:
        self._store = store
        self._next = 0.0
        self._was_full = False

    def look(self, now: float) -> str:
        """Return a sentence when the state has changed, else None.

        Args:
            now: Seconds of a monotonic clock.
        """
        if now < self._next:
            return ""
        self._next = now + LOOK_SECONDS
        said = full_disk(self._store)
        changed, self._was_full = bool(said) != self._was_full, bool(said)
        if not changed:
            return ""
        return said or f"The disk of {self._store.parent} has free space again."
