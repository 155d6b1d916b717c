"""The wire format of the data that a supervisor sends to a node.

The node reads frames: a kind, a number, a length, and so many bytes. It answers in JSON lines.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from workbench.core.node.staging import Entry
from workbench.core.node.validation import fitted, take
from workbench.errors import ProtocolError

HEADER = struct.Struct(">cII")
FILES, LISTED, DATA, END = b"F", b"L", b"D", b"E"
"""A piece of the manifest; its end; a part of a file, in order; the end of all files."""
FILES_AT_ONCE = 2_000

NEED, GOT, AGAIN, DONE, FAILED, PROGRESS = "need", "got", "again", "done", "failed", "progress"
"""Number and offset of each missing file; bytes received; numbers of damaged files; all files are
complete; an error; the bytes present, their total, and bytes per second."""


class Header(NamedTuple):
    """The header of a frame."""

    kind: bytes
    number: int
    nbytes: int


def frame(kind: bytes, number: int = 0, body: bytes = b"") -> bytes:
    """Return one frame."""
    return HEADER.pack(kind, number, len(body)) + body


def read_header(data: bytes) -> Header:
    """Return the header that ``frame`` wrote.

    Raises:
        ValueError: It is invalid.
    """
    header = Header(*HEADER.unpack(data))
    if header.kind not in (FILES, LISTED, DATA, END):
        raise ValueError(f"no frame begins with {data!r}")
    return header


def manifest_frames(entries: Sequence[Entry]) -> Iterator[bytes]:
    """Yield the frames of a manifest."""
    for start in range(0, len(entries), FILES_AT_ONCE):
        piece = [[e.path, e.nbytes, e.digest] for e in entries[start : start + FILES_AT_ONCE]]
        yield frame(FILES, start, json.dumps(piece).encode())
    yield frame(LISTED, len(entries))


def read_files(body: bytes) -> list[Entry]:
    """Return the files of one piece of the manifest."""
    return [Entry(path, nbytes, digest) for path, nbytes, digest in json.loads(body)]


def line(kind: str, *values: Any) -> str:
    """Return one message of the node as a line."""
    return json.dumps([kind, *values], separators=(",", ":")) + "\n"


def read_line(text: str) -> tuple[str, list[Any]] | None:
    """Return kind and values of a message; None for any other text."""
    try:
        kind, *values = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return (kind, values) if isinstance(kind, str) else None


def read_needed(values: Sequence[Any], entries: Sequence[Entry]) -> list[tuple[int, int]]:
    """Return number and offset of each file that a node asks for.

    Raises:
        ProtocolError: There is no such file, or it is shorter.
    """
    found: list[tuple[int, int]] = []
    for number, offset in fitted(tuple[tuple[int, int], ...], take(NEED, values, list)[0]):
        if not (0 <= number < len(entries) and 0 <= offset <= entries[number].nbytes):
            raise ProtocolError(f"it wants file {number} from {offset} on, which does not exist")
        found.append((number, offset))
    return found


def need_lines(needed: Iterable[tuple[int, int]]) -> Iterator[str]:
    """Yield the lines that request files, the last of which is empty."""
    found = list(needed)
    for start in range(0, len(found), FILES_AT_ONCE):
        yield line(NEED, found[start : start + FILES_AT_ONCE])
    yield line(NEED, [])
