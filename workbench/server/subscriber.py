"""One page that follows a run, and the rate-limited messages that it gets.

At most one frame of points and one message of output are unacknowledged, and nothing is written
while an earlier write is pending.
"""

from __future__ import annotations

import math
import re
from asyncio import Future
from typing import Protocol

import msgspec

from workbench.pages.protocol import (
    EndMessage,
    FollowMessage,
    HelloMessage,
    RunMessage,
    RunNewsMessage,
    StepsMessage,
)
from workbench.pages.requests import OutputRequest, PageMessage
from workbench.server.run_reader import USUAL, FeedPace, RunUpdate
from workbench.surfaces import in_page

RUN_SECONDS = 0.25

# Speeds and lengths of time in a line, which change continually without news.
_AMOUNT = re.compile(r"\d[\d.,]* (it/s|µs|ms|s|min|h)\b")
# A little less than the interval between two polls of the store, which varies.
FRAME_SECONDS = 0.08
_REASON_BYTES = 120


class LatestMessages:
    """The latest messages about a run, sent or waiting until a connection is clear.

    ``run`` and ``steps`` count the messages; a page with another number lacks the latest.
    """

    def __init__(self, pace: FeedPace = USUAL) -> None:
        self.ended = False
        self.is_behind = False  # whether a message is held back
        self.run_now: RunMessage | None = None
        self.run = self.steps = 0
        self.run_text = self.steps_text = ""
        self._pace = pace
        self._lasting: RunMessage | None = None
        self._lasting_now: RunMessage | None = None
        self._steps: StepsMessage | None = None
        self._run_at = self._steps_at = -math.inf

    def note(self, look: RunUpdate, now: float) -> None:
        """Update with the run's state.

        Args:
            now: Seconds of any clock.
        """
        new_run, new_steps = self._note_run(look, now), self._note_steps(look, now)
        self.is_behind = new_run or new_steps
        self.run_now, self.ended = look.run, look.ended

    def _note_run(self, look: RunUpdate, now: float) -> bool:
        """Return whether a message is held back."""
        # A reading repeats the message of one before it until it is made again.
        known = self._lasting_now if look.run is self.run_now else None
        lasting = self._lasting_now = known or _drop_progress(look.run)
        quiet, news = now - self._run_at, lasting != self._lasting
        was_ended = self._lasting is not None and self._lasting.is_ended
        turns = look.run.is_ended != was_ended  # ends, or is resumed
        beat = quiet >= self._pace.beat and not look.ended
        if not (turns or beat or (news and quiet >= RUN_SECONDS)):
            return news
        self._lasting, self._run_at = lasting, now
        self.run += 1
        self.run_text = encode(RunNewsMessage(run=look.run))
        return False

    def _note_steps(self, look: RunUpdate, now: float) -> bool:
        """Return whether a message is held back."""
        if not look.steps or look.steps == self._steps:
            return False
        if now - self._steps_at < self._pace.steps and not look.ended:
            return True
        self._steps, self._steps_at = look.steps, now
        self.steps += 1
        self.steps_text = encode(look.steps)
        return False


def encode(message: FollowMessage) -> str:
    """Return a message as JSON text, since bytes are frames."""
    return msgspec.json.encode(message).decode()


class Socket(Protocol):
    """The connection to a page."""

    def deliver(self, data: str | bytes) -> Future[None]:
        """Send a message; the future is done when it is written, or the connection is closed."""

    def close(self, code: int, reason: str) -> None:
        """Close the connection."""


