"""Find the position of the main thread, from another thread, at no cost to it."""

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

from workbench.core.run.hang import SNAPSHOT_EXCHANGE

MOST_CHARACTERS = 40
# Waits in other libraries, by file: the name shown is the function, or the one given here.
_TORCH = "/torch/distributed/distributed_c10d.py"
_OURS = {
    "/workbench/engine/exchange/": "the exchange of gradients",
    "/workbench/engine/snapshot/peers.py": SNAPSHOT_EXCHANGE,
}
_REQUESTS = re.compile(r"(?:^|\.)(Wait(?:all|any|some)?)$")


@dataclass(frozen=True)
class ThreadPosition:
    """The position of the main thread.

    Args:
        line: Line of the innermost frame in the user's source; 0 if there is none.
        doing: The function that is called there, or file and line outside of the user's source.
        still: Seconds at exactly this position.
        call: The call that it waits in, if that is not a watched communicator's.
    """

    line: int = 0
    doing: str = ""
    still: float = 0.0
    call: str = ""


class Sampler:
    """Samples the main thread's position, and how long it stays there."""

    def __init__(self) -> None:
        self._thread = threading.main_thread().ident or 0
        self._last: tuple[object, ...] = ()
        self._since = 0.0

    def look(self, source: str, progress: int) -> ThreadPosition:
        """Return the present position.

        Args:
            source: The name of the file with the user's source.
            progress: A number that changes with any progress, even if the position does not.
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
    """Return the known call that the frames below the user's line wait in, or empty."""
    if not inner:
        found = _REQUESTS.search(doing)
        return found[1] if found else ""
    for frame in inner:
        path = frame.f_code.co_filename.replace("\\", "/")
        if path.endswith(_TORCH):
            return frame.f_code.co_name
        for part, name in _OURS.items():
            if part in path:
                return name
    return ""


@lru_cache(maxsize=32)
def called(code: CodeType, instruction: int) -> str:
    """Return the name of what an instruction calls or iterates over, or empty."""
    place = next(islice(code.co_positions(), instruction // 2, None), None)
    if place is None or None in place:
        return ""
    first, last, start, end = (int(number or 0) for number in place)
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]  # before the next line, as both may be the same line
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
