"""Read one run from the store, in one thread, for all the pages that follow it."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.store import Store

if TYPE_CHECKING:
    from workbench.view.feed import Feed

BUDGET_SECONDS = 0.05
# However quiet the store: some of what a feed tells is not refreshed at every reading.
REFRESH_SECONDS = 1.0


@dataclass(frozen=True)
class Look:
    """What there is of a run, and what pages asked for.

    Args:
        feed: The feed's identity, and ``version`` the newest of its curves.
        behind: Whether there is more to be read at once.
        ended: Whether nothing more will come.
        frames: For each version that was asked for what has changed since, if anything.
        output: For each sequence number that was asked for what stands behind it, if anything.
    """

    feed: str
    version: int
    behind: bool
    ended: bool
    run: dict[str, Any]
    steps: dict[str, Any] | None
    frames: dict[int, bytes]
    output: dict[int, dict[str, Any]]


class Reading:
    """A feed and its store. Made, used and closed in one thread.

    Raises:
        Unknown: No run has this id.
        StoreError: The store cannot be read.
    """

    def __init__(self, run: str) -> None:
        # Loaded here, in the thread: first the models of what the page will say soon.
        import workbench.server.bodies  # noqa: F401 - so that the event loop finds it loaded
        from workbench.view.feed import Feed

        self._store = Store()
        try:
            self._feed: Feed = Feed(self._store, run)
        except BaseException:
            self._store.close()
            raise
        self._seen = -1
        self._read = 0.0
        self._dry = set[int]()

    def look(self, now: float, since: Collection[int], after: Collection[int]) -> Look:
        """Take in what is new, and return it.

        Args:
            now: Epoch seconds.
            since: Versions as of which pages are to get the curves.
            after: Sequence numbers behind which pages are to get output.
        """
        feed = self._feed
        if not feed.ended:
            self._take_in(now)
        return Look(
            feed=feed.identity,
            version=feed.version,
            behind=feed.behind,
            ended=feed.ended,
            run=feed.run_message(now),
            steps=feed.steps_message(),
            frames={
                version: frame
                for version in since
                if version < feed.version and (frame := feed.frame(version))
            },
            output={sequence: found for sequence in after if (found := self._output(sequence))},
        )

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _take_in(self, now: float) -> None:
        version = self._store.data_version()
        if version == self._seen and now - self._read < REFRESH_SECONDS and not self._feed.behind:
            return
        self._seen, self._read = version, now
        self._dry.clear()
        begun = time.monotonic()
        while self._feed.read(now) and self._feed.behind:
            if time.monotonic() - begun > BUDGET_SECONDS:
                break

    def _output(self, after: int) -> dict[str, Any] | None:
        if after in self._dry:
            return None
        found = self._feed.output(after)
        if found["pieces"] or found["skipped"]:
            return found
        self._dry.add(after)
        return None
