"""Read one run from the store for all the pages that follow it, in a thread of its own.

The thread waits until there is something to tell. So the event loop hears of news alone, and a run
in which nothing happens costs next to nothing.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.store import Store

if TYPE_CHECKING:
    from workbench.view.feed import Feed

Frames = dict[int, bytes | None]
Output = dict[int, dict[str, Any] | None]

LOOK_SECONDS = 0.1
SLOW_SECONDS = 1.0  # between looks while no page answers
BUDGET_SECONDS = 0.05  # for reading without telling
# However quiet the store: some of what a feed tells is not refreshed at every reading.
REFRESH_SECONDS = 1.0


@dataclass(frozen=True)
class Questions:
    """What pages lack.

    Args:
        since: Versions as of which they are to get the curves.
        after: Sequence numbers behind which they are to get output.
        slow: Whether none of them has answered for long.
        anyway: Whether they are to be told though nothing is new.
    """

    since: frozenset[int] = frozenset()
    after: frozenset[int] = frozenset()
    slow: bool = False
    anyway: bool = False


@dataclass(frozen=True)
class Look:
    """What there is of a run, and what pages asked for.

    Args:
        feed: The feed's identity.
        version: The newest of its curves.
        ended: Whether nothing more will come.
        frames: For versions that were asked for what has changed since; None for nothing.
        output: For sequence numbers that were asked for what stands behind; None for nothing.
    """

    feed: str
    version: int
    ended: bool
    run: dict[str, Any]
    steps: dict[str, Any] | None
    frames: Frames
    output: Output


class Reading:
    """A feed and its store. Made, used and closed in one thread, but for ``ask``.

    A connection's ``data_version`` means something to that connection only, and those are kept for
    each thread.

    Args:
        run: The run's id.

    Raises:
        Unknown: No run has this id.
        StoreError: The store cannot be read.
    """

    def __init__(self, run: str) -> None:
        # Loaded in this thread: first the models of what pages will say soon.
        import workbench.server.bodies  # noqa: F401 - so that the event loop finds it loaded
        from workbench.view.feed import Feed

        self._store = Store()
        try:
            self._feed: Feed = Feed(self._store, run)
        except BaseException:
            self._store.close()
            raise
        self._questions = Questions()
        self._urgent = threading.Event()
        self._urgent.set()  # whoever begins to follow is told at once
        self._looked = 0.0
        self._seen = -1
        self._read = 0.0
        self._dry = set[int]()

    def ask(self, questions: Questions, *, urgent: bool = False) -> None:
        """Say, from another thread, what pages lack; if it is urgent, they are told at once."""
        self._questions = questions
        if urgent:
            self._urgent.set()

    def wait(self) -> Look:
        """Wait until there is something to tell, about ``REFRESH_SECONDS`` at most.

        Raises:
            StoreError: The store cannot be read.
        """
        begun = time.monotonic()
        while True:
            urgent = self._rest()
            news = self._take_in(time.time())
            frames, output = self._found(self._questions)
            told = frames or any(found is not None for found in output.values())
            late = time.monotonic() - begun >= REFRESH_SECONDS
            if urgent or news or told or late or self._questions.anyway or self._feed.ended:
                return self._look(frames, output)

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _rest(self) -> bool:
        """Let some time pass between looks; return whether somebody could not wait."""
        pause = SLOW_SECONDS if self._questions.slow else LOOK_SECONDS
        now = time.monotonic()
        due = now if self._feed.behind else max(now, self._looked + pause)
        urgent = self._urgent.wait(due - now)
        self._urgent.clear()
        # When it was due, not when it was done: else looks become rarer than they ought to be.
        self._looked = time.monotonic() if urgent else due
        return urgent

    def _take_in(self, now: float) -> bool:
        """Read what is new, and return whether something was."""
        feed = self._feed
        version = self._store.data_version()
        stale = version != self._seen or now - self._read >= REFRESH_SECONDS or feed.behind
        if feed.ended or not stale:
            return False
        self._seen, self._read = version, now
        self._dry.clear()
        news, begun = False, time.monotonic()
        while feed.read(now):
            news = True
            if not feed.behind or time.monotonic() - begun > BUDGET_SECONDS:
                break
        return news or feed.ended

    def _found(self, questions: Questions) -> tuple[Frames, Output]:
        feed = self._feed
        frames = {
            version: feed.frame(version) for version in questions.since if version < feed.version
        }
        return frames, {sequence: self._output(sequence) for sequence in questions.after}

    def _look(self, frames: Frames, output: Output) -> Look:
        feed = self._feed
        return Look(
            feed=feed.identity,
            version=feed.version,
            ended=feed.ended,
            run=feed.run_message(time.time()),
            steps=feed.steps_message(),
            frames=frames,
            output=output,
        )

    def _output(self, after: int) -> dict[str, Any] | None:
        if after in self._dry:
            return None
        found = self._feed.output(after)
        if found["pieces"] or found["skipped"]:
            return found
        self._dry.add(after)
        return None
