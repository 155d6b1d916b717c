"""Sample some steps closely: all ranks meet before they exchange gradients.

Which calls are looked at is decided by their number alone, and agreed upon while meeting. All
members of a communicator make the same collective calls in the same order, whatever else each of
them does, so no rank ever meets where another does not come.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable

from mpi4py import MPI

from workbench.core.performance.step_sampling import steps_between

# A communicator that is used once or twice is not worth a duplicate.
FIRST_CALL = 3
# Until somebody knows steps, and for as long as nobody does, looks become ever rarer.
UNKNOWN_CALLS = 8
MOST_CALLS = 4096


class MpiActivity:
    """What the main thread does in MPI: the call it is in, and what was spent so far.

    Args:
        call: The name of the call, or nothing.
        since: When it was entered, by ``time.perf_counter``.
        seconds: Spent in all calls.
        passed: Those of them that were spent in messages from one rank to another.
        barred: Those of them that were spent in barriers.
        nbytes: Added up by allreduces.
        exchanges: How many allreduces there were.
        first: What ``steps`` was when this training began.
        steps: How many steps are done.
        pace: Seconds that a step takes of late; 0 when unknown.
        waited: Seconds that were waited in this step's meeting; below 0 where there was none.
        wire: Bytes that this rank sent, where that is known.
        spent: Seconds of all exchanges, by any thread; 0 where that is unknown.
        told: What else there is to tell of the exchange, by name.
    """

    __slots__ = (
        "barred",
        "call",
        "exchanges",
        "first",
        "nbytes",
        "pace",
        "passed",
        "seconds",
        "since",
        "spent",
        "spoilt",
        "started",
        "steps",
        "told",
        "waited",
        "wire",
    )

    def __init__(self) -> None:
        self.call = ""
        self.since = 0.0
        self.seconds = self.barred = self.passed = 0.0
        self.nbytes = self.exchanges = 0
        self.steps = self.started = self.first = 0
        self.pace = 0.0
        self.waited = -1.0
        self.spoilt = False
        self.wire = self.spent = 0.0
        self.told: dict[str, float] = {}

    @property
    def together(self) -> float:
        """Seconds spent in calls that all ranks of a communicator make."""
        return self.seconds - self.passed

    def begin(self) -> None:
        """Forget what was before: steps of another training begin."""
        self.told = {}
        self.stepped(0.0)
        self.first = self.steps
        self.pace = 0.0

    def stepped(self, seconds: float) -> None:
        """Note that a step is done, which took ``seconds``."""
        self.steps += 1
        self.started = self.exchanges
        self.pace = 0.9 * self.pace + 0.1 * seconds if self.pace else seconds
        self.waited = -1.0
        self.spoilt = False


class Meetings:
    """The meetings of one communicator's members before some of its allreduces.

    Args:
        size: How many members it has.
        duplicate: Makes the communicator that they meet on, which can be revoked.
    """

    __slots__ = ("_barrier", "_duplicate", "_first", "_met", "_per_step", "_step", "_waited",
                 "calls", "comm", "due")  # fmt: skip

    def __init__(self, size: int, duplicate: Callable[[], MPI.Intracomm]) -> None:
        self.calls = 0
        self.due = FIRST_CALL if size > 1 else 0
        self.comm: MPI.Intracomm | None = None
        self._duplicate = duplicate
        self._met = 0
        self._step = -1
        self._first = self._per_step = 0
        self._waited = self._barrier = 0.0

    def before(self, watch: MpiActivity) -> None:
        """Meet before the call that is about to be made, if it is its turn."""
        if watch.steps != self._step:
            # What came before the training's first step is no measure of its steps.
            self._per_step = self.calls - self._first if self._step >= watch.first else 0
            self._step, self._first = watch.steps, self.calls
        if self.calls + 1 == self.due:
            self._meet(watch)

    def after(self) -> None:
        """Note that the call was made."""
        self.calls += 1

    def _meet(self, watch: MpiActivity) -> None:
        if self.comm is None:
            self.comm = self._duplicate()
        mine = array("d", (self._wish(watch), -self._waited))
        agreed = array("d", (0.0, 0.0))
        begun = time.perf_counter()
        MPI.Intracomm.Allreduce(self.comm, mine, agreed, MPI.MAX)
        self._waited = time.perf_counter() - begun
        # Who came last to the meeting before this one waited for nobody.
        self._barrier = -agreed[1]
        self._met += 1
        wait = int(agreed[0]) or min(MOST_CALLS, UNKNOWN_CALLS << self._met)
        self.due += wait
        if self.calls != self._first or watch.exchanges != watch.started:
            watch.spoilt = True  # not where the step's exchange begins, so it tells nothing
        else:
            watch.waited = self._waited

    def _wish(self, watch: MpiActivity) -> int:
        """Return in how many calls to meet next; 0 where steps are not known."""
        if not self._per_step:
            return 0
        steps = steps_between(watch.pace, self._barrier)
        return steps * self._per_step - (self.calls - self._first) % self._per_step


def size_of(buffer: object) -> int:
    """Return the bytes of what MPI takes as a buffer; 0 where that is not seen from here."""
    if isinstance(buffer, (list, tuple)) and buffer:
        buffer = buffer[0]
    return getattr(buffer, "nbytes", 0)
