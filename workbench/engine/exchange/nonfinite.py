"""Detect numbers that are not finite, and name their rank with the same error on all ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from workbench.engine.exchange.bucket_layout import BucketLayout
from workbench.engine.exchange.transport import Array, Transport


def is_suspect(array: Array) -> bool:
    """Whether some number of a flat array is not finite; a square that overflows is looked at."""
    return not math.isfinite(numpy.dot(array, array)) and not is_finite(array)


def is_finite(array: Array) -> bool:
    """Whether all numbers are finite."""
    return bool(numpy.isfinite(array).all())


class Findings:
    """Where numbers were found that are not finite, and whose they are."""

    def __init__(self) -> None:
        self.found: set[tuple[int, int]] = set()
        """Rank, and number of the array in the bucket's row."""

    def note(self, rank: int, index: int) -> None:
        """Note that ``rank`` gave such a number."""
        self.found.add((rank, index))


def not_finite(
    transport: Transport,
    plan: BucketLayout,
    findings: Mapping[int, Findings],
    gradients: Sequence[Any],
    flats: Mapping[int, Sequence[Any]],
) -> str:
    """Return one sentence on the first gradient that is not finite; collective.

    Empty where all that is wrong was never computed: before its first backward pass Chainer has a
    gradient full of NaN, which is let through as long as others are finite.

    Args:
        findings: By number of the bucket, what this rank noticed on the way.
        flats: By number of the bucket, the means of what lies in place.
    """
    own = {  # what was copied is as it was, so each rank looks at its own
        n: bool(numpy.isnan(gradients[n]).all())
        for bucket in (*plan.buckets, plan.closing)
        if bucket.fused
        for n in bucket.slots
        if n >= 0 and not numpy.isfinite(gradients[n]).all()
    }
    found = [(n, transport.rank, whole) for n, whole in own.items()]
    for number, means in flats.items():
        slots = plan.buckets[number].slots
        for rank, i in findings[number].found:
            found.append((slots[i], rank, bool(numpy.isnan(means[i]).all())))
    told = transport.comm.allgather(found)
    everybody = sorted({one for some in told for one in some})
    if not everybody:
        return "A sum of gradients is too large for its type; scale the loss down."
    amiss = {n for n, _, _ in everybody}
    computed = {n for n in plan.all_slots if n not in amiss}
    everywhere = all(len({r for m, r, _ in everybody if m == n}) == transport.size for n in own)
    if computed and everywhere and all(whole for _, _, whole in everybody):
        return ""
    slot, rank, _ = everybody[0]
    return (
        f"The gradient of {plan.shapes[slot].name} on rank {rank} is not finite (NaN or "
        "infinity), so no rank updated its model; lower the learning rate, clip gradients, or "
        "look at that rank's data."
    )
