"""Gather what pages need to follow one run: read once, however many pages there are.

A page says up to which version it has the curves, and gets the buckets that have changed since. So
a page that is slow, or was away, gets less often what it would have got, and nothing piles up.
"""

from __future__ import annotations

import secrets

from workbench.core.frames import Series, encode_frame
from workbench.core.metrics import is_clock, is_measured
from workbench.core.sampling import Curve
from workbench.store import Store
from workbench.view.anatomy import NOTHING_KNOWN, anatomy_of
from workbench.view.messages import Message, run_message, steps_message
from workbench.view.record import Record

CAPACITY = 2_000  # buckets of a curve: more than a screen has columns
STEPS_SECONDS = 1.0
VALUES_SECONDS = 0.5
OUTPUT_CHARACTERS = 256_000
_PIECES_AT_ONCE = 500


class Feed:
    """One run, for the pages that follow it.

    Args:
        store: Where it is read from; used by one thread at a time.
        run: The run's id.
        capacity: Greatest number of buckets of each curve.
        record: What somebody reads already, to be shared; ``read`` is then theirs to do, and
            ``refresh`` follows it.

    Raises:
        Unknown: No run has this id.
    """

    def __init__(
        self, store: Store, run: str, capacity: int = CAPACITY, record: Record | None = None
    ) -> None:
        self.identity = secrets.token_hex(8)
        self.behind = False
        self.ended = False
        self._store = store
        self._record = record or Record(store.run(run), capacity)
        self._anatomy = NOTHING_KNOWN
        self._marked = 0  # version as of which another rank is the slowest
        self._steps_read = self._values_read = 0.0
        self._values = dict[str, float]()

    def __repr__(self) -> str:
        return f"<Feed of {self._record.run.wish.name}, version {self.version}>"

    @property
    def version(self) -> int:
        """The newest version of the curves; 0 while there are none."""
        return self._record.version

    def read(self, now: float) -> bool:
        """Take in what is new, and return whether something was.

        There may be more than is read at once; ``behind`` says so.

        Args:
            now: Epoch seconds.
        """
        record, store = self._record, self._store
        # The state first: what is written before a run ends is then read after its end was seen.
        before = record.run, record.reason, record.version
        record.look(store)
        if record.run.fact.iteration:
            record.pace.add(now, record.run.fact.iteration)
        self.behind = record.read_some_points(store)
        self.refresh(now)
        return (record.run, record.reason, record.version) != before

    def refresh(self, now: float) -> None:
        """Take in what changes more slowly than the points.

        Args:
            now: Epoch seconds.
        """
        record, store = self._record, self._store
        ended = record.run.fact.state.ended and not self.behind
        if ended or now - self._steps_read >= STEPS_SECONDS:
            self._steps_read = now
            self._read_steps()
        if ended or now - self._values_read >= VALUES_SECONDS:
            self._values_read = now
            self._values = store.final_values(record.run.id)
        settled = [curve.settle(now, record.version + 1, whole=ended) for _, curve in self._drawn()]
        record.version += any(settled)
        self.ended = ended

    def frame(self, since: int) -> bytes | None:
        """Return what has changed in the curves after version ``since``; None when nothing has.

        Args:
            since: The version that the page has; 0 for none.
        """
        if since < self._marked:
            since = 0
        series = []
        for name, curve in self._drawn():
            one = _series(name, curve, since, self._slowest)
            if len(one.buckets):
                series.append(one)
        return self._encoded(series) if series else None

    def detail(self, first: int, last: int, amount: int) -> bytes:
        """Return the curves from iteration ``first`` to ``last`` in at most ``amount`` buckets.

        It is read anew; nothing has to have been read before.
        """
        after, curves = 0, dict[str, Curve]()
        while True:
            newest, found = self._store.point_columns(
                self._record.run.id, after, first=first, last=last
            )
            if newest == after:
                break
            after = newest
            for name, columns in found.items():
                if not is_clock(name) and not is_measured(name):
                    curve = curves.setdefault(name, Curve(amount))
                    curve.add(columns.ranks, columns.iterations, columns.values)
        self._read_steps()
        return self._encoded(
            [_series(name, curve, -1, self._slowest) for name, curve in curves.items()]
        )

    def run_message(self, now: float) -> Message:
        """Return where the run stands."""
        record = self._record
        return run_message(
            record.run, now, rate=record.pace.rate, waiting=record.reason, values=self._values
        )

    def steps_message(self) -> Message | None:
        """Return where the time of a step goes; None when nobody measured it."""
        return steps_message(self._anatomy) if self._anatomy.steps else None

    def output(self, after: int, most: int = 64_000) -> Message:
        """Return what ranks wrote behind piece ``after``: about ``most`` characters at once.

        What lies further back than a person would read is skipped, and counted.
        """
        run = self._record.run.id
        start = self._store.output_tail(run, after, OUTPUT_CHARACTERS)
        skipped, after, size = start - after, start, 0
        pieces = list[list[object]]()
        for row in self._store.output(run, start, _PIECES_AT_ONCE):
            if pieces and size + len(row.text) > most:
                break
            after, size = row.sequence, size + len(row.text)
            pieces.append([row.rank, row.stream, row.text])
        return {"after": after, "skipped": skipped, "pieces": pieces}

    @property
    def _slowest(self) -> int:
        return self._anatomy.slowest

    def _drawn(self) -> list[tuple[str, Curve]]:
        return [pair for pair in self._record.curves.items() if not is_clock(pair[0])]

    def _read_steps(self) -> None:
        before = self._slowest
        self._anatomy = anatomy_of(self._store, self._record.run, before)
        if self._slowest != before:
            self._record.version += 1
            self._marked = self._record.version

    def _encoded(self, series: list[Series]) -> bytes:
        return encode_frame(
            series,
            feed=self.identity,
            version=self.version,
            points=self._record.points,
            slowest=self._slowest,
        )


def _series(name: str, curve: Curve, since: int, marked: int) -> Series:
    return Series(
        name,
        curve.buckets(since, marked),
        len(curve.ranks),
        curve.nonfinite,
        curve.nonfinite_first,
    )
