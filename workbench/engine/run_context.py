"""The run that this rank executes, for the hooks and for ``workbench.report``."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.engine.boundary import Boundaries
from workbench.engine.run_log import RunLog


@dataclass
class Current:
    """One run on this rank, while it lasts.

    Args:
        leader: The lowest rank on this rank's node.
    """

    log: RunLog
    boundaries: Boundaries = field(default_factory=Boundaries)
    iteration: int = 0
    source_name: str = ""
    leader: int = 0


_current: Current | None = None


def current() -> Current | None:
    """Return the present run, or None outside of one (such as in a script started by hand)."""
    return _current


def set_current(run: Current | None) -> None:
    """Enter or leave a run."""
    global _current  # noqa: PLW0603  # a process hosts one rank, and a rank one run at a time
    _current = run
