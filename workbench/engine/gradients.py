"""Tell of a model's gradients what each codec would make of them, and what that costs here."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from workbench.core.exchange import Codec
from workbench.engine.exchange.plan import DIRECT_BYTES
from workbench.engine.exchange.powersgd import is_worthwhile
from workbench.engine.exchange.telling import coding_seconds

RANK = 4  # of PowerSGD's approximation, where nobody says another
_ITEM = 4


def told_of(updater: Any) -> dict[str, float]:
    """Return what there is to tell of an updater's gradients; nothing where it has no models.

    ``gradients`` are bytes and ``arrays`` how many there are; ``small`` is the share of the bytes
    that no codec takes, ``powersgd`` the share that PowerSGD leaves; ``cost CODEC`` are seconds to
    code a byte once there and once back.
    """
    shapes = shapes_of(updater)
    nbytes = _ITEM * sum(math.prod(shape) for shape in shapes)
    if not nbytes:
        return {}
    told = {"gradients": float(nbytes), "arrays": float(len(shapes))}
    told["small"] = _ITEM * sum(math.prod(one) for one in shapes if is_small(one)) / nbytes
    told["powersgd"] = sum(_ITEM * left(shape, RANK) for shape in shapes) / nbytes
    codecs = (codec for codec in Codec if codec is not Codec.NONE)
    return told | {f"cost {codec}": _cost(codec) / _ITEM for codec in codecs}


def shapes_of(updater: Any) -> list[tuple[int, ...]]:
    """Return the shapes of all parameters that an updater's optimizers train."""
    optimizers: Callable[[], dict[str, Any]] = getattr(updater, "get_all_optimizers", dict)
    targets = [getattr(one, "target", None) for one in optimizers().values()]
    found = [p for one in targets if one is not None for p in one.params()]
    return [parameter.data.shape for parameter in found if parameter.data is not None]


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
