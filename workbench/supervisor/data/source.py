"""Read the data folder: once for all nodes, and again only what has changed."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from itertools import chain
from pathlib import Path

from workbench.core.node.staging import CHUNK_NBYTES, StagingEntry, check_entries
from workbench.core.units import size_text
from workbench.errors import InputError

AT_ONCE = 4
REPORT_SECONDS = 1.0
Report = Callable[[str], None]
_Seen = tuple[int, int, int]


class Source:
    """A data folder on this machine; links in it are followed, and sent as what they lead to.

    Args:
        folder: An absolute path.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._known: dict[str, tuple[_Seen, StagingEntry]] = {}
        self._hashed = 0

    def __repr__(self) -> str:
        return f"<Source {self.folder}: {len(self._known)} files are known>"

    def entries(self, report: Report = lambda sentence: None) -> tuple[StagingEntry, ...]:
        """Return all files with their sha256; a concurrent call waits for the first one.

        Raises:
            InputError: It is not a folder, is empty, or has something that cannot be sent.
        """
        if not self._lock.acquire(blocking=False):
            report("Data: it is being read for another node.")
            self._lock.acquire()
        try:
            return self._entries(report)
        finally:
            self._lock.release()

    def _entries(self, report: Report) -> tuple[StagingEntry, ...]:
        seen = dict(sorted(self._look()))
        if not seen:
            raise InputError(f"There is no file in {self.folder}", "name the folder that has data.")
        known = {path: self._known[path] for path in seen if path in self._known}
        fresh = [path for path in seen if path not in known or known[path][0] != seen[path]]
        total, began, reported = (
            sum(seen[path][0] for path in fresh),
            self._hashed,
            time.monotonic(),
        )
        with ThreadPoolExecutor(AT_ONCE, "hash") as pool:
            for entry in chain.from_iterable(pool.map(self._read, _batches(fresh, seen))):
                known[entry.path] = seen[entry.path], entry
                if time.monotonic() - reported >= REPORT_SECONDS:
                    reported = time.monotonic()
                    percent = min(99, 100 * (self._hashed - began) // max(1, total))
                    report(f"Data: {size_text(total)} are read for their checksums, {percent} %.")
        self._known = known
        entries = tuple(known[path][1] for path in seen)
        check_entries(entries)
        return entries

    def _read(self, paths: Sequence[str]) -> list[StagingEntry]:
        return [self._entry(path) for path in paths]

    def _entry(self, path: str) -> StagingEntry:
        found, nbytes = sha256(), 0
        try:
            with open(f"{self.folder}/{path}", "rb", buffering=0) as file:
                while data := file.read(4 * CHUNK_NBYTES):
                    found.update(data)
                    nbytes += len(data)
                    self._hashed += len(data)
        except OSError as error:
            raise _unreadable(self.folder / path, error) from error
        return StagingEntry(path, nbytes, found.hexdigest())

    def _look(self) -> Iterator[tuple[str, _Seen]]:
        pending: list[tuple[str, tuple[str, ...]]] = [("", ())]
        while pending:
            inside, above = pending.pop()
            folder = self.folder / inside
            try:
                real = os.path.realpath(folder)
                if real in above:
                    raise InputError(
                        f"{folder} is a link to a folder that it lies in", "remove the link."
                    )
                with os.scandir(folder) as names:
                    for found in names:
                        path = f"{inside}/{found.name}" if inside else found.name
                        status = found.stat()
                        if stat.S_ISDIR(status.st_mode):
                            pending.append((path, (*above, real)))
                        else:
                            yield path, _check_status(found.path, status)
            except OSError as error:
                raise _unreadable(Path(error.filename or folder), error) from error


def _batches(paths: Sequence[str], seen: Mapping[str, _Seen]) -> Iterator[list[str]]:
    """Yield groups of small files, and large files alone: a task costs more than a small file."""
    batch: list[str] = []
    nbytes = 0
    for path in paths:
        batch.append(path)
        nbytes += seen[path][0]
        if nbytes >= CHUNK_NBYTES:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch


def _check_status(path: str, status: os.stat_result) -> _Seen:
    if not stat.S_ISREG(status.st_mode):
        raise InputError(
            f"{path} is neither a file nor a folder, and cannot be sent", "remove it from the data."
        )
    return status.st_size, status.st_mtime_ns, status.st_ino


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"{path} of the data cannot be read ({error.strerror})", "correct it, or remove it."
    )
