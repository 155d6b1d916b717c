"""Describe a planned exchange: its algorithms, and whether compression pays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.core.performance.exchange_model import Algorithm, Codec
from workbench.core.units import gbits, size_text
from workbench.engine.exchange import costs
from workbench.engine.exchange.bucket_layout import BucketLayout
from workbench.engine.exchange.costs import Trial, trial

if TYPE_CHECKING:
    from workbench.engine.exchange.communicator import ExchangeCommunicator

STALE = (
    "workbench: double buffering: each update uses the mean gradient of the previous step, so that "
    "the exchange has a whole step's time; compare the accuracy before you rely on it."
)


def sentence(comm: ExchangeCommunicator, plan: BucketLayout, found: Trial | None = None) -> str:
    """Return how the gradients of a layout are exchanged.

    Args:
        found: The codec's measurements, if there is one and it compresses some of them.
    """
    reducer, exchanger = comm.reducer, comm.exchanger
    if comm.size == 1:
        return "workbench: one rank has nothing to exchange."
    largest = max((bucket.nbytes for bucket in plan.buckets), default=plan.closing.nbytes)
    where = f"{comm.size} ranks on {reducer.nodes} node{'s' if reducer.nodes > 1 else ''}"
    link = reducer.link if reducer.nodes > 1 else reducer.memory
    text = (
        f"workbench: {len(plan.shapes)} gradients, {size_text(plan.nbytes)}, between {where} "
        f"({link.latency * 1e6:.0f} µs, {gbits(link.bandwidth)} Gbit/s): "
        f"{algorithm_name(reducer.algorithm(largest), reducer.nodes)}"
    )
    if comm.overlaps:
        text += f", {len(plan.buckets)} buckets that leave during the backward pass"
    elif comm.lacks_threads:
        text += ", after the backward pass: this MPI was started without MPI_THREAD_MULTIPLE"
    if exchanger.codec is Codec.NONE:
        return text + "."
    return f"{text}, compressed by {exchanger.codec}. {pays(comm, plan, found)}"


def algorithm_name(one: Algorithm, nodes: int) -> str:
    """Return an algorithm's name; within one node the hierarchy is the shared memory."""
    if one is Algorithm.HIERARCHICAL and nodes == 1:
        return "shared memory"
    return "MPI's own algorithm" if one is Algorithm.MPI else str(one)


def pays(comm: ExchangeCommunicator, plan: BucketLayout, found: Trial | None) -> str:
    """Return whether the codec was faster than none, with the numbers."""
    codec = comm.exchanger.codec
    if found is None:
        return f"No gradient is large enough for {codec}."
    size = comm.size
    plain = 2 * (size - 1) / size * found.nbytes
    numbers = (
        f"{size_text(found.nbytes)} of them took {found.coded * 1e3:.1f} ms "
        f"({found.coding * 1e3:.1f} of them coding) in place of {found.plain * 1e3:.1f} ms, and "
        f"{size_text(found.sent)} on the way in place of {size_text(plain)}"
    )
    if found.pays:
        return f"{codec} pays: {numbers}."
    return f"{codec} does not pay on this link: {numbers}; leave --compress out."


def tried(comm: ExchangeCommunicator, plan: BucketLayout) -> Trial | None:
    """Return the codec's measurements; None if it compresses nothing. Collective."""
    numbers = [n for bucket in plan.buckets if bucket.squeezed for n in bucket.slots]
    if not numbers:
        return None
    shapes = [plan.shapes[n].shape for n in numbers]
    return trial(comm.reducer, comm.exchanger.codec, shapes, comm.exchanger.rank)


def coding_seconds(codec: Codec, rank: int, ranks: int) -> float:
    """Measure the core seconds per element of one of ``ranks``."""
    return costs.coding_seconds(codec, rank, ranks)
