"""The messages between supervisor and node about the snapshots of runs.

The supervisor asks; the node answers each request once. Pieces of files come before the answer to
a request to send, and after the answer to a request to begin.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from workbench.core.node.transfer_protocol import line, read_line
from workbench.core.node.validation import take, take_count
from workbench.core.quote import one_line, shown
from workbench.errors import ProtocolError

# To the node: a request: number, kind, values; a part of a file: its path, base64; how many bytes
# were received. From the node: parts and counts alike; the answer to a request; why there is none.
ASK, PIECE, TAKEN, ANSWER, FAILED = "ask", "piece", "taken", "answer", "failed"

# Requests: the manifests of a run's snapshots; to send one; to begin and to end the reception of
# one; to store one in the durable place; to claim that place and fetch what a run needs from it;
# to remove a run's snapshots, here and from the place; to remove the oldest beyond a limit.
LIST, SEND, BEGIN, END = "list", "send", "begin", "end"
STORE, FETCH, REMOVE, LIMIT = "store", "fetch", "remove", "limit"

PIECE_NBYTES = 192 << 10
AHEAD_NBYTES = 4 << 20
MOST_MANIFESTS = 10_000


@dataclass(frozen=True)
class Piece:
    """A part of a file of the snapshot that is being sent.

    Args:
        data: In base64, as it came.
        nbytes: Its size, decoded.
    """

    path: str
    data: str
    nbytes: int


@dataclass(frozen=True)
class Acknowledged:
    """How many bytes of a snapshot have been received."""

    nbytes: int


@dataclass(frozen=True)
class Answer:
    """The answer to a request, by its number."""

    number: int
    value: Any


@dataclass(frozen=True)
class Failed:
    """Why a request could not be answered."""

    number: int
    why: str


def piece_line(path: str, data: bytes) -> str:
    """Return the line of a part of a file."""
    return line(PIECE, path, b64encode(data).decode("ascii"))


def piece_data(data: str) -> bytes:
    """Return the bytes of a part.

    Raises:
        ProtocolError: They are not base64, or too many.
    """
    try:
        found = b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ProtocolError(f"it sent {shown(data)}, which is not a piece of a file") from None
    if len(found) > PIECE_NBYTES:
        raise ProtocolError(f"it sent a piece of {len(found):,} bytes")
    return found


def read_answer(text: str) -> Piece | Acknowledged | Answer | Failed | None:
    """Return the message in a node's line; None for a stray print.

    Raises:
        ProtocolError: It has the form of a message, but is invalid.
    """
    found = read_line(text)
    if found is None:
        return None
    kind, values = found
    if kind == PIECE:
        path, data = take(kind, values, str, str)
        return Piece(path, data, len(piece_data(data)))
    if kind == TAKEN:
        return Acknowledged(take_count(kind, values))
    if kind == ANSWER and len(values) == 2:
        return Answer(take(kind, values[:1], int)[0], values[1])
    if kind == FAILED:
        number, why = take(kind, values, int, str)
        return Failed(number, one_line(why))
    raise ProtocolError(f"it sent {shown([kind, *values])}, which is not a known message")


def texts(kind: str, value: Any) -> list[str]:
    """Return the value of an answer that is a list of texts.

    Raises:
        ProtocolError: It is not, or has too many.
    """
    if type(value) is not list or len(value) > MOST_MANIFESTS:
        raise ProtocolError(f"it answered {shown(value)} to {kind!r}")
    if any(type(one) is not str for one in value):
        raise ProtocolError(f"it answered {shown(value)} to {kind!r}")
    return [*value]
