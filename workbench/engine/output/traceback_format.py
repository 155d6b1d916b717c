"""Format a rank's error: the user's frames, with folded frames of libraries."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path, PurePath
from traceback import FrameSummary, StackSummary, TracebackException

from workbench.errors import WorkbenchError

_PACKAGE = str(Path(__file__).parents[2]) + os.sep
_STANDARD = tuple(
    os.path.realpath(path) + os.sep
    for path in {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
)
_INSTALLED = ("site-packages", "dist-packages")
_CYTHON = (".pyx", ".pxi", ".pxd")
# What parsers of arguments write: their usage or where to find it, and the error up to its end.
_USAGE = re.compile(r"^usage:|--help", re.M | re.I)
_USAGE_ERROR = re.compile(
    r"^(?:[^\n]*\s)?error:\s+(\S.*?)\s*(?:\Z|\n\n|\nusage:|\n[^\n]*--help)", re.M | re.S | re.I
)
_FOLD = "…"  # the file name of folded frames


class _Folded(StackSummary):
    """Frames, some of which represent several folded ones."""

    def format_frame_summary(self, frame_summary: FrameSummary) -> str:
        if frame_summary.filename == _FOLD:
            return f"  {frame_summary.name}\n"
        return super().format_frame_summary(frame_summary)


def own_traceback(error: BaseException, source: str) -> tuple[str, str]:
    """Return the traceback of ``error`` from the user's first frame on.

    Args:
        source: The name of the file with the user's source.

    Returns:
        With the frames of libraries folded to a line, and with all of them; the latter is empty
        if none was folded.
    """
    first = error.__traceback__
    while first is not None and first.tb_frame.f_code.co_filename != source:
        first = first.tb_next
    found = TracebackException(type(error), error, first, compact=True)
    if isinstance(error, WorkbenchError):  # the message is about the user's line
        found.stack[:] = [frame for frame in found.stack if library(frame.filename) != "workbench"]
    whole = "".join(found.format()).rstrip()
    for one in _chain(found):
        one.stack = _Folded(_fold(one.stack))
    folded = "".join(found.format()).rstrip()
    return folded, "" if folded == whole else whole


def library(path: str) -> str:
    """Return the library of a file; empty for the user's own files."""
    if path.startswith("<frozen "):
        return path.removeprefix("<frozen ").rstrip(">").split(".")[0]
    if path.startswith("<"):
        return "numpy" if path.startswith("<__array_function__") else ""
    if path.startswith(_PACKAGE):
        return "workbench"
    parts = PurePath(path).parts
    installed = [at for at, part in enumerate(parts) if part in _INSTALLED]
    if installed:
        return PurePath(parts[installed[-1] + 1]).stem
    if standard := next((top for top in _STANDARD if os.path.realpath(path).startswith(top)), ""):
        return PurePath(PurePath(os.path.realpath(path)).relative_to(standard).parts[0]).stem
    if path.endswith(_CYTHON) and not os.path.isabs(path):
        return next((part for part in parts if part != "src"), "")
    return ""


def _chain(found: TracebackException) -> Iterator[TracebackException]:
    """Yield an error, its causes and its parts."""
    todo, seen = [found], set[int]()
    while todo:
        one = todo.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        others = (one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ()))
        todo += [other for other in others if other is not None]


def _fold(frames: Iterable[FrameSummary]) -> Iterator[FrameSummary]:
    for is_library, group in groupby(frames, lambda frame: bool(library(frame.filename))):
        found = [*group]
        if not is_library:
            yield from found
        else:
            yield FrameSummary(_FOLD, 0, _folded_line(found), lookup_line=False, line="")


def _folded_line(frames: list[FrameSummary]) -> str:
    """Return the number of the frames, their libraries, and the last of them."""
    libraries = dict.fromkeys(library(frame.filename) for frame in frames)
    last = frames[-1]
    amount = f"{len(frames)} frame{'s' if len(frames) > 1 else ''}"
    where = f"{PurePath(last.filename).name}, line {last.lineno}, in {last.name}"
    return f"{_FOLD} {amount} in {', '.join(libraries)} (last: {where})"


def last_line(error: BaseException, said: str = "") -> str:
    """Return the error in one line; one of ours as its message.

    Args:
        said: What was written to stderr just before: the reason of an exit, such as argparse's.
    """
    if isinstance(error, WorkbenchError) and str(error):
        return str(error)
    if isinstance(error, SystemExit):
        status = isinstance(error.code, int)
        words = _reason(said) if status else " ".join(str(error.code).split())
        if words:
            return f"{words.rstrip('.')} (exit status {error.code})" if status else words
    return traceback.format_exception_only(error)[-1].strip()


def _reason(said: str) -> str:
    """Return the message that ends ``said`` in one line; empty if there is none.

    A command line's usage, and the program's name before its error, are left out.
    """
    if _USAGE.search(said) and (found := _USAGE_ERROR.search(said)):
        return " ".join(found[1].split())
    if "\r" in said.rstrip("\r\n").rpartition("\n")[2]:
        return ""  # a progress bar, which is drawn again and again, is no reason
    lines = [line for line in said.splitlines() if any(map(str.isalnum, line))]
    return " ".join(lines[-1].strip(" │").split()) if lines else ""
