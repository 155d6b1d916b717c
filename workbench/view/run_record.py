"""The data of one run, read incrementally from the store, for a view to draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from workbench.core.cluster.model import ClusterFact
from workbench.core.curves import DEFAULT_CAPACITY, Curve, decode_curves
from workbench.core.fleet.model import Node
from workbench.core.moment import is_due
from workbench.core.run.metrics import Pace, is_clock, is_measured
from workbench.core.run.model import Run, RunState
from workbench.store import OutputRow, Store
from workbench.view.state_line import reason, state_line

POINTS_AT_ONCE = 20_000
# Buckets of a stretch that a later attempt did again, and the attempts whose stretches are drawn.
REDONE_CAPACITY = 200
MOST_REDONE = 8
POINTS_SECONDS = 0.5  # curves are drawn no more often than once a second
PIECES_AT_ONCE = 5_000


class RunRecord:
    """The data of a run that was read so far.

    Args:
        run: The run as it was when reading began.
        capacity: Greatest number of buckets of each curve.
        after: Sequence number of output that is not read, nor what is before it.
    """

    def __init__(self, run: Run, capacity: int = DEFAULT_CAPACITY, *, after: int = 0) -> None:
        self.run = run
        self.cluster = ClusterFact(run.wish.cluster)
        self.before: tuple[Run, ...] = ()
        self.reclaimed: tuple[Node, ...] = ()  # of its cluster, with an interruption notice
        self.curves: dict[str, Curve] = {}
        self.redone: dict[int, dict[str, Curve]] = {}  # stretches by attempt and name
        self.points = 0
        self.version = 0
        self.rereads = 0  # how often the curves were read again, since the run was resumed
        self.pace = Pace()
        self._capacity = capacity
        self._point = 0
        self._points_read = 0.0
        self._piece = after
        self._is_redone_read = run.fact.attempt == 1

    def __repr__(self) -> str:
        return f"<Record of {self.run.wish.name}: {self.points} points>"

    @property
    def reason(self) -> str:
        """Why the run waits, or empty."""
        return reason(self.run, self.cluster, self.before)

    def line(self, now: float, remark: str = "", known: str = "") -> str:
        """Return the run's state line, with ``remark`` or else the reason of a wait.

        Args:
            known: A message that was shown before, and is left out while the run is active.
        """
        run = self.run
        if known and known == run.fact.message and not run.fact.state.ended:
            run = replace(run, fact=replace(run.fact, message=""))
        return state_line(run, now, remark or self.reason, self.pace.rate, self.reclaimed)

    def look(self, store: Store) -> None:
        """Read the state of the run, and what it waits for."""
        before, self.run = self.run.fact, store.run(self.run.id)
        after = self.run.fact
        if after.resumed_at >= 0 and after.resumed != before.resumed:
            self._read_again()
        cluster = self.run.wish.cluster
        self.reclaimed = () if after.state.ended else store.fleets.reclaimed_nodes(cluster)
        if after.state is RunState.QUEUED:
            self.cluster = store.cluster_fact(cluster)
            self.before = runs_before(self.run, store.list_unfinished(cluster))

    def _read_again(self) -> None:
        """Drop the curves: the points that are done again are no longer in them."""
        self.curves, self.points, self._point = {}, 0, 0
        self._points_read = 0.0
        self.version += 1
        self.rereads += 1
        self.redone, self._is_redone_read = {}, False

    def read(
        self, store: Store, now: float, points_seconds: float = POINTS_SECONDS
    ) -> Iterator[list[OutputRow]]:
        """Read what is new, and yield the new output in pieces.

        Args:
            now: Epoch seconds.
            points_seconds: Between two readings of points; all are read once the run has ended.
        """
        # The state first, so that everything written before a run's end is read after its end is
        # seen.
        self.look(store)
        if self.run.fact.iteration:
            self.pace.add(now, self.run.fact.iteration)
        if self.run.fact.state.ended or is_due(self._points_read, now, points_seconds):
            self._points_read = now
            self.read_points(store)
        while rows := store.reports.output(self.run.id, self._piece, PIECES_AT_ONCE):
            self._piece = rows[-1].sequence
            yield rows

    def read_points(self, store: Store) -> None:
        """Read the new points, except those of the step breakdown."""
        while self.read_some_points(store):
            pass

    def read_some_points(self, store: Store) -> bool:
        """Read at most ``POINTS_AT_ONCE`` new points; return whether there may be more.

        Each call increases the curves' version, which is stored in the changed buckets.
        """
        if not self._is_redone_read:
            self._read_redone(store)
        if not self._point:
            self._read_saved(store)
        last, found = store.reports.point_columns(self.run.id, self._point, POINTS_AT_ONCE)
        if last == self._point:
            return False
        self._point = last
        self.version += 1
        for name, columns in found.items():
            if is_measured(name):
                continue
            curve = self.curves.get(name)
            if curve is None:
                curve = self.curves[name] = Curve(self._capacity)
            curve.add(columns.ranks, columns.iterations, columns.values, version=self.version)
            self.points += len(columns.values)
        return sum(len(columns.values) for columns in found.values()) >= POINTS_AT_ONCE

    def _read_saved(self, store: Store) -> None:
        """Begin with the saved curves of a long run; they may have more buckets than these."""
        if (saved := store.curves.read_saved(self.run.id)) is None:
            return
        try:
            curves = decode_curves(saved.document, self.version + 1)
        except ValueError:  # the points are complete, and are read instead
            return
        if any(curve.capacity < self._capacity for curve in curves.values()):
            return
        self._point, self.points = saved.last, saved.points
        self.version += 1
        self.curves = {name: curve.thin(self._capacity) for name, curve in curves.items()}

    def _read_redone(self, store: Store) -> None:
        """Read the newest stretches that later attempts did again."""
        self._is_redone_read = True
        for attempt, found in store.reports.redone_points(self.run.id).items():
            drawn = {
                name: columns
                for name, columns in found.items()
                if not is_measured(name) and not is_clock(name)
            }
            if drawn and len(self.redone) < MOST_REDONE:
                self.version += not self.redone
                curves = self.redone[attempt] = {name: Curve(REDONE_CAPACITY) for name in drawn}
                for name, (ranks, iterations, values) in drawn.items():
                    curves[name].add(ranks, iterations, values, version=self.version)


def runs_before(run: Run, unfinished: list[Run]) -> tuple[Run, ...]:
    """Return those of ``unfinished``, oldest first, that go before ``run``."""
    identities = [other.id for other in unfinished]
    return tuple(unfinished[: identities.index(run.id)]) if run.id in identities else ()


def curves_of(store: Store, run: Run) -> dict[str, Curve]:
    """Return the curves of ``run`` by name."""
    record = RunRecord(run)
    record.read_points(store)
    return record.curves


def failed_attempts(store: Store, run: Run) -> tuple[str, ...]:
    """Return a line for each attempt of a run that failed and was followed by another, in order."""
    past = store.attempts.past(run.id) if run.fact.attempt > 1 else []
    return tuple(
        f"Attempt {one.number:,} failed at iteration {one.failed_at:,}: "
        f"{one.failure or one.message}"
        for one in past
        if one.failed
    )
