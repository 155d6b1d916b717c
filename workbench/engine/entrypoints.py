"""The functions that the supervisor calls by name on every engine, through ipyparallel."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from workbench.core.run.model import Assignment
from workbench.engine.edited_modules import note_sources
from workbench.engine.execution import execute
from workbench.engine.framework import install_frameworks, preload
from workbench.engine.mpi_lifetime import lifetime, refuse_spawning
from workbench.engine.output.display_capture import route_displays
from workbench.engine.output.progress_bars import draw_bars_as_text
from workbench.engine.output.stdin_errors import refuse_questions
from workbench.engine.output.widget_displays import show_widgets
from workbench.engine.rank import Rank
from workbench.engine.reporting.channel import Address
from workbench.engine.run_threads import follow_threads
from workbench.engine.timing.mpi_calls import WatchedComm

_rank: Rank | None = None
_begun: set[str] = set()


def join(
    generation: int, endpoint: str, server_key: str, fault_tolerant: bool, crash_folder: str
) -> dict[str, Any]:
    """Make this engine a rank of ``generation``, and return its ``RankFact`` as a dict.

    Collective over the engine set.
    """
    global _rank  # noqa: PLW0603  # a process is one rank for as long as it lives
    if _rank is None:
        address = Address(endpoint, server_key.encode())
        route_displays(_shell())
        refuse_questions()
        note_sources()
        follow_threads()
        draw_bars_as_text()
        show_widgets()
        install_frameworks()
        sys.argv = ["cell"]  # the engine's own options are none of a cell's
        lifetime.accept_starts()
        refuse_spawning(WatchedComm)
        _rank = Rank(
            generation,
            address,
            fault_tolerant=fault_tolerant,
            crash_folder=crash_folder,
            shell=_shell(),
        )
    return asdict(_rank.fact(_shell().kernel.engine_id))


def run(assignment: Assignment) -> None:
    """Execute an assignment; a repeated call for the same attempt is ignored.

    A supervisor that was killed before it recorded the call repeats it.
    """
    rank, execution = _joined(), assignment.execution
    if execution in _begun or rank.is_cancelled(execution) or rank.has_continued(execution):
        return
    _begun.add(execution)
    execute(rank, assignment, _shell())


def pass_over(is_process: bool = False) -> None:
    """Note that a run begins on lower ranks alone.

    Args:
        is_process: Whether it is a script, with which all ranks end.
    """
    _joined().pass_over()
    if is_process:
        _joined().end_beside()


def recover() -> bool:
    """Create new communicators after a failure; collective over the engine set."""
    return _joined().recover()


def warm_up() -> None:
    """Import the modules of a training cell, so that it begins at once."""
    preload()


def _joined() -> Rank:
    if _rank is None:
        raise RuntimeError("this engine has not joined a generation")
    return _rank


def _shell() -> Any:
    from IPython import get_ipython

    return get_ipython()
