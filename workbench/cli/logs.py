"""Print what ranks, engines and the supervisor wrote."""

from __future__ import annotations

import time
from pathlib import Path

import click

from workbench.cli.phrases import prefix
from workbench.cli.record import Record
from workbench.errors import StateError
from workbench.store import Store
from workbench.store.home import cluster_directory

POLL_SECONDS = 0.1
TAIL_NBYTES = 16_384


def print_output(store: Store, record: Record, follow: bool) -> None:
    """Print the output of a run, folded; until it has ended, if asked to follow.

    Args:
        store: Where the output is.
        record: The run, unread.
        follow: Whether to wait for more.
    """
    while True:
        now = time.time()
        record.read(store, now)
        final = record.run.fact.state.ended or not follow
        for line in record.output.take(now, final=final):
            click.echo(f"{prefix(line.ranks)} {line.text}")
        if final:
            return
        time.sleep(POLL_SECONDS)


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
