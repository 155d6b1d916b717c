"""The messages between a rank and the supervisor, and their form on the wire: a line of JSON.

A rank sends batches, numbered from 1 for each run, and keeps them until they are acknowledged;
the supervisor acknowledges a batch once the store has it. A lost message is sent again, a
repeated one is ignored, so the store holds every point exactly once.

``run`` is the id of the execution in all of them: see ``core.run_id.execution_id``. A rank is not
trusted: each value is declared with its bounds, and a message outside of them is refused.
"""

from __future__ import annotations

import json
import math
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Annotated, Any, Literal, NamedTuple, overload

import msgspec
from msgspec.structs import force_setattr

from workbench.core.messages import (
    LATEST,
    MOST,
    Amount,
    BaseMessage,
    Count,
    Kind,
    Name,
    Positive,
    Time,
    convert,
    decode,
)
from workbench.core.run.cell_names import CellEffects
from workbench.core.run.display import Display
from workbench.core.run_id import EXECUTION_PATTERN
from workbench.errors import ProtocolError


class Sample(NamedTuple):
    """One value reported by a rank.

    ``time`` is in epoch seconds by the rank's own clock.
    """

    name: str
    iteration: int
    time: float
    value: float


class Samples(Sequence[Sample]):
    """Samples, in order, in columns: there may be thousands a second.

    An object for each of them would take most of the time in which a batch is decoded and stored.
    All columns but ``names`` are of equal length.

    Args:
        names: Their names, each once.
        which: For each sample, the index of its name.
        iterations: Of each sample.
        times: In epoch seconds.
        values: What was reported.
    """

    __slots__ = ("iterations", "names", "times", "values", "which")

    def __init__(
        self,
        names: Sequence[str] = (),
        which: Sequence[int] = (),
        iterations: Sequence[int] = (),
        times: Sequence[float] = (),
        values: Sequence[float] = (),
    ) -> None:
        self.names = names
        self.which = which
        self.iterations = iterations
        self.times = times
        self.values = values

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> Samples:
        """Return samples in columns; those that are in columns already as they are."""
        if isinstance(samples, Samples):
            return samples
        if not (rows := tuple(samples)):
            return cls()
        names, *columns = zip(*rows, strict=True)
        places = {name: place for place, name in enumerate(dict.fromkeys(names))}
        return cls(tuple(places), [places[name] for name in names], *columns)

    def __repr__(self) -> str:
        return f"<Samples: {len(self)} of {', '.join(self.names)}>"

    def __len__(self) -> int:
        return len(self.which)

    @overload
    def __getitem__(self, at: int) -> Sample: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Sample, ...]: ...

    def __getitem__(self, at: int | slice) -> Sample | tuple[Sample, ...]:
        if isinstance(at, slice):
            return tuple(self)[at]
        name = self.names[self.which[at]]
        return Sample(name, self.iterations[at], self.times[at], self.values[at])

    def __iter__(self) -> Iterator[Sample]:
        names = map(self.names.__getitem__, self.which)
        return map(Sample, names, self.iterations, self.times, self.values)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # columns may be lists


class TrainingBegun(BaseMessage, frozen=True, tag=True):
    """The run's first training that is saved begins.

    From then on the run can begin again without a snapshot.
    """


class TrainingResumed(BaseMessage, frozen=True, tag=True):
    """The training of the run that continues has read the snapshot of an iteration.

    Args:
        training: Its number within the run. Those that had ended before it are not reported.
    """

    iteration: Count
    training: Count = 0


class SnapshotSaved(BaseMessage, frozen=True, tag=True):
    """The snapshot of an iteration is complete.

    Args:
        seconds: How long the training waited for it.
        savers: The nodes that save each part of a divided state; empty if each node has all.
        reporters: The ranks that write parts; it counts once all have reported. Empty if rank 0
            speaks for all.
    """

    iteration: Count
    seconds: Amount = 0.0
    nbytes: Count = 0
    savers: tuple[tuple[Count, ...], ...] = ()
    reporters: tuple[Count, ...] = ()


