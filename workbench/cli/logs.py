"""Print the output of ranks, and the logs of engines and the supervisor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import click

from workbench.cli.terminal import TerminalRunView, prefix
from workbench.core.run.metrics import FoldedLine
from workbench.core.run.model import Run
from workbench.core.supervisor.log_messages import LogFilter
from workbench.errors import StateError
from workbench.requests.supervisor import FORMER_LOG_NAME, LOG_NAME
from workbench.store import Store
from workbench.store.paths import cluster_directory
from workbench.view.following import follow
from workbench.view.run_record import RunRecord
from workbench.view.transcript import LineReader, render_line

POLL_SECONDS = 0.1
TAIL_NBYTES = 65_536  # enough for a screen of sentences between lines for developers
RAW_NBYTES = 16_384
LONGEST_LINE = 2_000


class LogScreen:
    """Print a run's output unchanged on stdout, and our messages on stderr."""

    def write(self, lines: Sequence[FoldedLine]) -> None:
        """Print lines with their ranks."""
        if lines:  # in one write: a run may have printed millions
            click.echo("\n".join(f"{prefix(line.ranks)} {line.text}" for line in lines))

    def heading(self, text: str) -> None:
        """Print the heading of what follows."""
        click.echo(text)

    def note(self, text: str) -> None:
        """Print a message on stderr."""
        click.echo(text, err=True)

    def draw(self, record: RunRecord, now: float, *, final: bool = False) -> None:
        """Show no progress."""


def print_output(store: Store, run: Run, only: int | None, is_followed: bool) -> None:
    """Print the output of a run with identical lines folded, optionally until the run has ended.

    Args:
        store: Where the output is.
        run: The run.
        only: The one rank whose output is wanted; None for all.
        is_followed: Whether to follow the run until it has ended.
    """
    view = TerminalRunView(run, LogScreen(), only)
    if is_followed:
        follow(store, view)
    else:
        now = time.time()
        view.read(store, now)
        view.finish(store, now)


def print_traceback(run: Run) -> None:
    """Print the whole traceback of the rank that failed first.

    Raises:
        StateError: No rank failed.
    """
    fact = run.fact
    if not fact.error:
        raise StateError(
            f"No rank of run {run.wish.name!r} failed",
            "see the states of all runs with `workbench runs`.",
        )
    click.echo(fact.traceback or fact.error)


def print_supervisor_log(cluster: str, follow: bool, least: str) -> None:
    """Print the log of the supervisor of ``cluster``, optionally following it.

    Args:
        least: The lowest level to print, as ``core.supervisor.log_messages`` has them.

    Raises:
        StateError: There is no log.
    """
    path = cluster_directory(cluster) / LOG_NAME
    if not path.exists():
        raise _no_logs(cluster)
    telling, reader = LogFilter(least), LineReader()
    former = [one for one in (path.with_name(FORMER_LOG_NAME),) if one.exists()]
    ends = _read_appended(lambda: former, TAIL_NBYTES, follow=False)
    for _, text in chain(ends, _read_appended(lambda: [path], TAIL_NBYTES, follow)):
        for line in reader.feed(text, LONGEST_LINE):
            if (said := telling.line(line)) is not None:
                click.echo(said)


def print_raw_logs(cluster: str, pattern: str, follow: bool) -> None:
    """Print the end of each raw log of a cluster's world, optionally following it.

    Args:
        pattern: Which files.

    Raises:
        StateError: There is no such log.
    """
    folder = cluster_directory(cluster)

    def paths() -> list[Path]:
        return sorted(folder.rglob(pattern), key=lambda path: path.stat().st_mtime)

    if not paths():
        raise _no_logs(cluster)
    last: Path | None = None
    for path, text in _read_appended(paths, RAW_NBYTES, follow):
        if path != last:
            click.echo(f"==> {path} <==")
            last = path
        click.echo("\n".join(map(render_line, text.split("\n"))), nl=False)


def _no_logs(cluster: str) -> StateError:
    folder = cluster_directory(cluster)
    return StateError(f"Cluster {cluster!r} has no logs in {folder}", "it was never started.")


def _read_appended(
    paths: Callable[[], list[Path]], tail: int, follow: bool
) -> Iterator[tuple[Path, str]]:
    """Yield the ends of files from the start of a line, then what is appended.

    A file that has become shorter is read from its start.
    """
    ends: dict[Path, int] = {}
    is_first = True
    while True:
        for path in paths():
            size = path.stat().st_size
            start = ends.get(path, max(0, size - tail) if is_first else 0)
            with path.open("rb") as file:
                file.seek(start if start <= size else 0)
                text = file.read()
            ends[path] = (start if start <= size else 0) + len(text)
            if is_first and start:
                text = text.partition(b"\n")[2]
            if text:
                yield path, text.decode(errors="replace")
        if not follow:
            return
        is_first = False
        time.sleep(POLL_SECONDS)
