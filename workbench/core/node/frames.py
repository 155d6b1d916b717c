"""The frames of the one stream between a supervisor and a node's agent.

Each frame belongs to a call, which the supervisor opens by a request and the agent ends by a reply
or a failure. In between, both sides send messages; those that carry bytes wait for credit.

    supervisor                                   agent
        REQUEST 7 StageData  ─────────────────▶
                             ◀─────────────────  MESSAGE 7 Need
        BYTES 7 Piece        ─────────────────▶
                             ◀─────────────────  CREDIT 7 65536
                             ◀─────────────────  REPLY 7      (or FAILURE 7 why)
        CANCEL 7 at any time: the agent stops, and answers nothing more
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from workbench.core.quote import quote_value
from workbench.errors import ProtocolError

GREETING = b"\nworkbench-agent 1\n"
"""The agent's first bytes; what a login or Python prints before them is passed over."""

HEADER = struct.Struct(">BII")
CREDIT_BODY = struct.Struct(">Q")
# Twice what the largest message of ours takes; a node is not trusted.
MOST_NBYTES = 1 << 20
GREETING_NBYTES = 1 << 16


class FrameKind(IntEnum):
    """What a frame is."""

    REQUEST = 1
    MESSAGE = 2
    BYTES = 3
    CREDIT = 4
    REPLY = 5
    FAILURE = 6
    CANCEL = 7


class Frame(NamedTuple):
    """One frame."""

    kind: FrameKind
    call: int
    body: bytes = b""


def encode_frame(kind: FrameKind, call: int, body: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    return HEADER.pack(kind, call, len(body)) + body


class FrameReader:
    """Cuts the bytes of one side into frames.

    Args:
        greeting: What comes before the first frame.
    """

    def __init__(self, greeting: bytes = b"") -> None:
        self._greeting = greeting
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that the next bytes complete.

        Raises:
            ProtocolError: They are not frames.
        """
        self._rest += data
        if self._greeting and not self._skip():
            return []
        found, start = list[Frame](), 0
        while len(self._rest) - start >= HEADER.size:
            kind, call, nbytes = HEADER.unpack_from(self._rest, start)
            if kind not in _KINDS or nbytes > MOST_NBYTES:
                head = quote_value(self._rest[start : start + 40].decode(errors="replace"))
                raise ProtocolError(f"it sent {head}, which is not a message")
            end = start + HEADER.size + nbytes
            if end > len(self._rest):
                break
            body = bytes(memoryview(self._rest)[start + HEADER.size : end])
            found.append(Frame(_KINDS[kind], call, body))
            start = end
        del self._rest[:start]
        return found

    def _skip(self) -> bool:
        """Drop all up to the greeting; return whether it has come."""
        # A greeting may begin the output.
        at = (b"\n" + self._rest).find(self._greeting)
        if at < 0:
            if len(self._rest) > GREETING_NBYTES:
                raise ProtocolError(
                    f"it sent {GREETING_NBYTES >> 10} kB that are not an agent's greeting"
                )
            return False
        del self._rest[: at + len(self._greeting) - 1]
        self._greeting = b""
        return True


_KINDS = {int(kind): kind for kind in FrameKind}
