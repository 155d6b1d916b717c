"""Keep what one page has of a run and what it awaits, so that never more than that is sent.

At any time there is at most one frame of points and one message of output that the page has not
answered, and nothing is written while the connection has yet to take what was written before.
"""

from __future__ import annotations

import json
import math
from asyncio import Future
from typing import TYPE_CHECKING, Any, Protocol

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
    """

    def __init__(self, socket: Socket, feed: str = "", version: int = 0, now: float = 0.0) -> None:
        self.greeted = False
        self.version = 0
        self.wanted: int | None = None
        self.has_run = self.has_steps = 0
        self._socket = socket
        self._claim = feed, version
        self._opened = now
        self._taken: Future[None] | None = None
        self._pending: int | None = None  # version of the frame that it has not answered
        self._framed = -math.inf
        self._reading = -math.inf  # when the output that it has not answered was sent
        self._is_given_up = False  # it got the rest without having answered
        self._is_closed = False

    @property
    def is_clear(self) -> bool:
        """Whether the connection has taken all that was written."""
        return self._taken is None or self._taken.done()

    def is_slow(self, now: float) -> bool:
        """Whether it has not answered a frame for long, as a hidden page does."""
        return self._pending is not None and now - self._framed >= PATIENCE_SECONDS

    def since(self, now: float, *, ended: bool) -> int | None:
        """Return as of which version it is to get a frame; None for no frame now.

        Args:
            ended: Whether there will be nothing new. Then a page that does not answer gets the
                rest, because it may well have taken in the frame before without saying so.
        """
        if not self.greeted or not self.is_clear:
            return None
        if self._pending is not None:
            return self._pending if ended and self.is_slow(now) else None
        return self.version if now - self._framed >= FRAME_SECONDS else None

    def may_end(self, version: int, now: float, *, dry: bool) -> bool:
        """Whether it has all that there is, or does not say so for long.

        Args:
            version: The newest there is.
            dry: Whether there is no more output than it has.
        """
        if not self.greeted or not self.is_clear or now - self._opened < GREETING_SECONDS:
            return False
        if self._is_given_up:
            return True
        silent = self._pending is not None or self._reading > -math.inf
        if silent:
            return now - max(self._framed, self._reading) >= PATIENCE_SECONDS
        return self.version >= version and (self.wanted is None or dry)

    # -- what it says

    def take(self, message: PageMessage) -> None:
        """Take in what the page says."""
        if message.type == "output":
            self.wanted, self._reading = message.after, -math.inf
        elif message.version == self._pending:
            self.version, self._pending = message.version, None

    # -- what it is told

    def greet(self, feed: str, newest: int, run: dict[str, Any]) -> None:
        """Send the first message."""
        claimed, version = self._claim
        if claimed == feed and version <= newest:
            self.version = version
        self.greeted = True
        self.send({"type": "hello", "feed": feed, "run": run})

    def send(self, message: dict[str, Any] | str) -> None:
        """Send a message that needs no answer."""
        self._write(message if isinstance(message, str) else encoded(message))

    def send_frame(self, frame: bytes, version: int, now: float) -> None:
        """Send points up to ``version``."""
        self._is_given_up = self._pending is not None
        self._pending, self._framed = version, now
        self._write(frame)

    def skip_to(self, since: int, version: int) -> None:
        """Note that nothing has changed from version ``since`` to ``version``."""
        if self._pending is None and self.version == since:
            self.version = version

    def send_output(self, message: dict[str, Any], now: float) -> None:
        """Send a message of output."""
        self.wanted, self._reading = None, now
        self._write(encoded({"type": "output", **message}))

    def close(self, code: int, reason: str = "") -> None:
        """Close the connection, and say why."""
        self._is_closed = True
        self._socket.close(code, brief(reason))

    def _write(self, data: str | bytes) -> None:
        if not self._is_closed:
            self._taken = self._socket.deliver(data)


def encoded(message: dict[str, Any]) -> str:
    """Return a message as JSON, which knows no ``nan``."""
    return json.dumps(message, allow_nan=False, separators=(",", ":"))


def brief(reason: str) -> str:
    """Return as much of a sentence as fits into a close frame."""
    data = reason.encode()
    if len(data) <= _REASON_BYTES:
        return reason
    return data[: _REASON_BYTES - 3].decode(errors="ignore") + "…"
