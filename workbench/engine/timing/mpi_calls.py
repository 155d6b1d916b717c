"""Watch a rank's MPI calls, and free it from one that no other rank will complete.

``MPI.COMM_WORLD`` is replaced, for the user's code, by a duplicate of the real world whose calls
are timed and whose derived communicators are recorded. Revoking them frees every rank that is
blocked in one of them; the real world stays valid, and the next duplicate is made from it.
"""

from __future__ import annotations

import ctypes
import functools
import traceback
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from mpi4py import MPI

from workbench.engine.stale_communicators import stale_error
from workbench.engine.timing.call_timing import time_call, time_exchange
from workbench.engine.timing.step_probe import MpiActivity, ProbeMeetings

# mpi4py's own lowercase reductions use a hidden duplicate of the communicator. The first of them
# creates it while holding the GIL, so a rank that waits there cannot report; and the duplicate is
# not revoked with the communicator, so a rank that waits later cannot be freed. These reduce by
# calls that can be watched and interrupted.
Operation = Callable[[Any, Any], Any]
_gather, _bcast, _allgather = MPI.Intracomm.gather, MPI.Intracomm.bcast, MPI.Intracomm.allgather


def reduce(comm: MPI.Intracomm, sendobj: Any, op: Operation = MPI.SUM, root: int = 0) -> Any:
    """Return the reduction of all ranks' objects on ``root``, and None elsewhere."""
    found = _gather(comm, sendobj, root)
    return None if found is None else fold(found, op)


def allreduce(comm: MPI.Intracomm, sendobj: Any, op: Operation = MPI.SUM) -> Any:
    """Return the reduction of all ranks' objects."""
    return _bcast(comm, reduce(comm, sendobj, op))


def scan(comm: MPI.Intracomm, sendobj: Any, op: Operation = MPI.SUM) -> Any:
    """Return the reduction of the objects of the ranks up to this one."""
    return [*accumulate(_allgather(comm, sendobj)[: comm.rank + 1], op)][-1]


def exscan(comm: MPI.Intracomm, sendobj: Any, op: Operation = MPI.SUM) -> Any:
    """Return the reduction of the objects of the ranks before this one; None on the first."""
    found = _allgather(comm, sendobj)[: comm.rank]
    return [*accumulate(found, op)][-1] if found else None