MOST_TIMES = 100
OFFER_CHARACTERS = 300


class ExamplesVisited(BaseMessage, frozen=True, tag=True):
    """How often all ranks together have visited each example of an epoch.

    Args:
        iteration: That which ended the epoch.
        epoch: Epochs before it.
        times: How many examples were visited 0 times, once, and so on: pairs.
        others: The numbers of the first examples that were not visited as often as most.
        training: Its number within the run; 0 for one that is not saved.
        apart: Whether each rank counted the examples of its own data, because it is not known
            which of them others have too.
    """

    iteration: Count
    epoch: Count
    times: Annotated[tuple[tuple[Count, Count], ...], msgspec.Meta(max_length=MOST_TIMES)]
    others: Annotated[tuple[Count, ...], msgspec.Meta(max_length=MOST_TIMES)] = ()
    training: Count = 0
    apart: bool = False


class PointsSaved(BaseMessage, frozen=True, tag=True):
    """A rank's points that a snapshot has because they may have been lost with their rank.

    Those that are stored already are left out.

    Args:
        iteration: That of the snapshot.
        rank: That which reported them.
        samples: In order; the newest that were not acknowledged when the snapshot was taken.
    """

    iteration: Count
    rank: Count
    samples: Samples


class AtEdge(BaseMessage, frozen=True, tag=True):
    """All ranks wait at the edge of the training that the run continues."""


class IteratorUndivided(BaseMessage, frozen=True, tag=True):
    """An iterator of this kind cannot be divided among another number of ranks.

    The run keeps its own number, unless its user asks for another.
    """

    kind: Annotated[str, msgspec.Meta(max_length=100)]


class HandwrittenLoop(BaseMessage, frozen=True, tag=True):
    """The loop has no trainer, so that its exchange may be the framework's own.

    Args:
        offer: The line that would save it, with the program's own names; empty if unknown.
    """

    offer: Annotated[str, msgspec.Meta(max_length=OFFER_CHARACTERS)] = ""


Event = (
    TrainingBegun
    | TrainingResumed
    | SnapshotSaved
    | ExamplesVisited
    | PointsSaved
    | AtEdge
    | IteratorUndivided
    | HandwrittenLoop
)


class EventReport(BaseMessage, frozen=True):
    """An event of a rank.

    Args:
        time: Epoch seconds by the rank's own clock.
        after: How many samples of the batch came before it.
    """

    event: Event
    time: Time
    after: Count = 0


LARGEST_MESSAGE = 32 * 2**20  # bytes
MOST_NAMES = 1_000
"""Names of values that a run may report: a page draws each, and a store keeps each forever."""
ERROR_CHARACTERS = 2_000
TRACEBACK_CHARACTERS = 20_000

RunId = Annotated[str, msgspec.Meta(pattern=EXECUTION_PATTERN)]
ErrorText = Annotated[str, msgspec.Meta(max_length=ERROR_CHARACTERS)]
TracebackText = Annotated[str, msgspec.Meta(max_length=TRACEBACK_CHARACTERS)]
Place = Annotated[str, msgspec.Meta(max_length=1_000)]


class Chunk(BaseMessage, frozen=True, array_like=True, tag="text"):
    """Text that a rank wrote to ``stdout`` or ``stderr``."""

    stream: Annotated[str, msgspec.Meta(max_length=40)]
    time: Time
    text: str


class Progress(BaseMessage, frozen=True):
    """The progress of a rank. Totals are 0 if unknown."""

    iteration: Count = 0
    iterations_total: Count = 0
    epoch: Amount = 0.0
    epochs_total: Amount = 0.0


