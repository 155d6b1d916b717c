"""The bytes of a file of a snapshot in memory: large arrays where the training has them already.

New memory costs several times as much as a copy. So bytes come from the disk, or from another rank,
into the arrays that a restored training overwrites, and nothing copies them again.
"""

from __future__ import annotations

import io
import mmap
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import IO, Any, NamedTuple

import numpy

MESSAGE_NBYTES = 64 << 20
"""So much is read before it is sent, while more is read.

With 16 MiB, two ranks on two cores needed a fifth more time for 1 GB: a rank that sends keeps the
core on which its other thread is to read.
"""
_LARGE_NBYTES = 1 << 18

Bytes = Any
"""A flat array of NumPy's type u1."""


class Spot(NamedTuple):
    """Where the bytes of an array are in a file.

    Args:
        kind: Its type and its shape, in the words of its framework.
    """

    start: int
    nbytes: int
    kind: str


class Place(NamedTuple):
    """The memory of an array that a training has; for ``kind`` see ``Spot``."""

    kind: str
    memory: Bytes


Spots = Mapping[str, Spot]
"""By the names of arrays in a file."""


class SavedBytes:
    """The bytes of a file.

    Args:
        segments: Them, one after the other.
    """

    def __init__(self, segments: Sequence[Bytes]) -> None:
        self._segments = [one for one in segments if len(one)]
        self._starts = [*accumulate(map(len, self._segments), initial=0)]

    @property
    def nbytes(self) -> int:
        """How many there are."""
        return self._starts[-1]

    def messages(self) -> Iterator[Bytes]:
        """Yield all of them, in pieces that can be sent; those of ranks with the same spots fit."""
        for segment in self._segments:
            for start in range(0, len(segment), MESSAGE_NBYTES):
                yield segment[start : start + MESSAGE_NBYTES]

    def take(self, start: int, nbytes: int) -> Bytes:
        """Return some of them: the memory of an array that has its own, and else a copy."""
        found = [*self.pieces(start, start + nbytes)]
        if len(found) == 1 and any(one is found[0] for one in self._segments):
            return found[0]
        return numpy.concatenate([numpy.empty(0, "u1"), *found])

    def pieces(self, start: int, stop: int) -> Iterator[Bytes]:
        """Yield views of some of them."""
        stop = min(stop, self.nbytes)
        at = bisect_right(self._starts, start) - 1
        while start < stop:
            segment, first = self._segments[at], start - self._starts[at]
            last = min(len(segment), stop - self._starts[at])
            yield segment if last - first == len(segment) else segment[first:last]
            start, at = self._starts[at] + last, at + 1

    def open(self) -> io.BufferedReader:
        """Return a file that reads them."""
        return io.BufferedReader(_MemoryFile(self))


class StateFile:
    """A file of a snapshot: by the name of its entry, what all ranks have in common."""

    name = ""

    def write(self, values: Mapping[str, Any], file: IO[bytes]) -> None:
        """Write the values of entries, and the plain values of others."""
        raise NotImplementedError

    def read(self, content: SavedBytes) -> dict[str, Any]:
        """Return the values of entries by their names; large arrays have the content's memory."""
        raise NotImplementedError

    def find_spots(self, content: SavedBytes) -> Spots:
        """Return where arrays are in a file whose checksum may be wrong; empty if unknown."""
        return {}

    def find_places(self, values: Mapping[str, Any]) -> dict[str, Place]:
        """Return the memory of arrays by their names in the file.

        Args:
            values: What ``places`` of each entry returned, by its name.
        """
        return {}


class _MemoryFile(io.RawIOBase):
    """A file whose content is in memory, which is not copied."""

    def __init__(self, content: SavedBytes) -> None:
        self._content, self._at = content, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, origin: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._content.nbytes}[origin]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        begun = self._at
        for one in self._content.pieces(begun, begun + len(buffer)):
            done = self._at - begun
            buffer[done : done + len(one)] = one.data
            self._at += len(one)
        return self._at - begun


def view(content: Any) -> SavedBytes:
    """Return what a buffer has, which is not copied."""
    return SavedBytes([numpy.frombuffer(content, "u1")] if len(content) else [])


def make_room(nbytes: int, spots: Spots, places: Mapping[str, Place]) -> SavedBytes:
    """Return memory for a file: for each large array that of the training, if it fits, or new.

    Args:
        spots: The arrays of the file; what is damaged in it may be so too.
        places: The arrays of the training by the same names.
    """
    segments, at, used = list[Bytes](), 0, set[int]()
    for name, spot in sorted(spots.items(), key=lambda one: one[1].start):
        if spot.nbytes < _LARGE_NBYTES or spot.start < at or spot.start + spot.nbytes > nbytes:
            continue
        memory, place = None, places.get(name)
        if place is not None and (place.kind, len(place.memory)) == (spot.kind, spot.nbytes):
            # Two names may be of one array: what is read for one would overwrite the other.
            memory = None if (address := place.memory.ctypes.data) in used else place.memory
            used.add(address)
        memory = new_memory(spot.nbytes) if memory is None else memory
        segments += [new_memory(spot.start - at), memory]
        at = spot.start + spot.nbytes
    return SavedBytes([*segments, new_memory(nbytes - at)])


def new_memory(nbytes: int) -> Bytes:
    """Return new memory, which is about to be overwritten."""
    if nbytes < _LARGE_NBYTES:
        return numpy.empty(nbytes, "u1")
    # NumPy asks for huge pages, and to make room for these took a used machine 120 ms for 50 MB,
    # where 40 ms fill small ones.
    return numpy.frombuffer(mmap.mmap(-1, nbytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS), "u1")
