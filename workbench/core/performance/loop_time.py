"""Divide the time of a hand-written training loop into data, compute and the rest."""

from __future__ import annotations

from typing import NamedTuple


class Instant(NamedTuple):
    """A point in time of the main thread.

    Args:
        time: In seconds, by a steady clock.
        mpi: Seconds in MPI calls until then.
    """

    time: float
    mpi: float


class StepParts(NamedTuple):
    """The parts of one step, in seconds; what else passed between two steps is in neither.

    Args:
        update: From the request of the batch to the end of the optimizer's step.
        inside: The part of it in MPI calls.
        data: The part of it until the batch was there.
        ended: When the step ended.
    """

    update: float
    inside: float
    data: float
    ended: float


class LoopTime:
    """Divides the time between the ends of steps.

    A batch belongs to a step if the backward pass is the next event: batches before it were
    evaluated, and their time is none of the step's. Where no batch is seen, the whole time since
    the previous step is the update.
    """

    def __init__(self, now: Instant) -> None:
        self._since = now
        self._batch: tuple[Instant, Instant] | None = None
        self._has_begun = False
        self._update = self._inside = self._data = 0.0

    def fetched(self, asked: Instant, given: Instant) -> None:
        """Note a batch, which is trained on if a backward pass follows."""
        self._batch = asked, given

    def backward(self) -> None:
        """Note that a backward pass begins."""
        if self._batch is not None:
            asked, given = self._batch
            self._batch = None
            if self._has_begun:  # another batch of the same step
                self._add(self._since, asked)
            self._add(asked, given)
            self._data += given.time - asked.time
            self._since = given
        self._has_begun = True

    def step(self, now: Instant) -> StepParts:
        """Note that the optimizer's step has ended; return the step's parts."""
        if self._batch is not None:
            if self._has_begun:  # fetched ahead, for the next step
                asked, given = self._batch
                self._data += given.time - asked.time
            else:
                self.backward()
        self._add(self._since, now)
        parts = StepParts(self._update, self._inside, self._data, now.time)
        self.__init__(now)  # type: ignore[misc]  # a step has nothing of the one before
        return parts

    def _add(self, begun: Instant, ended: Instant) -> None:
        self._update += ended.time - begun.time
        self._inside += ended.mpi - begun.mpi
