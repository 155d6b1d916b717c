"""Copy a file over a call, in either direction: in pieces with credit, and checked at its end.

Data to a node, output from a node and snapshots both ways are policies over this: which files, to
which place, and what follows.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from hashlib import sha256
from typing import IO, Protocol

from workbench.core.node.agent_protocol import PIECE_NBYTES, Piece, encode_path
from workbench.errors import ProtocolError
from workbench.node.stream import Call


class Checksum(Protocol):
    """A running checksum, such as ``hashlib.sha256()``."""

    def update(self, data: bytes, /) -> None:
        """Add bytes."""
        ...

    def hexdigest(self) -> str:
        """Return it so far."""
        ...


class Crc32:
    """The checksum of a snapshot's files, which their ranks compute."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes) -> None:
        """Add bytes."""
        self._value = zlib.crc32(data, self._value)

    def hexdigest(self) -> str:
        """Return it so far."""
        return crc32_text(self._value)


def crc32_text(value: int) -> str:
    """Return a CRC as digests are written."""
    return f"{value:08x}"


def send_file(
    call: Call,
    path: str,
    file: IO[bytes],
    nbytes: int,
    *,
    offset: int = 0,
    digest: str = "",
    checksum: Checksum | None = None,
    run: str = "",
    sent: Callable[[int], None] = lambda nbytes: None,
) -> int:
    """Send an open file from ``offset`` on; the last piece has its digest.

    Args:
        nbytes: How much there is from the offset on; what was added since is left out.
        digest: Known already; else it is computed from what is sent.
        checksum: For that; else SHA-256.
        sent: Called with the size of each piece that was sent.

    Returns:
        How much was sent; less than ``nbytes`` if the file has become shorter.
    """
    total, known = checksum or sha256(), 0
    data = file.read(min(PIECE_NBYTES, nbytes))
    while True:
        if not digest:
            total.update(data)
        known += len(data)
        more = file.read(min(PIECE_NBYTES, nbytes - known)) if known < nbytes else b""
        at_end = "" if more else digest or total.hexdigest()
        call.send(Piece(encode_path(path), data, offset + known - len(data), at_end, run))
        sent(len(data))
        if not more:
            return known
        data = more


class ArrivingFile:
    """A file that comes in pieces, in order.

    Args:
        file: Open for writing without a buffer, at the end of what has come before.
        nbytes: How much has come before.
        checksum: Of that.
    """

    def __init__(self, file: IO[bytes], nbytes: int, checksum: Checksum) -> None:
        self._file, self.nbytes, self._checksum = file, nbytes, checksum

    def add(self, data: bytes, offset: int) -> None:
        """Append a piece.

        Raises:
            ProtocolError: It is not the next one.
            OSError: It cannot be written.
        """
        if offset != self.nbytes:
            raise ProtocolError(f"it sent bytes from {offset:,} on after {self.nbytes:,} of a file")
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self._checksum.update(data)
        self.nbytes += len(data)

    def close(self) -> str:
        """Close the file, and return the digest of what has come."""
        self._file.close()
        return self._checksum.hexdigest()
