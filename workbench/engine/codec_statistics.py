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
from workbench.engine.exchange.backward import told_of_gradients
from workbench.engine.exchange.bucket_layout import DIRECT_BYTES
from workbench.engine.exchange.exchanger import BUCKET_BYTES
from workbench.engine.exchange.powersgd import is_worthwhile
from workbench.engine.exchange.summary import coding_seconds

RANK = 4  # of PowerSGD's approximation, where nobody says another
# Backward passes that are looked at, and which is the first of them.
PASSES, FIRST_PASS = 3, 3
_ITEM = 4


def told_of(updater: Any) -> dict[str, float]:
    """Return what there is to tell of an updater's gradients; nothing where it has no models.

    ``gradients`` are bytes and ``arrays`` how many there are; ``small`` is the share of the bytes
    that no codec takes, ``powersgd`` the share that PowerSGD leaves; ``cost CODEC`` are seconds to
    code a byte once there and once back.
    """
    shapes = [parameter.data.shape for parameter in parameters_of(updater)]
    nbytes = _ITEM * sum(math.prod(shape) for shape in shapes)
    if not nbytes:
        return {}
    told = {"gradients": float(nbytes), "arrays": float(len(shapes))}
    told["small"] = _ITEM * sum(math.prod(one) for one in shapes if is_small(one)) / nbytes
    told["powersgd"] = sum(_ITEM * left(shape, RANK) for shape in shapes) / nbytes
    codecs = (codec for codec in Codec if codec is not Codec.NONE)
    return told | {f"cost {codec}": _cost(codec) / _ITEM for codec in codecs}


def parameters_of(updater: Any) -> list[Any]:
    """Return all parameters that an updater's optimizers train, in the order of their names."""
    optimizers: Callable[[], dict[str, Any]] = getattr(updater, "get_all_optimizers", dict)
    targets = [getattr(one, "target", None) for one in optimizers().values()]
    named = [pair for one in targets if one is not None for pair in sorted(one.namedparams())]
    return [parameter for _, parameter in named if parameter.data is not None]


class Arrivals:
    """How early in the backward pass gradients are complete; looked at in a few passes.

    The first bucket leaves when it is full: from then on an exchange goes on beneath the rest of
    the pass.
    """

    def __init__(self, parameters: Sequence[Any]) -> None:
        self._parameters = parameters
        self._nbytes = sum(_ITEM * parameter.data.size for parameter in parameters)
        self._passes = 0
        self._left: list[float] = []

    @property
    def left(self) -> float | None:
        """The share of the pass that is left when the first can leave; None when unknown."""
        return median(self._left) if self._left else None

    def is_due(self) -> bool:
        """Count a pass that begins, and tell whether to look at it; the first are no measure."""
        self._passes += 1
        return bool(self._nbytes) and FIRST_PASS <= self._passes < FIRST_PASS + PASSES

    def watched(self, backward: Callable[..., Any], loss: Any, *args: Any, **kwargs: Any) -> Any:
        """Do a backward pass, and see when its gradients are complete."""
        begun, came, last, first = time.perf_counter(), 0, 0.0, 0.0

        def tell(number: int, gradient: Any) -> None:
            nonlocal came, last, first
            if first or is_small(gradient.shape):
                return
            now = time.perf_counter()
            came += _ITEM * gradient.size
            if came > BUCKET_BYTES[0]:
                first = last or now  # what no longer fits goes into the next
            last = now

        with told_of_gradients(loss, self._parameters, tell):
            result = backward(loss, *args, **kwargs)
        ended = time.perf_counter()
        if first or last:  # what fills no bucket leaves with the last of it
            self._left.append((ended - (first or last)) / (ended - begun))
        return result


def is_small(shape: Sequence[int]) -> bool:
    """Tell whether a gradient of single precision goes as it is, with what else is small."""
    return _ITEM * math.prod(shape) < DIRECT_BYTES


def left(shape: Sequence[int], rank: int) -> int:
    """Return the numbers that PowerSGD makes of a gradient."""
    if is_small(shape) or not is_worthwhile(shape, rank):
        return math.prod(shape)
    return rank * (shape[0] + math.prod(shape[1:]))


@lru_cache
def _cost(codec: Codec) -> float:
    """Return the seconds to code a number once there and once back; measured once a process."""
    return min(coding_seconds(codec, RANK, 2) for _ in range(2))  # the first loads what it needs


def cores() -> int:
    """Return the cores that the ranks of this node share."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
