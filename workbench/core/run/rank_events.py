"""What ranks tell the supervisor to act on, beside the values that a training reports."""

from __future__ import annotations

from typing import Annotated

import msgspec

from workbench.core.messages import Amount, BaseMessage, Count, Time


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
    """

    iteration: Count
    seconds: Amount = 0.0
    nbytes: Count = 0


class AtEdge(BaseMessage, frozen=True, tag=True):
    """All ranks wait at the edge of the training that the run continues."""


class IteratorUndivided(BaseMessage, frozen=True, tag=True):
    """An iterator of this kind cannot be divided among another number of ranks.

    The run keeps its own number, unless its user asks for another.
    """

    kind: Annotated[str, msgspec.Meta(max_length=100)]


class HandwrittenLoop(BaseMessage, frozen=True, tag=True):
    """The loop has no trainer, so that its exchange may be the framework's own."""


Event = (
    TrainingBegun | TrainingResumed | SnapshotSaved | AtEdge | IteratorUndivided | HandwrittenLoop
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
