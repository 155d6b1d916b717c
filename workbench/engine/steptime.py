"""Tell apart where a training step's time goes: compute, communication, data, other.

``communication`` is time inside MPI calls of the main thread, waiting for other ranks included;
``data`` is the iterator and the converter; ``compute`` is the rest of ``updater.update``;
``other`` is what the extensions take.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from workbench.engine.communicator import watch
from workbench.engine.log import RunLog

PARTS = ("step/compute", "step/communication", "step/data", "step/other")
TELL_SECONDS = 0.5


class StepTime:
    """Adds up the parts of steps, and tells their means from time to time.

    All values are seconds a step.
    """

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self._update = self._data = self._inside = 0.0
        self._steps = 0
        self._since = time.perf_counter()
        self._communicated = watch.seconds

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
        self._update = self._data = self._inside = 0.0
        self._steps = 0
        self._since = now
        self._communicated = watch.seconds

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
