"""Measure the parts of a training step: compute, communication, data, other.

``communication`` is the main thread's time in MPI calls: waiting for other ranks and transferring
bytes, which are separated with the samples of steps before whose exchange all ranks met;
``point-to-point`` is the part in messages between two ranks, where there are any;
``data`` is the iterator and the converter; ``compute`` is the rest of ``updater.update``;
``other`` is the extensions' time.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from statistics import median
from typing import NamedTuple

from workbench.core.performance.exchange_model import Codec
from workbench.core.performance.step_sampling import PASSING, StepParts, split
from workbench.engine.exchange.bucket_layout import DIRECT_BYTES
from workbench.engine.exchange.costs import coding_seconds
from workbench.engine.exchange.powersgd import is_worthwhile
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.timing.call_timing import Total
from workbench.engine.timing.mpi_calls import watch

RANK = 4  # PowerSGD's default rank
ITEM = 4

PARTS = ("step/compute", "step/communication", "step/data", "step/other")
SPLIT = ("step/waiting", "step/moving")
EXCHANGE = "exchange/"
REPORT_SECONDS = 0.5
# Samples that count; enough that a single disturbed one has no effect.
LOOKS = 15
# Between two looks at what need not be seen in each step: the pace, and the backward pass with its
# processor time, which Linux adds up over all threads.
LOOK_SECONDS = 0.05


class Exchanged(NamedTuple):
    """What a framework exchanged by itself in a step, otherwise than by MPI.

    Args:
        seconds: In which the rank only exchanged.
        sample: Seconds of waiting and of moving in a sampled step.
    """

    seconds: float = 0.0
    sample: tuple[float, float] | None = None


NOTHING_EXCHANGED = Exchanged()


class StepTime:
    """Adds up the parts of steps, and reports their means from time to time.

    All values are seconds per step, except those of the exchange.

    Args:
        leader: The lowest rank on this rank's node.
        batch: Examples of a step on this rank; 0 if unknown.
        shapes: Returns the shapes of the gradients of a loop that has no updater.
    """

    def __init__(
        self,
        log: RunLog,
        *,
        leader: int = 0,
        batch: int = 0,
        shapes: Callable[[], Sequence[tuple[int, ...]]] = tuple,
    ) -> None:
        self._log = log
        self._shape = {"leader": float(leader), "batch": float(batch)}
        self._shapes: Callable[[], Sequence[tuple[int, ...]]] | None = shapes
        self._early: Callable[[], float | None] = lambda: None
        watch.begin()
        self._own, self._data = Total(), Total()  # `_own`: updates without their MPI calls
        self._beside = 0.0
        self._busy = self._observed = self._backward = 0.0
        self._backwards: list[float] = []  # seconds in each observed step
        self._steps = self._looks = 0
        self._seen = self._looked = 0.0
        self._since = self._stepped = time.perf_counter()
        self._counted, watch.next_look = watch.steps, -math.inf
        self._communicated, self._passed = watch.seconds, watch.passed
        self._passes = False
        self._exchanged = watch.nbytes, watch.exchanges, watch.wire
        self._moved, self._whole = deque[float](maxlen=LOOKS), deque[float](maxlen=LOOKS)

    def step(self, iteration: int) -> bool:
        """Record the end of a step, extensions included; return whether it was time for a look.

        Training leaves nothing of ours in the processor's caches, so what can wait for a look does.
        """
        now = time.perf_counter()
        if not watch.end_step(now):
            return False
        if watch.waited >= 0 or watch.spoilt:
            self._add_sample()
        is_due = now >= watch.next_look
        if is_due:
            self._look(now)
            if now - self._since >= REPORT_SECONDS:
                self._report(iteration, now)
        watch.begin_step()
        return is_due

    def _add_sample(self) -> None:
        """Add a step in which all ranks met."""
        if not watch.spoilt:
            together = watch.seconds - watch.begun_seconds - (watch.passed - watch.begun_passed)
            moved = together - watch.waited - (watch.barred - watch.begun_barred)
            self._moved.append(moved)
            # In a sampled step both are known; the others are divided in the same ratio.
            self._looks, self._seen = self._looks + 1, self._seen + moved
            self._looked += together
        watch.waited, watch.spoilt = -1.0, False

    def _look(self, now: float) -> None:
        """Count the steps since the last look, and add what was seen of one of them."""
        watch.next_look = now + LOOK_SECONDS
        if watch.spent > watch.begun_spent:
            self._whole.append(watch.spent - watch.begun_spent)
        if self._backward:
            self._backwards.append(self._backward)
            self._backward = 0.0
        watch.observed = watch.steps  # the step that now begins
        if steps := watch.steps - self._counted:
            watch.note_pace((now - self._stepped) / steps, steps)
            self._steps += steps
        self._counted, self._stepped = watch.steps, now

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Leave out of the steps what happens in the context."""
        begun, communicated, passed = time.perf_counter(), watch.seconds, watch.passed
        try:
            yield
        finally:
            seconds = time.perf_counter() - begun
            self._stepped += seconds
            self._since += seconds
            self._communicated += watch.seconds - communicated
            self._passed += watch.passed - passed

    def spend(self, parts: StepParts, exchanged: Exchanged) -> None:
        """Add the parts of a step of a loop that has no updater to time."""
        own = parts.update - parts.inside
        self._own.seconds += own
        self._data.seconds += parts.data
        self._beside += max(0.0, min(exchanged.seconds, own - parts.data))
        if exchanged.sample is not None:
            waited, moved = exchanged.sample
            self._moved.append(moved)
            self._looks, self._seen = self._looks + 1, self._seen + moved
            self._looked += waited + moved

    def spend_backward(self, seconds: float, processor: float) -> None:
        """Add an observed backward pass, and the seconds that all of its threads computed."""
        self._busy += processor
        self._observed += seconds
        self._backward += seconds

    def finish(self, iteration: int) -> None:
        """Report the remaining values at the end of the training."""
        now = time.perf_counter()
        self._look(now)
        if self._steps:
            self._report(iteration, now)

    def _report(self, iteration: int, now: float) -> None:
        between = watch.seconds - self._communicated
        passing = watch.passed - self._passed
        communication = between - passing
        own, data = self._own.seconds, self._data.seconds
        other = now - self._since - own - between
        parts = (own - data - self._beside, communication + self._beside, data, other)
        for name, seconds in zip(PARTS, parts, strict=True):
            self._log.add(name, iteration, max(0.0, seconds) / self._steps)
        self._passes |= passing > 0
        if self._passes:
            self._log.add(f"step/{PASSING}", iteration, passing / self._steps)
        if self._moved:
            for name, seconds in zip(SPLIT, self._apart(communication + self._beside), strict=True):
                self._log.add(name, iteration, seconds / self._steps)
        self._report_exchange(iteration)
        self._own.seconds = self._data.seconds = 0.0
        self._beside = self._busy = self._observed = 0.0
        self._backwards.clear()
        self._steps = 0
        self._since = now
        if self._shapes is not None:
            # This takes a moment without training, so it does not count as part of a step.
            begun = time.perf_counter()
            self._report_all(iteration, gradient_statistics(self._shapes()))
            self._shapes = None
            self._stepped += time.perf_counter() - begun
            self._since += time.perf_counter() - begun
        self._communicated, self._passed = watch.seconds, watch.passed

    def _apart(self, communication: float) -> tuple[float, float]:
        """Return waiting and transfer time in ``communication``, in seconds of all steps."""
        waiting, moving = self._looked - self._seen, self._seen
        if others := self._steps - self._looks:
            rest = max(0.0, communication - self._looked) / others
            each = split(rest, tuple(self._moved))
            waiting, moving = waiting + others * each[0], moving + others * each[1]
        self._looks, self._seen, self._looked = 0, 0.0, 0.0
        return max(0.0, waiting), moving

    def _report_exchange(self, iteration: int) -> None:
        """Report how gradients are exchanged, and what overlaps with that."""
        now = (watch.nbytes, watch.exchanges, watch.wire)
        nbytes, calls, wire = (
            (last - first) / self._steps for last, first in zip(now, self._exchanged, strict=True)
        )
        self._exchanged = now
        details = {"nbytes": nbytes, "calls": calls} if calls else {}
        if self._whole:
            details |= {"wire": wire, "whole": median(self._whole), **watch.details}
        if self._backwards:
            details["backward"] = median(self._backwards)
            details["busy"] = self._busy / self._observed
            details["cores"] = float(cores())
            if (left := self._early()) is not None:
                details["early"] = left
        if details:
            self._report_all(iteration, details | self._shape)
            self._shape = {}  # reported once, as it does not change

    def _report_all(self, iteration: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._log.add(EXCHANGE + name, iteration, value)


def gradient_statistics(shapes: Sequence[tuple[int, ...]]) -> dict[str, float]:
    """Return the statistics of gradients; empty if there are none.

    ``gradients`` is their bytes and ``arrays`` their number; ``small`` is the share of the bytes
    that no codec compresses, ``powersgd`` the share that PowerSGD leaves; ``cost CODEC`` is the
    seconds to encode and decode a byte once.
    """
    nbytes = ITEM * sum(math.prod(shape) for shape in shapes)
    if not nbytes:
        return {}
    values = {"gradients": float(nbytes), "arrays": float(len(shapes))}
    values["small"] = ITEM * sum(math.prod(one) for one in shapes if is_small(one)) / nbytes
    values["powersgd"] = sum(ITEM * count_sent(shape, RANK) for shape in shapes) / nbytes
    codecs = (codec for codec in Codec if codec is not Codec.NONE)
    return values | {f"cost {codec}": _cost(codec) / ITEM for codec in codecs}


def is_small(shape: Sequence[int]) -> bool:
    """Return whether a float32 gradient is sent uncompressed, with other small ones."""
    return ITEM * math.prod(shape) < DIRECT_BYTES


def count_sent(shape: Sequence[int], rank: int) -> int:
    """Return the number of values that PowerSGD sends for a gradient."""
    if is_small(shape) or not is_worthwhile(shape, rank):
        return math.prod(shape)
    return rank * (shape[0] + math.prod(shape[1:]))


@lru_cache
def _cost(codec: Codec) -> float:
    """Return the seconds to encode and decode a value once; measured once per process."""
    return coding_seconds(codec, RANK, 2)


def cores() -> int:
    """Return the cores that the ranks of this node share."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
