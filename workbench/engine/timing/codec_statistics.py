"""Estimate for each codec the error and cost of compressing a model's gradients."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from statistics import median
from typing import Any

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.bucket_layout import DIRECT_BYTES
from workbench.engine.exchange.costs import coding_seconds
from workbench.engine.exchange.exchanger import BUCKET_BYTES
from workbench.engine.exchange.powersgd import is_worthwhile
from workbench.frameworks.chainer.backward import report_gradients

RANK = 4  # PowerSGD's default rank
# The number of observed backward passes, and the first of them.
PASSES, FIRST_PASS = 3, 3
_ITEM = 4


def gradient_statistics(shapes: Sequence[tuple[int, ...]]) -> dict[str, float]:
    """Return the statistics of gradients; empty if there are none.

    ``gradients`` is their bytes and ``arrays`` their number; ``small`` is the share of the bytes
    that no codec compresses, ``powersgd`` the share that PowerSGD leaves; ``cost CODEC`` is the
    seconds to encode and decode a byte once.
    """
    nbytes = _ITEM * sum(math.prod(shape) for shape in shapes)
    if not nbytes:
        return {}
    values = {"gradients": float(nbytes), "arrays": float(len(shapes))}
    values["small"] = _ITEM * sum(math.prod(one) for one in shapes if is_small(one)) / nbytes
    values["powersgd"] = sum(_ITEM * left(shape, RANK) for shape in shapes) / nbytes
    codecs = (codec for codec in Codec if codec is not Codec.NONE)
    return values | {f"cost {codec}": _cost(codec) / _ITEM for codec in codecs}


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
        self._nbytes = sum(_ITEM * parameter.data.size for parameter in parameters)
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

    def watched(self, backward: Callable[..., Any], loss: Any, *args: Any, **kwargs: Any) -> Any:
        """Run a backward pass, and record when its gradients are complete."""
        begun, came, last, first = time.perf_counter(), 0, 0.0, 0.0

        def record(number: int, gradient: Any) -> None:
            nonlocal came, last, first
            if first or is_small(gradient.shape):
                return
            now = time.perf_counter()
            came += _ITEM * gradient.size
            if came > BUCKET_BYTES[0]:
                first = last or now  # a gradient that no longer fits goes into the next bucket
            last = now

        with report_gradients(loss, self._parameters, record):
            result = backward(loss, *args, **kwargs)
        ended = time.perf_counter()
        if first or last:  # gradients that fill no bucket are sent after the last one
            self._left.append((ended - (first or last)) / (ended - begun))
        return result


def is_small(shape: Sequence[int]) -> bool:
    """Return whether a float32 gradient is sent uncompressed, with other small ones."""
    return _ITEM * math.prod(shape) < DIRECT_BYTES


def left(shape: Sequence[int], rank: int) -> int:
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
