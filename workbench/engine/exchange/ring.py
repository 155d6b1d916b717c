"""Ring allreduce: every rank sends 2(n−1)/n of the bytes, and no algorithm sends less.

Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations" (2009).
Pieces are pipelined through all steps: each is sent on as soon as it has been added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
from mpi4py import MPI

from workbench.engine.exchange.chunks import ArraySlice, views
from workbench.engine.exchange.nonfinite import Findings, is_finite, is_suspect
from workbench.engine.exchange.parallel_sockets import Lanes
from workbench.engine.exchange.socket_ring import SocketRing
from workbench.engine.exchange.transport import Array, Transport

_ADD, _GATHER = 11, 12
PIECES = 4
"""The least number of pieces of each rank's part: one is added while the next arrives."""

DEPTH = 32
"""Pieces in flight while one is added."""

_SINGLE = numpy.dtype("f4")
_Way = Callable[[Array, int], Any]


class Ring:
    """A ring over a communicator, with its buffers.

    Args:
        comm: Neighbours by rank are neighbours on the ring.
        nbytes: Greatest size of a piece.
        ranks: The numbers in findings of the ranks of ``comm``.
    """

    def __init__(
        self, transport: Transport, comm: MPI.Intracomm, nbytes: int, ranks: Sequence[int]
    ) -> None:
        self._transport = transport
        self._comm = comm
        self._rank, self._size = comm.rank, comm.size
        self._ranks = ranks
        self.bandwidth = 0.0
        """Bytes a second to the next rank; 0 before it was measured."""
        self.lanes: Lanes | None = None
        """Sockets to use in place of MPI's own connections."""
        self.sockets: SocketRing | None = None
        """Exchanges single precision, if there is one."""
        self._room = [numpy.empty(nbytes, numpy.uint8) for _ in range(DEPTH)]
        self._begun: _Flow | None = None

    def begin(self, arrays: Sequence[Array], parts: Sequence[Sequence[ArraySlice]]) -> None:
        """Start to send what `mean` of the same arrays, the next to be called, will send first."""
        has_sockets = self.lanes is not None or self._sockets_for(arrays) is not None
        if self._begun is None and self._size > 1 and not has_sockets:
            self._begun = self._started(arrays, parts)

    def mean(
        self,
        arrays: Sequence[Array],
        parts: Sequence[Sequence[ArraySlice]],
        factor: float,
        findings: Findings | None,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Replace the ``parts`` of flat arrays by ``factor`` times their sum over the ranks.

        Args:
            findings: Receives the non-finite numbers; None for no check.
            meanwhile: Called often from when all sums are on their way, if MPI exchanges; may begin
                the next mean.
        """
        if self._size == 1:
            return
        if (sockets := self._sockets_for(arrays)) is not None:
            self._mean_directly(sockets, arrays, parts, factor, findings)
            return
        begun, self._begun = self._begun, None
        flow = begun if begun and begun.array is arrays[0] else self._started(arrays, parts)
        self._add(flow, factor, findings)
        self._gather(flow, meanwhile)

    def _sockets_for(self, arrays: Sequence[Array]) -> SocketRing | None:
        return self.sockets if arrays[0].dtype == _SINGLE else None

    def _mean_directly(
        self,
        sockets: SocketRing,
        arrays: Sequence[Array],
        parts: Sequence[Sequence[ArraySlice]],
        factor: float,
        findings: Findings | None,
    ) -> None:
        for part, piece, was_finite in sockets.mean(views(arrays, parts), self._rank, factor):
            if findings is not None:
                step = (self._rank - part) % self._size
                self._blame(findings, step, parts[part][piece], was_finite=was_finite)

    def _started(self, arrays: Sequence[Array], parts: Sequence[Sequence[ArraySlice]]) -> _Flow:
        rank, size = self._rank, self._size
        memory = views(arrays, parts)
        adding = [(s, p, v) for s in range(1, size) for p, v in _of(parts, memory, rank - s)]
        flow = _Flow(
            array=arrays[0],
            adding=adding,
            rooms=[
                self._room[k % DEPTH][: v.nbytes].view(v.dtype)
                for k, (_, _, v) in enumerate(adding)
            ],
            first=[v for _, v in _of(parts, memory, rank)],
            gathering=[v for s in range(size - 1) for _, v in _of(parts, memory, rank - s)],
            own=len(memory[(rank + 1) % size]),
            stays=len(memory[(rank + 2) % size]),
        )
        send, receive = self._ways()
        flow.coming = [receive(room, _ADD) for room in flow.rooms[:DEPTH]]
        if len(adding) <= DEPTH:
            flow.returning = [receive(view, _GATHER) for view in flow.gathering]
        flow.going = [send(view, _ADD) for view in flow.first]
        return flow

    def _add(self, flow: _Flow, factor: float, findings: Findings | None) -> None:
        settle, (send, receive) = self._transport.settle, self._ways()
        adding, coming, rooms = flow.adding, flow.coming, flow.rooms
        scale = adding[0][2].dtype.type(factor) if adding else factor
        patience = self._patience(flow.first)
        for k, (step, piece, view) in enumerate(adding):
            settle(coming[k], patience)
            numpy.add(view, rooms[k], view)
            if findings is not None and is_suspect(view):
                self._blame(findings, step, piece, was_finite=is_finite(rooms[k]))
            if k + DEPTH < len(adding):
                coming.append(receive(rooms[k + DEPTH], _ADD))
                if k + DEPTH + 1 == len(adding):  # receives match in this order
                    flow.returning = [receive(view, _GATHER) for view in flow.gathering]
            if k < len(adding) - flow.own:
                flow.going.append(send(view, _ADD))
            else:
                numpy.multiply(view, scale, view)
                flow.going.append(send(view, _GATHER))

    def _gather(self, flow: _Flow, meanwhile: Callable[[], None] | None) -> None:
        settle, (send, _) = self._transport.settle, self._ways()
        patience = self._patience(flow.first)
        handed_on = len(flow.gathering) - flow.stays
        for k, (request, view) in enumerate(zip(flow.returning, flow.gathering, strict=True)):
            if meanwhile is not None and k >= handed_on:
                meanwhile()
            settle(request, patience)
            if k < handed_on:
                flow.going.append(send(view, _GATHER))
        self._transport.settle_all(flow.going, patience)

    def _ways(self) -> tuple[_Way, _Way]:
        """Return the functions that start to send to the next rank and to receive from the last."""
        comm, lanes = self._comm, self.lanes
        if lanes is not None:
            return lambda view, _: lanes.send(view), lambda view, _: lanes.receive(view)
        right, left = (self._rank + 1) % self._size, (self._rank - 1) % self._size
        return (
            lambda view, tag: comm.Isend(view, right, tag),
            lambda view, tag: comm.Irecv(view, left, tag),
        )

    def _patience(self, part: Sequence[Array]) -> float:
        """Return half the seconds of a piece, if more pieces are queued behind it."""
        if len(part) < PIECES or not self.bandwidth:
            return 0.0
        return float(part[0].nbytes / self.bandwidth / 2)

    def _blame(self, findings: Findings, step: int, piece: ArraySlice, *, was_finite: bool) -> None:
        """Record the rank of a non-finite number; after the first step it is a sum of several.

        Args:
            was_finite: Whether what came from the previous rank was finite.
        """
        if was_finite:
            findings.note(self._ranks[self._rank], piece.number)
        elif step == 1:
            findings.note(self._ranks[self._rank - 1], piece.number)


@dataclass
class _Flow:
    """The pieces in the order in which they pass this rank, and their messages.

    Args:
        array: The first of the arrays.
        own: The number of pieces that become complete sums here.
        stays: The number of means that the next rank has.
    """

    array: Array
    adding: list[tuple[int, ArraySlice, Array]]
    rooms: list[Array]
    first: list[Array]
    gathering: list[Array]
    own: int
    stays: int
    coming: list[Any] = field(default_factory=list)
    returning: list[Any] = field(default_factory=list)
    going: list[Any] = field(default_factory=list)


def _of(
    parts: Sequence[Sequence[ArraySlice]], memory: Sequence[Sequence[Array]], part: int
) -> list[tuple[ArraySlice, Array]]:
    part %= len(parts)
    return [*zip(parts[part], memory[part], strict=True)]
