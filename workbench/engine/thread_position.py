"""Find where the main thread is, from another thread, at no cost to it."""

from __future__ import annotations

import ast
import linecache
import re
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType

MOST_CHARACTERS = 40
# Waits of other libraries, by their files: what is waited in is the function, or the name here.
_TORCH = "/torch/distributed/distributed_c10d.py"
_EXCHANGE = "/workbench/engine/exchange/"
_REQUESTS = re.compile(r"(?:^|\.)(Wait(?:all|any|some)?)$")


@dataclass(frozen=True)
class ThreadPosition:
    """Where the main thread is.

    Args:
        line: Line of the innermost frame in the user's source; 0 where there is none.
        doing: What is called there, or file and line outside of the user's source.
        still: Seconds for which it has been at the very same place.
        call: What it waits in, where that is no call of a communicator that is watched.
    """

    line: int = 0
    doing: str = ""
    still: float = 0.0
    call: str = ""


class Sampler:
    """Looks where the main thread is now and then, and how long it stays there."""

    def __init__(self) -> None:
        self._thread = threading.main_thread().ident or 0
        self._last: tuple[object, ...] = ()
        self._since = 0.0

    def look(self, source: str, progress: int) -> ThreadPosition:
        """Return where it is.

        Args:
            source: The name of the file with the user's source.
            progress: Changes whenever something is done, though the place may be the same.
        """
        frames = [*_outwards(sys._current_frames().get(self._thread))]
        if not frames:
            return ThreadPosition()
        now = time.monotonic()
        last = (progress, *((id(frame), frame.f_lasti) for frame in frames[:3]))
        if last != self._last:
            self._last, self._since = last, now
        still = now - self._since
        at = next((n for n, f in enumerate(frames) if f.f_code.co_filename == source), None)
        if at is None:
            inner = frames[0]
            return ThreadPosition(
                0, f"{Path(inner.f_code.co_filename).name}:{inner.f_lineno}", still
            )
        line, doing = frames[at].f_lineno or 0, called(frames[at].f_code, frames[at].f_lasti)
        return ThreadPosition(line, doing, still, _call(frames[:at], doing))


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _call(inner: list[FrameType], doing: str) -> str:
    """Return in what the frames that the user's line leads to wait, where that is known."""
    if not inner:
        found = _REQUESTS.search(doing)
        return found[1] if found else ""
    for frame in inner:
        path = frame.f_code.co_filename.replace("\\", "/")
        if path.endswith(_TORCH):
            return frame.f_code.co_name
        if _EXCHANGE in path:
            return "the exchange of gradients"
    return ""


@lru_cache(maxsize=32)
def called(code: CodeType, instruction: int) -> str:
    """Return the name of what is called by an instruction, or iterated over; else nothing."""
    place = next(islice(code.co_positions(), instruction // 2, None), None)
    if place is None or None in place:
        return ""
    first, last, start, end = (int(number or 0) for number in place)
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]  # first, as it may be the same line
    lines[0] = lines[0][start:]
    return _name(b"".join(lines).decode(errors="replace"))


def _name(text: str) -> str:
    try:
        statement = ast.parse(text.strip()).body[0]
    except (SyntaxError, ValueError, IndexError, RecursionError, MemoryError):
        return ""
    node: object = getattr(statement, "iter", None) or getattr(statement, "value", None)
    node = node.func if isinstance(node, ast.Call) else node
    name = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
    return name if len(name) <= MOST_CHARACTERS else ""
