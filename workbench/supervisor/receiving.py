"""Take in the files that one node sends of its runs, each whole or not at all."""

from __future__ import annotations

import contextlib
import os
from base64 import b64decode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import IO

from workbench.core.staging import check_path
from workbench.errors import InputError, MachineError

TELL_NBYTES = 1 << 20


class Receiving:
    """What comes from one node, file after file.

    Args:
        place_of: Returns where a file of a run belongs: run, path.
        taken: Told how many bytes were taken in.
        kept: Told of each file whether it was kept: run, path, and why not.
    """

    def __init__(
        self,
        place_of: Callable[[str, str], Path],
        taken: Callable[[int], None],
        kept: Callable[[str, str, str], None],
    ) -> None:
        self._place_of = place_of
        self._taken = taken
        self._kept = kept
        self._file: IO[bytes] | None = None
        self._temporary = Path()
        self._place = Path()
        self._digest = sha256()
        self._trouble = ""
        self._nbytes = self._told = 0

    def begin(self, run: str, path: str) -> None:
        """Begin with a file."""
        self.drop()
        self._digest, self._trouble = sha256(), ""
        try:
            self._place = self._place_of(run, check_path(path))
            self._place.parent.mkdir(parents=True, exist_ok=True)
            self._temporary = self._place.with_name(f".{self._place.name[:200]}.coming")
            handle = os.open(self._temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            self._file = open(handle, "wb")  # noqa: SIM115  # closed when it is whole
        except (OSError, InputError) as error:
            self._fail(error)

    def add(self, piece: str) -> None:
        """Take in some of it."""
        data = b64decode(piece)
        self._nbytes += len(data)
        self._digest.update(data)
        if self._file is not None:
            try:
                self._file.write(data)
            except OSError as error:
                self._fail(error)
        if self._nbytes - self._told >= TELL_NBYTES:
            self._told = self._nbytes
            self._taken(self._nbytes)

    def end(self, run: str, path: str, digest: str) -> None:
        """Put it into its place, if it is what was sent."""
        if self._file is not None:
            try:
                self._file.close()
                if self._digest.hexdigest() != digest:
                    raise MachineError("it came damaged")
                os.replace(self._temporary, self._place)
                self._file = None
            except (OSError, MachineError) as error:
                self._fail(error)
        self.drop()
        self._kept(run, path, self._trouble)

    def drop(self) -> None:
        """Leave what has begun; it comes anew."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._temporary.unlink(missing_ok=True)
            self._file = None

    def _fail(self, error: Exception) -> None:
        said = getattr(error, "strerror", None) or str(error)
        self._trouble = f"{self._place} could not be written ({said})"
        self.drop()
