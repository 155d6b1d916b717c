"""Know a place inside the import of an installed package, where no interrupt may be raised.

A package whose import was broken off cannot be imported again: its libraries are loaded already,
and its C++ types exist. PyTorch then raises other errors for as long as the process lives, or ends
it. A user's own module, which may train as it is imported, can be interrupted anywhere.
"""

from __future__ import annotations

from pathlib import PurePath
from types import FrameType

_INSTALLED = frozenset({"site-packages", "dist-packages"})
# The function of Python's import system that executes a module.
_EXECUTES = ("<frozen importlib._bootstrap>", "_load_unlocked")


def is_in_package_import(frame: FrameType | None) -> bool:
    """Return whether an installed module is executed for its import, in a frame or outside it."""
    while frame is not None:
        code = frame.f_code
        if (code.co_filename, code.co_name) == _EXECUTES:
            origin = getattr(frame.f_locals.get("spec"), "origin", None)
            if origin and not _INSTALLED.isdisjoint(PurePath(origin).parts):
                return True
        frame = frame.f_back
    return False
