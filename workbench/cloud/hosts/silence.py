"""Find out how long the other ends of connections have been silent.

The kernel probes an idle connection itself, and knows when the last answer came. So neither end
sends or parses a message for it, and hundreds of nodes cost next to nothing. An end that is silent
for longer than usual is asked in two more ways, each of which its kernel answers however busy it
is: by a message in the session, and then by new connections to its port. These are answered also
where the session waits longer and longer to send its data again, after an interruption that is
over.

A node that is silent for longer than usual is asked again and again, and the session with it is
lost if it answers nothing while another one does. If all fall silent at about the same time, this
computer's own connection is the likelier cause: a Wi-Fi that drops for some seconds must lose no
session, also not when it is back and one node answers sooner than another. Then, and where there is
no other node to compare with, the ssh session's own keep-alive decides, which takes longer.
"""

from __future__ import annotations

import contextlib
import errno
import math
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

PROBE_SECONDS = 1
"""Linux takes whole seconds for the interval of its probes."""

BEYOND_SECONDS = 0.2
"""A node is asked when it is silent for so much longer than usual."""

IN_VAIN_SECONDS = 0.9
"""A node is lost that answers nothing for so long."""

MEANWHILE_SECONDS = 0.3
"""Another node has to answer so much later than the lost one was first asked."""

# Bounds of what is usual, and how fast it falls where signs of life come sooner.
_LEAST_USUAL, _MOST_USUAL, _FADING = 0.5, 1.0 * PROBE_SECONDS, 0.15

Key = TypeVar("Key", bound=Hashable)

LOOK_SECONDS, DOUBTFUL_LOOK_SECONDS = 0.2, 0.1
# After so much time in doubt, new connections are tried.
CALL_SECONDS = 0.3
# A new connection may be answered by something in between: from then on the session decides.
LONGEST_CALL_SECONDS = 5.0
MOST_CALLS = 8
# The session's own keep-alive is to end it before the kernel does.
_PROBES = 15
# <linux/tcp.h>, struct tcp_info: 8 bytes, and then numbers of 32 bits. These are the milliseconds
# since data, and since an acknowledgement, were last received, and microseconds of a round trip.
_INFO_NBYTES = 72
_LAST_RECEIVED = struct.Struct("=52xII8xI")
_CONNECTING = (0, errno.EINPROGRESS, errno.EAGAIN)
_ANSWERS = (0, errno.ECONNREFUSED, errno.ECONNRESET)
_EVENTS = select.POLLOUT | select.POLLERR | select.POLLHUP


