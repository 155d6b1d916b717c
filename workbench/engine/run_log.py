"""Collect what a rank reports and writes during a run in batches for the supervisor."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from workbench.core.performance.measurement import RESULT_STREAM
from workbench.core.run.display import Display
from workbench.core.run.rank_protocol import (
    ERROR_CHARACTERS,
    MOST,
    NAME_CHARACTERS,
    TRACEBACK_CHARACTERS,
    Batch,
    Chunk,
    Ending,
    Progress,
    Sample,
    clamped,
    shortened,
)
from workbench.core.run.rank_wire import encode
from workbench.engine.display_buffer import Gallery, Noted
from workbench.engine.outbox import Outbox

# One batch, so that a message, and a transaction of the store, stay small.
BATCH_CHARACTERS = 1_000_000
BATCH_PIECES = 50_000
BATCH_SAMPLES = 20_000
# What waits in memory before who writes has to wait.
WAITING_CHARACTERS = 16_000_000
WAITING_PIECES = 200_000
# What waits in the file for a supervisor that is there; for one that is away it may be any amount.
WAITING_NBYTES = 32 * 2**20
PRESENT_SECONDS = 2.0
ROOM_SECONDS = 10.0


class RunLog:
    """What one rank has to tell about one run.

    Other threads add, one takes; both ends of a deque may be used at once.

    Args:
        path: The append-only file that holds it until it is confirmed.
    """

    def __init__(self, run: str, rank: int, path: Path) -> None:
        self.run = run
        self.rank = rank
        self.outbox = Outbox(path)
        self.progress = Progress()
        self.progress_source: Callable[[], Progress] | None = None
        self.ending: Ending | None = None
        self._samples: deque[tuple[int, float, tuple[tuple[str, float], ...]]] = deque()
        self._chunks: deque[Noted] = deque()
        self._gallery = Gallery(self._chunks.append)
        self._written = self._taken = 0  # characters
        self._heard = 0.0
        self._told: Progress | None = None
        self._closed = False
        self._has_refused = False
        self._is_held_up = False  # by displays, which are sent no faster than can be seen

    @property
    def path(self) -> Path:
        """The file."""
        return self.outbox.path

    # -- for who adds

    def add(self, name: str, iteration: int, value: float) -> None:
        """Note one value, at this moment."""
        self._samples.append((iteration, time.time(), ((name, value),)))

    def add_all(self, iteration: int, values: tuple[tuple[str, float], ...]) -> None:
        """Note the values of one iteration, at this moment; what they become is made later."""
        self._samples.append((iteration, time.time(), values))

    def write(self, stream: str, text: str) -> None:
        """Note output; who writes faster than it can be kept waits."""
        if self.ending is not None:
            return
        self.note(stream, text)
        if len(self._chunks) > WAITING_PIECES or self._is_full():
            self._wait_for_room()

    def note(self, stream: str, text: str) -> None:
        """Note output, of who may not wait."""
        self._gallery.make_way()
        self._written += len(text)
        if len(text) <= BATCH_CHARACTERS or stream == RESULT_STREAM:
            self._chunks.append(Chunk(stream, time.time(), text))
            return
        now, starts = time.time(), range(0, len(text), BATCH_CHARACTERS)
        self._chunks.extend(Chunk(stream, now, text[at : at + BATCH_CHARACTERS]) for at in starts)

    def display(
        self,
        data: Mapping[str, str],
        metadata: Mapping[str, Mapping[str, int]],
        identity: str = "",
        *,
        update: bool = False,
    ) -> None:
        """Note what is displayed: in a new place, or in those that bear ``identity``."""
        self._gallery.show(data, metadata, identity, update=update)

    def clear(self, *, wait: bool) -> None:
        """Note that what was shown is to go: now, or ``wait`` for what is shown next."""
        self._gallery.clear(wait=wait)

    def finish(self, ending: Ending) -> None:
        """Say how the rank left the run; nothing is added after it.

        An error that is long is kept whole in the output, and cut in what is reported.
        """
        self._gallery.close()
        longest = max(ending.traceback, ending.whole, key=len)
        if len(longest) > TRACEBACK_CHARACTERS:
            self.note("stderr", longest + "\n")
        self.ending = replace(
            ending,
            iteration=min(max(ending.iteration, 0), MOST),
            error=shortened(ending.error, ERROR_CHARACTERS),
            traceback=shortened(ending.traceback, TRACEBACK_CHARACTERS),
            whole=shortened(ending.whole, TRACEBACK_CHARACTERS),
        )

    # -- for who takes

    @property
    def settled(self) -> bool:
        """Whether the ending has reached the store."""
        return self._closed and self.outbox.acknowledged >= self.outbox.sequence

    @property
    def closed(self) -> bool:
        """Whether the last batch has been taken."""
        return self._closed

    def holds_output(self) -> bool:
        """Whether there is output that has not been taken."""
        return bool(self._chunks)

    @property
    def is_behind(self) -> bool:
        """Whether there is more to take than one batch holds."""
        many = len(self._chunks) > BATCH_PIECES or len(self._samples) > BATCH_SAMPLES
        much = self._written - self._taken > BATCH_CHARACTERS
        return (many or much) and not (self._closed or self._is_held_up)

    def take(self) -> bytes | None:
        """Return what has gathered as one encoded batch, kept first, or None.

        What cannot be sent is left out, and the run's output says so once.
        """
        if self._closed:
            return None
        ending = self.ending  # first: what was added before it is then seen
        chunks = self._some_output(whole=ending is not None)
        samples, progress = self._some_samples(), self._progress()
        if self._chunks or self._samples:
            ending = None  # the last batch holds the last of them
        news = samples or chunks or ending or progress != self._told
        self._is_held_up = not news
        if not news and self.outbox.sequence:
            return None
        batch = Batch(
            self.run,
            self.rank,
            self.outbox.sequence + 1,
            tuple(samples),
            tuple(chunks),
            progress,
            ending,
        )
        line = self._encoded(batch)
        if line is None:  # its ending and its output are sent all the same
            ending = None
            batch = replace(batch, samples=(), ending=None)
            line = self._encoded(batch) or encode(replace(batch, chunks=()))
        self.outbox.add(line)
        self._told = progress
        self._closed = ending is not None
        return line

    def refuse(self, error: BaseException) -> None:
        """Say in the run's output that something could not be sent, once."""
        if not self._has_refused:
            self._has_refused = True
            said = f"workbench: a part of what rank {self.rank} reported could not be sent"
            self.note("stderr", f"{said} ({shortened(repr(error), 500)}); it is left out.\n")

    def acknowledge(self, sequence: int) -> None:
        """Note that the store has all batches up to ``sequence``."""
        self._heard = time.monotonic()
        self.outbox.acknowledge(sequence, self._heard)

    def discard(self) -> None:
        """Remove the file of a run that is settled, and its folder after the last rank's."""
        self.outbox.discard()

    # -- inside

    def _is_full(self) -> bool:
        if self._written - self._taken > WAITING_CHARACTERS:
            return True
        is_present = self.outbox.waiting > WAITING_NBYTES
        return is_present and time.monotonic() - self._heard < PRESENT_SECONDS

    def _wait_for_room(self) -> None:
        """Let the thread that takes have its turn; never for ever, should it have none."""
        deadline = time.monotonic() + ROOM_SECONDS
        while len(self._chunks) > WAITING_PIECES or self._is_full():
            if self._closed or time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def _some_output(self, *, whole: bool) -> list[Chunk | Display]:
        """Return about as much of the output as one batch may hold, neighbours joined."""
        queue = self._chunks
        pieces = self._gallery.take(queue, BATCH_CHARACTERS, BATCH_PIECES, whole=whole)
        size = sum(len(piece.text) for piece in pieces if isinstance(piece, Chunk))
        self._taken = self._taken + size if queue else self._written
        return _joined(pieces)

    def _some_samples(self) -> list[Sample]:
        found, queue = list[Sample](), self._samples
        while queue and len(found) < BATCH_SAMPLES:
            iteration, moment, values = queue.popleft()
            try:
                if not 0 <= iteration <= MOST:
                    raise ValueError(f"iteration {iteration!r:.80}")
                found += [
                    Sample(name[:NAME_CHARACTERS], iteration, moment, value)
                    for name, value in values
                ]
            except Exception as error:  # noqa: BLE001  # extensions may add anything
                self.refuse(error)
        return found

    def _encoded(self, batch: Batch) -> bytes | None:
        try:
            return encode(batch)
        except Exception as error:  # noqa: BLE001  # extensions may add anything
            self.refuse(error)
            return None

    def _progress(self) -> Progress:
        source = self.progress_source
        if source is not None:
            try:
                self.progress = source()
            except Exception as error:  # noqa: BLE001  # of a training's own updater
                self.refuse(error)
        return clamped(self.progress)


def make_for_owner(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone.

    ``mkdir`` gives those above the mode that the umask leaves, which is the user's.
    """
    for place in (*reversed(folder.parents), folder):
        if place == folder or not place.exists():
            place.mkdir(exist_ok=True, mode=0o700)


def owners_only(path: str, flags: int) -> int:
    """Open a file of ours, for ``open``; what the user's program writes follows its own umask."""
    return os.open(path, flags, 0o600)


def _joined(pieces: Iterable[Chunk | Display]) -> list[Chunk | Display]:
    """Join neighbours of one stream: ``print`` writes a line in two pieces."""
    joined = list[Chunk | Display]()
    for stream, group in groupby(pieces, key=lambda piece: getattr(piece, "stream", "")):
        first, *others = group
        if stream and others and isinstance(first, Chunk):
            text = "".join([first.text, *(one.text for one in others if isinstance(one, Chunk))])
            joined.append(first._replace(text=text))
        else:
            joined += [first, *others]
    return joined
