"""Say whose gradient is not finite, alike on all ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from workbench.engine.exchange.finite import Findings
from workbench.engine.exchange.plan import Plan
from workbench.engine.exchange.transport import Transport


def not_finite(
    transport: Transport, plan: Plan, findings: Mapping[int, Findings], gradients: Sequence[Any]
) -> str:
    """Return one sentence on the first gradient that is not finite; collective.

    Args:
        findings: By number of the bucket, what this rank noticed on the way.
    """
    found = [  # what was copied is as it was, so each rank looks at its own
        (n, transport.rank)
        for bucket in (*plan.buckets, plan.closing)
        if bucket.fused
        for n in bucket.slots
        if n >= 0 and not numpy.isfinite(gradients[n]).all()
    ]
    for number, bucket in enumerate(plan.buckets):
        if not bucket.fused:
            found += [(bucket.slots[i], rank) for rank, i in findings[number].found]
    everybody = sorted({one for some in transport.comm.allgather(found) for one in some})
    if not everybody:
        return "A sum of gradients is too large for its type; scale the loss down."
    slot, rank = everybody[0]
    return (
        f"The gradient of {plan.shapes[slot].name} on rank {rank} is not finite (NaN or "
        "infinity), so nobody updated; lower the learning rate, clip gradients, or look at that "
        "rank's data."
    )
