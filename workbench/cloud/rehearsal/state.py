"""The state of the rehearsal: simulated machines and resources, in memory or in a file."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from workbench.core.messages import decode

FILE_NAME = "rehearsal.json"
LISTED_SECONDS = 3600.0  # a machine that has ended is listed for so long


@dataclass
class SimulatedMachine:
    """One simulated machine.

    Args:
        boot: Seconds from its launch until it runs.
        taken: Epoch seconds at which the provider reclaims it; 0 for never.
        ended: Epoch seconds from which it is not billed; 0 while it is.
        given: Epoch seconds from which it is there and billed.
        visited: Whether a command was ever run on it, so that processes may be left.
    """

    id: str
    cluster: str
    token: str
    type: str
    zone: str
    address: str
    launched: float
    boot: float
    taken: float = 0.0
    ended: float = 0.0
    reason: str = ""
    interrupted: bool = False
    given: float = 0.0
    visited: bool = False
    tags: list[list[str]] = field(default_factory=list)


@dataclass
class SimulatedResource:
    """A resource of a cluster beside machines."""

    kind: str
    id: str
    cluster: str
    created: float


@dataclass
class ReplayedHistory:
    """How many machines of a cluster there are while a recording is replayed.

    Args:
        counts: From when on, in epoch seconds, in their order.
        ends: When it is over.
        notice: Seconds from a notice until a machine is taken.
        known: The changes until then have been applied, in epoch seconds.
    """

    counts: list[tuple[float, int]]
    ends: float
    notice: float
    known: float = 0.0

    def count(self, now: float) -> int:
        """Return how many there are at a moment."""
        return next((count for at, count in reversed(self.counts) if at <= now), 0)


@dataclass
class RehearsalState:
    """The whole state of a simulated provider."""

    machines: dict[str, SimulatedMachine] = field(default_factory=dict)
    things: dict[str, SimulatedResource] = field(default_factory=dict)
    purchases: dict[str, str] = field(default_factory=dict)  # token to parameters
    launched: int = 0
    histories: dict[str, ReplayedHistory] = field(default_factory=dict)  # by cluster


class SharedState:
    """Holds the state; with a folder, several processes share it, one after another.

    Args:
        folder: The file's folder; None to keep the state in this object.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._state = RehearsalState()
        self._stamp: tuple[int, int] | None = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[RehearsalState]:
        """Yield the present state, and store the changes made to it."""
        with self._lock, self._lock_file():
            self._read()
            before = self._text() if self._folder else b""
            try:
                yield self._state
            finally:
                if self._folder and (text := self._text()) != before:
                    self._write(self._folder / FILE_NAME, text)

    def look(self) -> RehearsalState:
        """Return the present state; the caller must not change it."""
        with self._lock:
            self._read()
            return self._state

    @contextlib.contextmanager
    def _lock_file(self) -> Iterator[None]:
        if self._folder is None:
            yield
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._folder / f"{FILE_NAME}.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _text(self) -> bytes:
        return msgspec.json.encode(self._state)

    def _read(self) -> None:
        if self._folder is None:
            return
        path = self._folder / FILE_NAME
        try:
            found = path.stat()
        except FileNotFoundError:
            return
        if (found.st_ino, found.st_mtime_ns) != self._stamp:
            self._state = decode(RehearsalState, path.read_bytes())
            self._stamp = found.st_ino, found.st_mtime_ns

    def _write(self, path: Path, text: bytes) -> None:
        temporary = path.with_name(f".{path.name}")
        temporary.unlink(missing_ok=True)
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(text)
        os.replace(temporary, path)
        self._stamp = path.stat().st_ino, path.stat().st_mtime_ns
