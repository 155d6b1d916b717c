"""What is said of an exchange when it is planned: how it goes, and whether compression pays."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy

from workbench.core.exchange import Algorithm, Codec
from workbench.engine.exchange.codecs import BLOCK, elementwise, wire_bytes
from workbench.engine.exchange.compressed import TOP_SHARE
from workbench.engine.exchange.plan import Plan
from workbench.engine.exchange.powersgd import orthonormalise

if TYPE_CHECKING:
    from workbench.engine.exchange.communicator import ExchangeCommunicator

STALE = (
    "workbench: double buffering: each update uses the mean gradient of the step before, so that "
    "the exchange has a whole step's time; compare the accuracy before you rely on it."
)
_SAMPLE = 32 * BLOCK


def sentence(comm: ExchangeCommunicator, plan: Plan) -> str:
    """Return how the gradients of a plan are exchanged."""
    reducer, exchanger = comm.reducer, comm.exchanger
    if comm.size == 1:
        return "workbench: one rank has nothing to exchange."
    largest = max((bucket.nbytes for bucket in plan.buckets), default=plan.closing.nbytes)
    where = f"{comm.size} ranks on {reducer.nodes} node{'s' if reducer.nodes > 1 else ''}"
    link = reducer.link if reducer.nodes > 1 else reducer.memory
    text = (
        f"workbench: {len(plan.shapes)} gradients, {plan.nbytes / 1e6:.1f} MB, between {where} "
        f"({link.latency * 1e6:.0f} µs, {link.bandwidth * 8e-9:.2f} Gbit/s): "
        f"{told(reducer.algorithm(largest), reducer.nodes)}"
    )
    if comm.overlaps:
        text += f", {len(plan.buckets)} buckets that leave during the backward pass"
    elif comm.lacks_threads:
        text += ", after the backward pass: this MPI was started without MPI_THREAD_MULTIPLE"
    if exchanger.codec is Codec.NONE:
        return text + "."
    return f"{text}, compressed by {exchanger.codec}. {pays(comm, plan)}"


def told(one: Algorithm, nodes: int) -> str:
    """Return what an algorithm is called; within one node the hierarchy is the shared memory."""
    if one is Algorithm.HIERARCHICAL and nodes == 1:
        return "shared memory"
    return "MPI's own algorithm" if one is Algorithm.MPI else str(one)


def pays(comm: ExchangeCommunicator, plan: Plan) -> str:
    """Return whether the codec is quicker than no codec, with the numbers."""
    squeezed = sum(bucket.nbytes for bucket in plan.buckets if bucket.squeezed)
    codec = comm.exchanger.codec
    if not squeezed:
        return f"No gradient is large enough for {codec}."
    plain = comm.reducer.expected(squeezed)
    cost = coding_seconds(codec, comm.exchanger.rank, comm.size) * squeezed / 4
    wire = _wire(comm, plan, codec, squeezed)
    coded = comm.reducer.expected(wire) + cost
    numbers = (
        f"{wire / 1e6:.2f} MB in place of {squeezed / 1e6:.1f}, about {coded * 1e3:.1f} ms "
        f"({cost * 1e3:.1f} of them coding) in place of {plain * 1e3:.1f} ms"
    )
    if coded < plain:
        return f"{codec}: {numbers}."
    return f"{codec} does not pay on this link: {numbers}; leave --compress out."


def coding_seconds(codec: Codec, rank: int, ranks: int) -> float:
    """Measure the seconds that a rank codes each element, once there and once back."""
    values = numpy.random.RandomState(0).standard_normal(_SAMPLE).astype("f4")
    start = time.perf_counter()
    if codec is Codec.POWERSGD:
        matrix = values.reshape(1200, -1)
        right = matrix[:rank].copy()
        left = numpy.ascontiguousarray((matrix @ right.T).T)
        orthonormalise(left)
        matrix -= left.T @ (left @ matrix)
    elif codec is Codec.TOPK:
        numpy.argpartition(numpy.abs(values), -int(TOP_SHARE * _SAMPLE))
    else:
        code, wire = elementwise(codec), numpy.empty(0, "u1")
        wire = numpy.empty(wire_bytes(code, BLOCK), "u1")
        for block in values.reshape(-1, BLOCK):
            code.encode(block, wire)
            code.decode(wire, block)
            code.decode(wire, block)
    return (time.perf_counter() - start) / _SAMPLE


def _wire(comm: ExchangeCommunicator, plan: Plan, codec: Codec, squeezed: int) -> float:
    """Return the bytes that go the way of ``squeezed``, as an exact exchange would count them."""
    if codec is Codec.POWERSGD:
        sides = 0
        for bucket in (b for b in plan.buckets if b.squeezed):
            for n in bucket.slots:
                shape = plan.shapes[n].shape
                sides += int(shape[0]) + plan.shapes[n].size // int(shape[0])
        return float(4 * comm.exchanger.rank * sides)
    if codec is Codec.TOPK:
        return float(squeezed * TOP_SHARE * comm.size)
    return float(squeezed * elementwise(codec).width / 4)
