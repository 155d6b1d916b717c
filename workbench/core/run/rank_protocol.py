"""The messages between a rank and the supervisor; ``rank_wire`` has their form on the wire.

A rank sends batches, numbered from 1 for each run, and keeps them until they are acknowledged;
the supervisor acknowledges a batch once the store has it. A lost message is sent again, a
repeated one is ignored, so the store holds every point exactly once.

``run`` is the id of the execution in all of them: see ``core.run_id.execution_id``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from workbench.core.run.cell_names import CellEffects
from workbench.core.run.display import Display
from workbench.core.run.samples import Sample, Samples

# The largest exact integer of a float, and so of a page.
MOST = 2**53
NAME_CHARACTERS = 200
MOST_NAMES = 1_000
"""Names of values that a run may report: a page draws each, and a store keeps each for ever."""
ERROR_CHARACTERS = 2_000
TRACEBACK_CHARACTERS = 20_000


class Chunk(NamedTuple):
    """Text that a rank wrote to ``stdout`` or ``stderr``."""

    stream: str
    time: float
    text: str


@dataclass(frozen=True)
class Progress:
    """The progress of a rank. Totals are 0 if unknown."""

    iteration: int = 0
    iterations_total: int = 0
    epoch: float = 0.0
    epochs_total: float = 0.0


@dataclass(frozen=True)
class Ending:
    """How a rank left a run.

    Args:
        state: ``finished``, ``stopped`` or ``failed``.
        error: The traceback's last line; empty if the rank did not fail.
        traceback: The rank's own traceback.
        exited: Whether the rank left by ``sys.exit``.
        secondary: Whether the error is only a consequence of another rank's failure.
        gone: Whether the rank's process ends with the run.
        whole: The traceback with all frames, if ``traceback`` leaves some out.
        spoiled: Why the rank can run no other cell, a clause; empty if it can.
        effects: What a cell has changed there; None if that is unknown.
    """

    state: str
    iteration: int = 0
    error: str = ""
    traceback: str = ""
    exited: bool = False
    secondary: bool = False
    gone: bool = False
    whole: str = ""
    spoiled: str = ""
    effects: CellEffects | None = None


@dataclass(frozen=True)
class Batch:
    """The reports of a rank since its last batch."""

    run: str
    rank: int
    sequence: int
    samples: Sequence[Sample] = ()
    chunks: tuple[Chunk | Display, ...] = ()
    progress: Progress | None = None
    ending: Ending | None = None

    @property
    def columns(self) -> Samples:
        """The samples in columns."""
        return Samples.of(self.samples)


@dataclass(frozen=True)
class Pulse:
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
    """

    run: str
    rank: int
    boundary: int
    rate: float = 0.0
    call: str = ""
    seconds: float = 0.0
    line: int = 0
    doing: str = ""
    still: float = 0.0
    traffic: float = 0.0
    left: bool = False
    idle: bool = False


@dataclass(frozen=True)
class Hello:
    """The first message of a rank on a fresh connection."""

    generation: int
    rank: int


@dataclass(frozen=True)
class Acknowledge:
    """All batches of ``run`` up to ``sequence`` are stored; send the next, again if requested.

    ``resend`` is true when the supervisor misses what comes after ``sequence``, and ``watched``
    when a page follows the run, so that points are wanted soon.
    """

    run: str
    sequence: int
    resend: bool = False
    watched: bool = True


@dataclass(frozen=True)
class AskPulse:
    """Request a pulse now."""

    run: str


@dataclass(frozen=True)
class StopAt:
    """Leave the run at iteration boundary number ``boundary``.

    Args:
        epoch: Leave at the first boundary from there on that ends an epoch. An earlier message
            holds too, so all ranks leave at the same boundary whenever this one reaches them.
    """

    run: str
    boundary: int
    epoch: bool = False


@dataclass(frozen=True)
class Interrupt:
    """Leave the run now: revoke its communicators and raise KeyboardInterrupt."""

    run: str


@dataclass(frozen=True)
class ContinueAs:
    """Leave the edge of the training in ``run``, and continue as execution ``into``."""

    run: str
    into: str


Message = Batch | Pulse | Hello
Command = Acknowledge | AskPulse | StopAt | Interrupt | ContinueAs


@dataclass(frozen=True)
class Letter:
    """A message, with the generation of the sender's connection."""

    generation: int
    message: Message


def shortened(text: str, most: int) -> str:
    """Return ``text`` with at most ``most`` characters: both ends, and what was left out."""
    if len(text) <= most:
        return text
    gap = f"\n… {len(text) - most:,} characters are left out here …\n"
    half = (most - len(gap)) // 2
    return text[:half] + gap + text[-half:]


def clamped(progress: Progress) -> Progress:
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
