"""Capture the output to file descriptors 1 and 2 during a run.

Child processes, C libraries and ``os.write`` write there, past ``sys.stdout``. Each descriptor is
redirected to a file: a writer never waits for the reader, and the last output of a failing rank
remains.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

MOST_AT_ONCE = 1 << 20
MOST_BEHIND = 1 << 28
STREAMS = {"stdout": 1, "stderr": 2}
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02  # <linux/falloc.h>
_LINE_BUFFERED = 1  # <stdio.h>
_libc = ctypes.CDLL(None)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class CapturedDescriptor:
    """One of the two descriptors, and the file that receives its output.

    Args:
        number: 1 or 2.
    """

    def __init__(self, number: int, path: Path) -> None:
        self._number = number
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
        self._file = os.open(path, flags, 0o600)
        self._before = os.dup(number)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._read = 0
        os.dup2(self._file, number)

    @property
    def before(self) -> int:
        """A duplicate of the descriptor's original target."""
        return self._before

    def behind(self) -> int:
        """Return the number of unread bytes."""
        size = os.fstat(self._file).st_size
        if size < self._read:  # opening /dev/stdout again has truncated the file
            self._read = 0
        return size - self._read

    def read(self) -> str:
        """Return the new output, at most ``MOST_AT_ONCE`` bytes, and free its disk space.

        If output comes faster than it can be read, the middle is left out.
        """
        behind, text = self.behind(), ""
        if behind > MOST_BEHIND:
            self._free(behind - MOST_AT_ONCE)
            text = f"\n[{behind - MOST_AT_ONCE} bytes were written too fast and are left out]\n"
        data = os.pread(self._file, min(self.behind(), MOST_AT_ONCE), self._read)
        self._free(len(data))
        return text + self._decoder.decode(data)

    def stay(self) -> None:
        """Redirect the descriptor again if it was closed."""
        try:
            os.fstat(self._number)
        except OSError:
            os.dup2(self._file, self._number)

    def give_back(self) -> None:
        """Restore the descriptor's original target."""
        os.dup2(self._before, self._number)
        os.close(self._before)
        os.close(self._file)

    def _free(self, nbytes: int) -> None:
        """Skip bytes, and free their disk space where the file system can."""
        if nbytes:
            _libc.fallocate(self._file, _KEEP_SIZE_AND_PUNCH_HOLE, self._read, nbytes)
            self._read += nbytes


class DescriptorCapture:
    """Both descriptors of this process, redirected from now on.

    Args:
        path: Of the files, without the stream's name.
    """

    def __init__(self, path: Path) -> None:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        self._taken = {
            name: CapturedDescriptor(number, words_file(path, name))
            for name, number in STREAMS.items()
        }
        self.lock = threading.RLock()
        _libc.setvbuf(_c_stdout(), None, ctypes.c_int(_LINE_BUFFERED), ctypes.c_size_t(0))

    def pull(self, write: Callable[[str, str], None]) -> bool:
        """Pass one piece of the new output on; true if there is more.

        Args:
            write: Called with a stream's name and text.
        """
        with self.lock:
            for name, taken in self._taken.items():
                if taken.behind() and (text := taken.read()):
                    write(name, text)
            return any(taken.behind() for taken in self._taken.values())

    def pull_all(self, write: Callable[[str, str], None], wait: Callable[[], None]) -> None:
        """Pass all output so far on.

        Args:
            wait: Called between the pieces, so that they can be sent.
        """
        _libc.fflush(_c_stdout())
        with self.lock:
            left = sum(taken.behind() for taken in self._taken.values())
        while left > 0 and self.pull(write):
            left -= MOST_AT_ONCE
            wait()

    def forward(self) -> None:
        """Write the new output to the original targets, which is mpiexec's log."""

        def write(name: str, text: str) -> None:
            with contextlib.suppress(OSError):
                os.write(self._taken[name].before, text.encode(errors="replace"))

        self.pull(write)

    def stay(self) -> None:
        """Redirect descriptors again that a cell has closed."""
        for taken in self._taken.values():
            taken.stay()

    def close(self) -> None:
        """Restore the original targets."""
        for taken in self._taken.values():
            taken.give_back()


def words_file(path: Path, stream: str) -> Path:
    """Return the file of one stream."""
    return path.with_name(f"{path.name}.{stream}")


def _c_stdout() -> ctypes.c_void_p:
    return ctypes.c_void_p.in_dll(_libc, "stdout")
