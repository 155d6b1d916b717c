"""Count a run's iteration boundaries, at which all ranks can leave together.

Synchronous ranks pass the same boundaries in the same order, so that a number names one moment
for all of them and no message between the ranks is needed to stop as one.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class RunStopped(KeyboardInterrupt):
    """The run was asked to stop, and this rank has reached the boundary.

    A ``KeyboardInterrupt``, so that a user's ``except Exception`` lets it through.
    """


class Boundaries:
    """The boundaries that one rank has passed in one run.

    ``stop_boundary`` is the boundary at which the rank was asked to leave, or None.
    """

    def __init__(self) -> None:
        self.count = 0
        self.rate = 0.0
        self.hooks: list[Callable[[int], None]] = []
        self.stop_boundary: int | None = None
        self._marked = (0, time.monotonic())

    def stop_at(self, boundary: int) -> None:
        """Leave at boundary number ``boundary``; may be called from another thread."""
        self.stop_boundary = boundary

    @property
    def due(self) -> bool:
        """Whether the rank shall leave at this boundary."""
        return self.stop_boundary is not None and self.count >= self.stop_boundary

    def passed(self) -> None:
        """Note that one more iteration is done; snapshots and the like hook in here."""
        self.count += 1
        for hook in self.hooks:
            hook(self.count)

    def check(self) -> None:
        """Leave the run if this is the boundary.

        Raises:
            RunStopped: It is.
        """
        if self.due:
            raise RunStopped(f"stopped at boundary {self.count}")

    def measure(self) -> float:
        """Return boundaries a second since this was last asked."""
        count, moment = self._marked
        now = time.monotonic()
        if now - moment > 0.2:
            self.rate = (self.count - count) / (now - moment)
            self._marked = (self.count, now)
        elif not self.rate and now > moment:  # a stop may be wished when the run has just begun
            return (self.count - count) / (now - moment)
        return self.rate
