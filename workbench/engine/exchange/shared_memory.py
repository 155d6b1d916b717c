"""Allreduce over the shared memory of one node's ranks, in chunks that fit the cache.

MPI's own transport between processes copies each message into its memory and out of it. Here each
rank writes what others have to add, adds its share, and reads what others have added: the gradients
themselves are read once and written once.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

import numpy
from mpi4py import MPI

from workbench.engine.exchange.nonfinite import NonfiniteFindings, is_finite, is_suspect
from workbench.engine.exchange.transport import Array, ArraySlice

PIECE_BYTES = 1024 << 10
_SLOTS = 2
_MARK_BYTES = 16


class SharedMemory:
    """Memory shared by all ranks of a communicator; its creation is collective.

    Args:
        ranks: The numbers in findings of the ranks of ``comm``.

    Raises:
        OSError: Some rank cannot map it; all ranks raise.
    """

    def __init__(self, comm: MPI.Intracomm, ranks: Sequence[int]) -> None:
        self._comm = comm
        self._rank, self._size = comm.rank, comm.size
        self._ranks = ranks
        memory = map_memory(comm, 2 * _SLOTS * PIECE_BYTES * comm.size)
        whole = numpy.frombuffer(memory, numpy.uint8)
        self._room = whole.reshape(comm.size, 2, _SLOTS, PIECE_BYTES)

    def mean(
        self,
        arrays: Sequence[Array],
        pieces: Sequence[ArraySlice],
        factor: float,
        findings: NonfiniteFindings | None,
    ) -> None:
        """Replace pieces of flat arrays by ``factor`` times their sum over the ranks.

        Pieces have at most ``PIECE_BYTES``. They are pipelined: one is written, the previous one
        added, and the one before that read.
        """
        views = [arrays[p.number][p.start : p.stop] for p in pieces]
        for tick in range(len(views) + 2):
            if tick < len(views):
                self._put(views[tick], tick % _SLOTS)
            if 1 <= tick <= len(views):
                before = tick - 1
                index = pieces[before].number
                self._add(views[before], before % _SLOTS, factor, findings, index)
            if tick >= 2:
                self._take(views[tick - 2], tick % _SLOTS, factor)
            self._comm.Barrier()

    def scatter_sum(
        self,
        arrays: Sequence[Array],
        pieces: Sequence[ArraySlice],
        findings: NonfiniteFindings | None,
    ) -> None:
        """Replace this rank's share of each piece by its sum over the ranks of the node."""
        views = [arrays[p.number][p.start : p.stop] for p in pieces]
        for tick in range(len(views) + 1):
            if tick < len(views):
                self._put(views[tick], tick % _SLOTS)
            if tick >= 1:
                before = tick - 1
                index = pieces[before].number
                self._add(views[before], before % _SLOTS, 1.0, findings, index)
            self._comm.Barrier()

    def gather(self, arrays: Sequence[Array], pieces: Sequence[ArraySlice]) -> None:
        """Distribute all shares of each piece to every rank of the node."""
        views = [arrays[p.number][p.start : p.stop] for p in pieces]
        for tick in range(len(views) + 1):
            if tick < len(views):
                own = self.share(views[tick])
                numpy.copyto(self._slot(self._rank, 1, tick % _SLOTS, own), own)
            if tick >= 1:
                self._take(views[tick - 1], (tick - 1) % _SLOTS, 1.0)
            self._comm.Barrier()

    def share(self, view: Array, rank: int | None = None) -> Array:
        """Return the part of a piece that this rank, or another of the node, adds up."""
        rank = self._rank if rank is None else rank
        return view[len(view) * rank // self._size : len(view) * (rank + 1) // self._size]

    def _slot(self, rank: int, out: int, slot: int, like: Array, offset: int = 0) -> Array:
        start = offset * like.itemsize
        return self._room[rank, out, slot, start : start + like.nbytes].view(like.dtype)

    def _put(self, view: Array, slot: int) -> None:
        """Write the parts that other ranks add, at their places in the piece."""
        for other in range(self._size):
            if other != self._rank:
                theirs = self.share(view, other)
                offset = len(view) * other // self._size
                numpy.copyto(self._slot(self._rank, 0, slot, theirs, offset), theirs)

    def _add(
        self, view: Array, slot: int, factor: float, findings: NonfiniteFindings | None, index: int
    ) -> None:
        own = self.share(view)
        total = self._slot(self._rank, 1, slot, own)
        offset = len(view) * self._rank // self._size
        total_is_set = False
        for other in range(self._size):
            if other != self._rank:
                came = self._slot(other, 0, slot, own, offset)
                numpy.add(total if total_is_set else own, came, total)
                total_is_set = True
        if not total_is_set:
            numpy.copyto(total, own)
        if findings is not None and is_suspect(total):
            self._blame(findings, index, own, slot, offset)
        _copy_scaled(total, factor, own)

    def _take(self, view: Array, slot: int, factor: float) -> None:
        for other in range(self._size):
            if other != self._rank:
                theirs = self.share(view, other)
                _copy_scaled(self._slot(other, 1, slot, theirs), factor, theirs)

    def _blame(
        self, findings: NonfiniteFindings, index: int, own: Array, slot: int, offset: int
    ) -> None:
        for other in range(self._size):
            mine = other == self._rank
            came = own if mine else self._slot(other, 0, slot, own, offset)
            if not is_finite(came):
                findings.note(self._ranks[other], index)


def _copy_scaled(source: Array, factor: float, target: Array) -> None:
    """Copy and multiply in one pass; each rank does it, so that sums are written only once."""
    if factor == 1.0:
        numpy.copyto(target, source)
    else:
        numpy.multiply(source, source.dtype.type(factor), target)


def map_memory(comm: MPI.Intracomm, nbytes: int) -> mmap.mmap:
    """Map anonymous memory, which ends with the last rank in any case.

    Rank 0 creates it, and the others open it through rank 0's entry in ``/proc``.
    """
    found: mmap.mmap | None = None
    error, mark = "", secrets.token_bytes(_MARK_BYTES)
    with contextlib.ExitStack() as files:
        if comm.rank == 0:
            try:
                file = _create_memory(nbytes)
                files.callback(os.close, file)
                found = mmap.mmap(file, nbytes)
                found[:_MARK_BYTES] = mark
                place = f"/proc/{os.getpid()}/fd/{file}"
            except OSError as reason:
                place, error = "", f"{nbytes:,} bytes cannot be shared ({reason})"
        place, mark = comm.bcast((place, mark) if comm.rank == 0 else None)
        if place and comm.rank:
            try:
                found = _open_memory(Path(place), nbytes, mark)
            except OSError as reason:
                error = str(reason)
        errors = [text for text in comm.allgather(error) if text]
    if errors or found is None:
        raise OSError(errors[0])
    return found


def _create_memory(nbytes: int) -> int:
    if not hasattr(os, "memfd_create"):
        raise OSError("this system has no anonymous memory files")
    file = os.memfd_create("workbench")
    try:
        # Touching an unallocated page would kill the process.
        os.posix_fallocate(file, 0, nbytes)
    except OSError:
        os.close(file)
        raise
    return file


def _open_memory(path: Path, nbytes: int, mark: bytes) -> mmap.mmap:
    """Map rank 0's memory; in another container the path may lead to another file."""
    file = os.open(path, os.O_RDWR)
    try:
        if os.fstat(file).st_size != nbytes:
            raise OSError(f"{path} is not rank 0's shared memory")
        found = mmap.mmap(file, nbytes)
    finally:
        os.close(file)
    if found[:_MARK_BYTES] != mark:
        found.close()
        raise OSError(f"{path} is not rank 0's shared memory")
    return found
