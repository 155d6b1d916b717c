"""The run that this rank executes, for the hooks and for ``workbench.report``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from workbench.engine.boundary import Boundaries
from workbench.engine.run_log import RunLog

if TYPE_CHECKING:
    from workbench.engine.snapshot.run_snapshots import RunSnapshots


@dataclass
class Current:
    """One run on this rank, while it lasts.

    Args:
        leader: The lowest rank on this rank's node.
        snapshots: Of the run's trainings; None if none are saved.
    """

    log: RunLog
    boundaries: Boundaries = field(default_factory=Boundaries)
    iteration: int = 0
    source_name: str = ""
    leader: int = 0
    snapshots: RunSnapshots | None = None


_current: Current | None = None


def current() -> Current | None:
    """Return the present run, or None outside of one (such as in a script started by hand)."""
    return _current


def set_current(run: Current | None) -> None:
    """Enter or leave a run."""
    global _current  # noqa: PLW0603  # a process hosts one rank, and a rank one run at a time
    _current = run
