"""Detect non-finite numbers, and raise the same error with their rank on all ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from workbench.engine.exchange.bucket_layout import BucketLayout
from workbench.engine.exchange.transport import Array, Transport
from workbench.errors import GradientError


def is_suspect(array: Array) -> bool:
    """Return whether a flat array has non-finite numbers; checks again if a square overflows."""
    return not math.isfinite(array.dot(array)) and not is_finite(array)


def is_finite(array: Array) -> bool:
    """Return whether all numbers are finite."""
    return bool(numpy.isfinite(array).all())


class NonfiniteFindings:
    """The non-finite numbers that were found, with their ranks."""

    def __init__(self) -> None:
        self.found: set[tuple[int, int]] = set()
        """Rank, and number of the array in the bucket's row."""

    def note(self, rank: int, index: int) -> None:
        """Record that ``rank`` has such a number."""
        self.found.add((rank, index))


def find_nonfinite(
    transport: Transport,
    plan: BucketLayout,
    findings: Mapping[int, NonfiniteFindings],
    gradients: Sequence[Any],
    flats: Mapping[int, Sequence[Any]],
) -> GradientError | None:
    """Return an error on the first gradient that is not finite; collective.

    None if all of them were never computed: before its first backward pass Chainer has a
    gradient full of NaN, which is allowed as long as others are finite.

    Args:
        findings: By number of the bucket, this rank's findings during the exchange.
        flats: By number of the bucket, the means in place.
    """
    own = {  # copied gradients are unchanged, so each rank checks its own
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
    gathered = transport.comm.allgather(found)
    all_found = sorted({one for some in gathered for one in some})
    if not all_found:
        return GradientError("A sum of gradients is too large for its type", "scale the loss down.")
    nonfinite = {n for n, _, _ in all_found}
    computed = {n for n in plan.all_slots if n not in nonfinite}
    everywhere = all(len({r for m, r, _ in all_found if m == n}) == transport.size for n in own)
    if computed and everywhere and all(whole for _, _, whole in all_found):
        return None
    slot, rank, _ = all_found[0]
    return GradientError(
        f"The gradient of {plan.shapes[slot].name} on rank {rank} is not finite (NaN or "
        "infinity), so no rank updated its model",
        "lower the learning rate, clip gradients, or check that rank's data.",
    )
