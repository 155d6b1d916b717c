"""Estimate for each codec the error and cost of compressing a model's gradients."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import lru_cache

from workbench.core.performance.exchange_model import Codec
from workbench.engine.exchange.bucket_layout import DIRECT_BYTES
from workbench.engine.exchange.costs import coding_seconds
from workbench.engine.exchange.powersgd import is_worthwhile

RANK = 4  # PowerSGD's default rank
ITEM = 4


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
