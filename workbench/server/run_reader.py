"""Read one run from the store for all its pages, in its own thread.

The thread waits for news, so the event loop is only called for news, and an idle run costs almost
nothing.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.core.moment import is_due
from workbench.pages.protocol import OutputMessage, RunMessage, StepsMessage
from workbench.requests.supervisor import WAKING_SECONDS
from workbench.store import Store
from workbench.store.database import LOCK_SECONDS

if TYPE_CHECKING:
    from workbench.pages.feed import Feed

Frames = dict[int, bytes | None]
Output = dict[int, OutputMessage | None]


@dataclass(frozen=True)
class FeedPace:
    """The times of a feed, in seconds.

    Args:
        refresh: Between two readings of an unchanged store: some fields are not refreshed at every
            reading.
        steps: Between two messages about the time of a step.
        beat: A page that receives nothing for longer considers the connection dead.
        patience: A page that has not acknowledged a frame for this long is slow.
        greeting: In which a page that opens an ended run may still request its output.
        keep: After the last page has left, for a page that is reloaded.
        stay: After the run's end; a kernel that writes the result into the notebook gives up after
            300.
        chores: Between two periodic tasks.
        pages: After which an unchanged number of pages is stored again.
        lock: For the locks of other processes on the store.
        waking: For a supervisor that was just started to take its lock.
    """

    refresh: float = 1.0
    steps: float = 1.0
    beat: float = 5.0
    patience: float = 5.0
    greeting: float = 1.0
    keep: float = 15.0
    stay: float = 330.0
    chores: float = 1.0
    pages: float = 5.0
    lock: float = LOCK_SECONDS
    waking: float = WAKING_SECONDS


USUAL = FeedPace()


LOOK_SECONDS = 0.1
SLOW_SECONDS = 1.0  # between polls while no page answers
STATE_SECONDS = 0.25  # between two readings of the run's state, which is several queries
PROGRESS_SECONDS = 0.5  # between two messages about a run that only makes progress
BUDGET_SECONDS = 0.05  # for reading without a message


@dataclass(frozen=True)
class FeedRequests:
    """What pages lack.

    Args:
        since: Versions of the curves that they have.
        after: Sequence numbers of the output that they have.
        slow: Whether none of them has answered for a long time.
        anyway: Whether to send a message even without news.
        wanted: Whether there is a page.
    """

    since: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()
    slow: bool = False
    anyway: bool = False
    wanted: bool = True


@dataclass(frozen=True)
class RunUpdate:
    """A reading of a run, with the parts that pages requested.

    Args:
        feed: The feed's identity.
        version: The newest version of its curves.
        ended: Whether the run is complete.
        frames: For each requested version, the changes since; None without any.
        output: For each requested sequence number, the output after it; None without any.
    """

    feed: str
    version: int
    ended: bool
    run: RunMessage
    steps: StepsMessage | None
    frames: Frames
    output: Output


class _NotTaken(Exception):
    """The event loop is busy, or has ended."""


class RunReader:
    """A feed with its store; used in one thread only, except ``ask`` and ``take``.

    SQLite's ``data_version`` is only valid for one connection, and each thread has its own.

    Args:
        run: The run's id.
        refresh: Seconds between two readings of an unchanged store.

    Raises:
        Unknown: No run has this id.
        StoreError: The store cannot be read.
    """

    def __init__(self, run: str, refresh: float = USUAL.refresh) -> None:
        from workbench.pages.feed import Feed  # loaded in this thread

        self._store = Store()
        try:
            self._feed: Feed = Feed(self._store, run)
        except BaseException:
            self._store.close()
            raise
        self._refresh = refresh
        self._questions = FeedRequests()
        self._urgent = threading.Event()
        self._urgent.set()  # a new page gets the state immediately
        self._taken = threading.Event()  # whether what was delivered was answered
        self._taken.set()
        self._looked = 0.0
        self._seen = -1
        self._read = 0.0
        self._state_read = self._message_made = -math.inf
        self._lacks_state = False  # whether points were read without the state
        self._message: RunMessage | None = None
        self._is_older = False  # whether the message lacks what was read
        self._lasting: tuple[object, ...] = ()  # the run of the message, without its progress
        self._dry = set[int]()

    def ask(self, questions: FeedRequests, *, urgent: bool = False) -> None:
        """Request, from another thread, what pages lack; immediately if it is urgent."""
        self._questions = questions
        if urgent:
            self._urgent.set()

    def take(self) -> None:
        """Note, from another thread, that what was delivered is answered."""
        self._taken.set()

    def follow(self, deliver: Callable[[RunUpdate], None]) -> None:
        """Deliver news until no page wants them, or some are not taken for long.

        The next ones are only read once the last ones are taken. A future for each of them would
        cost more than this.

        Raises:
            StoreError: The store cannot be read.
        """
        with contextlib.suppress(_NotTaken):
            while self._questions.wanted:
                update = self.wait()
                if self._questions.wanted:
                    self._taken.clear()
                    deliver(update)

    def wait(self) -> RunUpdate:
        """Wait for news, at most about ``refresh`` seconds.

        Raises:
            StoreError: The store cannot be read.
        """
        begun = time.monotonic()
        while True:
            urgent = self._rest()
            if not self._taken.wait(SLOW_SECONDS):
                self._urgent.set()
                raise _NotTaken
            if urgent:
                self._state_read = self._message_made = -math.inf
            news = self._take_in(time.time())
            frames, output = self._collect(self._questions)
            found = frames or any(piece is not None for piece in output.values())
            now = time.monotonic()
            late = now - begun >= self._refresh or (self._is_older and self._is_due(now))
            if urgent or news or found or late or self._questions.anyway or self._feed.ended:
                return self._look(frames, output)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _rest(self) -> bool:
        """Wait between two polls; return whether an urgent request ended the wait."""
        pause = SLOW_SECONDS if self._questions.slow else LOOK_SECONDS
        now = time.monotonic()
        due = now if self._feed.behind else max(now, self._looked + pause)
        urgent = self._urgent.wait(due - now)
        self._urgent.clear()
        # Count from when it was due, not from when it was done, so that the rate is constant.
        self._looked = time.monotonic() if urgent else due
        return urgent

    def _take_in(self, now: float) -> bool:
        """Read news, and return whether there was any."""
        feed = self._feed
        version = self._store.data_version()
        stale = is_due(self._read, now, self._refresh) or feed.behind
        begun = time.monotonic()
        with_state = feed.behind or feed.ended or begun - self._state_read >= STATE_SECONDS
        # A run that has ended only changes when it is resumed, for pages that come back.
        lacks = self._lacks_state and with_state
        if version == self._seen and not lacks and (feed.ended or not stale):
            return False
        self._seen, self._read = version, now
        self._state_read = begun if with_state else self._state_read
        self._lacks_state = not with_state
        self._dry.clear()
        news = False
        while feed.read(now, with_state=with_state):
            news = True
            if not feed.behind or time.monotonic() - begun > BUDGET_SECONDS:
                break
        self._is_older |= news and with_state
        return news or feed.ended

    def _collect(self, questions: FeedRequests) -> tuple[Frames, Output]:
        feed = self._feed
        frames = {
            version: feed.frame(version) for version in questions.since if version < feed.version
        }
        return frames, {sequence: self._read_output(sequence) for sequence in questions.after}

    def _look(self, frames: Frames, output: Output) -> RunUpdate:
        feed, now = self._feed, time.monotonic()
        if self._message is None or feed.ended or self._is_due(now):
            self._message_made, self._message = now, feed.run_message(time.time())
            self._is_older, self._lasting = False, feed.lasting
        return RunUpdate(
            feed=feed.identity,
            version=feed.version,
            ended=feed.ended,
            run=self._message,
            steps=feed.steps_message(),
            frames=frames,
            output=output,
        )

    def _is_due(self, now: float) -> bool:
        """Whether the run's message is to be made again."""
        passed = now - self._message_made
        return passed >= PROGRESS_SECONDS or (
            passed >= STATE_SECONDS and self._feed.lasting != self._lasting
        )

    def _read_output(self, after: int) -> OutputMessage | None:
        if after in self._dry:
            return None
        found = self._feed.output(after)
        if found.pieces or found.skipped:
            return found
        self._dry.add(after)
        return None
