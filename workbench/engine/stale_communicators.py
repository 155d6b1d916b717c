"""Refuse communicators that were created before a failure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from workbench.engine.run_context import current
from workbench.errors import StaleCommunicator

REMEDY = "run the cell that creates it again"
_DEPTH = 2  # of objects that hold it, such as an optimizer's communicator's own


def refusal(comm: object, run: str) -> StaleCommunicator:
    """Return the error for a use of ``comm``, with its name in the user's source if it has one.

    Args:
        run: The run after which it was given up.
    """
    name = _name(comm)
    which = f"The communicator {name!r}" if name else "This communicator"
    return StaleCommunicator(sentence(which, run))


def sentence(which: str, run: str) -> str:
    """Return what is wrong with a communicator, and what to do."""
    return f"{which} was created before run {run!r} failed or was stopped; {REMEDY}."


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
    """Return what an object holds; nothing for modules and classes, which hold all sorts."""
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
