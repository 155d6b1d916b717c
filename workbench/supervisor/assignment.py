"""Build the assignment of a run to a generation, with a free port."""

from __future__ import annotations

import socket

from workbench.core.run.model import Assignment, Run
from workbench.store.paths import run_directory


def assignment_of(run: Run, *, data: str, output: str) -> Assignment:
    """Return the assignment of a run that was submitted.

    Args:
        data: Where each rank finds the data.
        output: Where it leaves what is to be kept; empty for nowhere.
    """
    wish = run.wish
    return Assignment(
        run=wish.id,
        kind=wish.kind,
        source=wish.source,
        path=wish.path,
        folder=wish.folder,
        arguments=wish.arguments,
        parameters=wish.parameters,
        environment=wish.environment,
        ranks=run.fact.ranks,
        directory=str(run_directory(wish.id)),
        master_port=_free_port(),
        data=data,
        output=output,
        name=wish.name,
    )


def _free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