class Ending(BaseMessage, frozen=True):
    """How a rank left a run.

    Args:
        error: The traceback's last line; empty if the rank did not fail.
        traceback: The rank's own traceback.
        exited: Whether the rank left by ``sys.exit``.
        secondary: Whether the error is only a consequence of another rank's failure.
        gone: Whether the rank's process ends with the run.
        whole: The traceback with all frames, if ``traceback`` leaves some out.
        spoiled: Why the rank can run no other cell, a clause; empty if it can.
        effects: What a cell has changed there; None if that is unknown.
    """

    state: Literal["finished", "stopped", "failed"]
    iteration: Count = 0
    error: ErrorText = ""
    traceback: TracebackText = ""
    exited: bool = False
    secondary: bool = False
    gone: bool = False
    whole: TracebackText = ""
    spoiled: ErrorText = ""
    effects: CellEffects | None = None


class Batch(BaseMessage, frozen=True, tag=True):
    """The reports of a rank since its last batch."""

    run: RunId
    rank: Count
    sequence: Positive
    samples: Samples = Samples()
    chunks: tuple[Chunk | Display, ...] = ()
    progress: Progress | None = None
    ending: Ending | None = None
    events: tuple[EventReport, ...] = ()

    def __post_init__(self) -> None:
        """Put the samples into columns."""
        force_setattr(self, "samples", Samples.of(self.samples))

    @property
    def valid_events(self) -> tuple[EventReport, ...]:
        """The events that count: rank 0 speaks for all, and each rank for what is its own."""
        is_own = (_is_own(one.event, self.rank) for one in self.events)
        return self.events if self.rank == 0 else tuple(compress(self.events, is_own))

    def event(self, kind: type[Kind]) -> Kind | None:
        """Return the newest event of a kind; None if there is none."""
        found = (one.event for one in reversed(self.valid_events))
        return next((one for one in found if isinstance(one, kind)), None)


def _is_own(event: Event, rank: int) -> bool:
    """Return whether an event is one of the rank that reports it alone."""
    if isinstance(event, PointsSaved):
        return event.rank == rank
    is_part = isinstance(event, SnapshotSaved) and event.reporters
    return isinstance(event, HandwrittenLoop) or bool(is_part)


class Pulse(BaseMessage, frozen=True, tag=True):
    """A sign of life during a run; not stored.

    Args:
        boundary: Iteration boundaries passed since the run began.
        rate: Recent boundaries per second.
        call: The MPI call that the rank is inside, or empty.
        seconds: How long it has been inside.
        line: Line of the user's innermost frame; 0 if there is none.
        doing: The call on that line, or the place outside of the user's source.
        still: How many seconds its main thread has been at the very same place.
        traffic: Bytes per second of its host's network, while it waits long.
        left: Whether the rank has left the run; its last output may arrive later.
        idle: Whether the rank has not begun the run, and is not in any other code of a user.
        executing: For how many seconds it has executed other code; 0 if it executes none.
        executed: How long ago that last ended; None if it never executed any.
    """

    run: RunId
    rank: Count
    boundary: Count
    rate: Amount = 0.0
    call: Place = ""
    seconds: Amount = 0.0
    line: Count = 0
    doing: Place = ""
    still: Amount = 0.0
    traffic: Amount = 0.0
    left: bool = False
    idle: bool = False
    executing: Amount = 0.0
    executed: Amount | None = None


class Hello(BaseMessage, frozen=True, tag=True):
    """The first message of a rank on a fresh connection."""

    generation: Count
    rank: Count


class Acknowledge(BaseMessage, frozen=True, tag=True):
    """All batches of ``run`` up to ``sequence`` are stored; send the next, again if requested.

    ``resend`` is true when the supervisor misses what comes after ``sequence``, and ``watched``
    when a page follows the run, so that points are wanted soon.
    """

    run: RunId
    sequence: Count
    resend: bool = False
    watched: bool = True


class AskPulse(BaseMessage, frozen=True, tag=True):
    """Request a pulse now."""

    run: RunId


class StopAt(BaseMessage, frozen=True, tag=True):
    """Leave the run at iteration boundary number ``boundary``.

    Args:
        epoch: Leave at the first boundary from there on that ends an epoch. An earlier message
            holds too, so all ranks leave at the same boundary whenever this one reaches them.
    """

    run: RunId
    boundary: Count
    epoch: bool = False


class SaveSoon(BaseMessage, frozen=True, tag=True):
    """Save the training with the other ranks soon, and train on; it is for rank 0."""

    run: RunId


