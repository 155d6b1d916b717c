"""Save one training at some of its iteration boundaries, and resume it; for any framework."""

from __future__ import annotations

import functools
import os
import pickle
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from msgspec.structs import replace as replace_fields

from workbench.core.recovery.snapshots import (
    FIRST_ITERATIONS,
    Age,
    SnapshotManifest,
    estimate_displaced,
    interval,
)
from workbench.core.run.rank_protocol import Event, PointsSaved, SnapshotSaved
from workbench.core.run.run_options import EVERY_VARIABLE
from workbench.engine.framework import library_versions
from workbench.engine.reporting.run_log import RunLog, join_points
from workbench.engine.snapshot.folder import Write
from workbench.engine.snapshot.peers import Peers
from workbench.engine.snapshot.pieces import Layout, PieceExchange, SavedPieces
from workbench.engine.snapshot.saved_bytes import SavedBytes
from workbench.engine.snapshot.state import SavedState, restore_random
from workbench.engine.snapshot.writer import Contents, SnapshotWriter
from workbench.errors import StateError

RANKS = "ranks.pickle"
"""The file with each rank's own state."""

_NEVER = 1 << 62
_OF_ANOTHER = (AttributeError, ImportError, KeyError, RuntimeError, TypeError, ValueError)
# How often the ranks hear from rank 0 whether a snapshot is wanted soon: seldom enough to cost a
# ten-thousandth of the time, and often enough for notices that come a minute or two ahead.
LISTEN_SECONDS = 2.0
# Epochs: less comes from batches that reach over the end of one.
EPOCH_CHANGE = 0.05
# From the second iteration on, the optimizers have all their arrays.
ALLOCATED_ITERATIONS = 2


@dataclass(frozen=True)
class SaveStatus:
    """What a rank sends the others before a snapshot.

    Args:
        step: Seconds of an iteration.
        lifetime: See ``interval``; all ranks use that of rank 0.
        busy: Whether its node still writes the snapshot before.
        error: Why it cannot save; empty if it can.
        cost: Seconds that a snapshot costs it.
        sample: Of the common state.
        waited: Seconds until the memory for the first copy was allocated.
        written: The age of the last snapshot that its node has written; None on other ranks.
        layout: What it has of a divided state; None if the others know it.
    """

    iteration: int
    step: float
    lifetime: float
    busy: bool = False
    error: str = ""
    cost: float = 0.0
    sample: dict[str, Any] = field(default_factory=dict)
    waited: float = 0.0
    written: Age | None = None
    layout: Layout | None = None


class SnapshotRun(Protocol):
    """What a training needs of its run; see ``RunSnapshots``."""

    run: str
    attempt: int
    generation: int
    log: RunLog
    writer: SnapshotWriter
    replays: bool
    is_asked: bool

    @property
    def lifetime(self) -> float:
        """The mean seconds between the losses that the run has had so far; infinite for none."""
        ...

    def remark(self, text: str) -> None:
        """Write a line for the user."""


