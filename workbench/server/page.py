"""Keep what one page has of a run and what it awaits, so that never more than that is sent.

At any time there is at most one frame of points and one message of output that the page has not
answered, and nothing is written while the connection has yet to take what was written before.
"""

from __future__ import annotations

import math
from asyncio import Future
from typing import TYPE_CHECKING, Protocol

from workbench.server.reading import Look
from workbench.server.told import Told, as_json

if TYPE_CHECKING:
    from workbench.server.bodies import PageMessage

# A little less than the time between two looks at the store, which is never quite the same.
FRAME_SECONDS = 0.08
PATIENCE_SECONDS = 5.0
# A page that opens a run that has ended may still want to ask for its output.
GREETING_SECONDS = 1.0
_REASON_BYTES = 120


class Socket(Protocol):
    """The connection to a page."""

    def deliver(self, data: str | bytes) -> Future[None]:
        """Send a message; the future is done when the connection has taken it, or is gone."""

    def close(self, code: int, reason: str) -> None:
        """Close the connection."""


class Page:
    """One page that follows a run; moments are in seconds, of any clock.

    Args:
        socket: The connection to it.
        feed: The feed that it followed before, if any.
        version: What it has of that feed's curves.
        now: When it connected.
        stays: Whether it has the run's notebook open, and stays when it was told the end.
    """

    def __init__(
        self,
        socket: Socket,
        feed: str = "",
        version: int = 0,
        now: float = 0.0,
        *,
        stays: bool = False,
    ) -> None:
        self.greeted = False
        self.stays = stays
        self.wanted: int | None = None  # the output that it asked for: what stands behind
        self._socket = socket
        self._claim = feed, version
        self._opened = now
        self._taken: Future[None] | None = None
        self._version = 0  # of the curves that it has
        self._pending: int | None = None  # version of the frame that it has not answered
        self._framed = -math.inf
        self._reading = -math.inf  # when the output that it has not answered was sent
        self._run = self._steps = 0
        self._is_given_up = False  # it got the rest without having answered
        self._is_closed = False

    def is_slow(self, now: float) -> bool:
        """Whether it has not answered a frame for long, as a hidden page does."""
        return self._pending is not None and now - self._framed >= PATIENCE_SECONDS

    def since(self, now: float, *, ended: bool) -> int | None:
        """Return as of which version it lacks the curves; None if it has yet to answer.

        Args:
            ended: Whether there will be nothing new. Then a page that does not answer gets the
                rest, because it may well have taken in the frame before without saying so.
        """
        if not self.greeted:
            return None
        if self._pending is not None:
            return self._pending if ended and self.is_slow(now) else None
        return self._version

    # -- what it says

    def take(self, message: PageMessage) -> None:
        """Take in what the page says."""
        if message.type == "output":
            self.wanted, self._reading = message.after, -math.inf
        elif message.version == self._pending:
            self._version, self._pending = message.version, None

    # -- what it is told

    def greet(self, look: Look, told: Told) -> None:
        """Send the first message."""
        feed, version = self._claim
        if feed == look.feed and version <= look.version:
            self._version = version
        self.greeted = True
        self._run = told.run
        self._write(as_json({"type": "hello", "feed": look.feed, "run": look.run}))

    def tell(self, look: Look, told: Told, now: float) -> bool:
        """Send what it lacks, if its connection is clear; return whether that was the end."""
        if self._taken is not None and not self._taken.done():
            return False
        if self._run != told.run:
            self._run = told.run
            self._write(told.run_text)
        if self._steps != told.steps:
            self._steps = told.steps
            self._write(told.steps_text)
        self._tell_output(look, now)
        lacks = self._tell_points(look, now)
        if not look.ended or lacks or not self._is_through(look, now):
            return False
        self._write(as_json({"type": "end"}))
        return True

    def close(self, code: int, reason: str = "") -> None:
        """Close the connection, and say why."""
        self._is_closed = True
        self._socket.close(code, brief(reason))

    # -- inside

    def _tell_output(self, look: Look, now: float) -> None:
        found = None if self.wanted is None else look.output.get(self.wanted)
        if found is not None:
            self.wanted, self._reading = None, now
            self._write(as_json({"type": "output", **found}))

    def _tell_points(self, look: Look, now: float) -> bool:
        """Return whether there are more that it may have."""
        since = self.since(now, ended=look.ended)
        if since is None or since == look.version:
            return False
        frame = look.frames.get(since)
        if frame is None:
            if since in look.frames and self._pending is None:
                self._version = look.version  # for this page nothing has changed
            return since not in look.frames
        if now - self._framed >= FRAME_SECONDS:
            self._is_given_up = self._pending is not None
            self._pending, self._framed = look.version, now
            self._write(frame)
        return True

    def _is_through(self, look: Look, now: float) -> bool:
        """Whether it has all that there is, or does not say so for long."""
        if now - self._opened < GREETING_SECONDS:
            return False
        if self._is_given_up:
            return True
        if self._pending is not None or self._reading > -math.inf:
            return now - max(self._framed, self._reading) >= PATIENCE_SECONDS
        return self.wanted is None or self.wanted in look.output

    def _write(self, data: str | bytes) -> None:
        if not self._is_closed:
            self._taken = self._socket.deliver(data)


def brief(reason: str) -> str:
    """Return as much of a sentence as fits into a close frame."""
    data = reason.encode()
    if len(data) <= _REASON_BYTES:
        return reason
    return data[: _REASON_BYTES - 3].decode(errors="ignore") + "…"
