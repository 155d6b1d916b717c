"""Keep the store, the folders of runs and the logs small, a little at a time."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.core.recovery.parts import PartReports
from workbench.core.run.metrics import is_measured
from workbench.core.run.model import length
from workbench.core.run.rank_protocol import Batch, decode_message
from workbench.core.run_id import execution_id, is_run_id
from workbench.core.supervisor.log_messages import FORMAT, OWN
from workbench.errors import ProtocolError, Unknown, WorkbenchError
from workbench.requests.supervisor import FORMER_LOG_NAME
from workbench.store import SavedCurves, Store
from workbench.store.paths import owners_only

if TYPE_CHECKING:
    from workbench.core.curves import Curve


MOST_NBYTES = 1 << 20


# Fewer points after the saved ones are read by a view in half a second.
LEAST_POINTS = 250_000
POINTS_AT_ONCE = 20_000  # read in about 40 ms
CURVES_SECONDS = 60.0

log = logging.getLogger("workbench.supervisor")

PIECE_SECONDS = 1.0
LOOK_SECONDS = 3600.0
_AT_ONCE = 100  # batches


class Housekeeping:
    """Deletes runs after their retention, saves long curves, and stores the logs that ranks left.

    Args:
        cluster: The cluster whose ranks' logs are stored.
        standing: Returns the generations that have ranks, which still need their logs.
    """

    def __init__(self, store: Store, cluster: str, standing: Callable[[], Collection[int]]) -> None:
        self._store = store
        self._cluster = cluster
        self._standing = standing
        self._turned = self._looked = 0.0
        self._has_more = False
        self._logs: Iterator[None] = iter(())
        self._parts = PartReports()
        self._curves = CurveSaving(store, cluster)

    def turn(self, now: float, steady: float) -> None:
        """Do a piece of the work that is due.

        Args:
            now: Epoch seconds of a clock that does not jump.
            steady: Seconds of a monotonic clock.
        """
        if steady - self._turned < PIECE_SECONDS:
            return
        self._turned = steady
        self._curves.turn(steady)
        if not self._looked or steady - self._looked >= LOOK_SECONDS:
            self._looked, self._has_more = steady, True
            self._logs = self._store_left_logs()
            self._shorten_logs()
        if next(self._logs, self) is not self:
            return
        if self._has_more:
            self._has_more = self._store.removal.sweep() or self._end_one(now)

    def _end_one(self, now: float) -> bool:
        """Delete the oldest run if its retention is over; return whether there may be another."""
        retention, oldest = self._store.removal.retention(), self._store.removal.oldest()
        if oldest is None or not (retention.age or retention.nbytes):
            return False
        old = bool(retention.age) and now - oldest.ended > retention.age
        large = bool(retention.nbytes) and self._store.removal.usage().nbytes > retention.nbytes
        if not (old or large) or not self._store.removal.delete_run(oldest.id):
            return False
        ago = length(max(0.0, now - oldest.ended))
        log.info("Deleted run %r, which ended %s ago: %s.", oldest.name, ago, retention)
        return True

    def _shorten_logs(self) -> None:
        """Shorten the logs of controller and engines, which are not limited otherwise."""
        folder = self._store.path.parent / "clusters" / self._cluster / "profile" / "log"
        for path in folder.glob("ip*.log"):
            shorten(path)

    def _store_left_logs(self) -> Iterator[None]:
        """Store the logs of ranks that died before the store had all of them."""
        runs = self._store.path.parent / "runs"
        folders = sorted(runs.iterdir()) if runs.is_dir() else []
        for folder in folders:
            for path in _logs_of(folder) if is_run_id(folder.name) else []:
                if self._is_over(folder.name):
                    yield
                    self._take_in(path, folder.name)

    def read_left(self, run: str) -> None:
        """Store what the ranks of a lost world wrote into their logs on this machine."""
        for path in _logs_of(self._store.path.parent / "runs" / run):
            with contextlib.suppress(OSError, WorkbenchError):
                self._add(path, run)

    def _is_over(self, run: str) -> bool:
        with contextlib.suppress(Unknown):
            found = self._store.run(run)
            return (
                found.wish.cluster == self._cluster
                and found.fact.state.ended
                and found.fact.generation not in self._standing()
            )
        return False

    def _take_in(self, path: Path, run: str) -> None:
        """Store the part of a log that the store lacks, and delete the log with invalid lines."""
        try:
            self._add(path, run)
            path.unlink()
            with contextlib.suppress(OSError):
                path.parent.rmdir()
        except (OSError, WorkbenchError) as error:
            log.warning("%s is kept: %s", path, error)

    def _add(self, path: Path, run: str) -> None:
        rank, _, attempt = path.stem.removeprefix("rank-").partition("-")
        execution = execution_id(run, int(attempt) if attempt.isdecimal() else 1)
        for batches in _pieces(path, execution, rank):
            self._store.reports.add_batches(map(self._parts.count, batches))


def _logs_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("rank-*.log"))


def _pieces(path: Path, run: str, rank: str) -> Iterator[list[Batch]]:
    gathered: list[Batch] = []
    with path.open("rb") as file:
        for line in file:
            with contextlib.suppress(ProtocolError):
                batch = decode_message(line.rstrip(b"\n"))
                if isinstance(batch, Batch) and (batch.run, str(batch.rank)) == (run, rank):
                    gathered.append(batch)
            if len(gathered) == _AT_ONCE:
                yield gathered
                gathered = []
    yield gathered


@dataclass
class _Saving:
    """The curves of one run, as far as its points were read."""

    run: str
    redone: int
    last: int = 0
    points: int = 0
    curves: dict[str, Curve] = field(default_factory=dict)


class CurveSaving:
    """Saves the downsampled curves of a cluster's long runs, a piece at a time.

    A view reads half a million points a second, so it would need twenty seconds for ten million.

    Args:
        least: Number of new points from which on a run's curves are saved again.
    """

    def __init__(self, store: Store, cluster: str, least: int = LEAST_POINTS) -> None:
        self._store = store
        self._cluster = cluster
        self._least = least
        self._looked = -math.inf
        self._runs: list[str] = []
        self._saving: _Saving | None = None

    @property
    def is_busy(self) -> bool:
        """Whether points that are due were not read yet."""
        return self._saving is not None or bool(self._runs)

    def turn(self, steady: float) -> None:
        """Read a piece of the points that are due, and save the curves after the last one.

        Args:
            steady: Seconds of a monotonic clock.
        """
        if self._saving is None:
            if not self._runs and steady - self._looked >= CURVES_SECONDS:
                self._looked = steady
                self._runs = self._store.curves.runs_with_points(self._cluster, self._least)
            if self._runs:
                self._saving = self._begin(self._runs.pop())
        elif self._read(self._saving):
            self._save(self._saving)
            self._saving = None

    def _begin(self, run: str) -> _Saving:
        from workbench.core.curves import decode_curves  # NumPy, which is slow to load

        begun = _Saving(run, self._store.curves.count_redone(run))
        if saved := self._store.curves.read_saved(run):
            try:
                begun.curves = decode_curves(saved.document)
                begun.last, begun.points = saved.last, saved.points
            except ValueError:
                log.warning("run %s: its saved curves are damaged, and are made again", run)
        return begun

    def _read(self, saving: _Saving) -> bool:
        """Add some points to the curves; return whether these were the last ones."""
        from workbench.core.curves import PAGE_CAPACITY, Curve

        last, found = self._store.reports.point_columns(saving.run, saving.last, POINTS_AT_ONCE)
        saving.last = last
        for name, columns in found.items():
            if not is_measured(name):
                curve = saving.curves.setdefault(name, Curve(PAGE_CAPACITY))
                curve.add(columns.ranks, columns.iterations, columns.values)
                saving.points += len(columns.values)
        return sum(len(columns.values) for columns in found.values()) < POINTS_AT_ONCE

    def _save(self, saving: _Saving) -> None:
        from workbench.core.curves import encode_curves

        saved = SavedCurves(saving.last, saving.points, encode_curves(saving.curves))
        self._store.curves.save(saving.run, saved, saving.redone)


class LogFile(logging.StreamHandler):  # type: ignore[type-arg]  # its stream is stderr
    """A handler that writes to stderr, and starts a new file when the log is large.

    Libraries and the interpreter write to stderr too, so their messages are in the same file.

    Args:
        path: The file that stdout and stderr lead to; if they do not, no new file is started.
    """

    def __init__(self, path: Path, most: int = MOST_NBYTES) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(logging.Formatter(FORMAT))
        # CURVE protects the connections, in place of the signatures that Jupyter's sessions miss.
        self.addFilter(lambda record: "Message signing is disabled" not in str(record.msg))
        self._path = path
        self._most = most

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        super().emit(record)
        with contextlib.suppress(OSError):  # on a full disk the log stays as it is
            if os.fstat(2).st_size > self._most and os.path.samestat(
                os.fstat(2), self._path.stat()
            ):
                self._begin_again()

    def _begin_again(self) -> None:
        os.replace(self._path, self._path.with_name(FORMER_LOG_NAME))
        with open(self._path, "ab", opener=owners_only) as file:
            for standard in (1, 2):
                os.dup2(file.fileno(), standard)


def begin_log(path: Path) -> None:
    """Log everything of this process to a cluster's log."""
    logging.basicConfig(level=logging.INFO, handlers=[LogFile(path)])
    logging.getLogger(OWN).setLevel(logging.DEBUG)


def shorten(path: Path, most: int = MOST_NBYTES) -> None:
    """Drop the first half of a large log that other processes append to."""
    with contextlib.suppress(OSError), path.open("r+b") as file:
        if os.fstat(file.fileno()).st_size <= most:
            return
        file.seek(-most // 2, os.SEEK_END)
        kept = file.read().partition(b"\n")[2]
        file.truncate(0)
        file.seek(0)
        file.write(kept)
