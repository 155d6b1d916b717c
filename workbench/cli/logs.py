"""Print what ranks, engines and the supervisor wrote."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from workbench.cli.follow import TerminalView
from workbench.cli.screen import prefix
from workbench.core.metrics import FoldedLine
from workbench.core.run import Run
from workbench.errors import StateError
from workbench.store import Store
from workbench.store.home import cluster_directory
from workbench.view.following import follow
from workbench.view.record import Record

POLL_SECONDS = 0.1
TAIL_NBYTES = 16_384


class LogScreen:
    """Nothing but the lines of a run, as they are; what we say goes beside them."""

    def write(self, lines: Sequence[FoldedLine]) -> None:
        """Print lines with their ranks."""
        for line in lines:
            click.echo(f"{prefix(line.ranks)} {line.text}")

    def note(self, text: str) -> None:
        """Print a line of ours on stderr."""
        click.echo(text, err=True)

    def draw(self, record: Record, now: float, *, final: bool = False) -> None:
        """Show nothing of how far the run is."""


def print_output(store: Store, run: Run, only: int | None, going_on: bool) -> None:
    """Print the output of a run, folded; until it has ended, if asked to follow.

    Args:
        store: Where the output is.
        run: The run.
        only: The one rank whose output is wanted; None for all.
        going_on: Whether to wait for more.
    """
    view = TerminalView(run, LogScreen(), only)
    if going_on:
        follow(store, view)
    else:
        now = time.time()
        view.read(store, now)
        view.finish(store, now)


def print_supervisor_log(cluster: str, follow: bool) -> None:
    """Print the end of each log of ``cluster``; then what is added, if asked to follow.

    Raises:
        StateError: There is none.
    """
    folder = cluster_directory(cluster)
    ends = {path: max(0, path.stat().st_size - TAIL_NBYTES) for path in _logs(folder)}
    if not ends:
        raise StateError(f"Cluster {cluster!r} has no logs in {folder}; it was never started.")
    last: Path | None = None
    while True:
        for path in _logs(folder):
            start = ends.setdefault(path, 0)
            with path.open("rb") as file:
                file.seek(start)
                text = file.read()
            if text and path != last:
                click.echo(f"==> {path} <==")
                last = path
            click.echo(text, nl=False)
            ends[path] = start + len(text)
        if not follow:
            return
        time.sleep(POLL_SECONDS)


def _logs(folder: Path) -> list[Path]:
    """Return the logs of a cluster, the supervisor's first."""
    found = sorted(folder.rglob("*.log"), key=lambda path: path.stat().st_mtime)
    return sorted(found, key=lambda path: path.name != "supervisor.log")
