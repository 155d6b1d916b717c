"""MPI's start and end as a program sees them, where MPI runs before the program and after it.

A rank has started MPI, so ``MPI.Init`` has nothing to do. A script may end it: ``MPI.Finalize`` is
MPI's own then, as under mpiexec, and the process ends soon. Ranks that a script leaves out end with
those that it has, because MPI waits for all of a world. In a cell it is only noted, because a rank
that ended MPI alone would wait in it forever: the ranks are replaced after the cell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NoReturn

import mpi4py
from mpi4py import MPI

from workbench.engine.import_hook import when_imported
from workbench.errors import StateError

LOOK_SECONDS = 0.05
_TAG = 32_000  # below the least that each MPI allows
_SPAWN = "use the ranks that there are (--ranks N), with mpi4py.futures.MPICommExecutor."


class MpiLifetime:
    """Whether the program in this process has started MPI, and who ends with it."""

    def __init__(self) -> None:
        self._init, self._init_thread = MPI.Init, MPI.Init_thread
        self._is_initialized, self._finalize = MPI.Is_initialized, MPI.Finalize
        self._has_begun = self.is_script = False
        self.is_ended = False
        """Whether a cell has ended MPI, as it thinks."""
        self._beside: list[int] = []
        self._world: MPI.Intracomm = MPI.COMM_WORLD

    def accept_starts(self) -> None:
        """Let a program start MPI, which runs already, and end it."""
        MPI.Finalize = self._note_end
        MPI.Init, MPI.Init_thread = self._begin, self._begin_thread
        MPI.Is_initialized = self._seems_initialized

    def begin_script(self, world: MPI.Intracomm, ranks: int) -> None:
        """Let a script on the first ``ranks`` ranks of the real world end MPI."""
        self._world, self._beside = world, [*range(ranks, world.size)]
        self._has_begun, self.is_script = False, True
        mpi4py.rc.initialize, mpi4py.rc.finalize = True, None
        MPI.Finalize = self.finalize

    def _note_end(self) -> None:
        self.is_ended = True

    def finalize(self) -> None:
        """End MPI on all ranks, also on those that the script leaves out."""
        if self._world.rank == 0 and not MPI.Is_finalized():
            for rank in self._beside:
                self._world.Send(b"", rank, _TAG)
        self._finalize()

    def finish(self) -> None:
        """End MPI at the script's end, unless it has done so, or does not want it."""
        if not MPI.Is_finalized() and mpi4py.rc.finalize is not False:
            self.finalize()

    def end_beside(self, world: MPI.Intracomm) -> None:
        """Wait until the lower ranks end MPI, and end it here."""
        while not world.Iprobe(0, _TAG):
            time.sleep(LOOK_SECONDS)
        world.Recv(bytearray(), 0, _TAG)
        self._finalize()

    @property
    def may_exit(self) -> bool:
        """Whether a script has ended MPI, so that its process may exit in any way."""
        return self.is_script and MPI.Is_finalized()

    @property
    def _is_awaited(self) -> bool:
        """Whether the program is still to start MPI, as it said before it imported that."""
        return mpi4py.rc.initialize is False and not self._has_begun

    def _seems_initialized(self) -> bool:
        return self._is_initialized() and not self._is_awaited

    def _begin(self) -> None:
        if MPI.Is_finalized():
            self._init()
        self._has_begun = True

    def _begin_thread(self, required: int = MPI.THREAD_MULTIPLE) -> int:
        if MPI.Is_finalized():
            return self._init_thread(required)
        self._has_begun = True
        return MPI.Query_thread()


class AloneComm(MPI.Intracomm):
    """``MPI.COMM_SELF``, which starts no processes."""


def refuse_spawning(*kinds: type) -> None:
    """Have communicators start no processes, which MPI could not connect with this world."""
    for kind in (AloneComm, *kinds):
        for name in ("Spawn", "Spawn_multiple"):
            setattr(kind, name, _refusal(f"Comm.{name}"))
    if type(MPI.COMM_SELF) is MPI.Intracomm:
        MPI.COMM_SELF = AloneComm(MPI.COMM_SELF)  # type: ignore[misc]  # for user code
    when_imported("mpi4py.futures._core", _refuse_pools)


def _refuse_pools(module: Any) -> None:
    # It would spawn in a thread, whose error no caller gets.
    module.SpawnPool = _refusal("MPIPoolExecutor")


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise StateError(f"{name} cannot start processes beside the ranks of a run", _SPAWN)

    return refuse


lifetime = MpiLifetime()
