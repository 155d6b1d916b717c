"""Stage a cluster's data on this node, complete and checked; resumes an interrupted transfer.

Run as ``python -m workbench.node.stage FOLDER`` to take the files from standard input, or as
``… FOLDER s3://bucket/prefix`` to fetch them. It ends when standard input does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from workbench.core.node.staging import CHUNK_NBYTES, Entry, check_entries
from workbench.core.node.transfer_protocol import (
    AGAIN,
    DATA,
    DONE,
    END,
    FAILED,
    FILES,
    GOT,
    HEADER,
    LISTED,
    PROGRESS,
    Header,
    line,
    need_lines,
    read_files,
    read_header,
)
from workbench.errors import WorkbenchError
from workbench.node.data_cache import DataCache

# The sender is acknowledged after so many bytes; far less than it keeps in flight.
ACKNOWLEDGED_NBYTES = 64 << 10

Report = Callable[[str], None]


class Cut(Exception):
    """The sender closed the connection."""


class Arrival:
    """One file that is being received, with what an interrupted transfer left of it."""

    def __init__(self, entry: Entry, part: str) -> None:
        self.entry = entry
        self.part = part
        self._digest = sha256()
        self._file: FileIO | None = None
        self.nbytes = arrived_nbytes(entry, part)

    def add(self, data: bytes) -> None:
        """Append the next bytes."""
        file, left = self._open(), memoryview(data)
        while left:
            left = left[file.write(left) :]
        self._digest.update(data)
        self.nbytes += len(data)

    def is_sound(self) -> bool:
        """Return whether the file is what was sent; closes it."""
        self._open().close()
        return self._digest.hexdigest() == self.entry.digest

    def close(self) -> None:
        """Close the file; a later transfer resumes it."""
        if self._file is not None:
            self._file.close()

    def _open(self) -> FileIO:
        """Open the file without a buffer: the sender's pieces are large, or are whole files."""
        if self._file is None:
            fresh = 0 if self.nbytes else os.O_TRUNC
            self._file = FileIO(os.open(self.part, os.O_RDWR | os.O_CREAT | fresh, 0o600), "r+b")
            if self.nbytes:
                self._file.truncate(self.nbytes)
            left = self.nbytes
            while left:
                data = self._file.read(min(left, 4 * CHUNK_NBYTES))
                self._digest.update(data)
                left -= len(data)
        return self._file


def arrived_nbytes(entry: Entry, part: str) -> int:
    """Return how much of a file an interrupted transfer left."""
    try:
        return min(os.stat(part).st_size, entry.nbytes)
    except FileNotFoundError:
        return 0


class Receiver:
    """Receives the files that a cache lacks from a sender."""

    def __init__(self, source: BinaryIO, report: Report, cache: DataCache) -> None:
        self._source = source
        self._report = report
        self._cache = cache
        self._entries: list[Entry] = []
        self._arrival: Arrival | None = None
        self._again: list[int] = []
        self._got = self._acknowledged = 0

    def receive(self) -> None:
        """Receive all files; raises ``Cut`` if the sender closes before the end."""
        try:
            while True:
                header = read_header(self._read(HEADER.size))
                if header.kind == DATA:
                    self._take(header)
                    continue
                body = self._read(header.nbytes)
                if header.kind == FILES:
                    self._entries += read_files(body)
                elif header.kind == LISTED:
                    self._ask()
                elif header.kind == END and self._ends():
                    return
        finally:
            if self._arrival is not None:
                self._arrival.close()

    def _read(self, nbytes: int) -> bytes:
        data = self._source.read(nbytes)
        if len(data) < nbytes:
            raise Cut
        return data

    def _ask(self) -> None:
        check_entries(self._entries)
        needed, lacking = [], 0
        for number in self._cache.missing(self._entries):
            entry = self._entries[number]
            if not entry.nbytes:
                self._close(number, Arrival(entry, self._cache.part(entry)))
                continue
            offset = arrived_nbytes(entry, self._cache.part(entry))
            needed.append((number, offset))
            lacking += entry.nbytes - offset
        self._cache.check_room(lacking)
        for text in need_lines(needed):
            self._report(text)

    def _take(self, header: Header) -> None:
        entry = self._entries[header.number]
        if self._arrival is None or self._arrival.entry is not entry:
            if self._arrival is not None:
                self._arrival.close()
            self._arrival = Arrival(entry, self._cache.part(entry))
        self._arrival.add(self._read(header.nbytes))
        self._got += header.nbytes
        if self._arrival.nbytes >= entry.nbytes:
            self._close(header.number, self._arrival)
            self._arrival = None
        if self._got - self._acknowledged >= ACKNOWLEDGED_NBYTES:
            self._acknowledged = self._got
            self._report(line(GOT, self._got))

    def _close(self, number: int, arrival: Arrival) -> None:
        if arrival.is_sound():
            self._cache.keep(arrival.entry, arrival.part)
        else:
            os.unlink(arrival.part)
            self._again.append(number)

    def _ends(self) -> bool:
        self._report(line(GOT, self._got))
        if self._again:
            self._report(line(AGAIN, self._again))
            self._again = []
            return False
        self._cache.finish(self._entries)
        self._report(line(DONE))
        return True


def receive(source: BinaryIO, report: Report, folder: Path) -> None:
    """Receive the data from ``source`` into ``folder``."""
    cache = DataCache(folder)
    with cache.open():
        Receiver(source, report, cache).receive()


def fetch(url: str, report: Report, folder: Path) -> None:
    """Fetch the data from S3 into ``folder``, and report the progress."""
    from workbench.node.fetching import Fetching
    from workbench.node.s3 import S3Bucket  # it takes a second to load, and is rarely needed

    cache = DataCache(folder)
    with cache.open():
        fetching = Fetching(S3Bucket(url), cache)
        began = time.monotonic()
        for done, total, fetched in fetching.turns():
            rate = fetched / max(time.monotonic() - began, 0.1)
            report(line(PROGRESS, done, total, rate))
    report(line(DONE))


def _leave_with(source: BinaryIO) -> None:
    """End this process when standard input does: its caller is gone."""

    def wait() -> None:
        while source.read(1 << 16):
            pass
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main(arguments: list[str] | None = None) -> int:
    """Stage the data that the arguments name; an error is one line of the answer."""
    words: list[str] = sys.argv[1:] if arguments is None else arguments
    folder = Path(words[0]).expanduser()
    os.umask(0o077)

    def report(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    try:
        if len(words) > 1:
            _leave_with(sys.stdin.buffer)
            fetch(words[1], report, folder)
        else:
            receive(sys.stdin.buffer, report, folder)
    except (Cut, BrokenPipeError, KeyboardInterrupt):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (WorkbenchError, OSError) as error:
        report(line(FAILED, _sentence(error, folder)))
        return 1
    return 0


def _sentence(error: Exception, folder: Path) -> str:
    if isinstance(error, OSError):
        where: Any = error.filename or folder
        return f"{where} cannot be written ({error.strerror}); free some space there, or correct it"
    return str(error).rstrip(".")


if __name__ == "__main__":
    sys.exit(main())
