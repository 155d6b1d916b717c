"""Tell apart where a training step's time goes: compute, communication, data, other.

``communication`` is time inside MPI calls of the main thread: waiting for other ranks and moving
bytes, which are told apart by the steps before whose exchange all ranks met;
``data`` is the iterator and the converter; ``compute`` is the rest of ``updater.update``;
``other`` is what the extensions take.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from workbench.core.anatomy import split
from workbench.engine.communicator import watch
from workbench.engine.log import RunLog

PARTS = ("step/compute", "step/communication", "step/data", "step/other")
SPLIT = ("step/waiting", "step/moving")
EXCHANGE = ("exchange/nbytes", "exchange/calls")
SHAPE = ("exchange/leader", "exchange/batch")
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
        self._shape: tuple[int, ...] = (leader, batch)
        watch.begin()
        self._update = self._data = self._inside = 0.0
        self._steps = 0
        self._since = self._stepped = time.perf_counter()
        self._communicated = self._begun = watch.seconds
        self._barred, self._exchanged = watch.barred, (watch.nbytes, watch.exchanges)
        self._moved = deque[float](maxlen=LOOKS)

    @contextmanager
    def installed(self, updater: Any) -> Iterator[None]:
        """Time ``updater`` for as long as the context lasts."""
        patched: list[tuple[Any, str]] = []
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
            self._moved.append(watch.seconds - self._begun - watch.waited - barred)
        watch.stepped(now - self._stepped)
        self._stepped, self._begun, self._barred = now, watch.seconds, watch.barred
        if now - self._since >= TELL_SECONDS:
            self._tell(iteration, now)

    def finish(self, iteration: int) -> None:
        """Tell what is left at the end of the training."""
        if self._steps:
            self._tell(iteration, time.perf_counter())

    def _tell(self, iteration: int, now: float) -> None:
        communication = watch.seconds - self._communicated
        outside = communication - self._inside
        other = now - self._since - self._update - outside
        compute = self._update - self._inside - self._data
        parts = (compute, communication, self._data, other)
        for name, seconds in zip(PARTS, parts, strict=True):
            self._log.add(name, iteration, max(0.0, seconds) / self._steps)
        if self._moved:
            self._tell_exchange(iteration, max(0.0, communication) / self._steps)
        self._update = self._data = self._inside = 0.0
        self._steps = 0
        self._since = now
        self._communicated = watch.seconds

    def _tell_exchange(self, iteration: int, communication: float) -> None:
        for name, seconds in zip(SPLIT, split(communication, tuple(self._moved)), strict=True):
            self._log.add(name, iteration, seconds)
        now = (watch.nbytes, watch.exchanges)
        for name, last, first in zip(EXCHANGE, now, self._exchanged, strict=True):
            self._log.add(name, iteration, (last - first) / self._steps)
        self._exchanged = now
        for name, value in zip(SHAPE, self._shape, strict=False):
            self._log.add(name, iteration, value)
        self._shape = ()  # which stays as it is

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

    def _timed_data(self, function: Callable[..., Any]) -> Callable[..., Any]:
        clock = time.perf_counter

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = clock()
            try:
                return function(*args, **kwargs)
            finally:
                self._data += clock() - start

        return timed
