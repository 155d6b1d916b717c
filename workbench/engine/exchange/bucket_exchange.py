"""Average gradients that a framework hands over in buckets; knows no framework.

All ranks hand over the same buckets in the same order. Each has an exchanger of its own, so that
compression keeps its error from step to step. Where a framework divides its buckets again, the
error stays with the gradient that it belongs to. After a resume the first pass is exchanged in the
buckets of before, whatever its own are: a framework that starts again divides them only later.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange import summary
from workbench.engine.exchange.costs import run_trial
from workbench.engine.exchange.exchange_options import ExchangeOptions
from workbench.engine.exchange.exchanger import Exchanger, ExchangeTally
from workbench.engine.exchange.reducer import reducer_of
from workbench.engine.exchange.summary import CALL, REPORT_SECONDS, report_kind, report_tally
from workbench.engine.exchange.transport import Array, transport_of
from workbench.engine.timing.mpi_calls import watch
from workbench.engine.timing.step_probe import ProbeMeetings

MATRIX_RANK = 4
# A framework divides its buckets again after the first pass.
DESCRIBED_PASS = 2


Names = tuple[str, ...]
Codecs = dict[Names, dict[Names, dict[str, Any]]]
"""By a bucket's parameters what its codecs keep, by the gradients that each compresses."""


@dataclass
class HostBucket:
    """Gradients in one flat array of this rank's memory, single or double precision.

    Args:
        names: Of the parameters.
        shapes: Of the parameters; they follow each other in ``flat`` without a gap.
    """

    names: list[str]
    shapes: list[tuple[int, ...]]
    flat: Array
    parts: list[Array] = field(init=False)

    def __post_init__(self) -> None:
        ends = accumulate((math.prod(shape) for shape in self.shapes), initial=0)
        pieces = zip(pairwise(ends), self.shapes, strict=True)
        self.parts = [self.flat[a:b].reshape(shape) for (a, b), shape in pieces]