def probe(connection: socket.socket) -> None:
    """Have the kernel probe an idle connection every second."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)


def silence(connection: socket.socket) -> float | None:
    """Return how long the other end has been silent; None for a closed connection.

    Two round trips are not counted: over a long way an answer takes its time.
    """
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_NBYTES)
    except OSError:
        return None
    since_data, since_acknowledgement, round_trip = _LAST_RECEIVED.unpack(info)
    seconds = min(since_data, since_acknowledgement) / 1000.0 - 2 * round_trip / 1e6
    return float(max(0.0, seconds))


class Caller:
    """Asks a host whether it is there, by connections to the port of a session with it."""

    def __init__(self, connection: socket.socket) -> None:
        self._family = connection.family
        self._address = connection.getpeername()
        self._calls: list[socket.socket] = []

    def call(self) -> None:
        """Begin another connection; waits for nothing."""
        if len(self._calls) >= MOST_CALLS:
            self._calls.pop(0).close()
        one = socket.socket(self._family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._calls.append(one)
        if one.connect_ex(self._address) not in _CONNECTING:
            self._calls.pop().close()

    def is_answered(self) -> bool:
        """Return whether the host has answered one, also by a refusal."""
        poll = select.poll()
        for one in self._calls:
            poll.register(one, _EVENTS)
        ready = {number for number, _ in poll.poll(0)}
        found = [one for one in self._calls if one.fileno() in ready]
        self._calls = [one for one in self._calls if one not in found]
        errors = [one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for one in found]
        for one in found:
            one.close()
        return any(error in _ANSWERS for error in errors)

    def close(self) -> None:
        """Forget the connections that have begun."""
        while self._calls:
            self._calls.pop().close()


class SilenceWatch:
    """Finds the connections of this process whose other end is lost.

    Args:
        measure: Returns the silence of a connection.
        caller: Returns what asks the other end by new connections.
    """

    def __init__(
        self,
        measure: Callable[[socket.socket], float | None] = silence,
        now: Callable[[], float] = time.monotonic,
        caller: Callable[[socket.socket], Caller] = Caller,
    ) -> None:
        self._measure = measure
        self._now = now
        self._caller = caller
        self._connections: dict[int, tuple[socket.socket, Callable[[], None]]] = {}
        self._callers: dict[int, Caller] = {}
        self._answered: dict[int, float] = {}
        self._signs: dict[int, SilenceSigns] = {}
        self._silent: frozenset[int] = frozenset()
        self._lost: frozenset[int] = frozenset()
        self._looked = -LOOK_SECONDS
        self._next = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<SilenceWatch of {len(self._connections)} connections, {len(self._lost)} lost>"

    def add(self, connection: socket.socket, send: Callable[[], None]) -> int:
        """Begin to watch a connection; return its key.

        Args:
            send: Sends anything that the other end takes without an effect; from any thread,
                without waiting.
        """
        probe(connection)
        with self._lock:
            self._next += 1
            self._connections[self._next] = connection, send
            return self._next

    def remove(self, key: int) -> None:
        """Stop watching a connection."""
        with self._lock:
            self._forget(key)
            self._lost -= {key}

    def is_lost(self, key: int) -> bool:
        """Return whether the other end is lost; one that was found lost stays so."""
        with self._lock:
            pause = DOUBTFUL_LOOK_SECONDS if self._silent else LOOK_SECONDS
            if (now := self._now()) - self._looked >= pause:
                self._looked = now
                self._look(now)
            return key in self._lost

    def is_silent(self, key: int) -> bool:
        """Return whether the other end was silent for longer than usual at the last look."""
        with self._lock:
            return key in self._silent

    def _look(self, now: float) -> None:
        self._signs = update_signs(self._signs, self._silences(now), now)
        self._lost |= lost_nodes(self._signs, now)
        silent = (
            frozenset(key for key, signs in self._signs.items() if signs.is_silent(now))
            - self._lost
        )
        for key in silent - self._silent:
            self._connections[key][1]()
        calls = {key for key in silent if now - self._signs[key].asked >= CALL_SECONDS}
        for key in self._callers.keys() - calls:
            self._callers.pop(key).close()
        for key in calls:
            self._call(key)
        self._silent = silent

    def _silences(self, now: float) -> dict[int, float]:
        found = {key: self._measure(one) for key, (one, _) in self._connections.items()}
        for key in [key for key, seconds in found.items() if seconds is None]:
            self._forget(key)
        for key in [key for key, caller in self._callers.items() if caller.is_answered()]:
            self._answered[key] = now
        return {
            key: min(seconds, now - self._answered.get(key, -math.inf))
            if seconds < LONGEST_CALL_SECONDS
            else seconds
            for key, seconds in found.items()
            if seconds is not None
        }

    def _call(self, key: int) -> None:
        """Ask an end by a new connection; what cannot be asked has not answered."""
        with contextlib.suppress(OSError):
            if key not in self._callers:
                self._callers[key] = self._caller(self._connections[key][0])
            self._callers[key].call()

    def _forget(self, key: int) -> None:
        self._connections.pop(key, None)
        self._signs.pop(key, None)
        self._answered.pop(key, None)
        self._silent -= {key}
        if caller := self._callers.pop(key, None):
            caller.close()


WATCH = SilenceWatch()


@dataclass(frozen=True)
class SilenceSigns:
    """A node's signs of life; moments are seconds on one clock.

    Args:
        heard: The moment of the newest one.
        usual: Seconds of its longest silence in the last seconds.
        asked: The moment since when it is asked while another one answers; infinite if it is not.
    """

    heard: float
    usual: float = _MOST_USUAL
    asked: float = math.inf

    def is_silent(self, now: float) -> bool:
        """Return whether it is to be asked."""
        return now - self.heard >= self.usual + BEYOND_SECONDS


def update_signs(
    before: Mapping[Key, SilenceSigns], silences: Mapping[Key, float], now: float
) -> dict[Key, SilenceSigns]:
    """Return the signs of life after a look at all nodes.

    Args:
        before: Those after the last look.
        silences: Seconds since each node's newest sign.
    """
    found = {
        node: _heard(before[node], now - seconds) if node in before else SilenceSigns(now - seconds)
        for node, seconds in silences.items()
    }
    silent = {node for node, signs in found.items() if signs.is_silent(now)}
    if len(silent) == len(found):
        silent = set()
    return {
        node: SilenceSigns(
            one.heard, one.usual, min(one.asked, now) if node in silent else math.inf
        )
        for node, one in found.items()
    }


def lost_nodes(signs: Mapping[Key, SilenceSigns], now: float) -> frozenset[Key]:
    """Return the nodes that are lost.

    Args:
        signs: As `update_signs` returned them.
    """
    newest = max((one.heard for one in signs.values()), default=now)
    return frozenset(
        node
        for node, one in signs.items()
        if now - one.asked >= IN_VAIN_SECONDS and newest - one.asked >= MEANWHILE_SECONDS
    )


def _heard(before: SilenceSigns, heard: float) -> SilenceSigns:
    """Return a node's signs with a newer one; without one its silence lasts, and nothing fades."""
    silence = heard - before.heard
    if silence <= 0:
        return before
    usual = max(_LEAST_USUAL, silence, before.usual - _FADING * silence)
    return SilenceSigns(heard, min(usual, _MOST_USUAL), before.asked)
