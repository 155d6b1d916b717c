"""How long DistributedDataParallel's own exchange takes, as it measures it on a CPU.

PyTorch notes when a backward pass began to send, when its last gradient was computed, and when all
means were there. From the second to the third a rank only exchanges: it waits for ranks that
compute longer, and bytes move. The rank that computed longest waits for none, so the shortest of
these times on all ranks is what moving takes. They are compared in some steps, by a reduction that
no rank waits for: where ranks do not take the same steps, nothing is found out, and they train.
"""

from __future__ import annotations

import math
import time
import weakref
from array import array
from typing import Any, NamedTuple

from mpi4py import MPI

from workbench.core.performance.step_sampling import steps_between
from workbench.engine.timing.mpi_calls import watch
from workbench.engine.timing.step_time import NOTHING_EXCHANGED, Exchanged, cores

# To ask takes 20 µs, 0.2 % of this.
ASK_SECONDS = 0.01
# A comparison has ended on all ranks when each has looked a few times, once a step.
FIRST_STEP = LEAST_STEPS = 8


class BackwardPass(NamedTuple):
    """A backward pass of a replica.

    Args:
        number: Of passes that exchanged so far.
        backward: Seconds until the last gradient was computed.
        hidden: The part of it in which others were sent.
        exposed: Seconds from then until all means were there.
        nbytes: Of the gradients.
        pieces: In which they were sent.
    """

    number: int = 0
    backward: float = 0.0
    hidden: float = 0.0
    exposed: float = 0.0
    nbytes: int = 0
    pieces: int = 0


def latest_pass(replica: Any) -> BackwardPass:
    """Return the latest pass that PyTorch has measured; all 0 before there is one."""
    known = replica.logger._get_ddp_logging_data().ints_map
    whole = known.get("backward_comm_time", 0)
    if whole <= 0:
        return BackwardPass()
    hidden = min(whole, known["backward_compute_comm_overlap_time"])
    return BackwardPass(
        known["iteration"],
        backward=known["backward_compute_time"] / 1e9,
        hidden=hidden / 1e9,
        exposed=(whole - hidden) / 1e9,
        nbytes=known["total_parameter_size_bytes"],
        pieces=known["num_buckets_reduced"],
    )


class ReplicaTimes:
    """The passes of one run's replicas whose gradients PyTorch itself exchanges."""

    def __init__(self) -> None:
        # A dictionary with weak keys takes as long to be walked through as PyTorch to answer.
        self._known: dict[weakref.ref[Any], BackwardPass] = {}
        self._hooked = weakref.WeakSet[Any]()
        self._comparison: _Comparison | None = None
        self._steps = self._asked = 0
        self._since, self._used = time.perf_counter(), time.process_time()
        self._exposed = self._spent = self._nbytes = self._pieces = 0.0

    def add(self, replica: Any) -> None:
        """Have PyTorch measure each pass of a replica, which takes it 2 µs.

        Collective over the replica's ranks, as its creation is.
        """
        if replica.device_type != "cpu":
            return  # it would measure the device's time
        replica._set_ddp_runtime_logging_sample_rate(1)
        self._known[weakref.ref(replica)] = BackwardPass()
        world = MPI.COMM_WORLD
        if self._comparison is None and 1 < world.size == replica.process_group.size():
            self._comparison = _Comparison(world)

    def note_hook(self, replica: Any) -> None:
        """Note that the program's own hook exchanges; what it sends is unknown."""
        self._hooked.add(replica)

    def step(self) -> Exchanged:
        """Return what PyTorch exchanged in the step that has ended."""
        if not self._known:
            return NOTHING_EXCHANGED
        self._steps += 1
        comparison = self._comparison
        found = comparison.take_result() if comparison else None
        compares = comparison is not None and comparison.is_due(self._steps)
        if compares or (self._steps - self._asked) * watch.pace >= ASK_SECONDS:
            self._ask()
        if comparison is not None and compares:
            comparison.begin(self._steps, self._exposed, steps_between(watch.pace, 0.0))
        watch.nbytes += round(self._nbytes)
        watch.exchanges += round(self._pieces)
        watch.spent += self._spent
        return Exchanged(self._exposed, found)

    def _ask(self) -> None:
        """Take the latest passes as those of each step until the next question."""
        steps, self._asked = self._steps - self._asked, self._steps
        backward = hidden = 0.0
        self._exposed = self._spent = self._nbytes = self._pieces = 0.0
        for known, before in [*self._known.items()]:
            if (replica := known()) is None:
                del self._known[known]
                continue
            now = self._known[known] = latest_pass(replica)
            # Several in a step, where gradients are accumulated without no_sync.
            times = (now.number - before.number) / steps if before.number else 1.0
            backward += times * now.backward
            hidden += times * now.hidden
            self._exposed += times * now.exposed
            if replica not in self._hooked:
                self._spent += times * (now.hidden + now.exposed)
                self._nbytes += times * now.nbytes
                self._pieces += times * now.pieces
        clock, used = time.perf_counter(), time.process_time()
        computed = clock - self._since - steps * self._exposed
        if self._spent and backward:
            early, shared = hidden / backward, float(cores())
            watch.details |= {
                "overlaps": 1.0,
                "backward": backward,
                "early": early,
                "cores": shared,
            }
            if computed > 0:
                watch.details["busy"] = (used - self._used) / computed
        self._since, self._used = clock, used


class _Comparison:
    """Finds the least of the ranks' numbers every few steps, which no rank waits for.

    Its creation is collective. Open MPI ends a rank whose world is revoked while it duplicates that
    without waiting, so that a failure would take all variables with it.
    """

    # Of each request, also those of earlier runs, where MPI still reads and writes: of collective
    # calls mpi4py itself keeps nothing.
    _open: list[tuple[MPI.Request, *tuple[object, ...]]] = []  # noqa: RUF012  # that of all runs

    def __init__(self, world: MPI.Intracomm) -> None:
        self._open[:] = [one for one in self._open if not one[0].Test()]
        self._comm, self._request = MPI.Intracomm.Dup(world), MPI.REQUEST_NULL
        self._mine = self._all = array("d")
        self._flies, self._due = False, FIRST_STEP

    def is_due(self, step: int) -> bool:
        """Return whether to take part in one now."""
        return not self._flies and step >= self._due

    def begin(self, step: int, seconds: float, wish: int) -> None:
        """Take part with what this rank has measured.

        Args:
            wish: In how many steps to compare again.
        """
        self._mine = array("d", (-seconds, max(LEAST_STEPS, wish), step, -step))
        self._all = array("d", self._mine)
        self._request = MPI.Intracomm.Iallreduce(self._comm, self._mine, self._all, MPI.MAX)
        self._open.append((self._request, self._comm, self._mine, self._all))
        self._flies = True

    def take_result(self) -> tuple[float, float] | None:
        """Return this rank's waiting and moving if all have taken part since, at one step."""
        if not self._flies or not self._has_ended():
            return None
        self._flies = False
        least, wish, last, first = -self._all[0], self._all[1], self._all[2], -self._all[3]
        self._due = math.ceil(last + wish)
        return (-self._mine[0] - least, least) if first == last else None

    def _has_ended(self) -> bool:
        """Return whether its request has; MPI then leaves alone what it was about."""
        if not self._request.Test():
            return False
        self._open[:] = [one for one in self._open if one[0] != MPI.REQUEST_NULL]
        return True