class BucketExchange:
    """Averages the buckets of one model at each backward pass; its creation is collective."""

    def __init__(self, comm: Any, options: ExchangeOptions) -> None:
        self.transport = transport_of(comm)
        self.reducer = reducer_of(self.transport, options.algorithm)
        self.size = self.transport.size
        self.codec = Codec.NONE if self.size == 1 else options.codec
        self.delays = options.delays and self.size > 1
        wanted = self.reducer.nodes > 1 and self.size > 1
        self.overlaps = wanted and self.transport.may_thread and not self.delays
        self.lacks_threads = wanted and not self.transport.may_thread
        self._exchangers: dict[Names, Exchanger] = {}
        self._lost: dict[str, Array] = {}
        self._former: Codecs = {}
        self._meetings = ProbeMeetings(self.size, lambda: self.transport.meetings)
        self._tally, self._done = ExchangeTally(), ExchangeTally()
        self._sent: list[HostBucket] = []
        self._means: dict[str, Array] = {}
        self._pass: list[HostBucket] = []
        self._passes, self._reported = 0, 0.0

    def take(self, bucket: HostBucket, *, is_first: bool, is_last: bool) -> list[HostBucket]:
        """Take a bucket whose gradients are complete; return those that now have their means.

        Args:
            is_first: Whether a backward pass begins with it.
            is_last: Whether it ends with it. All buckets have their means then.
        """
        if is_first:
            self._begin()
        self._pass.append(bucket)
        if self.delays:
            self._delay(bucket)
            ready = [bucket]
        elif self.overlaps:
            self.transport.worker.submit(lambda: self._average(bucket))
            self._sent.append(bucket)
            ready = []
        else:
            with self._count_time(meets=is_first):
                self._average(bucket)
            ready = [bucket]
        if is_last:
            if self.overlaps:
                with self._count_time(meets=True):
                    self.transport.rest()
            ready, self._sent = self._sent + ready, []
            self._end()
        return ready

    def compression(self) -> dict[str, Any] | None:
        """Return what compression keeps of all gradients; None without any."""
        self.transport.rest()
        lost, codecs = dict(self._lost), dict(self._former)
        for names, exchanger in self._exchangers.items():
            state = exchanger.compression() or {}
            lost |= state.get("lost", {})
            codecs[names] = state.get("codecs", {})
        return {"lost": lost, "codecs": codecs} if lost else None

    def held_back(self) -> dict[str, Array]:
        """Return copies of the means that the next pass gets, by name; none without a delay."""
        self.transport.rest()
        return {name: mean.copy() for name, mean in self._means.items()}

    def resume(
        self, compression: dict[str, Any] | None, held_back: Mapping[str, Array] | None = None
    ) -> None:
        """Continue an earlier exchange of the same model.

        Args:
            compression: What it kept on this rank. The buckets are the same on all ranks.
            held_back: Its means, which are the same on all ranks.
        """
        self._lost = dict((compression or {}).get("lost", {}))
        self._former = dict((compression or {}).get("codecs", {}))
        self._means = dict(held_back or {})

    def _begin(self) -> None:
        self._pass, self._sent = [], []
        if self.delays:
            with self._count_time():
                self.transport.rest()
        else:
            self.transport.rest()  # of a pass that an error ended
        self._done, self._tally = self._tally, ExchangeTally()
        due = time.monotonic() - self._reported > REPORT_SECONDS
        for exchanger in self._exchangers.values():
            exchanger.measures = due

    def _end(self) -> None:
        """Count what the pass exchanged, as one exchange of the step."""
        if not self.delays:
            self._meetings.after()
            self._done = self._tally
        nbytes = sum(bucket.flat.nbytes for bucket in self._pass)
        watch.exchanged(nbytes, self._done.nbytes, self._done.seconds)
        report_kind(self.codec, overlaps=self.overlaps, delayed=self.delays)
        self._passes += 1
        if self._passes == DESCRIBED_PASS:
            self._describe()
        if time.monotonic() - self._reported > REPORT_SECONDS:
            self._reported = time.monotonic()
            report_tally(self._done)
        self._pass = []

    def _delay(self, bucket: HostBucket) -> None:
        """Send a copy of the bucket off, and give it the means of the step before."""
        copy = replace(bucket, flat=bucket.flat.copy())
        for name, part, own in zip(bucket.names, bucket.parts, copy.parts, strict=True):
            numpy.copyto(part, self._means.get(name, 0))
            self._means[name] = own  # which lands before the next pass
        if self.transport.may_thread:
            self.transport.worker.submit(lambda: self._average(copy))
        else:
            self._average(copy)

    def _average(self, bucket: HostBucket) -> None:
        """Replace the bucket's gradients by their means; in any thread, one after the other."""
        if self.codec is Codec.NONE:
            self._average_exactly(bucket)
            return
        places = {name: n for n, name in enumerate(bucket.names)}
        for names in self._buckets_in(bucket):
            self._average_compressed(bucket, names, [places[name] for name in names])

    def _average_compressed(self, bucket: HostBucket, names: Names, places: Sequence[int]) -> None:
        """Average the parameters at ``places`` of a bucket."""
        parts, shapes = [bucket.parts[n] for n in places], [bucket.shapes[n] for n in places]
        exchanger = self._exchanger(names)
        for n, mean in exchanger.mean(names, parts, shapes, forgiving=True):
            numpy.copyto(parts[n], mean)
        own, tally = exchanger.tally, self._tally
        tally.seconds += own.seconds
        tally.nbytes += own.nbytes
        tally.coding += own.coding
        tally.error = max(tally.error, own.error)

    def _buckets_in(self, bucket: HostBucket) -> list[Names]:
        """Return the buckets of before a resume that are this one together, else its own names."""
        own = tuple(bucket.names)
        parts = [one for one in self._former if {*own}.issuperset(one)]
        is_whole = own not in self._exchangers and sum(map(len, parts)) == len(own)
        return parts if is_whole else [own]

    def _average_exactly(self, bucket: HostBucket) -> None:
        start = time.perf_counter()
        self.reducer.mean([bucket.flat])
        self._tally.nbytes += 2 * (self.size - 1) / self.size * bucket.flat.nbytes
        self._tally.seconds += time.perf_counter() - start

    def _exchanger(self, names: Names) -> Exchanger:
        if names not in self._exchangers:
            for other in [one for one in self._exchangers if not {*one}.isdisjoint(names)]:
                compression = self._exchangers.pop(other).compression()
                self._lost |= (compression or {}).get("lost", {})
            made = Exchanger(self.reducer, self.codec, MATRIX_RANK, in_place=True)
            self._exchangers[names] = made
            made.resume({"lost": self._lost, "codecs": self._former.pop(names, {})})
        return self._exchangers[names]

    @contextmanager
    def _count_time(self, *, meets: bool = False) -> Iterator[None]:
        """Count the time as one in MPI. In another thread than the main one, that one waits."""
        watch.enter(CALL)
        try:
            if meets:
                self._meetings.before(watch)
            yield
        finally:
            watch.leave()

    def _describe(self) -> None:
        """Say once how gradients are exchanged; collective."""
        self.transport.rest()
        plans = [one.plan for one in self._exchangers.values() if one.plan is not None]
        squeezed = [shape for plan in plans for shape in summary.find_compressed(plan)]
        found = run_trial(self.reducer, self.codec, squeezed, MATRIX_RANK) if squeezed else None
        if self.transport.rank:
            return
        sizes = [bucket.flat.nbytes for bucket in self._pass]
        arrays = sum(len(bucket.names) for bucket in self._pass)
        carried = summary.StepGradients(arrays, sum(sizes), max(sizes), len(sizes))
        print(summary.sentence(self, carried, found), flush=True)
        if self.delays:
            print(summary.STALE, flush=True)