def fold(objects: Sequence[Any], op: Operation) -> Any:
    """Return the reduction in the order of MPI's tree, which determines rounding."""
    level = [*objects]
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [op(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


REDUCTIONS = {"reduce": reduce, "allreduce": allreduce, "scan": scan, "exscan": exscan}

BARRIERS = ("Barrier", "barrier")
COLLECTIVES = (
    "Bcast",
    "Gather",
    "Gatherv",
    "Scatter",
    "Scatterv",
    "Allgather",
    "Allgatherv",
    "Alltoall",
    "Alltoallv",
    "Reduce",
    "Reduce_scatter",
    "Reduce_scatter_block",
    "Scan",
    "Exscan",
    "bcast",
    "gather",
    "scatter",
    "allgather",
    "alltoall",
    "reduce",
    "allreduce",
    "scan",
    "exscan",
)
POINT_TO_POINT = (
    "Send",
    "Ssend",
    "Recv",
    "Sendrecv",
    "Probe",
    "send",
    "ssend",
    "recv",
    "sendrecv",
    "probe",
)
CREATORS = ("Split", "Split_type", "Dup", "Clone", "Create", "Create_group")

# Attributes that are safe on a revoked communicator.
_HARMLESS = frozenset(
    {"rank", "size", "name", "group", "handle", "Get_rank", "Get_size", "Get_name", "Free"}
)


watch = MpiActivity()
_derived: list[MPI.Intracomm] = []
_on_abort: list[Callable[[int, str], None]] = []


class WatchedComm(MPI.Intracomm):
    """An intracommunicator that times blocking calls and records derived communicators."""

    _meetings: ProbeMeetings | None = None

    def Free(self) -> None:  # noqa: N802  # MPI's own name
        """Free it, and the communicator of its meetings."""
        if self._meetings is not None and self._meetings.comm is not None:
            self._meetings.comm.Free()
            self._meetings = None
        super().Free()

    def Abort(self, errorcode: int = 0) -> Any:  # noqa: N802  # MPI's own name
        """Report the stack of the abort, then end all ranks."""
        stack = "".join(traceback.format_stack()[:-1])
        for report in _on_abort:
            report(errorcode, stack)
        return super().Abort(errorcode)


def _time_call(name: str, counter: str = "") -> Callable[..., Any]:
    """Return a timed call; see ``time_call``."""
    return time_call(REDUCTIONS.get(name) or getattr(MPI.Intracomm, name), name, watch, counter)


def _meet(comm: WatchedComm) -> None:
    """Have the members of a communicator meet before its next exchange, if they are to."""
    if comm._meetings is None:
        comm._meetings = ProbeMeetings(comm.size, comm.Dup)
    comm._meetings.before(watch)


def _remember_comm(name: str) -> Callable[..., Any]:
    original = _time_call(name)

    @functools.wraps(original)
    def create(self: MPI.Intracomm, *args: Any, **kwargs: Any) -> Any:
        return _adopt(original(self, *args, **kwargs))

    return create


for _name in COLLECTIVES:
    setattr(WatchedComm, _name, _time_call(_name))
for _name in POINT_TO_POINT:
    setattr(WatchedComm, _name, _time_call(_name, "passed"))
for _name in BARRIERS:
    setattr(WatchedComm, _name, _time_call(_name, "barred"))
WatchedComm.Allreduce = time_exchange(MPI.Intracomm.Allreduce, "Allreduce", watch, _meet)  # type: ignore[method-assign]  # timed like the others
for _name in CREATORS:
    setattr(WatchedComm, _name, _remember_comm(_name))


def _adopt(comm: MPI.Intracomm) -> MPI.Intracomm:
    if comm == MPI.COMM_NULL or type(comm) not in (MPI.Intracomm, WatchedComm):
        return comm
    _derived[:] = [known for known in _derived if known != MPI.COMM_NULL]
    watched = WatchedComm(comm)
    _derived.append(watched)
    return watched


class StaleComm(WatchedComm):
    """A communicator from before a failure: any use raises an error with the remedy."""

    _after = ""

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("_") or name in _HARMLESS:
            return super().__getattribute__(name)
        raise stale_error(self, self._after)

    def Free(self) -> None:  # noqa: N802  # MPI's own name
        """Do nothing: it is revoked."""


class GenerationWorlds:
    """The real world of this generation, and the duplicate for user code.

    Args:
        fault_tolerant: Whether this MPI can revoke communicators (ULFM).
        on_abort: Called with the error code and the stack before ``Abort`` ends the ranks.
    """

    def __init__(
        self, *, fault_tolerant: bool, on_abort: Callable[[int, str], None] | None = None
    ) -> None:
        self.true = MPI.COMM_WORLD
        self.fault_tolerant = fault_tolerant
        self.lost = ""
        self._offered: dict[int, MPI.Intracomm] = {}
        self._known: dict[int, MPI.Intracomm] = {}
        _on_abort[:] = [on_abort] if on_abort else []
        self._renew()

    def offer(self, ranks: int) -> MPI.Intracomm:
        """Make ``MPI.COMM_WORLD`` the communicator of the first ``ranks`` ranks.

        Collective over those ranks on the first call with this ``ranks``.
        """
        ranks = ranks or self.true.size
        if ranks not in self._offered:
            group = self.true.Get_group().Incl(list(range(ranks)))
            self._offer_again(ranks, self.true.Create_group(group))
        MPI.COMM_WORLD = self._offered[ranks]  # type: ignore[misc]  # the one seam to user code
        return MPI.COMM_WORLD

    def revoke(self) -> bool:
        """Free all ranks that are blocked in our communicators; false if MPI cannot."""
        if not self.fault_tolerant or MPI.Is_finalized():
            return False
        for comm in [*_derived]:
            if comm != MPI.COMM_NULL:
                try:
                    comm.Revoke()
                except MPI.Exception:  # already revoked, or freed meanwhile
                    continue
        return True

    @property
    def revoked(self) -> bool:
        """Return whether a communicator of the present run was revoked, by any rank."""
        if MPI.Is_finalized():
            return False
        living = [comm for comm in _derived if comm != MPI.COMM_NULL]
        return self.fault_tolerant and any(comm.Is_revoked() for comm in living)

    def recover(self, run: str = "") -> bool:
        """Create new communicators after a failure; collective over the real world.

        References to ``MPI.COMM_WORLD`` in a cell then use the new one. Communicators derived from
        it are revoked on every rank, and raise when used: otherwise an unanswered message of the
        failed cell would be received by the next one.

        Args:
            run: The name of the run that failed or was stopped.
        """
        if not self.revoke():
            return False
        self.true.Agree(1)
        self.lost = run
        self._renew()
        return True

    def _renew(self) -> None:
        for comm in _derived:
            if comm != MPI.COMM_NULL:
                comm.__class__ = StaleComm
                comm._after = self.lost  # type: ignore[attr-defined]  # of our own class
        _derived.clear()
        self._offered.clear()
        self._offer_again(self.true.size, self.true.Dup())

    def _offer_again(self, ranks: int, fresh: MPI.Intracomm) -> None:
        """Replace the world of ``ranks`` ranks by ``fresh``, in the same Python object."""
        known = self._known.get(ranks)
        if known is None:
            known = self._known[ranks] = _adopt(fresh)
        else:
            known.__class__ = WatchedComm
            ctypes.memmove(MPI._addressof(known), MPI._addressof(fresh), MPI._sizeof(MPI.Comm))
            known._meetings = None  # type: ignore[attr-defined]  # an attribute of our own class
            _derived.append(known)
        self._offered[ranks] = known


def is_echo(error: BaseException) -> bool:
    """Return whether ``error`` only follows from a failure of another rank or a revocation."""
    if not isinstance(error, MPI.Exception):
        return False
    echoes = {"ERR_REVOKED", "ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING"}
    codes = {getattr(MPI, name, None) for name in echoes}
    return error.Get_error_class() in codes


def is_revoked(error: BaseException) -> bool:
    """Return whether ``error`` means that a communicator was revoked."""
    revoked = getattr(MPI, "ERR_REVOKED", None)
    return isinstance(error, MPI.Exception) and error.Get_error_class() == revoked
