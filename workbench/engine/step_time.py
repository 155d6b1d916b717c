"""Measure the parts of a training step: compute, communication, data, other.

``communication`` is time inside MPI calls of the main thread: waiting for other ranks and moving
bytes, which are separated by the steps before whose exchange all ranks met;
``point-to-point`` is that in messages from one rank to another, where there are any;
``data`` is the iterator and the converter; ``compute`` is the rest of ``updater.update``;
``other`` is what the extensions take.
"""

from __future__ import annotations

import functools
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from workbench.core.performance.step_sampling import PASSING, split
from workbench.engine import codec_statistics
from workbench.engine.communicator import watch
from workbench.engine.run_log import RunLog

PARTS = ("step/compute", "step/communication", "step/data", "step/other")
SPLIT = ("step/waiting", "step/moving")
EXCHANGE = "exchange/"
TELL_SECONDS = 0.5
# Steps that were looked at and count; so many that one that was disturbed does not.
LOOKS = 15


class StepTime:
    """Adds up the parts of steps, and tells their means from time to time.

    All values are seconds a step, but for those of the exchange.

    Args:
        leader: The lowest rank on this rank's node.
        batch: Examples of a step on this rank; 0 when unknown.
    """

    def __init__(self, log: RunLog, *, leader: int = 0, batch: int = 0) -> None:
        self._log = log
        self._shape = {"leader": float(leader), "batch": float(batch)}
        self._updater: Any = None
        self._arrivals: codec_statistics.Arrivals | None = None
        watch.begin()
        self._update = self._data = self._inside = self._backward = self._busy = 0.0
        self._steps = self._looks = 0
        self._seen = self._looked = 0.0
        self._since = self._stepped = time.perf_counter()
        self._communicated, self._passed, self._begun = watch.seconds, watch.passed, watch.together
        self._passes = False
        self._barred = watch.barred
        self._exchanged, self._spent = (watch.nbytes, watch.exchanges, watch.wire), watch.spent
        self._moved, self._whole = deque[float](maxlen=LOOKS), deque[float](maxlen=LOOKS)

    @contextmanager
    def installed(self, updater: Any) -> Iterator[None]:
        """Time ``updater`` for as long as the context lasts."""
        patched: list[tuple[Any, str]] = []
        if self._arrivals is None:  # a training that continues was reported already
            self._updater = updater
            self._arrivals = codec_statistics.Arrivals(codec_statistics.parameters_of(updater))
        self._wrap(updater, "update", self._timed_update, patched)
        iterators = getattr(updater, "_iterators", None)
        for iterator in iterators.values() if isinstance(iterators, dict) else ():
            self._wrap(iterator, "next", self._timed_data, patched)
        if type(getattr(updater, "converter", None)).__name__ == "function":
            before = updater.converter
            updater.converter = self._timed_data(before)
        else:
            before = None
        try:
            with self._backward_timed():
                yield
        finally:
            for owner, name in patched:
                delattr(owner, name)
            if before is not None:
                updater.converter = before

    def step(self, iteration: int) -> None:
        """Note the end of a step, extensions included."""
        self._steps += 1
        now = time.perf_counter()
        if watch.waited >= 0 and not watch.spoilt:
            barred = watch.barred - self._barred
            moved = watch.together - self._begun - watch.waited - barred
            self._moved.append(moved)
            # Of a step that was looked at both are known; the others go by it.
            self._looks, self._seen = self._looks + 1, self._seen + moved
            self._looked += watch.together - self._begun
        if watch.spent > self._spent:
            self._whole.append(watch.spent - self._spent)
            self._spent = watch.spent
        watch.stepped(now - self._stepped)
        self._stepped, self._begun, self._barred = now, watch.together, watch.barred
        if now - self._since >= TELL_SECONDS:
            self._tell(iteration, now)

    def finish(self, iteration: int) -> None:
        """Tell what is left at the end of the training."""
        if self._steps:
            self._tell(iteration, time.perf_counter())

    def _tell(self, iteration: int, now: float) -> None:
        between = watch.seconds - self._communicated
        passing = watch.passed - self._passed
        communication = between - passing
        outside = between - self._inside
        other = now - self._since - self._update - outside
        compute = self._update - self._inside - self._data
        parts = (compute, communication, self._data, other)
        for name, seconds in zip(PARTS, parts, strict=True):
            self._log.add(name, iteration, max(0.0, seconds) / self._steps)
        self._passes |= passing > 0
        if self._passes:
            self._log.add(f"step/{PASSING}", iteration, passing / self._steps)
        if self._moved:
            for name, seconds in zip(SPLIT, self._apart(communication), strict=True):
                self._log.add(name, iteration, seconds / self._steps)
        self._tell_exchange(iteration)
        self._update = self._data = self._inside = self._backward = self._busy = 0.0
        self._steps = 0
        self._since = now
        if self._updater is not None:
            # It takes a moment, in which nobody trains, so it is no part of a step.
            begun = time.perf_counter()
            self._tell_all(iteration, codec_statistics.told_of(self._updater))
            self._updater = None
            self._stepped += time.perf_counter() - begun
            self._since += time.perf_counter() - begun
        self._communicated, self._passed = watch.seconds, watch.passed

    def _apart(self, communication: float) -> tuple[float, float]:
        """Return what of it was waiting, and what moving, in seconds of all steps."""
        waiting, moving = self._looked - self._seen, self._seen
        if others := self._steps - self._looks:
            rest = max(0.0, communication - self._looked) / others
            each = split(rest, tuple(self._moved))
            waiting, moving = waiting + others * each[0], moving + others * each[1]
        self._looks, self._seen, self._looked = 0, 0.0, 0.0
        return max(0.0, waiting), moving

    def _tell_exchange(self, iteration: int) -> None:
        """Tell how gradients are exchanged, and what else goes on meanwhile."""
        now = (watch.nbytes, watch.exchanges, watch.wire)
        nbytes, calls, wire = (
            (last - first) / self._steps for last, first in zip(now, self._exchanged, strict=True)
        )
        self._exchanged = now
        told = {"nbytes": nbytes, "calls": calls} if calls else {}
        if self._whole:
            told |= {"wire": wire, "whole": median(self._whole), **watch.told}
        if self._backward:
            told["backward"] = self._backward / self._steps
            told["busy"] = self._busy / self._backward
            told["cores"] = float(codec_statistics.cores())
            if self._arrivals is not None and (left := self._arrivals.left) is not None:
                told["early"] = left
        if told:
            self._tell_all(iteration, told | self._shape)
            self._shape = {}  # which stays as it is

    def _tell_all(self, iteration: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._log.add(EXCHANGE + name, iteration, value)

    def _wrap(
        self,
        owner: Any,
        name: str,
        wrapper: Callable[[Callable[..., Any]], Callable[..., Any]],
        patched: list[tuple[Any, str]],
    ) -> None:
        if name not in vars(owner):
            setattr(owner, name, wrapper(getattr(owner, name)))
            patched.append((owner, name))

    def _timed_update(self, update: Callable[..., Any]) -> Callable[..., Any]:
        clock = time.perf_counter

        def timed() -> Any:
            start, communicated = clock(), watch.seconds
            try:
                return update()
            finally:
                self._update += clock() - start
                self._inside += watch.seconds - communicated

        return timed

    @contextmanager
    def _backward_timed(self) -> Iterator[None]:
        """Time the backward pass, where Chainer does it."""
        variable = getattr(sys.modules.get("chainer.variable"), "Variable", None)
        if variable is None:
            yield
            return
        before = variable.backward
        variable.backward = self._timed_backward(before)
        try:
            yield
        finally:
            variable.backward = before

    def _timed_backward(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        clock, busy = time.perf_counter, time.process_time

        @functools.wraps(backward)
        def timed(*args: Any, **kwargs: Any) -> Any:
            start, used = clock(), busy()
            try:
                if self._arrivals is not None and self._arrivals.is_due():
                    return self._arrivals.watched(backward, *args, **kwargs)
                return backward(*args, **kwargs)
            finally:
                self._busy += busy() - used
                self._backward += clock() - start

        return timed

    def _timed_data(self, function: Callable[..., Any]) -> Callable[..., Any]:
        clock = time.perf_counter

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = clock()
            try:
                return function(*args, **kwargs)
            finally:
                self._data += clock() - start

        return timed
