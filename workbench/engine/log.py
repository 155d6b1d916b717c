"""Gather what a rank reports during a run, and keep it until the supervisor has it.

The file is the truth: one batch a line, appended before it is sent, so whatever gets lost on the
way can be sent again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from workbench.core.report import Batch, Chunk, Ending, Progress, Sample, encode

_T = TypeVar("_T")


class RunLog:
    """What one rank has to tell about one run.

    The main thread adds, another thread takes; both ends of a deque may be used at once.

    Args:
        path: The append-only file; its folder is made with the first batch.
    """

    def __init__(self, run: str, rank: int, path: Path) -> None:
        self.run = run
        self.rank = rank
        self.path = path
        self.sequence = 0
        self.acknowledged = 0
        self.progress = Progress()
        self.progress_source: Callable[[], Progress] | None = None
        self.ending: Ending | None = None
        self._samples: deque[tuple[int, float, tuple[tuple[str, float], ...]]] = deque()
        self._chunks: deque[Chunk] = deque()
        self._places: dict[int, int | bytes] = {}
        self._told: Progress | None = None
        self._closed = False

    def add(self, name: str, iteration: int, value: float) -> None:
        """Note one value, at this moment."""
        self._samples.append((iteration, time.time(), ((name, value),)))

    def add_all(self, iteration: int, values: tuple[tuple[str, float], ...]) -> None:
        """Note the values of one iteration, at this moment; what they become is made later."""
        self._samples.append((iteration, time.time(), values))

    def write(self, stream: str, text: str) -> None:
        """Note output."""
        self._chunks.append(Chunk(stream, time.time(), text))

    def finish(self, ending: Ending) -> None:
        """Say how the rank left the run; nothing is added after it."""
        self.ending = ending

    @property
    def settled(self) -> bool:
        """Whether the ending has reached the store."""
        return self._closed and self.acknowledged >= self.sequence

    @property
    def closed(self) -> bool:
        """Whether the last batch has been taken."""
        return self._closed

    def take(self) -> bytes | None:
        """Return what has gathered as one encoded batch, written down first, or None."""
        if self._closed:
            return None
        ending = self.ending
        source = self.progress_source
        progress = self.progress = source() if source is not None else self.progress
        samples = [
            Sample(name, iteration, moment, value)
            for iteration, moment, values in _drain(self._samples)
            for name, value in values
        ]
        chunks = _joined(_drain(self._chunks))
        news = samples or chunks or ending or progress != self._told
        if not news and self.sequence:
            return None
        self.sequence += 1
        self._told = progress
        self._closed = ending is not None
        line = encode(
            Batch(
                self.run, self.rank, self.sequence, tuple(samples), tuple(chunks), progress, ending
            )
        )
        self._keep(line)
        return line

    def unacknowledged(self) -> list[bytes]:
        """Return the encoded batches that the supervisor has not confirmed, in order."""
        return [
            self._read(number)
            for number in range(self.acknowledged + 1, self.sequence + 1)
            if number in self._places
        ]

    def acknowledge(self, sequence: int) -> None:
        """Note that the store has all batches up to ``sequence``."""
        for number in range(self.acknowledged + 1, sequence + 1):
            self._places.pop(number, None)
        self.acknowledged = max(self.acknowledged, sequence)

    def _keep(self, line: bytes) -> None:
        try:
            if self.sequence == 1:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as file:
                place = file.tell()
                file.write(line + b"\n")
        except OSError:  # a full disk on a node must not end the training; memory holds it
            self._places[self.sequence] = line
        else:
            self._places[self.sequence] = place

    def _read(self, number: int) -> bytes:
        place = self._places[number]
        if isinstance(place, bytes):
            return place
        with self.path.open("rb") as file:
            file.seek(place)
            return file.readline().rstrip(b"\n")


def _drain(queue: deque[_T]) -> list[_T]:
    return [queue.popleft() for _ in range(len(queue))]


def _joined(chunks: list[Chunk]) -> list[Chunk]:
    """Join neighbours of one stream: ``print`` writes a line in two pieces."""
    joined: list[Chunk] = []
    for chunk in chunks:
        if joined and joined[-1].stream == chunk.stream:
            joined[-1] = joined[-1]._replace(text=joined[-1].text + chunk.text)
        else:
            joined.append(chunk)
    return joined
