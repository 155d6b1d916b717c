"""Add up over the memory that the ranks of one node share, in pieces that stay in the cache.

MPI's own way between processes copies into its memory and out of it for each message. Here each
rank puts there what others are to add, adds its share, and takes what others have added: the
gradients themselves are read once and written once.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy
from mpi4py import MPI

from workbench.engine.exchange.finite import Findings, is_finite, is_suspect
from workbench.engine.exchange.pieces import Piece
from workbench.engine.exchange.transport import Array

PIECE_BYTES = 1024 << 10
FOLDER = Path("/dev/shm")
_SLOTS = 2


class SharedMemory:
    """Memory that all ranks of a communicator see; collective to make.

    Args:
        ranks: What the findings call the ranks of ``comm``.

    Raises:
        OSError: Some rank cannot see it; all ranks raise.
    """

    def __init__(self, comm: MPI.Intracomm, ranks: Sequence[int]) -> None:
        self._comm = comm
        self._rank, self._size = comm.rank, comm.size
        self._ranks = ranks
        memory = _mapped(comm, 2 * _SLOTS * PIECE_BYTES * comm.size)
        whole = numpy.frombuffer(memory, numpy.uint8)
        self._room = whole.reshape(comm.size, 2, _SLOTS, PIECE_BYTES)

    def mean(
        self,
        arrays: Sequence[Array],
        pieces: Sequence[Piece],
        factor: float,
        findings: Findings | None,
    ) -> None:
        """Replace pieces of flat arrays by ``factor`` times their sum over the ranks.

        Pieces are of ``PIECE_BYTES`` at most. While one comes in, the one before is added, and
        the one before that goes out.
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
                self._take(views[tick - 2], tick % _SLOTS)
            self._comm.Barrier()

    def scatter_sum(
        self, arrays: Sequence[Array], pieces: Sequence[Piece], findings: Findings | None
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

    def gather(self, arrays: Sequence[Array], pieces: Sequence[Piece]) -> None:
        """Give every rank of the node all shares of each piece."""
        views = [arrays[p.number][p.start : p.stop] for p in pieces]
        for tick in range(len(views) + 1):
            if tick < len(views):
                own = self.share(views[tick])
                numpy.copyto(self._slot(self._rank, 1, tick % _SLOTS, own), own)
            if tick >= 1:
                self._take(views[tick - 1], (tick - 1) % _SLOTS)
            self._comm.Barrier()

    def share(self, view: Array, rank: int | None = None) -> Array:
        """Return the part of a piece that this rank, or another of the node, adds up."""
        rank = self._rank if rank is None else rank
        return view[len(view) * rank // self._size : len(view) * (rank + 1) // self._size]

    def _slot(self, rank: int, out: int, slot: int, like: Array, offset: int = 0) -> Array:
        start = offset * like.itemsize
        return self._room[rank, out, slot, start : start + like.nbytes].view(like.dtype)

    def _put(self, view: Array, slot: int) -> None:
        """Lay down what the others add up, at its place in the piece."""
        for other in range(self._size):
            if other != self._rank:
                theirs = self.share(view, other)
                offset = len(view) * other // self._size
                numpy.copyto(self._slot(self._rank, 0, slot, theirs, offset), theirs)

    def _add(
        self, view: Array, slot: int, factor: float, findings: Findings | None, index: int
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
        if factor != 1.0:
            numpy.multiply(total, own.dtype.type(factor), total)
        numpy.copyto(own, total)

    def _take(self, view: Array, slot: int) -> None:
        for other in range(self._size):
            if other != self._rank:
                theirs = self.share(view, other)
                numpy.copyto(theirs, self._slot(other, 1, slot, theirs))

    def _blame(self, findings: Findings, index: int, own: Array, slot: int, offset: int) -> None:
        for other in range(self._size):
            mine = other == self._rank
            came = own if mine else self._slot(other, 0, slot, own, offset)
            if not is_finite(came):
                findings.note(self._ranks[other], index)


def _mapped(comm: MPI.Intracomm, nbytes: int) -> mmap.mmap:
    """Map a file that has no name any longer once all ranks have it."""
    path = FOLDER / f"workbench-{secrets.token_hex(8)}"
    error = ""
    with _descriptor(path if comm.rank == 0 else None, nbytes) as first:
        path = comm.bcast(path if first is not None else None)
        found: mmap.mmap | None = None
        try:
            if path is None:
                raise OSError(f"{FOLDER} has no {nbytes:,} bytes")
            if first is not None:
                found = mmap.mmap(first, nbytes)
            else:
                file = os.open(path, os.O_RDWR)
                found = mmap.mmap(file, nbytes)
                os.close(file)
        except OSError as reason:
            error = str(reason)
        told = [text for text in comm.allgather(error) if text]
    if told or found is None:
        raise OSError(told[0])
    return found


@contextlib.contextmanager
def _descriptor(path: Path | None, nbytes: int) -> Iterator[int | None]:
    """Make the file, and take its name away at the end; None where it cannot be made."""
    file: int | None = None
    try:
        if path is not None:
            with contextlib.suppress(OSError):
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                # A page that is not there when it is touched would end the process.
                os.posix_fallocate(file, 0, nbytes)
                yield file
                return
        yield None
    finally:
        if file is not None and path is not None:
            os.close(file)
            path.unlink(missing_ok=True)