class Interrupt(BaseMessage, frozen=True, tag=True):
    """Leave the run now: revoke its communicators and raise KeyboardInterrupt."""

    run: RunId


class ContinueAs(BaseMessage, frozen=True, tag=True):
    """Leave the edge of the training in ``run``, and continue as execution ``into``."""

    run: RunId
    into: RunId


Message = Batch | Pulse | Hello
Command = Acknowledge | AskPulse | StopAt | SaveSoon | Interrupt | ContinueAs


class Delivery(NamedTuple):
    """A message, with the generation of the sender's connection."""

    generation: int
    message: Message


# -- on the wire


def encode(message: Message | Command) -> bytes:
    """Return ``message`` as one line of JSON, without a newline.

    Invalid Unicode (a file name in another encoding, say) becomes ``?``; no store accepts it.
    """
    try:
        return _ENCODER.encode(message)
    except UnicodeEncodeError:
        body = msgspec.to_builtins(message, enc_hook=_pack)
        line = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        return line.encode(errors="replace")


def decode_message(line: bytes) -> Message:
    """Return the rank's message in ``line``.

    Raises:
        ProtocolError: The line is truncated, is no message of a rank, or has an invalid value.
    """
    if len(line) > LARGEST_MESSAGE:
        raise ProtocolError(f"it has {len(line):,} bytes, more than any message")
    message: Message = decode(Message, line, hook=_unpack)
    return message


def decode_command(line: bytes) -> Command:
    """Return the supervisor's command in ``line``.

    Raises:
        ProtocolError: The line is no command.
    """
    command: Command = decode(Command, line)
    return command


# The names, then each sample's name index, iteration, time and value as numbers, in the order of
# the samples; text would cost the rank several times as much.
_Columns = tuple[tuple[Name, ...], bytes, bytes, bytes, bytes]


def _pack(samples: Any) -> _Columns:
    if not isinstance(samples, Samples):
        raise TypeError(f"{type(samples).__name__} is no part of a message")
    return (
        tuple(samples.names),
        _bytes_of(array("q", samples.which)),
        _bytes_of(array("q", samples.iterations)),
        _bytes_of(array("d", samples.times)),
        _bytes_of(array("d", samples.values)),
    )


def _unpack(kind: type[Any], body: Any) -> Samples:
    names, *packed = convert(_Columns, body)
    which, iterations, times, values = map(_numbers_of, "qqdd", packed)
    if not len(which) == len(iterations) == len(times) == len(values):
        raise ValueError("The columns of the samples differ in length")
    if which:
        _check(which, len(names) - 1)
        _check(iterations, MOST)
        _check(times, LATEST)
    return Samples(names, which, iterations, times, values)


def _check(numbers: array[Any], most: float) -> None:
    if math.isnan(sum(numbers)) or min(numbers) < 0 or max(numbers) > most:
        raise ValueError(f"A sample has a number that is not between 0 and {most:g}")


def _bytes_of(numbers: array[Any]) -> bytes:
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def _numbers_of(kind: str, data: bytes) -> array[Any]:
    numbers: array[Any] = array(kind)
    numbers.frombytes(data)  # ValueError unless these are whole numbers
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


_ENCODER = msgspec.json.Encoder(enc_hook=_pack)


def shorten_middle(text: str, most: int) -> str:
    """Return ``text`` with at most ``most`` characters: both ends, and what was left out."""
    if len(text) <= most:
        return text
    gap = f"\n… {len(text) - most:,} characters are left out here …\n"
    half = (most - len(gap)) // 2
    return text[:half] + gap + text[-half:]


def clamp_progress(progress: Progress) -> Progress:
    """Return ``progress`` with 0 for invalid amounts: a training may count in any way."""
    return Progress(
        int(_amount(progress.iteration)),
        int(_amount(progress.iterations_total)),
        _amount(progress.epoch),
        _amount(progress.epochs_total),
    )


def _amount(value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) and 0 <= number <= MOST else 0.0
