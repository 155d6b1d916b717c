"""Sample some steps precisely: all ranks meet before they exchange gradients.

The sampled calls are determined by their number alone, and agreed on during a meeting. All members
of a communicator make the same collective calls in the same order, whatever else each of them does,
so no rank waits in a meeting that another one skips.
"""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable

from mpi4py import MPI

from workbench.core.performance.step_sampling import steps_between
from workbench.engine.timing.call_timing import Activity, CallCount

# A communicator that is used only once or twice needs no duplicate.
FIRST_CALL = 3
# While no rank knows the number of calls per step, samples become ever rarer.
UNKNOWN_CALLS = 8
MOST_CALLS = 4096
# How much of the pace before it a step leaves.
KEPT = 0.9


class MpiActivity(Activity):
    """The main thread's activity in MPI: the present call, and totals so far.

    Args:
        pace: Recent seconds per step; 0 if unknown.
        details: Further values about the exchange, by name.
    """

    __slots__ = ("details", "pace")

    def __init__(self) -> None:
        super().__init__()
        self.pace = 0.0
        self.details: dict[str, float] = {}

    def begin(self) -> None:
        """Reset the totals for the steps of another training."""
        self.details = {}
        self.count_step(0.0)
        self.first = self.steps
        self.pace = 0.0

    def count_step(self, seconds: float) -> None:
        """Count a completed step, which took ``seconds``."""
        self.end_step(-math.inf)
        self.waited, self.spoilt = -1.0, False
        self.begin_step()
        self.note_pace(seconds, 1)

    def note_pace(self, seconds: float, steps: int) -> None:
        """Note the pace of the last ``steps`` steps, which took ``seconds`` each."""
        before = KEPT**steps if self.pace else 0.0
        self.pace = before * self.pace + (1 - before) * seconds


class ProbeMeetings(CallCount):
    """The meetings of one communicator's members before some of its allreduces.

    Args:
        size: The number of members.
        duplicate: Returns the communicator for the meetings, which can be revoked; it may create
            one, and is called at the third call of each member.
    """

    __slots__ = ("_barrier", "_duplicate", "_met", "_waited", "comm")

    def __init__(self, size: int, duplicate: Callable[[], MPI.Intracomm]) -> None:
        super().__init__()
        self.due = FIRST_CALL if size > 1 else 0
        self.comm: MPI.Intracomm | None = None
        self._duplicate = duplicate
        self._met = 0
        self.step = -1
        self._waited = self._barrier = 0.0

    def before(self, watch: MpiActivity) -> None:
        """Meet before the next call, if it is due."""
        if self.follow(watch):
            self.meet(watch)

    def after(self) -> None:
        """Count the call."""
        self.calls += 1

    def meet(self, watch: MpiActivity) -> None:
        """Meet, and agree on when to meet next."""
        if self.comm is None:
            self.comm = self._duplicate()
        mine = array("d", (self._wish(watch), -self._waited))
        agreed = array("d", (0.0, 0.0))
        begun = time.perf_counter()
        MPI.Intracomm.Allreduce(self.comm, mine, agreed, MPI.MAX)
        self._waited = time.perf_counter() - begun
        # The rank that came last to the previous meeting did not wait.
        self._barrier = -agreed[1]
        self._met += 1
        wait = int(agreed[0]) or min(MOST_CALLS, UNKNOWN_CALLS << self._met)
        self.due += wait
        if self.calls != self.first or watch.exchanges != watch.started:
            watch.spoilt = True  # not where the step's exchange begins, so it is no valid sample
        else:
            watch.waited = self._waited

    def _wish(self, watch: MpiActivity) -> int:
        """Return in how many calls to meet next; 0 if steps are unknown."""
        if not self.per_step:
            return 0
        steps = steps_between(watch.pace, self._barrier)
        return steps * self.per_step - (self.calls - self.first) % self.per_step