class SavedTraining:
    """One training of a run.

    Synchronous ranks pass the same boundaries, so all of them save at the same one without
    messages between. Each snapshot settles the iteration of the next. In between they hear from
    rank 0 at settled iterations whether one is wanted soon: a message to each of them might reach
    one too late, which would then wait for the others in another place.

    Args:
        number: Of the training within the run, from 1.
    """

    def __init__(self, run: SnapshotRun, state: SavedState, number: int, peers: Peers) -> None:
        self.number = number
        self.pause: Callable[[], AbstractContextManager[None]] = nullcontext
        """Excludes what happens in the context from the times of steps."""
        self.resumed: SnapshotManifest | None = None
        """The snapshot that the training continues from."""
        self.look_at = 0
        """The iteration from which on ``passed`` has something to do, unless the run stops."""
        self.peers = peers
        self._owns: list[Any] = []  # of the snapshot's ranks, until the training begins
        self._run, self.state = run, state
        self._next, self._listens, self._marked = 0, 0, (0, 0.0)
        self._allocates, self._used = 0, 0.0
        self._stall = self._waited = self._recurring = 0.0
        self._exchange = PieceExchange(peers) if state.pieces is not None else None
        self._divided: dict[str, Any] = {}
        self._complete: Age | None = None

    def resume(
        self,
        manifest: SnapshotManifest,
        contents: dict[str, SavedBytes],
        saved: SavedPieces | None = None,
    ) -> list[str]:
        """Continue from a snapshot; return what is not exact.

        Args:
            saved: What was divided among its ranks; None if nothing was.

        Raises:
            StateError: It is one of another model or optimizer.
        """
        rank, ranks = self.peers.rank, self.peers.size
        self.resumed, self._complete = manifest, manifest.age

        def restore() -> list[str]:
            self._owns = _read_owns(manifest, contents[RANKS])
            return self.state.restore(contents, self._owns, rank, ranks, saved)

        remarks = self.restore_by(restore)
        now = self.state.epoch
        if manifest.ranks != ranks and abs(now - manifest.epoch) >= EPOCH_CHANGE:
            remarks.append(
                f"an epoch is another one on {ranks} ranks than on {manifest.ranks}: epoch "
                f"{manifest.epoch:.2f} → {now:.2f}, so the training visits its examples more or "
                "less often than it was to"
            )
        return remarks

    def restore_by(self, restore: Callable[[], list[str]]) -> list[str]:
        """Return what ``restore`` does, which reads the snapshot that the training continues from.

        Raises:
            StateError: It is one of another model or optimizer.
        """
        try:
            return restore()
        except _OF_ANOTHER as error:
            iteration = self.resumed.iteration if self.resumed is not None else 0
            raise StateError(
                f"The snapshot at iteration {iteration} is not of this training ({error!r:.300})",
                "resume with the model, the optimizer and the updater that it was saved from.",
            ) from error

    @property
    def is_replay(self) -> bool:
        """Whether an earlier run is repeated, so that the training ends where it ended then."""
        return self._run.replays

    @property
    def was_stopped(self) -> bool:
        """Whether the run that is repeated was stopped in this training."""
        return self._run.replays and self.resumed is not None and not self.resumed.final

    def continue_random(self) -> None:
        """Continue the random numbers of a snapshot, once nothing else draws any."""
        owns, self._owns = self._owns, []
        if owns:
            restore_random([one["random"] for one in owns], self.peers.rank, self.state.iteration)

    def undelivered(self) -> list[Event]:
        """Return what this rank is to tell of the snapshot's ranks, before its random numbers."""
        reported = [event for own in self._owns for event in own.get("undelivered", ())]
        iteration = self.resumed.iteration if self.resumed is not None else 0

        def teller(event: Event) -> int:
            rank = event.rank if isinstance(event, PointsSaved) else 0
            return rank if rank < self.peers.size else 0

        return [one for one in join_points(reported, iteration) if teller(one) == self.peers.rank]

    def begin(self) -> None:
        """Count from here; the training has been resumed if it was to be."""
        first = self.state.iteration
        self._next = _NEVER if self._run.replays else first + FIRST_ITERATIONS
        self.look_at = self._allocates = self._listens = first + ALLOCATED_ITERATIONS
        self._mark(first)

    def passed(self, *, is_due: bool) -> None:
        """Save the training at this boundary if it is time.

        Args:
            is_due: Whether the run stops at this boundary.
        """
        iteration = self.state.iteration
        if iteration == self._allocates and self.peers.is_leader:
            self._run.writer.prepare(self.state.memory())
        if is_due or iteration >= self._next or self._is_asked(iteration):
            self._save(waits=is_due)
        self.look_at = _NEVER if self._next == _NEVER else min(self._next, self._listens)

    def end(self, *, totals_reached: bool) -> None:
        """Save the training, which has ended.

        Args:
            totals_reached: Whether because all iterations or epochs are done.
        """
        self._save(waits=True, final=True, totals_reached=totals_reached)

    def _is_asked(self, iteration: int) -> bool:
        """Return whether a snapshot is wanted at this boundary; collective where it is settled."""
        if iteration < self._listens or self._next == _NEVER:
            return False
        with self.pause():
            every = max(1, int(LISTEN_SECONDS / self._step(time.perf_counter())))
            is_asked, every = self.peers.gather((self._run.is_asked, every))[0]
        self._listens = iteration + every
        return bool(is_asked)

    def _save(self, *, waits: bool, final: bool = False, totals_reached: bool = False) -> None:
        """Save the training; collective.

        Args:
            waits: Whether to wait for the snapshot before, if it is still being written.
        """
        if self._next == _NEVER:
            return
        with self.pause():
            begun = time.perf_counter()
            iteration, step = self.state.iteration, self._step(begun)
            for visited in self.state.count_visits(self.number):
                if self.peers.rank == 0:
                    self._run.log.tell(visited)
            common, own, status = self._capture(step, waits=waits)
            if self._agree(status):
                self._run.is_asked = False
                owns = self.peers.gather_to_leaders(own)
                pieces = self._collect()
                self._stall = time.perf_counter() - begun
                self._recurring = self._stall - self._waited
                if common is not None:
                    manifest = self._manifest(final, totals_reached)
                    files = functools.partial(self._files, common, owns)
                    self._run.writer.start(
                        self._parts(manifest, files, pieces),
                        common,
                        self._build_report(),
                        is_awaited=waits and not final,
                        complete=self._complete,
                    )
            self._mark(iteration)

    def _files(self, common: dict[str, Any], owns: Sequence[bytes]) -> dict[str, Write]:
        ranks: Write = functools.partial(pickle.dump, list(owns))
        return {**self.state.files(common, owns), RANKS: ranks}

    def _collect(self) -> dict[int, dict[str, Any]]:
        """Return the pieces of each part that this rank saves; collective."""
        form, divided, self._divided = self.state.pieces, self._divided, {}
        if form is None or self._exchange is None or not self._exchange.parts:
            return {}
        return self._exchange.collect(functools.partial(form.copy, divided), form.settle)

    def _parts(
        self, manifest: SnapshotManifest, files: Contents, pieces: dict[int, dict[str, Any]]
    ) -> list[tuple[SnapshotManifest, Contents]]:
        """Return what this node writes: the whole state, unless it is divided."""
        form, exchange = self.state.pieces, self._exchange
        if form is None or exchange is None or not exchange.parts:
            return [(manifest, files)]

        def contents(part: int) -> Mapping[str, Write]:
            return {**form.files(part, exchange.layout, pieces[part]), **files()}

        parts = len(exchange.parts)
        return [
            (replace_fields(manifest, part=part, parts=parts), functools.partial(contents, part))
            for part in pieces
        ]

    def _capture(
        self, step: float, *, waits: bool
    ) -> tuple[dict[str, Any] | None, bytes, SaveStatus]:
        writer, is_leader = self._run.writer, self.peers.is_leader
        begun, iteration = time.perf_counter(), self.state.iteration
        known = SaveStatus(iteration, step, self._run.lifetime)
        self.state.settle()
        if waits:
            writer.wait()
        if writer.is_busy:
            return None, b"", replace(known, busy=True, cost=self._cost(begun))
        asked = time.perf_counter()
        spare = writer.spare if is_leader else None
        waited = time.perf_counter() - asked
        begun += waited  # once: later snapshots do not cost that
        try:
            common, own = self.state.capture(spare)
            own["undelivered"] = self._run.log.undelivered(iteration)
            content, error = pickle.dumps(own, pickle.HIGHEST_PROTOCOL), ""
            sample = self.state.sample()
            self._divided, layout = self.state.divided(), None
            if self._exchange is not None and self.state.pieces is not None:
                layout = self.state.pieces.describe(self._divided)
        except Exception as problem:  # noqa: BLE001  # code of the user; the training continues
            common, content, error, sample = None, b"", repr(problem)[:300], {}
            layout = None
        cost = self._cost(begun)
        status = replace(
            known,
            error=error,
            cost=cost,
            sample=sample,
            waited=waited,
            written=writer.written,
            layout=self._exchange.news(layout) if self._exchange and layout is not None else None,
        )
        return common, content, status

    def _agree(self, own: SaveStatus) -> bool:
        """Decide with all ranks whether to save here, and when to save next; collective."""
        ranks: list[SaveStatus] = self.peers.gather(own)
        cost = max(one.cost for one in ranks)
        self._waited = max(one.waited for one in ranks)
        most = float(os.environ.get(EVERY_VARIABLE, "inf"))
        self._next = own.iteration + interval(
            cost, ranks[0].step, self.peers.nodes, ranks[0].lifetime, most
        )
        if self._exchange is not None:
            self._exchange.learn([one.layout for one in ranks])
            written = self._exchange.written_by_all([one.written for one in ranks])
            self._complete = written or self._complete
        error = next((one.error for one in ranks if one.error), "")
        if not error and not any(one.busy for one in ranks):
            error = self.state.difference([one.sample for one in ranks])
        if error:
            self._next = _NEVER
            if self.peers.rank == 0:
                self._run.remark(f"no snapshots of this training are saved ({error})")
            return False
        return not any(one.busy or one.iteration != own.iteration for one in ranks)

    def _cost(self, begun: float) -> float:
        """Return the seconds of training that a snapshot costs."""
        stall = max(self._recurring, time.perf_counter() - begun)
        used = (time.process_time() - self._used) / max(begun - self._marked[1], 1e-3)
        cores = len(os.sched_getaffinity(0))
        if cores >= (os.cpu_count() or 1):  # the ranks of the node share them
            used *= self.peers.local_size
        return stall + estimate_displaced(self._run.writer.busy_seconds, used, cores)

    def _mark(self, iteration: int) -> None:
        """Begin to measure the time of iterations, and the cores in use."""
        self._marked, self._used = (iteration, time.perf_counter()), time.process_time()

    def _step(self, now: float) -> float:
        iteration, moment = self._marked
        done = self.state.iteration - iteration
        return (now - moment) / max(1, done)

    def _manifest(self, final: bool, totals_reached: bool) -> SnapshotManifest:
        state, run = self.state, self._run
        return SnapshotManifest(
            run=run.run,
            attempt=run.attempt,
            generation=run.generation,
            training=self.number,
            iteration=state.iteration,
            epoch=state.epoch,
            ranks=self.peers.size,
            final=final,
            totals_reached=totals_reached,
            versions=(("python", platform.python_version()), *library_versions()),
        )

    def _build_report(self) -> Callable[[Sequence[SnapshotManifest]], None]:
        """Return what the writer does when all is written here: rank 0 reports it.

        Of a divided state each rank that writes reports, with the bytes of the parts that are
        first here.
        """
        log, stall, rank = self._run.log, max(0.0, self._stall), self.peers.rank
        parts = self._exchange.parts if self._exchange is not None else ()
        savers = tuple(one.nodes for one in parts) if self.peers.nodes > 1 else ()
        leaders = self.peers.leaders
        reporters = sorted({leaders[node] for part in savers for node in part})

        def report(written: Sequence[SnapshotManifest]) -> None:
            if rank == 0 or rank in reporters:
                nbytes = sum(
                    file.nbytes
                    for one in written
                    if not reporters or leaders[savers[one.part][0]] == rank
                    for file in one.files
                )
                saved = SnapshotSaved(written[0].iteration, stall, nbytes, savers, (*reporters,))
                log.tell(saved)

        return report


def _read_owns(manifest: SnapshotManifest, content: SavedBytes) -> list[Any]:
    """Return the own state of each rank of a snapshot.

    Raises:
        StateError: An older version of workbench has saved it.
    """
    try:
        with content.open() as file:
            owns = [pickle.loads(one) for one in pickle.load(file)]
        if all(isinstance(one, dict) and "iteration" in one for one in owns):
            return owns
    except ImportError as error:
        if not (error.name or "").startswith("workbench."):
            raise
    raise StateError(
        f"The snapshot at iteration {manifest.iteration} was saved by an older version of "
        "workbench, which this one cannot read",
        "start it as a new run, or resume it with that version.",
    )
