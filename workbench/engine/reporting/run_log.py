"""Collect a rank's reports and output during a run in batches for the supervisor."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path

from msgspec.structs import replace

from workbench.core.messages import MOST, NAME_CHARACTERS
from workbench.core.performance.bandwidth import RESULT_STREAM
from workbench.core.run.display import Display
from workbench.core.run.metrics import is_measured
from workbench.core.run.rank_protocol import (
    ERROR_CHARACTERS,
    MOST_NAMES,
    TRACEBACK_CHARACTERS,
    Batch,
    Chunk,
    Ending,
    Event,
    EventReport,
    ExamplesVisited,
    PointsSaved,
    Progress,
    Sample,
    Samples,
    TrainingResumed,
    clamp_progress,
    decode_message,
    encode,
    shorten_middle,
)
from workbench.engine.output.display_buffer import DisplayBuffer, Noted
from workbench.engine.reporting.outbox import Outbox

# The limit of one batch, so that messages and transactions of the store stay small.
BATCH_CHARACTERS = 1_000_000
BATCH_PIECES = 50_000
BATCH_SAMPLES = 20_000
# Of a rank, in a snapshot: those of a second or two, unless the supervisor is absent.
MOST_SAVED = 20_000
# With more characters in memory, writers have to wait.
WAITING_CHARACTERS = 16_000_000
WAITING_PIECES = 200_000
# The limit of the file while the supervisor is connected; while it is absent there is none.
WAITING_NBYTES = 32 * 2**20
PRESENT_SECONDS = 2.0
ROOM_SECONDS = 10.0
LAST_WORDS = 4000  # characters; argparse's usage of a long command and its message fit
# Points that no page draws wait for others: each batch costs the supervisor a transaction.
UNWATCHED_SECONDS = 1.0
EARLY = 0.02  # seconds: a look is not at the same moment of each period
# Pauses between two looks of a run that has lasted; multiples, so that ranks look at once.
PAUSES = (0.25, 0.5, UNWATCHED_SECONDS)
LOOKS = 20  # of an unwatched run, in its present age
# Of a watched run, in its present age: a curve has about 600 pixels, so it grows by three at once.
# To draw it takes a page much more of a core than anything else here.
WATCHED_LOOKS = 200


_Values = tuple[int, float, Sequence[tuple[str, float]]]
"""The values of an iteration, and when it was done."""


class RunLog:
    """The log of one rank in one run.

    Other threads add, one thread takes; both ends of a deque may be used at once.

    Args:
        path: The append-only file that stores it until it is acknowledged.
    """

    def __init__(self, run: str, rank: int, path: Path) -> None:
        self.run = run
        self.rank = rank
        self.outbox = Outbox(path)
        self.progress = Progress()
        self.progress_source: Callable[[], Progress] | None = None
        self.fetching: list[Callable[[], None]] = []
        """What reports the values that hooks still hold, such as those on a device."""
        self.ending: Ending | None = None
        self._samples: deque[_Values | EventReport] = deque()
        self._chunks: deque[Noted] = deque()
        self._displays = DisplayBuffer(self._chunks.append)
        self._written = self._taken = 0  # characters
        self.last_words = ""
        """The end of what was written to stderr since anything else was written."""
        self.is_watched = True
        """Whether a page follows the run, as far as the supervisor has said."""
        self.restarts = False
        """Whether a script starts again here: the first value says from where it has continued."""
        self.looked = 0.0
        """When the channel last took what there was, in monotonic seconds."""
        self._heard = 0.0
        self._began = time.monotonic()
        self._reported: Progress | None = None
        self._closed = self._has_values = False
        self._taking = threading.Lock()  # what is taken is in neither place for a moment
        self._has_refused = False
        self._names, self._is_crowded = set[str](), False
        self._is_held_up = False  # by the rate limit of displays

    @property
    def path(self) -> Path:
        """The file."""
        return self.outbox.path

    # -- for threads that add

    def add(self, name: str, iteration: int, value: float) -> None:
        """Add one value, with the present time."""
        self._samples.append((iteration, time.time(), ((name, value),)))

    def add_all(
        self, iteration: int, values: Sequence[tuple[str, float]], at: float | None = None
    ) -> None:
        """Add the values of one iteration; conversion happens later.

        Args:
            at: When the iteration was done, in epoch seconds; by default now.
        """
        self._samples.append((iteration, time.time() if at is None else at, values))

    def tell(self, event: Event) -> None:
        """Add an event, with the present time."""
        self._samples.append(EventReport(event, time.time()))

    def write(self, stream: str, text: str) -> None:
        """Add output; a thread that writes too fast has to wait."""
        if self.ending is not None:
            return
        self.note(stream, text)
        if len(self._chunks) > WAITING_PIECES or self._is_full():
            self._wait_for_room()

    def note(self, stream: str, text: str) -> None:
        """Add output without waiting."""
        self._displays.make_way()
        self._written += len(text)
        if stream == "stderr":
            self.last_words = (self.last_words + text[-LAST_WORDS:])[-LAST_WORDS:]
        elif not text.isspace():
            self.last_words = ""
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
        """Add a display: in a new place, or in all places with this ``identity``."""
        self._displays.show(data, metadata, identity, update=update)

    def clear(self, *, wait: bool) -> None:
        """Remove what is displayed: now, or with ``wait`` when the next output comes."""
        self._displays.clear(wait=wait)

    def finish(self, ending: Ending) -> None:
        """Record how the rank left the run; nothing may be added after it.

        A long error is kept whole in the output, and cut in the report.
        """
        self._displays.close()
        longest = max(ending.traceback, ending.whole, key=len)
        if len(longest) > TRACEBACK_CHARACTERS:
            self.note("stderr", longest + "\n")
        self.ending = replace(
            ending,
            iteration=min(max(ending.iteration, 0), MOST),
            error=shorten_middle(ending.error, ERROR_CHARACTERS),
            traceback=shorten_middle(ending.traceback, TRACEBACK_CHARACTERS),
            whole=shorten_middle(ending.whole, TRACEBACK_CHARACTERS),
        )

    def undelivered(self, iteration: int) -> list[Event]:
        """Return what the next attempt is to tell again if this rank is lost.

        That are the newest points and counts which are not acknowledged. The thread that takes
        may take meanwhile.

        Args:
            iteration: That of the snapshot which is being taken.
        """
        for fetch in self.fetching:
            fetch()
        with self._taking:
            waiting, lines = self._samples.copy(), self.outbox.unacknowledged()
        news, size = [self._columns(waiting)], 0
        for line in lines:
            batch = decode_message(line)
            if isinstance(batch, Batch):
                news.append((batch.samples, batch.events))
                size += len(batch.samples)
            if size >= MOST_SAVED:
                break
        reported = list[Event]()
        for samples, events in reversed(news):
            reported += [one.event for one in events]
            reported.append(PointsSaved(iteration, self.rank, samples))
        return join_points(reported, iteration)

    # -- for the thread that takes

    @property
    def settled(self) -> bool:
        """Whether the ending has reached the store."""
        return self._closed and self.outbox.acknowledged >= self.outbox.sequence

    @property
    def closed(self) -> bool:
        """Whether the last batch has been taken."""
        return self._closed

    def holds_output(self) -> bool:
        """Return whether there is output that has not been taken."""
        return bool(self._chunks)

    @property
    def is_behind(self) -> bool:
        """Whether there is more to take than one batch holds."""
        many = len(self._chunks) > BATCH_PIECES or len(self._samples) > BATCH_SAMPLES
        much = self._written - self._taken > BATCH_CHARACTERS
        return (many or much) and not (self._closed or self._is_held_up)

    def is_due(self, now: float) -> bool:
        """Return whether what was collected is to be sent now.

        Args:
            now: Monotonic seconds.
        """
        # An acknowledgement wakes the channel too, and output alone would make a batch each time.
        is_seen = self.is_watched or self._is_turning or self._chunks
        wait = self.pause(0.0, now) if is_seen else UNWATCHED_SECONDS
        if self._samples and not self._has_values:  # a lost run begins again if it has any
            wait = 0.0
        return now - self.looked >= wait - EARLY

    def pause(self, prompt: float, now: float) -> float:
        """Return the seconds between two looks for something to send.

        Args:
            prompt: While the run is young, and when it begins or ends.
            now: Monotonic seconds.
        """
        if self._is_turning:
            return prompt
        longest = (now - self._began) / (WATCHED_LOOKS if self.is_watched else LOOKS)
        return max((one for one in PAUSES if prompt < one <= longest), default=prompt)

    def take(self) -> bytes | None:
        """Return the collected data as one encoded batch, stored first, or None.

        Data that cannot be sent is left out, with one message in the run's output.
        """
        with self._taking:
            return self._take()

    def _take(self) -> bytes | None:
        if self._closed:
            return None
        ending = self.ending  # first: data that was added before it is then visible
        chunks = self._some_output(whole=ending is not None)
        (samples, events), progress = self._some_samples(), self._progress()
        if self._chunks or self._samples:
            ending = None  # the last batch holds the last of them
        news = samples or chunks or events or ending or progress != self._reported
        self._is_held_up = not news
        if not news and self.outbox.sequence:
            return None
        batch = Batch(
            self.run,
            self.rank,
            self.outbox.sequence + 1,
            samples,
            tuple(chunks),
            progress,
            ending,
            events,
        )
        line = self._encode(batch)
        if line is None:  # send the ending and the output all the same
            ending = None
            batch = replace(batch, samples=(), ending=None)
            line = self._encode(batch) or encode(replace(batch, chunks=()))
        self.outbox.add(line)
        self._reported = progress
        self._closed = ending is not None
        return line

    def refuse(self, error: BaseException) -> None:
        """Write to the run's output that a part of it cannot be sent, once."""
        if not self._has_refused:
            self._has_refused = True
            message = f"workbench: a part of what rank {self.rank} reported could not be sent"
            self.note(
                "stderr", f"{message} ({shorten_middle(repr(error), 500)}); it is left out.\n"
            )

    def acknowledge(self, sequence: int) -> None:
        """Record that the store has all batches up to ``sequence``."""
        self._heard = time.monotonic()
        with self._taking:
            self.outbox.acknowledge(sequence, self._heard)

    def discard(self) -> None:
        """Remove the file of a settled run, and its folder after the last rank's."""
        self.outbox.discard()

    # -- inside

    @property
    def _is_turning(self) -> bool:
        """Whether it begins or ends."""
        return self.ending is not None or not self.outbox.sequence

    def _is_full(self) -> bool:
        if self._written - self._taken > WAITING_CHARACTERS:
            return True
        is_present = self.outbox.waiting > WAITING_NBYTES
        return is_present and time.monotonic() - self._heard < PRESENT_SECONDS

    def _wait_for_room(self) -> None:
        """Wait for the thread that takes, with a time limit in case it has ended."""
        deadline = time.monotonic() + ROOM_SECONDS
        while len(self._chunks) > WAITING_PIECES or self._is_full():
            if self._closed or time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def _some_output(self, *, whole: bool) -> list[Chunk | Display]:
        """Return up to one batch of output, with neighbours joined."""
        queue = self._chunks
        pieces = self._displays.take(queue, BATCH_CHARACTERS, BATCH_PIECES, whole=whole)
        size = sum(len(piece.text) for piece in pieces if isinstance(piece, Chunk))
        self._taken = self._taken + size if queue else self._written
        return _join_texts(pieces)

    def _some_samples(self) -> tuple[Samples, tuple[EventReport, ...]]:
        """Return up to one batch of samples, in columns, and events.

        A script that starts again says from where it has continued, once it reports a value.
        """
        samples, events = self._columns(self._samples, BATCH_SAMPLES)
        self._has_values = self._has_values or bool(samples)
        if self.restarts and samples:
            self.restarts = False
            begun = TrainingResumed(max(0, samples.iterations[0] - 1))
            events = (EventReport(begun, samples.times[0]), *events)
        return samples, events

    def _columns(
        self, queue: deque[_Values | EventReport], most: float = math.inf
    ) -> tuple[Samples, tuple[EventReport, ...]]:
        """Take samples, in columns, and events off a queue: the training waits meanwhile."""
        places, events, others = dict[str, int](), list[EventReport](), 0
        which, iterations, times, numbers = list[int](), list[int](), list[float](), list[float]()
        while queue and len(which) + others < most:
            if isinstance(found := queue.popleft(), EventReport):
                events.append(replace(found, after=len(which)))
                others += 1 + len(getattr(found.event, "samples", ()))
                continue
            iteration, moment, values = found
            try:
                if not 0 <= iteration <= MOST:
                    raise ValueError(f"iteration {iteration!r:.80}")
                for name, value in values:
                    if name not in self._names and not self._is_named(name):
                        continue
                    which.append(places.setdefault(name[:NAME_CHARACTERS], len(places)))
                    iterations.append(iteration)
                    times.append(moment)
                    numbers.append(value)
            except Exception as error:  # noqa: BLE001  # extensions may add anything
                self.refuse(error)
        return Samples(tuple(places), which, iterations, times, numbers), tuple(events)

    def _is_named(self, name: str) -> bool:
        """Take a new name if there is room, and say once that there is none."""
        if len(self._names) < MOST_NAMES or is_measured(name):
            self._names.add(name)
            return True
        if not self._is_crowded:
            self._is_crowded = True
            self.note(
                "stderr",
                f"workbench: this run reports more than {MOST_NAMES:,} names; {name[:80]!r} and "
                "all later ones are left out. Give a value one name at all steps, and put the "
                "step into report(iteration=…).\n",
            )
        return False

    def _encode(self, batch: Batch) -> bytes | None:
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
            except Exception as error:  # noqa: BLE001  # raised by the training's own updater
                self.refuse(error)
        return clamp_progress(self.progress)


