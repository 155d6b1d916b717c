"""Save one training at some of its iteration boundaries, and resume it."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import pickle
import platform
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.core.run.snapshots import (
    FIRST_ITERATIONS,
    NBYTES_NAME,
    SECONDS_NAME,
    SnapshotManifest,
    displaced,
    interval,
)
from workbench.engine.run_log import RunLog
from workbench.engine.snapshot.peers import Peers
from workbench.engine.snapshot.plain_values import PlainValues
from workbench.engine.snapshot.state import (
    Arrays,
    OwnState,
    capture,
    layout,
    restore,
    restore_random_states,
)
from workbench.engine.snapshot.writer import SnapshotWriter, decoded
from workbench.engine.training_length import training_length
from workbench.errors import StateError

_NEVER = 1 << 62
# From the second iteration on, the optimizers have all their arrays.
ALLOCATED_ITERATIONS = 2
_DISTRIBUTIONS = ("chainer", "numpy", "workbench")


@dataclass(frozen=True)
class SaveStatus:
    """What a rank sends the others before a snapshot.

    Args:
        busy: Whether its node still writes the snapshot before.
        error: Why it cannot save; empty if it can.
        cost: Seconds that a snapshot costs it.
        step: Seconds of an iteration.
    """

    iteration: int
    busy: bool
    error: str
    cost: float
    step: float


class SnapshotRun(Protocol):
    """What a training needs of its run; see ``RunSnapshots``."""

    run: str
    attempt: int
    generation: int
    log: RunLog
    writer: SnapshotWriter

    def remark(self, text: str) -> None:
        """Write a line for the user."""


class SavedTraining:
    """One training of a run.

    Synchronous ranks pass the same boundaries, so all of them save at the same one without
    messages between. Each snapshot settles the iteration of the next.

    Args:
        number: Of the training within the run, from 1.
    """

    def __init__(self, run: SnapshotRun, trainer: Any, number: int, peers: Peers) -> None:
        self.number = number
        self.paused: Callable[[], AbstractContextManager[None]] = nullcontext
        """Excludes what happens in the context from the times of steps."""
        self._run, self._trainer, self._peers = run, trainer, peers
        self._plain = PlainValues(trainer)
        self._has_begun, self._next, self._marked = False, 0, (0, 0.0)
        self._allocates, self._used = 0, 0.0
        self._stall = 0.0
        self._resumed: SnapshotManifest | None = None
        self._owns: list[OwnState] = []

    def resume(self, manifest: SnapshotManifest, contents: dict[str, bytearray]) -> list[str]:
        """Continue from a snapshot; return what is not exact.

        Raises:
            StateError: It is one of another model or optimizer.
        """
        peers, trainer = self._peers, self._trainer
        common, self._owns = decoded(contents)
        try:
            remarks = restore(trainer, self._plain, common, self._owns, peers.rank, peers.size)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"The snapshot at iteration {manifest.iteration} is not of this training "
                f"({error!r:.300})",
                "resume with the model, the optimizer and the updater that it was saved from.",
            ) from error
        self._resumed = manifest
        return remarks

    def ends(self, original: Callable[[Any], bool], *, is_due: bool) -> bool:
        """Return whether the training ends at this boundary; save it here if it is time.

        Args:
            original: The trainer's stop trigger.
            is_due: Whether the run stops at this boundary.
        """
        trainer = self._trainer
        iteration = trainer.updater.iteration
        if not self._has_begun:
            return self._begin(original) or is_due
        if iteration == self._allocates and self._peers.is_leader:
            self._run.writer.prepare(layout(trainer))
        if is_due or iteration >= self._next:
            # Before the stop trigger is asked, which may keep what it has seen.
            self._save(waits=is_due)
        if is_due:
            return True
        if not original(trainer):
            return False
        self._save(waits=True, totals=training_length(original))
        return True

    def _begin(self, original: Callable[[Any], bool]) -> bool:
        """Return whether the training has ended before its first iteration here."""
        trainer, manifest = self._trainer, self._resumed
        # An extension that loads a snapshot of its own has done so by now.
        first = trainer.updater.iteration
        self._has_begun, self._next = True, first + FIRST_ITERATIONS
        self._allocates = first + ALLOCATED_ITERATIONS
        self._mark(first)
        if manifest is None:
            return bool(original(trainer))
        # The extensions have been initialized, so the next random number is the training's.
        restore_random_states(self._owns, self._peers.rank, first)
        self._owns = []
        iterations, epochs = training_length(original)
        if not manifest.final or not (iterations or epochs):
            return bool(original(trainer))
        return not manifest.totals_reached or self._has_reached(iterations, epochs)

    def _has_reached(self, iterations: int, epochs: float) -> bool:
        updater = self._trainer.updater
        if iterations:
            return bool(updater.iteration >= iterations)
        return bool(epochs and updater.epoch_detail >= epochs)

    def _save(self, *, waits: bool, totals: tuple[int, float] | None = None) -> None:
        """Save the training; collective.

        Args:
            waits: Whether to wait for the snapshot before, if it is still being written.
            totals: The training's length, if it has ended.
        """
        if self._next == _NEVER:
            return
        with self.paused():
            begun = time.perf_counter()
            iteration, step = self._trainer.updater.iteration, self._step(begun)
            common, own, status = self._captured(step, waits=waits)
            if self._agree(status):
                owns = self._peers.gather_to_leaders(own)
                self._stall = time.perf_counter() - begun
                if common is not None:
                    self._run.writer.start(self._manifest(totals), common, owns, self._saved())
            self._mark(iteration)

    def _captured(self, step: float, *, waits: bool) -> tuple[Arrays | None, bytes, SaveStatus]:
        trainer, writer, is_leader = self._trainer, self._run.writer, self._peers.is_leader
        begun, iteration = time.perf_counter(), trainer.updater.iteration
        for optimizer in trainer.updater.get_all_optimizers().values():
            if hasattr(type(optimizer), "held_back"):
                optimizer.held_back()  # its exchange may end with an error of the training
        if waits:
            writer.wait()
        if writer.is_busy:
            return None, b"", SaveStatus(iteration, True, "", self._cost(begun), step)
        spare = writer.spare if is_leader else None
        try:
            common, own = capture(trainer, self._plain, spare)
            content, error = pickle.dumps(own, pickle.HIGHEST_PROTOCOL), ""
        except Exception as problem:  # noqa: BLE001  # code of the user; the training continues
            common, content, error = None, b"", repr(problem)[:300]
        return common, content, SaveStatus(iteration, False, error, self._cost(begun), step)

    def _agree(self, own: SaveStatus) -> bool:
        """Decide with all ranks whether to save here, and when to save next; collective."""
        ranks: list[SaveStatus] = self._peers.gather(own)
        cost = max(one.cost for one in ranks)
        self._next = own.iteration + interval(cost, ranks[0].step, self._peers.nodes)
        if error := next((one.error for one in ranks if one.error), ""):
            self._next = _NEVER
            if self._peers.rank == 0:
                self._run.remark(f"no snapshots of this training are saved ({error})")
            return False
        return not any(one.busy or one.iteration != own.iteration for one in ranks)

    def _cost(self, begun: float) -> float:
        """Return the seconds of training that a snapshot costs."""
        stall = max(self._stall, time.perf_counter() - begun)
        used = (time.process_time() - self._used) / max(begun - self._marked[1], 1e-3)
        cores = len(os.sched_getaffinity(0))
        if cores >= (os.cpu_count() or 1):  # the ranks of the node share them
            used *= self._peers.local_size
        return stall + displaced(self._run.writer.busy_seconds, used, cores)

    def _mark(self, iteration: int) -> None:
        """Begin to measure the time of iterations, and the cores in use."""
        self._marked, self._used = (iteration, time.perf_counter()), time.process_time()

    def _step(self, now: float) -> float:
        iteration, moment = self._marked
        done: int = self._trainer.updater.iteration - iteration
        return (now - moment) / max(1, done)

    def _manifest(self, totals: tuple[int, float] | None) -> SnapshotManifest:
        updater, run = self._trainer.updater, self._run
        return SnapshotManifest(
            run=run.run,
            attempt=run.attempt,
            generation=run.generation,
            training=self.number,
            iteration=updater.iteration,
            epoch=float(getattr(updater, "epoch_detail", 0.0)),
            ranks=self._peers.size,
            final=totals is not None,
            totals_reached=totals is not None and self._has_reached(*totals),
            versions=(("python", platform.python_version()), *_versions()),
        )

    def _saved(self) -> Callable[[SnapshotManifest], None]:
        """Return what the writer does when the snapshot is complete: rank 0 reports it."""
        log, stall, rank = self._run.log, self._stall, self._peers.rank

        def report(manifest: SnapshotManifest) -> None:
            if rank == 0:
                nbytes = sum(one.nbytes for one in manifest.files)
                values = ((SECONDS_NAME, stall), (NBYTES_NAME, float(nbytes)))
                log.add_all(manifest.iteration, values)

        return report


@functools.cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = []
    for name in _DISTRIBUTIONS:
        with suppress(importlib.metadata.PackageNotFoundError):
            found.append((name, importlib.metadata.version(name)))
    return tuple(found)
