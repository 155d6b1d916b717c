"""Store the batches of one run in a file until they are acknowledged.

The file is authoritative: one batch per line, appended before it is sent, so lost messages can be
sent again. The number of unacknowledged bytes in flight is limited, for the memory of both ends.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

WINDOW_BATCHES = 100
WINDOW_NBYTES = 8 * 2**20
RESEND_SECONDS = 2.0
RESEND_MOST_SECONDS = 30.0


class _Place(NamedTuple):
    """The location of a batch: in the file, or in memory if the disk was full."""

    start: int
    nbytes: int
    line: bytes | None = None


class Outbox:
    """The batches of one rank's run.

    Args:
        path: The append-only file; its folder is created with the first batch.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sequence = 0
        self.acknowledged = 0
        self.waiting = 0  # unacknowledged bytes
        self._sent = 0
        self._flying = 0  # bytes that are sent and unacknowledged
        self._places: dict[int, _Place] = {}
        self._file = -1
        self._end = 0
        self._since = 0.0  # when a batch was last sent or acknowledged
        self._patience = RESEND_SECONDS

    def __repr__(self) -> str:
        return f"<Outbox {self.acknowledged}/{self._sent}/{self.sequence} {self.path}>"

    def begin(self) -> None:
        """Make the file, which says that the rank has begun the run."""
        with contextlib.suppress(OSError):
            self._open()

    def add(self, line: bytes) -> None:
        """Append the next batch; another thread may send meanwhile."""
        self._places[self.sequence + 1] = self._keep(line)
        self.waiting += len(line)
        self.sequence += 1

    def due(self) -> bytes | None:
        """Return the next batch that may be sent; None while enough bytes are in flight."""
        number = self._sent + 1
        if number > self.sequence or number - self.acknowledged > WINDOW_BATCHES:
            return None
        place = self._places[number]
        if self._flying and self._flying + place.nbytes > WINDOW_NBYTES:
            return None
        return self._read(place)

    def unacknowledged(self) -> Iterator[bytes]:
        """Yield the batches that are not acknowledged, the newest first; from any thread."""
        places = self._places.copy()
        return (self._read(places[number]) for number in sorted(places, reverse=True))

    def note_sent(self, now: float) -> None:
        """Record that the due batch was sent.

        Args:
            now: Monotonic seconds.
        """
        self._sent += 1
        self._flying += self._places[self._sent].nbytes
        self._since = now

    def acknowledge(self, sequence: int, now: float) -> None:
        """Record that the store has all batches up to ``sequence``."""
        sequence = min(sequence, self.sequence)
        for number in range(self.acknowledged + 1, sequence + 1):
            nbytes = self._places.pop(number).nbytes
            self.waiting -= nbytes
            self._flying -= nbytes if number <= self._sent else 0
        if sequence > self.acknowledged:
            self._since, self._patience = now, RESEND_SECONDS
        self.acknowledged = max(self.acknowledged, sequence)
        self._sent = max(self._sent, self.acknowledged)

    def resend(self) -> None:
        """Make all unacknowledged batches due again."""
        self._sent, self._flying = self.acknowledged, 0

    def resend_after_silence(self, now: float) -> None:
        """Resend unacknowledged batches: a supervisor was absent, or a message was lost."""
        if self._sent > self.acknowledged and now - self._since > self._patience:
            self._patience = min(2 * self._patience, RESEND_MOST_SECONDS)
            self.resend()

    def discard(self) -> None:
        """Remove the file of a settled run, and its folder after the last rank's."""
        self.close()
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
            self.path.parent.rmdir()

    def close(self) -> None:
        """Close the file, without removing it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # -- inside

    def _keep(self, line: bytes) -> _Place:
        start = self._end
        try:
            if self._file < 0:
                self._open()
                start = self._end
            self._write(line + b"\n")
        except OSError:  # a full disk on a node must not end the training; memory has the batch
            self._forget_from(start)
            return _Place(0, len(line), line)
        self._end += len(line) + 1
        return _Place(start, len(line))

    def _open(self) -> None:
        for folder in (self.path.parent.parent, self.path.parent):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._file = os.open(self.path, flags, 0o600)
        self._end = os.fstat(self._file).st_size

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def _forget_from(self, start: int) -> None:
        """Remove the part of a line that fitted on the disk."""
        if self._file >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, start)
            with contextlib.suppress(OSError):
                self._end = os.fstat(self._file).st_size

    def _read(self, place: _Place) -> bytes:
        if place.line is not None:
            return place.line
        return os.pread(self._file, place.nbytes, place.start)
