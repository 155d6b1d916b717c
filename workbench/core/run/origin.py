"""Where a run was requested: its notebook, the commit of its folder, and the caller's variables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Origin:
    """Where a run was requested.

    Args:
        notebook: The notebook's absolute path; empty for a shell's.
        commit: The commit that the run's folder was at; empty without git.
        environment: Variables of the caller that differ from those of the cluster's ranks; None
            for one that the caller has not.
    """

    notebook: str = ""
    commit: str = ""
    environment: tuple[tuple[str, str | None], ...] = ()


NOWHERE = Origin()
"""That of a run about which nothing is known."""
