"""Describe an exchange: its algorithms, whether compression pays, and what it took."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from workbench.core.performance.exchange_model import Algorithm, Codec, mark_codec
from workbench.core.units import gbits, size_text
from workbench.engine.exchange.bucket_layout import BucketLayout
from workbench.engine.exchange.costs import CostTrial
from workbench.engine.exchange.exchanger import ExchangeTally
from workbench.engine.exchange.reducer import Reducer
from workbench.engine.run_context import current
from workbench.engine.timing.mpi_calls import watch

CALL = "gradient exchange"
REPORT_SECONDS = 0.5

STALE = (
    "workbench: double buffering: each update uses the mean gradient of the previous step, so that "
    "the exchange has a whole step's time; compare the accuracy before you rely on it."
)


class Carrier(Protocol):
    """What exchanges gradients."""

    size: int
    reducer: Reducer
    overlaps: bool
    lacks_threads: bool

    @property
    def codec(self) -> Codec:
        """The codec of large gradients."""
        ...


class StepGradients(NamedTuple):
    """What is exchanged in a step.

    Args:
        arrays: Number of gradients.
        nbytes: Of all of them.
        largest: Bytes of the largest bucket.
        buckets: Their number.
    """

    arrays: int
    nbytes: int
    largest: int
    buckets: int


def describe_gradients(plan: BucketLayout) -> StepGradients:
    """Return what is exchanged with a layout."""
    largest = max((bucket.nbytes for bucket in plan.buckets), default=plan.closing.nbytes)
    return StepGradients(len(plan.shapes), plan.nbytes, largest, len(plan.buckets))


def sentence(carrier: Carrier, carried: StepGradients, found: CostTrial | None = None) -> str:
    """Return how gradients are exchanged.

    Args:
        found: The codec's measurements, if there is one and it compresses some of them.
    """
    reducer, size = carrier.reducer, carrier.size
    if size == 1:
        return "workbench: one rank has nothing to exchange."
    where = f"{size} ranks on {reducer.nodes} node{'s' if reducer.nodes > 1 else ''}"
    link = reducer.link if reducer.nodes > 1 else reducer.memory
    text = (
        f"workbench: {carried.arrays} gradients, {size_text(carried.nbytes)}, between {where} "
        f"({link.latency * 1e6:.0f} µs, {gbits(link.bandwidth)} Gbit/s): "
        f"{algorithm_name(reducer.algorithm(carried.largest), reducer.nodes)}"
    )
    if carrier.overlaps:
        text += f", {carried.buckets} buckets that leave during the backward pass"
    elif carrier.lacks_threads:
        text += ", after the backward pass: this MPI was started without MPI_THREAD_MULTIPLE"
    if carrier.codec is Codec.NONE:
        return text + "."
    return f"{text}, compressed by {carrier.codec}. {pays(carrier.codec, size, found)}"


def algorithm_name(one: Algorithm, nodes: int) -> str:
    """Return an algorithm's name; within one node the hierarchy is the shared memory."""
    if one is Algorithm.HIERARCHICAL and nodes == 1:
        return "shared memory"
    return "MPI's own algorithm" if one is Algorithm.MPI else str(one)


def pays(codec: Codec, size: int, found: CostTrial | None) -> str:
    """Return whether the codec was faster than none between ``size`` ranks, with the numbers."""
    if found is None:
        return f"No gradient is large enough for {codec}."
    plain = 2 * (size - 1) / size * found.nbytes
    numbers = (
        f"{size_text(found.nbytes)} of them took {found.coded * 1e3:.1f} ms "
        f"({found.coding * 1e3:.1f} of them coding) in place of {found.plain * 1e3:.1f} ms, and "
        f"{size_text(found.sent)} on the way in place of {size_text(plain)}"
    )
    if found.pays:
        return f"{codec} pays: {numbers}."
    return f"{codec} does not pay on this link: {numbers}; leave --compress out."


def find_compressed(plan: BucketLayout) -> list[tuple[int, ...]]:
    """Return the shapes of the gradients that are compressed."""
    return [plan.shapes[n].shape for one in plan.buckets if one.squeezed for n in one.slots]


def report_kind(codec: Codec, *, overlaps: bool, delayed: bool) -> None:
    """Have the rank's step times say how gradients are exchanged."""
    mark_codec(watch.details, codec)
    watch.details["overlaps"] = float(overlaps)
    watch.details["delayed"] = float(delayed)


def report_tally(tally: ExchangeTally) -> None:
    """Report the measurements of an exchange, if there is a run."""
    if (run := current()) is None:
        return
    values = [("exchange/bytes", tally.nbytes), ("exchange/seconds", tally.seconds)]
    if tally.coding:
        values.append(("exchange/coding", tally.coding))
    if tally.error:
        values.append(("exchange/error", tally.error))
    run.log.add_all(run.iteration + 1, tuple(values))
