"""The times of a feed: how often it reads, sends and repeats, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.requests.supervisor import WAKING_SECONDS
from workbench.store.database import LOCK_SECONDS


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