class Subscriber:
    """One page that follows a run; times are seconds of any clock.

    Args:
        socket: The connection to it.
        feed: The feed that it followed before, or empty.
        version: The version of that feed's curves that it has.
        now: When it connected.
        stays: Whether it has the run's notebook open, and stays connected after the end.
        pace: How long it is waited for.
    """

    def __init__(
        self,
        socket: Socket,
        feed: str = "",
        version: int = 0,
        now: float = 0.0,
        *,
        stays: bool = False,
        pace: FeedPace = USUAL,
    ) -> None:
        self.greeted = False
        self.stays = stays
        self.wanted: int | None = None  # the requested output starts after this
        self._pace = pace
        self._socket = socket
        self._claim = feed, version
        self._opened = now
        self._taken: Future[None] | None = None
        self._version = 0  # of the curves that it has
        self._pending: int | None = None  # version of the unacknowledged frame
        self._framed = -math.inf
        self._reading = -math.inf  # when the unacknowledged output was sent
        self._run = self._steps = 0
        self._is_given_up = False  # it got the rest without an acknowledgement
        self._is_closed = False

    def is_slow(self, now: float) -> bool:
        """Whether a frame is unacknowledged for long, as by a hidden page."""
        return self._pending is not None and now - self._framed >= self._pace.patience

    def since(self, now: float, *, ended: bool) -> int | None:
        """Return the version of the curves that it has; None while a frame is unacknowledged.

        Args:
            ended: Whether the run is complete. Then a page that does not answer gets the rest,
                because only its acknowledgement may be missing.
        """
        if not self.greeted:
            return None
        if self._pending is not None:
            return self._pending if ended and self.is_slow(now) else None
        return self._version

    # -- received messages

    def take(self, message: PageMessage) -> None:
        """Handle a message from the page."""
        if isinstance(message, OutputRequest):
            self.wanted, self._reading = message.after, -math.inf
        elif message.version == self._pending:
            self._version, self._pending = message.version, None

    # -- sent messages

    def greet(self, look: RunUpdate, latest: LatestMessages) -> None:
        """Send the first message."""
        feed, version = self._claim
        if feed == look.feed and version <= look.version:
            self._version = version
        self.greeted = True
        self._run = latest.run
        self._write(encode(HelloMessage(feed=look.feed, run=look.run)))

    def send(self, look: RunUpdate, latest: LatestMessages, now: float) -> bool:
        """Send what it lacks, if no write is pending; return whether that was the end."""
        if self._taken is not None and not self._taken.done():
            return False
        if self._run != latest.run:
            self._run = latest.run
            self._write(latest.run_text)
        if self._steps != latest.steps:
            self._steps = latest.steps
            self._write(latest.steps_text)
        self._send_output(look, now)
        lacks = self._send_points(look, now)
        if not look.ended or lacks or not self._is_through(look, now):
            return False
        self._write(encode(EndMessage()))
        return True

    def close(self, code: int, reason: str = "") -> None:
        """Close the connection with a reason."""
        self._is_closed = True
        self._socket.close(code, shorten_reason(reason))

    # -- private

    def _send_output(self, look: RunUpdate, now: float) -> None:
        found = None if self.wanted is None else look.output.get(self.wanted)
        if found is not None:
            self.wanted, self._reading = None, now
            self._write(encode(found))

    def _send_points(self, look: RunUpdate, now: float) -> bool:
        """Return whether there are more points to send."""
        since = self.since(now, ended=look.ended)
        if since is None or since == look.version:
            return False
        frame = look.frames.get(since)
        if frame is None:
            if since in look.frames and self._pending is None:
                self._version = look.version  # nothing has changed for this page
            return since not in look.frames
        if now - self._framed >= FRAME_SECONDS:
            self._is_given_up = self._pending is not None
            self._pending, self._framed = look.version, now
            self._write(frame)
        return True

    def _is_through(self, look: RunUpdate, now: float) -> bool:
        """Whether it has everything, or has not answered for long."""
        if now - self._opened < self._pace.greeting:
            return False
        if self._is_given_up:
            return True
        if self._pending is not None or self._reading > -math.inf:
            return now - max(self._framed, self._reading) >= self._pace.patience
        return self.wanted is None or self.wanted in look.output

    def _write(self, data: str | bytes) -> None:
        if not self._is_closed:
            self._taken = self._socket.deliver(data)


def shorten_reason(reason: str) -> str:
    """Shorten a sentence, with buttons in place of commands, to fit a close frame."""
    reason = in_page(reason)
    data = reason.encode()
    if len(data) <= _REASON_BYTES:
        return reason
    return data[: _REASON_BYTES - 3].decode(errors="ignore") + "…"


def _drop_progress(run: RunMessage) -> RunMessage:
    """Return what is news when it changes."""
    line = tuple(_AMOUNT.sub("", part) for part in run.line)
    return msgspec.structs.replace(run, now=0.0, seconds_taken=0.0, line=line)
