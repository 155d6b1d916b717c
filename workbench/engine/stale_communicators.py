"""Raise errors for communicators that were created before a failure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from workbench.engine.run_context import current
from workbench.errors import StaleCommunicator

REMEDY = "run the cell that creates it again"
_DEPTH = 2  # levels of objects that are searched, such as an optimizer's communicator


def stale_error(comm: object, run: str) -> StaleCommunicator:
    """Return the error for a use of ``comm``, with its name in the user's source if it has one.

    Args:
        run: The run that failed or was stopped.
    """
    name = _name(comm)
    which = f"The communicator {name!r}" if name else "This communicator"
    return StaleCommunicator(_what(which, run), f"{REMEDY}.")


def sentence(which: str, run: str) -> str:
    """Return the message for a communicator, with the remedy."""
    return f"{_what(which, run)}; {REMEDY}."


def _what(which: str, run: str) -> str:
    return f"{which} was created before run {run!r} failed or was stopped"


def _name(comm: object) -> str:
    run = current()
    for frame in _outwards(sys._getframe(1)):
        if run is not None and frame.f_code.co_filename == run.source_name:
            for space in (frame.f_locals, frame.f_globals):
                for name, value in [*space.items()]:
                    if not name.startswith("_") and _holds(value, comm, _DEPTH):
                        return name
    return ""


def _holds(value: object, comm: object, depth: int) -> bool:
    if value is comm:
        return True
    return depth > 0 and any(_holds(one, comm, depth - 1) for one in _attributes(value))


def _attributes(value: object) -> tuple[object, ...]:
    """Return the attributes of an object; empty for modules and classes, which have too many."""
    if isinstance(value, type(sys) | type):
        return ()
    try:
        return tuple(object.__getattribute__(value, "__dict__").values())
    except (AttributeError, TypeError):
        return ()


def _outwards(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
