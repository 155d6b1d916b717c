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
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType

from workbench.core.run.hang import IMPORT, SNAPSHOT_EXCHANGE
from workbench.engine.framework import frameworks

MOST_CHARACTERS = 40
# A framework may wait for other ranks in code of its own, where no call is known. A rank that is
# there for so many of its steps, and hardly computes, waits; so does any before it has a step.
STEPS = 10.0
LEAST_SECONDS, FIRST_SECONDS = 2.0, 10.0
# Of a processor: a thread that computes on a busy machine has more.
IDLE = 0.05
# Waits in code of ours, by file.
_OURS = {
    "/workbench/engine/exchange/": "the exchange of gradients",
    "/workbench/engine/snapshot/peers.py": SNAPSHOT_EXCHANGE,
}
# MPI's own calls, of communicators, requests, windows and files, which no watched one has.
_REQUESTS = re.compile(
    r"(?:^|\.)([Ww]ait(?:all|any|some)?|Alltoallw|Neighbor_\w+|neighbor_\w+|M?[Pp]robe|mprobe"
    r"|Fence|Lock|Lock_all|Start|Complete|Accept|Connect|Spawn|Disconnect|Merge"
    r"|(?:Read|Write)(?:_at)?(?:_all|_ordered))$"
)
_NO_REQUEST = frozenset({"os.wait"})
_INSTALLED = frozenset({"site-packages", "dist-packages"})
# The function of Python's import system that executes a module.
_EXECUTES = ("<frozen importlib._bootstrap>", "_load_unlocked")
_OF_C = frozenset({"item", "synchronize"})


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
        self._since = self._used = 0.0

    def look(self, source: str, progress: int, step: float = 0.0) -> ThreadPosition:
        """Return the present position.

        Args:
            source: The name of the file with the user's source.
            progress: A number that changes with any progress, even if the position does not.
            step: Seconds in which it changes; 0 if unknown.
        """
        frames = [*_outwards(sys._current_frames().get(self._thread))]
        if not frames:
            return ThreadPosition()
        now, used = time.monotonic(), _processor_seconds(self._thread)
        last = (progress, *((id(frame), frame.f_lasti) for frame in frames[:3]))
        if last != self._last:
            self._last, self._since, self._used = last, now, used
        still = now - self._since
        at = next((n for n, f in enumerate(frames) if f.f_code.co_filename == source), None)
        if at is None:
            inner = frames[0]
            return ThreadPosition(
                0, f"{Path(inner.f_code.co_filename).name}:{inner.f_lineno}", still
            )
        line, doing = frames[at].f_lineno or 0, find_called(frames[at].f_code, frames[at].f_lasti)
        call = _call(frames[:at], doing)
        is_long = still >= (max(LEAST_SECONDS, STEPS * step) if step else FIRST_SECONDS)
        is_idle = used - self._used < IDLE * still or (step > 0 and _uses_device())
        if not call and is_long and is_idle:
            call = _waits(frames[: at + 1], doing)
        return ThreadPosition(line, doing, still, call)


def is_in_package_import(frame: FrameType | None) -> bool:
    """Return whether an installed module is executed for its import, in a frame or outside it.

    No interrupt may be raised there. A package whose import was broken off cannot be imported
    again: its libraries are loaded already, and its C++ types exist. PyTorch then raises other
    errors for as long as the process lives, or ends it. A user's own module, which may train as it
    is imported, can be interrupted anywhere.
    """
    for one in _outwards(frame):
        if (one.f_code.co_filename, one.f_code.co_name) == _EXECUTES:
            origin = getattr(one.f_locals.get("spec"), "origin", None)
            if origin and not _INSTALLED.isdisjoint(Path(origin).parts):
                return True
    return False


def _processor_seconds(thread: int) -> float:
    """Return the seconds that a thread has computed."""
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


def _uses_device() -> bool:
    """Return whether a GPU may be computed on, for which a thread waits by computing."""
    return any(one.uses_device() for one in frameworks())


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _call(inner: list[FrameType], doing: str) -> str:
    """Return the known call that the frames below the user's line wait in, or empty."""
    innermost = find_called(inner[0].f_code, inner[0].f_lasti) if inner else doing
    found = _REQUESTS.search(innermost)
    if found and innermost not in _NO_REQUEST:
        return found[1]
    waiting = tuple(end for one in frameworks() for end in one.calls)
    if calls := [frame for frame in inner if _path(frame).endswith(waiting)]:
        return calls[-1].f_code.co_name
    for frame in inner:
        path = _path(frame)
        for part, name in _OURS.items():
            if part in path:
                return name
    return ""


def _waits(frames: list[FrameType], doing: str) -> str:
    """Return what a thread that does not compute waits in, if that is a framework's; or empty.

    Args:
        frames: From the innermost one to that of the user's line.
        doing: The function that is called on that line.
    """
    if len(frames) == 1:  # in a function of C
        name = doing.rpartition(".")[2]
        return name if name in _OF_C else ""
    paths = [_path(frame) for frame in frames[:-1]]
    packages, elsewhere = _places()
    if not packages.search(paths[0]) or any(map(elsewhere.search, paths)):
        return ""
    names = [frame.f_code.co_name for frame in frames[:-1]]
    if "backward" in names:
        return "backward"
    for framework in frameworks():
        for part, wrapper in framework.wrappers.items():
            if any(part in path for path in paths):
                return f"{wrapper}.forward" if "forward" in names else wrapper
    return next(
        name for name, path in zip(names[::-1], paths[::-1], strict=True) if packages.search(path)
    )


@cache
def _places() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what finds paths of frameworks, and those where a rank waits for no other one."""
    packages = [re.escape(name) for one in frameworks() for name in one.packages]
    elsewhere = [one.waits_elsewhere for one in frameworks() if one.waits_elsewhere]
    never = "(?!)"
    return (
        re.compile(f"(?<!/workbench/frameworks)/(?:{'|'.join(packages) or never})/"),
        re.compile("|".join(elsewhere) or never),
    )


def _path(frame: FrameType) -> str:
    return frame.f_code.co_filename.replace("\\", "/")


@lru_cache(maxsize=32)
def find_called(code: CodeType, instruction: int) -> str:
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
    if isinstance(statement, ast.Import | ast.ImportFrom):
        module = getattr(statement, "module", None) or statement.names[0].name
        return f"{IMPORT}{module}"[:MOST_CHARACTERS]
    node: object = getattr(statement, "iter", None) or getattr(statement, "value", None)
    node = node.func if isinstance(node, ast.Call) else node
    name = ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""
    if len(name) > MOST_CHARACTERS and isinstance(node, ast.Attribute):
        name = node.attr
    return name if len(name) <= MOST_CHARACTERS else ""
