"""Receive one node's output files, each complete or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from hashlib import sha256
from typing import IO

from workbench.errors import InputError, MachineError, ProtocolError
from workbench.supervisor.data.safe_paths import Below

TELL_NBYTES = 1 << 20


class Receiving:
    """The files that one node sends, one after another.

    Args:
        place_of: Returns the place of a file of a run: run, path.
        taken: Called with the number of bytes received.
        kept: Called for each file with run, path, and why it was not kept, if so.
    """

    def __init__(
        self,
        place_of: Callable[[str, str], tuple[Below, str]],
        taken: Callable[[int], None],
        kept: Callable[[str, str, str], None],
    ) -> None:
        self._place_of = place_of
        self._taken = taken
        self._kept = kept
        self._coming = ("", "")
        self._file: IO[bytes] | None = None
        self._below: Below | None = None
        self._temporary = self._path = ""
        self._digest = sha256()
        self._trouble = ""
        self._nbytes = self._reported = 0

    def begin(self, run: str, path: str) -> None:
        """Begin to receive a file.

        Raises:
            MachineError: This node may send no output of that run.
        """
        self.drop()
        self._below, self._path = self._place_of(run, path)
        self._coming, self._digest, self._trouble = (run, path), sha256(), ""
        folder, slash, name = self._path.rpartition("/")
        # A name with the file's own name in it could be too long for the folder.
        short = sha256(name.encode(errors="surrogateescape")).hexdigest()[:16]
        self._temporary = f"{folder}{slash}.{short}.coming"
        try:
            self._below.check_room()
            self._file = self._below.begin(self._temporary)
        except (OSError, InputError, MachineError) as error:
            self._fail(error)

    def add(self, data: bytes) -> None:
        """Receive a part of the file."""
        self._nbytes += len(data)
        self._digest.update(data)
        is_time = self._nbytes - self._reported >= TELL_NBYTES
        if self._file is not None and self._below is not None:
            try:
                self._file.write(data)
                if is_time:
                    self._below.check_room()
            except (OSError, MachineError) as error:
                self._fail(error)
        if is_time:
            self._reported = self._nbytes
            self._taken(self._nbytes)

    def end(self, run: str, path: str, digest: str) -> None:
        """Move the file to its place, if its checksum is right.

        Raises:
            MachineError: It is not the file that was begun.
        """
        if (run, path) != self._coming:
            raise ProtocolError("it ended a file that it had not started")
        if self._file is not None and self._below is not None:
            try:
                self._file.close()
                if self._digest.hexdigest() != digest:
                    raise ProtocolError("it came damaged")
                self._below.put(self._temporary, self._path)
                self._file = None
            except (OSError, MachineError) as error:
                self._fail(error)
        self.drop()
        self._coming = ("", "")
        self._kept(run, path, self._trouble)

    def drop(self) -> None:
        """Discard an unfinished file; it will be sent again."""
        if self._file is not None and self._below is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._below.remove(self._temporary)
            self._file = None

    def _fail(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        place = self._below.place(self._path) if self._below else self._path
        self._trouble = f"{place} could not be written ({reason})"
        self.drop()