def join_points(reported: Iterable[Event], iteration: int) -> list[Event]:
    """Return the points of each rank in one event, the newest up to an iteration; then the counts.

    Args:
        reported: Events in order; others are left out.
    """
    events = [*reported]
    points: dict[int, list[Sample]] = {}
    for one in events:
        if isinstance(one, PointsSaved):
            kept = [sample for sample in one.samples if sample.iteration <= iteration]
            points.setdefault(one.rank, []).extend(kept)
    return [
        *(
            PointsSaved(iteration, rank, Samples.of(samples[-MOST_SAVED:]))
            for rank, samples in points.items()
            if samples
        ),
        *(one for one in events if isinstance(one, ExamplesVisited)),
    ]


def make_for_owner(folder: Path) -> None:
    """Create a folder and its missing parents, for their owner alone.

    ``mkdir`` creates the parents with the mode of the umask, which is the user's.
    """
    for place in (*reversed(folder.parents), folder):
        if place == folder or not place.exists():
            place.mkdir(exist_ok=True, mode=0o700)


def owners_only(path: str, flags: int) -> int:
    """Open one of our files, as an opener; the user's program keeps its own umask."""
    return os.open(path, flags, 0o600)


def _join_texts(pieces: Iterable[Chunk | Display]) -> list[Chunk | Display]:
    """Join neighbours of one stream: ``print`` writes a line in two pieces."""
    joined = list[Chunk | Display]()
    for stream, group in groupby(pieces, key=lambda piece: getattr(piece, "stream", "")):
        first, *others = group
        if stream and others and isinstance(first, Chunk):
            text = "".join([first.text, *(one.text for one in others if isinstance(one, Chunk))])
            joined.append(replace(first, text=text))
        else:
            joined += [first, *others]
    return joined
