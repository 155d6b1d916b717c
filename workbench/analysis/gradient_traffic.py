"""The bytes of gradients that a run sends over the network, and their cost in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from workbench.core.performance.exchange_model import Codec, read_codec
from workbench.core.run.metrics import EXCHANGE_PREFIX
from workbench.core.run.model import Run
from workbench.core.units import duration, size_text
from workbench.store import Store


@dataclass(frozen=True)
class GradientTraffic:
    """One step's gradient exchange by our communicator.

    Args:
        wire: Bytes that a rank sends.
        plain: Bytes that it would send without compression.
        seconds: Duration of the whole exchange, overlapped or not.
        coding: Seconds of it that a rank spends on compression.
    """

    codec: Codec
    wire: float
    plain: float
    seconds: float
    coding: float = 0.0


def read_gradient_traffic(store: Store, run: Run) -> GradientTraffic | None:
    """Return the gradient traffic of ``run``; None without our communicator."""
    reported = [
        one
        for one in store.reports.read_measured(run.id, EXCHANGE_PREFIX).values()
        if read_codec(one)
    ]
    ranks = run.fact.ranks
    if not reported or ranks < 2:
        return None
    first = reported[0]
    codec, nbytes = read_codec(first) or Codec.NONE, first.get("nbytes", 0.0)
    coded = nbytes * (1 - first.get("small", 0.0))
    return GradientTraffic(
        codec,
        wire=_mean(reported, "wire"),
        plain=2 * (ranks - 1) / ranks * nbytes,
        # The last rank to arrive waits for no other.
        seconds=min(one.get("whole", 0.0) for one in reported),
        coding=first.get(f"cost {codec}", 0.0) * coded,
    )


def sentence(carried: GradientTraffic) -> str:
    """Return the traffic as sentences."""
    took = f"The exchange takes {duration(carried.seconds)}"
    if carried.codec is Codec.NONE:
        return f"Each rank sends {size_text(carried.wire)} a step, uncompressed. {took}."
    if carried.coding:
        took += f", about {duration(carried.coding)} of it for compression"
    return (
        f"Compressed by {carried.codec}, each rank sends {size_text(carried.wire)} a step instead "
        f"of {size_text(carried.plain)}. {took}."
    )


def _mean(reported: Sequence[Mapping[str, float]], name: str) -> float:
    return fmean(one.get(name, 0.0) for one in reported)
