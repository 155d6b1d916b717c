"""Average one bucket exactly, with the algorithm that measured fastest."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from statistics import median

import numpy
from mpi4py import MPI

from workbench.core.performance.exchange_model import (
    Algorithm,
    AlgorithmTrial,
    Link,
    choose,
    corrected_seconds,
    equal_shares,
    possible_algorithms,
    ring_shares,
    seconds,
)
from workbench.engine.exchange.nonfinite import NonfiniteFindings, is_suspect
from workbench.engine.exchange.ring import SINGLE, Ring, open_ring
from workbench.engine.exchange.shared_memory import PIECE_BYTES, SharedMemory
from workbench.engine.exchange.transport import Array, ArraySlice, Transport, cut

_PROBE_BYTES = 2 << 20
_PROBES = 3
# For memory: a probe is short, and is slow whenever another program has the core.
_MEMORY_PROBES = 12
# Sizes at which each algorithm is tried, while the model says that it is over soon. From powers of
# two on a library takes other algorithms, which may be twice as slow: small ones are between them,
# and on either side of 8 kB, from where Open MPI takes more messages on four nodes and more.
_SMALL_TRIALS = (768, 6 << 10, 9 << 10, 24 << 10, 96 << 10)
_TRIAL_BYTES = (*_SMALL_TRIALS, 256 << 10, 1 << 20, 4 << 20)
_MEMORY_TRIAL_BYTES = (64 << 10, 256 << 10, 1 << 20, 4 << 20)
# 4 MB count most: at 1 MB eight ranks on two cores were quicker by the library, which took 190 ms
# for 10 MB where a ring took 108. That is tried down to 90 MB/s between eight nodes.
_TRIAL_SECONDS = 0.08
# Repetitions of one size: as many as end in this time.
_SIZE_SECONDS = 0.1
_TRIALS, _MEMORY_TRIALS = (2, 25), (4, 9)
# Short exchanges between nodes are timed so many in a row: ranks that share cores leave a barrier
# together, and an exchange not. Longer ones in a row would use up what a link lets through at once.
_IN_A_ROW, _SHORT_BYTES = 8, 16 << 10
# The quantile that counts between nodes.
_TYPICAL = 0.25
# A way whose best is slower by this factor is not tried again.
_HOPELESS = 3.0
# Arrays up to this size together are copied into one message, where each message has its price.
_FUSED_BYTES = 4 << 20
# Unequal parts of a ring must be quicker by this factor than equal ones, with so many bytes.
_DIVIDED_BYTES, _DIVIDED_TRIALS, _GAIN = 4 << 20, 3, 0.9
_MOST_SIZES = 1000
# An enumeration's attribute is looked up in Python, and a type's name is parsed.
_LIBRARY = Algorithm.MPI
_ROUND = (Algorithm.RING, Algorithm.HIERARCHICAL)


class Reducer:
    """Averages flat arrays over the ranks of a transport; its creation is collective.

    Args:
        algorithm: The algorithm for all sizes; None to choose by size and link.
    """

    def __init__(self, transport: Transport, algorithm: Algorithm | None = None) -> None:
        self.transport = transport
        self.forced = algorithm
        self._is_alone = transport.size == 1
        self._one, self._factor = numpy.ones((), "f4"), numpy.array(1.0 / transport.size, "f4")
        self.nodes = len(transport.nodes)
        self.per_node = max(len(ranks) for ranks in transport.nodes)
        own = next(ranks for ranks in transport.nodes if transport.rank in ranks)
        self._shared = self._share(own)
        self._ring = self._open_ring()
        self._cuts: dict[tuple[int, ...], list[list[ArraySlice]]] = {}
        self._together = numpy.empty(0, numpy.uint8)
        self._trials: tuple[AlgorithmTrial, ...] = ()
        self._chosen: dict[int, Algorithm] = {}
        self.memory, self.link = self._measure()
        self.shares: tuple[float, ...] = ()
        """Each node's part in a ring whose links differ; empty for equal parts."""
        if self.nodes > 1:
            self.shares = self._divide()
        if transport.size > 1 and algorithm is None:
            self._trials = self._try_all()

    @property
    def sockets(self) -> int:
        """Sockets of our own to each neighbour; 0 where MPI's connections are used."""
        return 0 if self._ring is None else self._ring.sockets

    def algorithm(self, nbytes: int) -> Algorithm:
        """Return the algorithm for ``nbytes``; the same on all ranks."""
        if self.forced is not None:
            return self._possible(self.forced)
        if nbytes not in self._chosen:
            shape = (self.nodes, self.per_node, self.link, self.memory)
            if len(self._chosen) == _MOST_SIZES:
                self._chosen.clear()
            self._chosen[nbytes] = self._possible(choose(nbytes, *shape, self._trials))
        return self._chosen[nbytes]

    def algorithm_of_message(self, nbytes: int) -> Algorithm:
        """Return the algorithm for what closes a step; the same on all ranks.

        Where a ring was named, a few bytes do not go round it: between eight nodes that took 27 ms.
        """
        one = self.algorithm(nbytes)
        is_short = self.forced is not None and nbytes <= _SHORT_BYTES
        return Algorithm.MPI if one in _ROUND and is_short else one

    def predict_seconds(self, nbytes: float) -> float:
        """Return the modelled seconds of an average of ``nbytes``."""
        one = self.algorithm(int(nbytes))
        shape = (self.nodes, self.per_node, self.link, self.memory)
        return corrected_seconds(one, nbytes, *shape, self._trials)

    def mean(
        self,
        arrays: Sequence[Array],
        findings: NonfiniteFindings | None = None,
    ) -> Algorithm:
        """Replace flat arrays of one type by their mean over the ranks.

        Args:
            findings: Receives the non-finite numbers.
        """
        sizes = tuple(len(array) for array in arrays)
        factor = 1.0 / self.transport.size
        one = self.algorithm(sum(sizes) * arrays[0].itemsize if arrays else 0)
        if one is Algorithm.RING and arrays[0].dtype != SINGLE:
            one = _LIBRARY
        if self.transport.size == 1 or not sum(sizes):
            self._scan(arrays, findings)
        elif one is Algorithm.RING:
            assert self._ring is not None
            self._ring.mean(arrays, self._parts(sizes, self._ring.size), factor, findings)
        elif one is Algorithm.HIERARCHICAL:
            self._hierarchical(arrays, sizes, factor, findings)
        else:
            self._scan(arrays, findings)
            self._each(self.transport.comm, arrays, factor)
        return one

    def total(self, array: Array) -> Array:
        """Replace a flat array by its sum over the ranks, or what it has to be multiplied by.

        Returns:
            The factor that makes the mean of it: 1 where the mean is there already.
        """
        if self._is_alone:
            return self._one
        one = self._chosen.get(array.nbytes) if self.forced is None else None
        if one is None:
            one = self.algorithm_of_message(array.nbytes)
        if one is not _LIBRARY:
            self.mean([array])
            return self._one
        self.transport.comm.Allreduce(MPI.IN_PLACE, array)
        return self._factor

    def _each(self, comm: MPI.Intracomm, arrays: Sequence[Array], factor: float) -> None:
        """Average arrays by MPI's own allreduce, which takes one at a time.

        Between nodes small ones go together, as the algorithm was chosen for their sum.
        """
        scale = arrays[0].dtype.type(factor)
        if len(arrays) == 1 or self.nodes == 1 or sum(a.nbytes for a in arrays) > _FUSED_BYTES:
            for array in arrays:
                comm.Allreduce(MPI.IN_PLACE, array)
                numpy.multiply(array, scale, array)
            return
        if not self._together.nbytes:
            self._together = numpy.empty(_FUSED_BYTES, numpy.uint8)
        ends = [0, *accumulate(len(array) for array in arrays)]
        flat = self._together[: ends[-1] * arrays[0].itemsize].view(arrays[0].dtype)
        numpy.concatenate(arrays, out=flat)
        comm.Allreduce(MPI.IN_PLACE, flat)
        for array, (start, end) in zip(arrays, pairwise(ends), strict=True):
            numpy.multiply(flat[start:end], scale, array)

    def _hierarchical(
        self,
        arrays: Sequence[Array],
        sizes: tuple[int, ...],
        factor: float,
        findings: NonfiniteFindings | None,
    ) -> None:
        assert self._shared is not None
        pieces = self._cut(sizes, 1, PIECE_BYTES // arrays[0].itemsize)[0]
        across = self.transport.across
        if self.nodes == 1 or across is None:
            self._shared.mean(arrays, pieces, factor, findings)
            return
        self._shared.scatter_sum(arrays, pieces, findings)
        shares = [self._shared.share(arrays[p.number][p.start : p.stop]) for p in pieces]
        if self._ring is None or arrays[0].dtype != SINGLE:
            self._each(across, shares, factor)
        else:
            lengths = tuple(len(share) for share in shares)
            self._ring.mean(shares, self._parts(lengths, self.nodes), factor, None)
        self._shared.gather(arrays, pieces)

    def _scan(self, arrays: Sequence[Array], findings: NonfiniteFindings | None) -> None:
        """Check this rank's own numbers before, for algorithms that do not check them."""
        if findings is not None:
            for index, array in enumerate(arrays):
                if is_suspect(array):
                    findings.note(self.transport.rank, index)

    def _parts(self, sizes: tuple[int, ...], ranks: int) -> list[list[ArraySlice]]:
        """Return each rank's part in a ring."""
        shares = self.shares if len(self.shares) == ranks else ()
        return self._cut(sizes, ranks, max(1, sum(sizes)), shares)

    def _cut(
        self, sizes: tuple[int, ...], parts: int, most: int, shares: tuple[float, ...] = ()
    ) -> list[list[ArraySlice]]:
        key = (parts, most, len(shares), *sizes)
        if key not in self._cuts:
            self._cuts[key] = cut(sizes, parts, most, shares)
        return self._cuts[key]

    def _possible(self, one: Algorithm) -> Algorithm:
        if one is Algorithm.HIERARCHICAL and self._shared is None:
            one = Algorithm.RING
        if one is Algorithm.RING and (self._ring is None or self._ring.size < self.transport.size):
            return Algorithm.MPI
        return one

    def _share(self, own: Sequence[int]) -> SharedMemory | None:
        """Allocate shared memory, if all nodes can and have the same number of ranks."""
        shared = None
        if self.transport.is_even:
            with contextlib.suppress(OSError):
                shared = SharedMemory(self.transport.node, own)
        there = self.transport.comm.allreduce(shared is not None, MPI.LAND)
        return shared if there else None

    def _open_ring(self) -> Ring | None:
        """Open sockets between nodes, or between all ranks where a ring was named; collective."""
        transport = self.transport
        is_whole = self.forced is Algorithm.RING or self.per_node == 1
        comm = transport.comm if is_whole else transport.across
        if comm is None or (self.nodes == 1 and not is_whole):
            return None
        key = f"ring of {comm.size}"
        if key not in transport.kept:
            column = [node[transport.local_rank] for node in transport.nodes]
            opened = open_ring(comm, range(transport.size) if is_whole else column)
            everywhere = transport.comm.allreduce(opened is not None, MPI.LAND)
            transport.kept[key] = opened if everywhere else None
        ring: Ring | None = transport.kept[key]
        return ring

    def _measure(self) -> tuple[Link, Link]:
        """Measure memory, and the link between nodes; collective."""
        transport = self.transport
        memory = _probe_link(transport, transport.node)
        link = memory
        if self.nodes > 1:
            link = _probe_link(transport, transport.across or transport.comm)
        if self.sockets > 1:
            link = replace(link, bandwidth=self._ring_bandwidth())
        return memory, link

    def _ring_bandwidth(self) -> float:
        """Return the bytes per second of all sockets together to the next rank; collective."""
        assert self._ring is not None
        array = numpy.zeros(_PROBE_BYTES // 4, "f4")
        parts = self._cut((len(array),), self._ring.size, len(array))
        took = min(self._time_ring(array, parts) for _ in range(_PROBES))
        sent = 2 * (self._ring.size - 1) / self._ring.size * array.nbytes
        return sent / max(self.transport.largest(took), 1e-9)

    def _time_ring(self, array: Array, parts: list[list[ArraySlice]]) -> float:
        assert self._ring is not None
        self.transport.comm.Barrier()
        start = time.perf_counter()
        self._ring.mean([array], parts, 1.0, None)
        return time.perf_counter() - start

    def _divide(self) -> tuple[float, ...]:
        """Return unequal parts of a ring with a slow node, if they prove quicker; collective."""
        transport = self.transport
        comm = transport.across or transport.comm
        shares = ring_shares(_rates(transport, comm))
        differs = shares != equal_shares(comm.size)
        if not transport.comm.allreduce(differs, MPI.LOR):
            return ()
        if transport.across is not None and transport.across.size < transport.size:
            one = Algorithm.HIERARCHICAL
        else:
            one = Algorithm.RING
        if self._possible(one) is not one:
            return ()
        array = numpy.zeros(_DIVIDED_BYTES // 4, "f4")
        took: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(_DIVIDED_TRIALS):
            for divides in took:
                self.shares = shares if divides else ()
                took[divides] += self._round([one], array)
        self.shares = ()
        return shares if median(took[True]) < _GAIN * median(took[False]) else ()

    def _try_all(self) -> tuple[AlgorithmTrial, ...]:
        """Measure each algorithm with small messages; the same on all ranks."""
        shape = (self.nodes, self.per_node, self.link, self.memory)
        ways = [
            one
            for one in possible_algorithms(self.nodes, self.per_node)
            if self._possible(one) is one
        ]
        found: list[AlgorithmTrial] = []
        closing = 0.0  # the message that closes a step, which other ways can carry themselves
        for nbytes in _TRIAL_BYTES if self.nodes > 1 else _MEMORY_TRIAL_BYTES:
            soon = [one for one in ways if seconds(one, nbytes, *shape) < _TRIAL_SECONDS]
            if not soon:
                continue
            took = self._time_all(soon, nbytes)
            if self.nodes > 1 and not found:
                closing = took.get(_LIBRARY, 0.0)
            found += [
                AlgorithmTrial(one, nbytes, took[one] + (closing if one in _ROUND else 0.0))
                for one in soon
            ]
        return tuple(found)

    def _time_all(self, ways: Sequence[Algorithm], nbytes: int) -> dict[Algorithm, float]:
        """Return each way's typical seconds on the slowest rank.

        The first round opens connections, so it neither counts nor says how many more there is
        time for. All ways take turns, so that a load on the cores or the link falls on all of
        them; of what a load adds, the lower quartile has less than the median. Within one node
        the shortest count: ranks that add in step are slowed most by other programs. A way that
        is far from the quickest leaves its time to further rounds of the others.
        """
        array = numpy.zeros(nbytes // 4, "f4")
        fewest, most = _TRIALS if self.nodes > 1 else _MEMORY_TRIALS
        share = _TYPICAL if self.nodes > 1 else 0.0
        in_a_row = _IN_A_ROW if self.nodes > 1 and nbytes <= _SHORT_BYTES else 1
        self._round(ways, array)
        found: dict[Algorithm, list[float]] = {one: [] for one in ways}
        left, spent, number = [*ways], 0.0, 0  # the same on all ranks
        while number < fewest or (number < most and spent < _SIZE_SECONDS):
            for one, value in zip(left, self._round(left, array, in_a_row), strict=True):
                found[one].append(value)
            number += 1
            if number >= fewest:
                least = min(min(found[one]) for one in left)
                left = [one for one in left if min(found[one]) <= _HOPELESS * least]
            spent += in_a_row * sum(found[one][-1] for one in left)
        return {one: float(numpy.quantile(some, share)) for one, some in found.items()}

    def _round(self, ways: Sequence[Algorithm], array: Array, in_a_row: int = 1) -> list[float]:
        """Average an array ``in_a_row`` times in each way.

        Returns:
            The seconds of one average in each way, on the slowest rank.
        """
        before, findings, took = self.forced, NonfiniteFindings(), numpy.zeros(len(ways))
        for number, one in enumerate(ways):
            self.forced = one
            self.transport.comm.Barrier()
            start = time.perf_counter()
            for _ in range(in_a_row):
                self.mean([array], findings)
            took[number] = (time.perf_counter() - start) / in_a_row
        self.forced = before
        self.transport.comm.Allreduce(MPI.IN_PLACE, took, MPI.MAX)
        return took.tolist()


def reducer_of(transport: Transport, algorithm: Algorithm | None) -> Reducer:
    """Return the reducer of a transport; the first call for an algorithm is collective."""
    key = f"reducer {algorithm}"
    if key not in transport.kept:
        transport.kept[key] = Reducer(transport, algorithm)
    found: Reducer = transport.kept[key]
    return found


def _probe_link(transport: Transport, comm: MPI.Intracomm) -> Link:
    """Measure the link between the ranks of ``comm``, all pairs of neighbours at once; collective.

    The shortest probe counts, of the slowest rank, including ranks that measure outside of
    ``comm``; but not the first, as a link lets some bytes pass at once after a pause.
    """
    within = comm is transport.node
    probes, most = _PROBES, transport.eager_bytes
    if within:
        probes, most = _MEMORY_PROBES, _PROBE_BYTES
    tiny, large = numpy.zeros(1, "u1"), numpy.zeros(_PROBE_BYTES // 2, "u1")
    latency = min(_pass_pieces(transport, comm, tiny, most) for _ in range(5 * probes))
    whole = min([_pass_pieces(transport, comm, large, most) for _ in range(1 + probes)][1:])
    latency, whole = transport.largest(latency), transport.largest(whole)
    return Link(latency, large.nbytes / max(whole - latency, 1e-9))


def _rates(transport: Transport, comm: MPI.Intracomm) -> list[float]:
    """Return the bytes per second from each rank of ``comm`` to the next, all at once; collective.

    It is the receiver that knows when all have arrived; pieces need no answer from it.
    """
    message = numpy.zeros(_PROBE_BYTES, "u1")
    took = []
    for _ in range(_PROBES):
        transport.comm.Barrier()
        took.append(_pass_pieces(transport, comm, message, transport.eager_bytes))
    received: list[float] = comm.allgather(_PROBE_BYTES / max(min(took), 1e-9))
    return [*received[1:], received[0]]


def _pass_pieces(transport: Transport, comm: MPI.Intracomm, message: Array, most: int) -> float:
    """Send to the next rank in pieces; return the seconds until the previous one's are here."""
    room = numpy.empty_like(message)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    cuts = [slice(at, at + most) for at in range(0, len(message), most)]
    start = time.perf_counter()
    coming = [comm.Irecv(room[one], left, 1) for one in cuts]
    going = [comm.Isend(message[one], right, 1) for one in cuts]
    transport.settle_all(coming)
    took = time.perf_counter() - start
    transport.settle_all(going)
    return took
