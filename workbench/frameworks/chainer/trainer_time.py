"""Measure the parts of a step of Chainer's updater, and when its gradients are complete."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from workbench.engine.exchange.exchanger import BUCKET_BYTES
from workbench.engine.timing.call_timing import observe_method, stopwatch
from workbench.engine.timing.mpi_calls import watch
from workbench.engine.timing.step_time import ITEM, StepTime, is_small
from workbench.frameworks.chainer.backward import report_gradients

# The number of observed backward passes, and the first of them.
PASSES, FIRST_PASS = 3, 3


class TrainerTime(StepTime):
    """The parts of the steps of a trainer's updater."""

    _arrivals: Arrivals | None = None

    @contextmanager
    def installed(self, updater: Any) -> Iterator[None]:
        """Time ``updater`` for as long as the context lasts."""
        patched: list[tuple[Any, str]] = []
        if self._arrivals is None:  # else the training continues, and was reported already
            self._shapes = functools.partial(shapes_of, updater)
            arrivals = self._arrivals = Arrivals(parameters_of(updater))
            self._early = lambda: arrivals.left
        timed = functools.partial(stopwatch, total=self._own, activity=watch)
        fetched = functools.partial(stopwatch, total=self._data)
        _wrap(updater, "update", timed, patched)
        iterators = getattr(updater, "_iterators", None)
        for iterator in iterators.values() if isinstance(iterators, dict) else ():
            _wrap(iterator, "next", fetched, patched)
        if type(getattr(updater, "converter", None)).__name__ == "function":
            before = updater.converter
            updater.converter = fetched(before)
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

    @contextmanager
    def _backward_timed(self) -> Iterator[None]:
        variable = getattr(sys.modules.get("chainer.variable"), "Variable", None)
        if variable is None:
            yield
            return
        before = variable.backward
        variable.backward = observe_method(before, functools.partial(self._observe, before), watch)
        try:
            yield
        finally:
            variable.backward = before

    def _observe(self, backward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Time a backward pass, and read the processor time it takes."""
        start, used = time.perf_counter(), time.process_time()
        try:
            if self._arrivals is not None and self._arrivals.is_due():
                return self._arrivals.watch_pass(backward, *args, **kwargs)
            return backward(*args, **kwargs)
        finally:
            self.spend_backward(time.perf_counter() - start, time.process_time() - used)


def _wrap(
    owner: Any,
    name: str,
    wrapper: Callable[[Callable[..., Any]], Callable[..., Any]],
    patched: list[tuple[Any, str]],
) -> None:
    if name not in vars(owner):
        setattr(owner, name, wrapper(getattr(owner, name)))
        patched.append((owner, name))


def shapes_of(updater: Any) -> list[tuple[int, ...]]:
    """Return the shapes of all parameters that an updater's optimizers train."""
    return [parameter.data.shape for parameter in parameters_of(updater)]


def parameters_of(updater: Any) -> list[Any]:
    """Return all parameters that an updater's optimizers train, in the order of their names."""
    optimizers: Callable[[], dict[str, Any]] = getattr(updater, "get_all_optimizers", dict)
    targets = [getattr(one, "target", None) for one in optimizers().values()]
    named = [pair for one in targets if one is not None for pair in sorted(one.namedparams())]
    return [parameter for _, parameter in named if parameter.data is not None]


class Arrivals:
    """How early in the backward pass gradients are complete, observed in a few passes.

    The first bucket is sent when it is full: from then on communication overlaps with the rest of
    the pass.
    """

    def __init__(self, parameters: Sequence[Any]) -> None:
        self._parameters = parameters
        self._nbytes = sum(ITEM * parameter.data.size for parameter in parameters)
        self._passes = 0
        self._left: list[float] = []

    @property
    def left(self) -> float | None:
        """The share of the pass after the first bucket is full; None if unknown."""
        return median(self._left) if self._left else None

    def is_due(self) -> bool:
        """Count a pass that begins, and return whether to observe it; the first are not typical."""
        self._passes += 1
        return bool(self._nbytes) and FIRST_PASS <= self._passes < FIRST_PASS + PASSES

    def watch_pass(self, backward: Callable[..., Any], loss: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a backward pass, and record when its gradients are complete."""
        begun, came, last, first = time.perf_counter(), 0, 0.0, 0.0

        def record(number: int, gradient: Any) -> None:
            nonlocal came, last, first
            if first or is_small(gradient.shape):
                return
            now = time.perf_counter()
            came += ITEM * gradient.size
            if came > BUCKET_BYTES[0]:
                first = last or now  # a gradient that no longer fits goes into the next bucket
            last = now

        with report_gradients(loss, self._parameters, record):
            result = backward(loss, *args, **kwargs)
        ended = time.perf_counter()
        if first or last:  # gradients that fill no bucket are sent after the last one
            self._left.append((ended - (first or last)) / (ended - begun))
        return result
