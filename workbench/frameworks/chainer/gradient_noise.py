"""Measure the gradient noise scale from norms of gradients, on some of the steps.

The gradient of a rank before the exchange, and the mean after it, belong to two batch sizes, which
is all that the estimate needs. See ``workbench.core.performance.batch_size``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from workbench.core.performance.batch_size import (
    DECAY,
    NoiseAverages,
    Norms,
    add_norms,
    sum_averages,
)
from workbench.core.performance.step_sampling import noise_period
from workbench.engine.reporting.run_log import RunLog
from workbench.engine.timing.mpi_calls import watch

NAMES = ("gradient_noise/signal", "gradient_noise/noise", "gradient_noise/steps")
REPORT_SECONDS = 0.5
Period = Callable[[float, float], int]
# With these, a gradient is the rank's own before the exchange, and this step's mean after it.
_KNOWN = ("_MultiNodeOptimizer", "OverlappingOptimizer")


class NoiseScaleMonitor:
    """Measures the gradient noise scale of one training on this rank.

    Args:
        batch: Examples of a step on this rank; with 0 nothing is measured.
        period: Returns the interval between estimates in steps, for the seconds of a step and of an
            estimate.
        decay: Weight that the averages keep at each estimate.
        report_seconds: Between two reports.
    """

    def __init__(
        self,
        log: RunLog,
        batch: int,
        *,
        period: Period = noise_period,
        decay: float = DECAY,
        report_seconds: float = REPORT_SECONDS,
    ) -> None:
        self._period, self._decay, self._report_seconds = period, decay, report_seconds
        self._log = log
        self._batch = batch
        self._models: dict[int, _ModelNoise] = {}
        self._reported = time.monotonic()

    @contextmanager
    def installed(self, updater: Any) -> Iterator[None]:
        """Measure steps of ``updater`` for as long as the context lasts."""
        optimizers: Callable[[], dict[str, Any]] = getattr(updater, "get_all_optimizers", dict)
        # Optimizers may share a communicator, as those of a generator and its discriminator do.
        found = {
            id(one.communicator): one.communicator
            for one in optimizers().values()
            if type(one).__name__ in _KNOWN and self._can_measure(one.communicator)
        }
        for communicator in found.values():
            mean = communicator.multi_node_mean_grad
            communicator.multi_node_mean_grad = self._wrap_mean(mean, communicator.size, updater)
        try:
            yield
        finally:
            for communicator in found.values():
                vars(communicator).pop("multi_node_mean_grad", None)

    def _can_measure(self, communicator: Any) -> bool:
        # Gradients sent during the backward pass are copied, so a rank's own ones stay until its
        # end. But a mean that postpones parts of gradients belongs to no batch size.
        puts_off = getattr(communicator, "puts_off", False)
        is_patched = "multi_node_mean_grad" in vars(communicator)
        return bool(self._batch and communicator.size > 1 and not (puts_off or is_patched))

    def _wrap_mean(
        self, mean: Callable[..., None], ranks: int, updater: Any
    ) -> Callable[..., None]:
        def exchange(model: Any, *args: Any, **kwargs: Any) -> None:
            own = self._models.get(id(model))
            if own is None:
                own = self._models[id(model)] = _ModelNoise(self._period(0.0, 0.0))
            own.calls += 1
            if own.calls % own.every:
                mean(model, *args, **kwargs)
                return
            clock = time.perf_counter
            begun = clock()
            small = squared_norm(model)
            took = clock() - begun
            mean(model, *args, **kwargs)
            begun = clock()
            norms = Norms(small, squared_norm(model), self._batch, ranks)
            took += clock() - begun
            own.every = self._period(watch.pace, took * len(self._models))
            if not math.isfinite(norms.small + norms.large):
                return  # for example, a step that loss scaling skips
            own.averages = add_norms(own.averages, norms, self._decay)
            self._report(updater.iteration + 1)

        return exchange

    def _report(self, iteration: int) -> None:
        now = time.monotonic()
        if now - self._reported >= self._report_seconds:
            self._reported = now
            one = sum_averages([own.averages for own in self._models.values()])
            values = (one.signal, one.noise, float(one.steps))
            self._log.add_all(iteration, tuple(zip(NAMES, values, strict=True)))


class _ModelNoise:
    """What is known of one model's gradients: each is estimated from exchanges of its own."""

    __slots__ = ("averages", "calls", "every")

    def __init__(self, every: int) -> None:
        self.averages = NoiseAverages()
        self.calls = 0
        self.every = every


def squared_norm(model: Any) -> float:
    """Return the squared norm of all gradients of a model."""
    total: Any = 0.0
    for parameter in model.params():
        gradient = parameter.grad
        if gradient is not None:
            flat = gradient.ravel()
            if flat.dtype.itemsize < 4:  # the sum of squares would overflow
                flat = flat.astype("f4")
            total = total + flat.dot(flat)  # it stays on the device until the end
    return float(total)
