"""The data that pages need to follow one run, read once for all pages.

A page sends the version of its curves, and gets the buckets that have changed since. So a slow page
gets fewer, larger updates, and nothing queues up.
"""

from __future__ import annotations

import secrets
from itertools import islice
from typing import cast

from workbench.analysis.step_breakdown import NOTHING_KNOWN, read_breakdown
from workbench.core.curves import PAGE_CAPACITY, Curve
from workbench.core.moment import is_due
from workbench.core.run.display import size_of
from workbench.core.run.metrics import MOST_DRAWN, is_clock, is_measured
from workbench.pages.frames import FrameSeries, encode_frame
from workbench.pages.messages import NO_DETAILS, clock_of, read_details, run_message, steps_message
from workbench.pages.protocol import (
    DisplayedMessage,
    OutputMessage,
    Piece,
    RunMessage,
    StepsMessage,
)
from workbench.store import Store
from workbench.view.run_record import RunRecord

STEPS_SECONDS = 1.0
VALUES_SECONDS = 0.5
CLOCK_SECONDS = 5.0
OUTPUT_CHARACTERS = 256_000
_PIECES_AT_ONCE = 500


class Feed:
    """The feed of one run, for all its pages.

    Args:
        store: Where it is read from; used by one thread at a time.
        run: The run's id.
        capacity: Greatest number of buckets of each curve.
        record: An existing record to share; its owner then calls ``read``, and ``refresh`` after
            it.

    Raises:
        Unknown: No run has this id.
    """

    def __init__(
        self, store: Store, run: str, capacity: int = PAGE_CAPACITY, record: RunRecord | None = None
    ) -> None:
        self.identity = secrets.token_hex(8)
        self.behind = False
        self.ended = False
        self._store = store
        self._record = record or RunRecord(store.run(run), capacity)
        self._anatomy = self._said = NOTHING_KNOWN
        self._steps: StepsMessage | None = None  # of the anatomy that was said last
        self._marked = 0  # version in which the slowest rank changed
        self._steps_read = self._values_read = self._clock_read = 0.0
        self._details = NO_DETAILS
        self._clock: tuple[tuple[int, float], ...] = ()
        self._rereads = self._record.rereads

    def __repr__(self) -> str:
        return f"<Feed of {self._record.run.wish.name}, version {self.version}>"

    @property
    def version(self) -> int:
        """The newest version of the curves; 0 without any."""
        return self._record.version

    @property
    def lasting(self) -> tuple[object, ...]:
        """The run and what it waits for, without its progress."""
        record = self._record
        fact = {**vars(record.run.fact), "iteration": 0, "epoch": 0.0}
        return record.run.wish, fact, record.reason, record.reclaimed

    def read(self, now: float, *, with_state: bool = True) -> bool:
        """Read what is new, and return whether there was any.

        ``behind`` is true if there was more than is read at once.

        Args:
            now: Epoch seconds.
            with_state: Whether to read the state of the run and its cluster too, and not only
                points.
        """
        record, store = self._record, self._store
        # The state first, so that everything written before a run's end is read after its end is
        # seen.
        before = record.run, record.reason, record.version, record.reclaimed
        if with_state:
            record.look(store)
        if with_state and record.run.fact.iteration:
            record.pace.add(now, record.run.fact.iteration)
        self.behind = record.read_some_points(store)
        self.refresh(now)
        return (record.run, record.reason, record.version, record.reclaimed) != before

    def refresh(self, now: float) -> None:
        """Read what changes more slowly than the points.

        Args:
            now: Epoch seconds.
        """
        record, store = self._record, self._store
        ended = record.run.fact.state.ended and not self.behind
        if ended or is_due(self._steps_read, now, STEPS_SECONDS):
            self._steps_read = now
            self._read_steps()
        if ended or is_due(self._values_read, now, VALUES_SECONDS):
            self._values_read = now
            self._details = read_details(store, record.run)
        if ended or is_due(self._clock_read, now, CLOCK_SECONDS):
            self._clock_read = now
            self._clock = clock_of(store, record.run, record.curves)
        if record.rereads != self._rereads:
            # Points of another feed replace all that a page has.
            self._rereads, self.identity = record.rereads, secrets.token_hex(8)
            self._marked = record.version
        settled = [
            curve.settle(now, record.version + 1, whole=ended) for _, curve in self._drawn_curves()
        ]
        record.version += any(settled)
        self.ended = ended

    def frame(self, since: int) -> bytes | None:
        """Return the changes of the curves after version ``since``; None without any.

        Args:
            since: The version that the page has; 0 for none.
        """
        if since < self._marked:
            since = 0
        series = []
        for name, curve in self._drawn_curves():
            one = _series(name, curve, since, self._slowest)
            if len(one.buckets):
                series.append(one)
        series += self._find_redone(since)
        return self._encode(series) if series else None

    def detail(self, first: int, last: int, amount: int) -> bytes:
        """Return the curves from iteration ``first`` to ``last`` in at most ``amount`` buckets.

        They are read again from the store, independent of ``read``.
        """
        after, curves = 0, dict[str, Curve]()
        while True:
            newest, found = self._store.reports.point_columns(
                self._record.run.id, after, first=first, last=last
            )
            if newest == after:
                break
            after = newest
            for name, columns in found.items():
                if len(curves) >= MOST_DRAWN and name not in curves:
                    continue
                if not is_clock(name) and not is_measured(name):
                    curve = curves.setdefault(name, Curve(amount))
                    curve.add(columns.ranks, columns.iterations, columns.values)
        self._read_steps()
        return self._encode(
            [_series(name, curve, -1, self._slowest) for name, curve in curves.items()]
        )

    def run_message(self, now: float) -> RunMessage:
        """Return the run's state."""
        record = self._record
        return run_message(
            record.run,
            now,
            self._details,
            rate=record.pace.rate,
            waiting=record.reason,
            reclaimed=record.reclaimed,
            clock=self._clock,
            anatomy=self._anatomy,
            curves=dict(self._drawn_curves()),
            redone=record.redone,
        )

    def steps_message(self) -> StepsMessage | None:
        """Return the step breakdown; None if it was not measured."""
        if self._said is not self._anatomy:
            self._said = self._anatomy
            self._steps = steps_message(self._anatomy) if self._anatomy.steps else None
        return self._steps

    def output(self, after: int, most: int = 64_000) -> OutputMessage:
        """Return the output after piece ``after``: about ``most`` characters at once.

        Very old output is skipped, and counted.
        """
        run = self._record.run.id
        start = self._store.reports.output_tail(run, after, OUTPUT_CHARACTERS)
        skipped, after, size = start - after, start, 0
        pieces = list[Piece]()
        for row in self._store.reports.output(run, start, _PIECES_AT_ONCE):
            shown = self._store.displays.find(run, row.place) if row.place else None
            length = len(row.text) + (size_of(shown.data) if shown else 0)
            if pieces and size + length > most:
                break
            after, size = row.sequence, size + length
            if shown:
                what = DisplayedMessage(place=row.place, **shown._asdict())
                pieces.append(cast("Piece", (row.rank, row.stream, row.text, what)))
            elif row.text or not row.place:
                stream = "stdout" if row.place else row.stream
                pieces.append(cast("Piece", (row.rank, stream, row.text)))
        return OutputMessage(after=after, skipped=skipped, pieces=tuple(pieces))

    @property
    def _slowest(self) -> int:
        return self._anatomy.slowest

    def _drawn_curves(self) -> list[tuple[str, Curve]]:
        every = (pair for pair in self._record.curves.items() if not is_clock(pair[0]))
        return [*islice(every, MOST_DRAWN)]

    def _find_redone(self, since: int) -> list[FrameSeries]:
        """Return the stretches that were done again, if they were read after ``since``."""
        names = {name for name, _ in self._drawn_curves()}
        stretches = (
            _series(name, curve, since, self._slowest, attempt)
            for attempt, curves in self._record.redone.items()
            for name, curve in curves.items()
            if name in names
        )
        return [stretch for stretch in stretches if len(stretch.buckets)]

    def _read_steps(self) -> None:
        before = self._slowest
        self._anatomy = read_breakdown(self._store, self._record.run, before, now=self._steps_read)
        if self._slowest != before:
            self._record.version += 1
            self._marked = self._record.version

    def _encode(self, series: list[FrameSeries]) -> bytes:
        return encode_frame(
            series,
            feed=self.identity,
            version=self.version,
            points=self._record.points,
            slowest=self._slowest,
        )


def _series(name: str, curve: Curve, since: int, marked: int, attempt: int = 0) -> FrameSeries:
    return FrameSeries(name, curve.buckets(since, marked), len(curve.ranks), attempt)
